//! A worker with its own flows, for policies that keep a flow with its worker. It is the fastest
//! kind, because it looks up a batch of packets together.

use flowloom_flow_key::{FlowKey, TableHash};
use flowloom_packet::PacketView;

use super::{Worker, WorkerCounted, WorkerOutput};
use crate::batch::pool::{BATCH_DESCRIPTORS, Received};
use crate::dispatch::ring::Inbox;
use crate::stage::poll::Polled;
use crate::worker::flows::FlowsEnd;
use crate::worker::process::{Decider, Done, FlowStage, Packets};
use crate::worker::shards::SilentTime;

pub(crate) struct PrivateWorker<'a> {
    inbox: Inbox,
    stage: FlowStage<'a>,
    received: Received,
    keys: [FlowKey; BATCH_DESCRIPTORS],
    hashes: [TableHash; BATCH_DESCRIPTORS],
    taken: u64,
    taken_bytes: u64,
    output: WorkerOutput<'a>,
    silent_time: SilentTime,
}

impl<'a> PrivateWorker<'a> {
    pub(crate) fn new(
        inbox: Inbox,
        stage: FlowStage<'a>,
        output: WorkerOutput<'a>,
        silent_time: SilentTime,
    ) -> Self {
        Self {
            inbox,
            stage,
            received: Received::new(BATCH_DESCRIPTORS),
            keys: [FlowKey::default(); BATCH_DESCRIPTORS],
            hashes: [TableHash::default(); BATCH_DESCRIPTORS],
            taken: 0,
            taken_bytes: 0,
            output,
            silent_time,
        }
    }
}

impl Worker for PrivateWorker<'_> {
    fn poll(&mut self) -> Polled {
        match self.inbox.take(&mut self.received) {
            Polled::Worked => {}
            other => {
                self.stage.flows.flush_if_requested();
                if let Some(time_ns) = self.silent_time.step() {
                    self.stage.pass_time(time_ns);
                }
                return other;
            }
        }
        let Self { stage, received, keys, hashes, output, .. } = self;
        let (count, mut latest_ns) = (received.len(), 0);
        let open = received.open::<BATCH_DESCRIPTORS>();
        for i in 0..count {
            let descriptor = received.descriptor(i);
            open.request(i);
            keys[i] = descriptor.key;
            hashes[i] = descriptor.packet.hash;
            self.taken_bytes += u64::from(descriptor.packet.wire);
            latest_ns = descriptor.packet.time_ns;
        }
        let FlowStage { runner, flows } = stage;
        flows.prefetch(&hashes[..count]);
        let view = |i| open.view(i);
        let mut report = output.outcomes.as_mut().map(|outcomes| {
            |_: &mut dyn Decider, i: usize, _: &PacketView<'_>, outcome| {
                outcomes.send(received.descriptor(i).packet, outcome);
            }
        });
        let done = report.as_mut().map(|report| report as &mut Done<'_>);
        runner.work(&mut **flows, (&keys[..count], &hashes[..count]), &Packets::Each(&view), done);
        runner.expire(&mut **flows, latest_ns);
        self.received.clear();
        self.taken += count as u64;
        self.inbox.publish(self.taken, self.taken_bytes);
        self.output.publisher.publish(&self.stage.runner.tally);
        Polled::Worked
    }

    fn at(&self) -> Option<u64> {
        self.stage.runner.at()
    }

    fn counted(&self) -> WorkerCounted {
        WorkerCounted {
            counters: self.stage.counters(),
            fetched: 0,
            processed_for: Vec::new(),
            refused: self.output.refused(),
        }
    }

    fn end(self: Box<Self>, has_panicked: bool) -> Option<FlowsEnd> {
        (!has_panicked).then(|| self.stage.finish())
    }
}
