//! A worker with its own flows, for policies that keep a flow with its worker. It is the fastest
//! kind, because it looks up a batch of packets together.

use flowloom_flow_key::FlowKey;
use flowloom_flow_key::TableHash;
use flowloom_flow_table::FlowTable;

use super::{Worker, WorkerCounted, WorkerOutput};
use crate::app::App;
use crate::batch::pool::{BATCH_DESCRIPTORS, Received};
use crate::dispatch::ring::Inbox;
use crate::runtime::poll::Polled;
use crate::worker::flows::FlowsEnd;
use crate::worker::process::FlowStage;
use crate::worker::shards::SilentTime;

pub(crate) struct PrivateWorker<'a, A: App, T> {
    inbox: Inbox,
    stage: FlowStage<A, T>,
    received: Received,
    keys: [FlowKey; BATCH_DESCRIPTORS],
    hashes: [TableHash; BATCH_DESCRIPTORS],
    taken: u64,
    taken_bytes: u64,
    output: WorkerOutput<'a>,
    silent_time: SilentTime,
}

impl<'a, A: App, T: FlowTable<FlowKey, A::Flow>> PrivateWorker<'a, A, T> {
    pub(crate) fn new(
        inbox: Inbox,
        stage: FlowStage<A, T>,
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

impl<A, T> Worker<A::Flow> for PrivateWorker<'_, A, T>
where
    A: App,
    T: FlowTable<FlowKey, A::Flow> + Send,
{
    fn poll(&mut self) -> Polled {
        match self.inbox.take(&mut self.received) {
            Polled::Worked => {}
            other => {
                self.stage.flows.flush_if_requested();
                if let Some(time_ns) = self.silent_time.step() {
                    self.stage.flows.pass_time(time_ns);
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
            stage.prefetch(descriptor.packet.hash);
            keys[i] = descriptor.key;
            hashes[i] = descriptor.packet.hash;
            self.taken_bytes += u64::from(descriptor.packet.wire);
            latest_ns = descriptor.packet.time_ns;
        }
        let FlowStage { runner, flows } = stage;
        runner.work(
            flows,
            (&keys[..count], &hashes[..count]),
            |i| open.view(i),
            |_, i, _, outcome| output.report(&received.descriptor(i), outcome),
        );
        flows.expire(latest_ns);
        self.received.clear();
        self.taken += count as u64;
        self.inbox.publish(self.taken, self.taken_bytes);
        self.output.publisher.publish(&self.stage.runner.counters, self.stage.runner.begun);
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

    fn end(self: Box<Self>, has_panicked: bool) -> Option<FlowsEnd<A::Flow>> {
        (!has_panicked).then(|| self.stage.finish())
    }
}
