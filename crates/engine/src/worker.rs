//! The application stage: one thread per worker. It takes descriptors by the chunk, reads the packets where they lie, and runs
//! the application on their flows.

use std::time::Instant;

use flowloom_cpu::prefetch;
use flowloom_flow_key::FlowKey;
use flowloom_flow_table::FlowTable;
use flowloom_packet::{BATCH_PACKETS, DecodeOptions, DropReason, SharedBlock, decode};

use crate::app::App;
use crate::clock;
use crate::descriptor::{Control, Descriptor};
use crate::ring::Inbox;
use crate::stage::{Burst, FlowStage, Place, StageResult};
use crate::wait::Wait;

/// What a worker leaves when its input has ended.
#[derive(Debug)]
pub(crate) struct WorkerResult<F> {
    pub(crate) stage: StageResult<F>,
    pub(crate) pinned: bool,
    /// When the last packet was done; what follows is making the report.
    pub(crate) done: Instant,
}

/// Runs a worker until its input ends.
pub(crate) fn run<A: App, T: FlowTable<FlowKey, A::Flow>>(
    mut inbox: Inbox,
    mut stage: FlowStage<A, T>,
    options: DecodeOptions,
    pinned: bool,
) -> WorkerResult<A::Flow> {
    let wait = Wait::default();
    let mut burst = Burst::new();
    let mut block: Option<(SharedBlock, u32)> = None;
    let (mut taken, mut taken_bytes) = (0_u64, 0_u64);
    'input: loop {
        let ready = inbox.ring.slots().min(BATCH_PACKETS);
        if ready == 0 {
            if inbox.ring.is_abandoned() && inbox.ring.is_empty() {
                break; // The input stage is gone without a word: what it sent is done.
            }
            wait.snooze();
            continue;
        }
        wait.reset();
        let Ok(chunk) = inbox.ring.read_chunk(ready) else {
            unreachable!("that many descriptors are ready: only this thread takes them")
        };
        let (first, second) = chunk.as_slices();
        let mut ended = false;
        for part in [first, second] {
            for run in part.split_inclusive(|descriptor| descriptor.as_control().is_some()) {
                let (packets, control) = match run.split_last() {
                    Some((last, packets)) => match last.as_control() {
                        Some(control) => (packets, Some(control)),
                        None => (run, None),
                    },
                    None => (run, None),
                };
                if let Some((block, pass)) = &block {
                    process(&mut stage, &mut burst, packets, block.bytes(), *pass, options);
                    taken += packets.len() as u64;
                    taken_bytes += packets.iter().map(|packet| u64::from(packet.wire)).sum::<u64>();
                }
                match control {
                    Some(Control::NextBlock) => block = inbox.blocks.recv().ok(),
                    Some(Control::End) => ended = true,
                    None => {}
                }
            }
        }
        chunk.commit_all();
        inbox.publish(taken, taken_bytes);
        if ended {
            break 'input;
        }
    }
    let done = clock::now();
    drop(block);
    WorkerResult { stage: stage.finish(), pinned, done }
}

fn process<A: App, T: FlowTable<FlowKey, A::Flow>>(
    stage: &mut FlowStage<A, T>,
    burst: &mut Burst,
    packets: &[Descriptor],
    block: &[u8],
    pass: u32,
    options: DecodeOptions,
) {
    if packets.is_empty() {
        return;
    }
    // The input stage had these lines in its own cache: ask for all of them before the first is read.
    for packet in packets {
        prefetch::read_at(block, packet.position());
        prefetch::read_at(block, packet.position() + prefetch::LINE_BYTES);
        stage.prefetch(packet.hash);
    }
    for packet in packets {
        let bytes = packet.bytes(block);
        match decode(packet.link(), bytes, options) {
            Ok(mut headers) => {
                if pass != 0 {
                    headers.key = headers.key.with_pass(pass);
                }
                let place = Place {
                    position: packet.position() as u64,
                    time_ns: packet.time_ns,
                    captured: bytes.len() as u32,
                    wire: packet.wire,
                };
                burst.push(packet.hash, &headers, place);
            }
            // The input stage decoded the same bytes. Should a mapped file change under us, nothing is lost unseen.
            Err(_) => stage.lose(DropReason::MalformedLink),
        }
    }
    stage.run(block, burst);
}
