//! The window of numbers between the input stage and a sink limits the packets in flight, and loses
//! no packet.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use flowloom_engine::{
    Control, Endpoints, EngineConfig, Layout, Order, PacketSink, PolicyRef, Released, SinkError, run_with,
};
use flowloom_packet::BATCH_PACKETS;
use flowloom_scheduler::registry::Scheme;
use flowloom_scheduler::{Topology, WorkerCount};

use crate::common::{Memory, Recorder, config, mix, small_table};

/// Maximum number of packets between the input stage and the sink.
const WINDOW: u64 = 1 << 14;

/// Stalls at its first packet until the input stage stalls, and records how many packets the source
/// yielded.
struct Stalling {
    asked: Arc<AtomicU64>,
    asked_in_stall: u64,
    numbers: Vec<u64>,
}

impl PacketSink for Stalling {
    fn take(&mut self, packet: &Released<'_>) -> Result<(), SinkError> {
        if self.numbers.is_empty() {
            let begun = Instant::now();
            while self.asked.load(Ordering::Relaxed) <= WINDOW / BATCH_PACKETS as u64
                && begun.elapsed() < Duration::from_secs(20)
            {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(50));
            self.asked_in_stall = self.asked.load(Ordering::Relaxed);
        }
        self.numbers.push(packet.number);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

#[test]
fn stalled_sink_pauses_the_input_and_loses_nothing() {
    // Only whole batches, so that the window ends with one.
    let whole = Memory::in_blocks(mix(40_000, 100), 10 * BATCH_PACKETS);
    for (name, order) in [
        ("dh", Order::Internal),
        ("dh", Order::External),
        ("lfb", Order::Internal),
        ("rr", Order::External),
    ] {
        let config = EngineConfig { order, ..config(Layout::Pipeline { workers: 2 }) };
        let topology = Topology::flat(WorkerCount::new(2).unwrap());
        let mut policy = Scheme::named(name).unwrap().policy(&topology, 1).unwrap();
        let policy_ref = PolicyRef::new(&mut policy);
        let mut source = Memory { asked: Arc::default(), ..whole.clone() };
        let asked = Arc::clone(&source.asked);
        let mut sink = Stalling { asked, asked_in_stall: 0, numbers: Vec::new() };
        let control = Control::default();
        let parts = Endpoints::new(&mut source, policy_ref, &control).with_packets(Some(&mut sink as _));
        let report = run_with(&config, parts, |_| small_table(), |_| Recorder::default()).unwrap();
        assert!(report.is_balanced() && report.fault.is_none(), "{name}: {:?}", report.fault);
        // All batches of the window, and one more that found it full.
        assert_eq!(sink.asked_in_stall, WINDOW / BATCH_PACKETS as u64 + 1, "{name} {order:?}");
        let (whole, refused) = (report.input.decoded, report.sink.unwrap().refused);
        assert_eq!((sink.numbers.len() as u64, refused), (whole, 0), "{name} {order:?}");
        assert!(order != Order::External || sink.numbers.is_sorted(), "{name}");
    }
}
