//! A worker with flows of its own: for policies that leave a flow where it is. The fastest kind: a batch of packets
//! is looked up together.

use flowloom_flow_key::FlowKey;
use flowloom_flow_table::FlowTable;

use super::{Worker, WorkerCounted, WorkerOutput};
use crate::app::App;
use crate::batch::pool::{BATCH_DESCRIPTORS, Received};
use crate::dispatch::ring::Inbox;
use crate::runtime::poll::Polled;
use crate::worker::flows::FlowsEnd;
use crate::worker::process::FlowStage;

pub(crate) struct PrivateWorker<'a, A: App, T> {
    inbox: Inbox,
    stage: FlowStage<A, T>,
    basket: Received,
    keys: [FlowKey; BATCH_DESCRIPTORS],
    hashes: [u64; BATCH_DESCRIPTORS],
    taken: u64,
    taken_bytes: u64,
    desk: WorkerOutput<'a>,
}

impl<'a, A: App, T: FlowTable<FlowKey, A::Flow>> PrivateWorker<'a, A, T> {
    pub(crate) fn new(inbox: Inbox, stage: FlowStage<A, T>, desk: WorkerOutput<'a>) -> Self {
        Self {
            inbox,
            stage,
            basket: Received::new(BATCH_DESCRIPTORS),
            keys: [FlowKey::default(); BATCH_DESCRIPTORS],
            hashes: [0; BATCH_DESCRIPTORS],
            taken: 0,
            taken_bytes: 0,
            desk,
        }
    }
}

impl<A, T> Worker<A::Flow> for PrivateWorker<'_, A, T>
where
    A: App,
    T: FlowTable<FlowKey, A::Flow> + Send,
{
    fn poll(&mut self) -> Polled {
        match self.inbox.take(&mut self.basket) {
            Polled::Worked => {}
            other => {
                self.stage.flows.answer();
                return other;
            }
        }
        let Self { stage, basket, keys, hashes, desk, .. } = self;
        let (count, mut latest_ns) = (basket.len(), 0);
        let open = basket.open::<BATCH_DESCRIPTORS>();
        for i in 0..count {
            let descriptor = basket.descriptor(i);
            open.request(i);
            stage.prefetch(descriptor.packet.hash);
            keys[i] = descriptor.key;
            hashes[i] = descriptor.packet.hash;
            self.taken_bytes += u64::from(descriptor.packet.wire);
            latest_ns = descriptor.packet.time_ns;
        }
        let FlowStage { hands, flows } = stage;
        hands.work(
            flows,
            (&keys[..count], &hashes[..count]),
            |i| open.view(i),
            |i, _, outcome| desk.tell(&basket.descriptor(i), outcome),
        );
        flows.expire(latest_ns);
        self.basket.clear();
        self.taken += count as u64;
        self.inbox.publish(self.taken, self.taken_bytes);
        self.desk.publisher.publish(&self.stage.hands.counters);
        Polled::Worked
    }

    fn at(&self) -> Option<u64> {
        self.stage.hands.at()
    }

    fn counted(&self) -> WorkerCounted {
        WorkerCounted {
            counters: self.stage.counters(),
            fetched: 0,
            processed_for: Vec::new(),
            refused: self.desk.refused(),
        }
    }

    fn end(self: Box<Self>, has_panicked: bool) -> Option<FlowsEnd<A::Flow>> {
        (!has_panicked).then(|| self.stage.finish())
    }
}
