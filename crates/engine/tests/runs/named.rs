//! A fault names the packet that the application was processing.

use flowloom_engine::{
    App, Control, Endpoints, EngineConfig, Fault, Layout, Order, PolicyRef, Verdict, run_seeded,
};
use flowloom_packet::PacketView;
use flowloom_scheduler::registry::Scheme;
use flowloom_scheduler::{Topology, WorkerCount};

use crate::common::{Memory, Seen, config, mix, small_table};

/// Panics at the packet with one time.
struct At(u64);

impl App for At {
    type Flow = Seen;

    fn on_packet(&mut self, packet: &PacketView<'_>, _: &mut Seen) -> Verdict {
        assert!(packet.time_ns != self.0, "injected panic");
        Verdict::Accept
    }
}

#[test]
fn a_panic_names_the_packet_that_the_application_had_in_hand() {
    let source = Memory::new(mix(2_000, 100));
    let times: Vec<u64> =
        source.blocks.iter().flat_map(|(_, packets)| packets).map(|packet| packet.time_ns).collect();
    // A packet whose time no other packet has.
    let at = (900..1_100).find(|&i| times.iter().filter(|&&time| time == times[i]).count() == 1).unwrap();
    for (mode, order, name) in [
        (Layout::Inline, Order::Internal, "dh"),
        (Layout::Pipeline { workers: 2 }, Order::Internal, "dh"),
        (Layout::Pipeline { workers: 2 }, Order::Internal, "flowpin"),
        (Layout::Pipeline { workers: 2 }, Order::External, "rr"),
        (Layout::Pipeline { workers: 2 }, Order::Internal, "lfb"),
    ] {
        for seed in 0..5 {
            let config = EngineConfig { order, ..config(mode) };
            let topology = Topology::flat(WorkerCount::new(mode.workers()).unwrap());
            let mut policy = Scheme::named(name).unwrap().policy(&topology, 1).unwrap();
            let policy_ref = PolicyRef::new(&mut policy);
            let (mut source, control) = (source.clone(), Control::default());
            let parts = Endpoints::new(&mut source, policy_ref, &control);
            let report = run_seeded(&config, parts, |_| small_table(), |_| At(times[at]), seed).unwrap();
            assert!(report.is_balanced(), "{mode:?} {name} {seed}");
            match report.fault {
                Some(Fault::WorkerPanicked { packet: Some(packet), .. }) => {
                    assert_eq!(packet, at as u64 + 1, "{mode:?} {name} {seed}");
                }
                other => panic!("{mode:?} {name} {seed}: {other:?}"),
            }
        }
    }
}
