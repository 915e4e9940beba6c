//! A worker whose flows nobody else has: for policies that leave a flow where it is. The fastest kind: thirty-two packets
//! are looked up together.

use flowloom_cpu::prefetch;
use flowloom_flow_key::FlowKey;
use flowloom_flow_table::FlowTable;
use flowloom_packet::{BATCH_PACKETS, SharedBlock};

use super::{Desk, Worker, WorkerEnd, headers_of};
use crate::actor::Polled;
use crate::app::App;
use crate::descriptor::{Control, Descriptor, Place};
use crate::ring::Inbox;
use crate::stage::{Burst, FlowStage};

pub(crate) struct PrivateWorker<'a, A: App, T> {
    inbox: Inbox,
    stage: FlowStage<A, T>,
    burst: Burst,
    block: Option<(SharedBlock, u32)>,
    taken: u64,
    taken_bytes: u64,
    desk: Desk<'a>,
}

impl<'a, A: App, T: FlowTable<FlowKey, A::Flow>> PrivateWorker<'a, A, T> {
    pub(crate) fn new(inbox: Inbox, stage: FlowStage<A, T>, desk: Desk<'a>) -> Self {
        Self { inbox, stage, burst: Burst::new(), block: None, taken: 0, taken_bytes: 0, desk }
    }
}

impl<A, T> Worker<A::Flow> for PrivateWorker<'_, A, T>
where
    A: App,
    T: FlowTable<FlowKey, A::Flow> + Send,
{
    fn poll(&mut self) -> Polled {
        let ready = self.inbox.ring.slots().min(BATCH_PACKETS);
        if ready == 0 {
            if self.inbox.ring.is_abandoned() && self.inbox.ring.is_empty() {
                return Polled::Done; // The input stage is gone without a word: what it sent is done.
            }
            return Polled::Idle;
        }
        let Self { inbox, stage, burst, block, taken, taken_bytes, desk } = self;
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
                if let Some((block, pass)) = &*block {
                    process(stage, burst, packets, block.bytes(), *pass, desk);
                    *taken += packets.len() as u64;
                    *taken_bytes += packets.iter().map(|packet| u64::from(packet.wire)).sum::<u64>();
                }
                match control {
                    Some(Control::NextBlock) => *block = inbox.blocks.try_recv().ok(),
                    Some(Control::End) => ended = true,
                    None => {}
                }
            }
        }
        chunk.commit_all();
        inbox.publish(*taken, *taken_bytes);
        desk.publisher.publish(&stage.counters);
        if ended { Polled::Done } else { Polled::Worked }
    }

    fn at(&self) -> Option<u64> {
        self.stage.at()
    }

    fn end(self: Box<Self>, has_panicked: bool) -> WorkerEnd<A::Flow> {
        let counters = self.stage.counters();
        let refused = self.desk.refused();
        let flows = (!has_panicked).then(|| self.stage.finish());
        WorkerEnd { counters, flows, fetched: 0, refused }
    }
}

fn process<A: App, T: FlowTable<FlowKey, A::Flow>>(
    stage: &mut FlowStage<A, T>,
    burst: &mut Burst,
    packets: &[Descriptor],
    block: &[u8],
    pass: u32,
    desk: &mut Desk<'_>,
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
        match headers_of(*packet, bytes, pass, desk.options) {
            Ok(headers) => {
                let place = Place {
                    position: packet.position() as u64,
                    time_ns: packet.time_ns,
                    captured: bytes.len() as u32,
                    wire: packet.wire,
                    number: packet.number(),
                };
                burst.push(packet.hash, &headers, place);
            }
            Err(reason) => {
                stage.lose(reason);
                if let Some(done_with) = &mut desk.done_with {
                    done_with.tell(*packet, None);
                }
            }
        }
    }
    match &mut desk.done_with {
        None => stage.run(block, burst, &mut |_, _, _| {}),
        Some(done_with) => {
            let mut rest = packets.iter();
            stage.run(block, burst, &mut |_, place, outcome| {
                // A burst is a chunk without what could not be read, in the same order.
                if let Some(packet) = rest.find(|packet| packet.number() == place.number) {
                    done_with.tell(*packet, outcome);
                }
            });
        }
    }
}
