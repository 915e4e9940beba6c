//! A worker whose flows nobody else has: for policies that leave a flow where it is. The fastest kind: a batch of packets
//! is looked up together.

use flowloom_flow_key::FlowKey;
use flowloom_flow_table::FlowTable;

use super::{Desk, Worker, WorkerCounted};
use crate::actor::Polled;
use crate::app::App;
use crate::flows::FlowsEnd;
use crate::ring::Inbox;
use crate::stage::FlowStage;
use crate::tray::{Basket, TRAY_PACKETS};

pub(crate) struct PrivateWorker<'a, A: App, T> {
    inbox: Inbox,
    stage: FlowStage<A, T>,
    basket: Basket,
    keys: [FlowKey; TRAY_PACKETS],
    hashes: [u64; TRAY_PACKETS],
    taken: u64,
    taken_bytes: u64,
    desk: Desk<'a>,
}

impl<'a, A: App, T: FlowTable<FlowKey, A::Flow>> PrivateWorker<'a, A, T> {
    pub(crate) fn new(inbox: Inbox, stage: FlowStage<A, T>, desk: Desk<'a>) -> Self {
        Self {
            inbox,
            stage,
            basket: Basket::new(TRAY_PACKETS),
            keys: [FlowKey::default(); TRAY_PACKETS],
            hashes: [0; TRAY_PACKETS],
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
            other => return other,
        }
        let Self { stage, basket, keys, hashes, desk, .. } = self;
        let (count, mut latest_ns) = (basket.len(), 0);
        let open = basket.open::<TRAY_PACKETS>();
        for i in 0..count {
            let parcel = basket.parcel(i);
            open.request(i);
            stage.prefetch(parcel.packet.hash);
            keys[i] = parcel.key;
            hashes[i] = parcel.packet.hash;
            self.taken_bytes += u64::from(parcel.packet.wire);
            latest_ns = parcel.packet.time_ns;
        }
        let FlowStage { hands, flows } = stage;
        hands.work(
            flows,
            (&keys[..count], &hashes[..count]),
            |i| open.view(i),
            |i, _, outcome| desk.tell(&basket.parcel(i), outcome),
        );
        flows.expire(latest_ns);
        self.basket.clear();
        self.taken += count as u64;
        self.inbox.publish(self.taken, self.taken_bytes);
        self.desk.publisher.publish(&self.stage.hands.counters);
        Polled::Worked
    }

    fn is_short(&self) -> bool {
        self.inbox.is_short()
    }

    fn at(&self) -> Option<u64> {
        self.stage.hands.at()
    }

    fn counted(&self) -> WorkerCounted {
        WorkerCounted { counters: self.stage.counters(), fetched: 0, refused: self.desk.refused() }
    }

    fn end(self: Box<Self>, has_panicked: bool) -> Option<FlowsEnd<A::Flow>> {
        (!has_panicked).then(|| self.stage.finish())
    }
}
