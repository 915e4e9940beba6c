//! A worker whose flows are everybody's: for policies that move flows, and for those that keep no order at all.

use std::sync::Arc;

use flowloom_flow_key::FlowKey;
use flowloom_flow_table::FlowTable;
use flowloom_packet::{DropReason, PacketView};

use super::{Desk, Worker, WorkerCounted};
use crate::actor::Polled;
use crate::app::App;
use crate::descriptor::Parcel;
use crate::flows::FlowsEnd;
use crate::halt::Halt;
use crate::ring::Inbox;
use crate::shared::{Entered, SharedFlows, shard_of};
use crate::stage::Hands;
use crate::tray::{Basket, Open, TRAY_PACKETS};

/// Packets taken at a time, those of a shard dealt with together.
const CHUNK: usize = 255;
/// Looks at shards that somebody is in, before the thread waits for one: that takes a call of the system on both sides and an interrupt
/// between them. With 64 looks threads slept six times as often, visits being longer than that.
const ROUNDS: usize = 512;

pub(crate) struct SharedWorker<'a, A: App, T> {
    inbox: Inbox,
    clerk: Clerk<'a, A, T>,
    /// Enter each shard by turns.
    by_turns: bool,
    halt: Arc<Halt>,
    /// Taken from the ring and not yet dealt with.
    basket: Basket,
    /// The next packet of the basket.
    next: usize,
    taken: u64,
    taken_bytes: u64,
}

/// What deals with packets of flows that others may have too.
pub(crate) struct Clerk<'a, A: App, T> {
    hands: Hands<A>,
    pub(crate) flows: Arc<SharedFlows<A::Flow, T>>,
    desk: Desk<'a>,
    keys: [FlowKey; TRAY_PACKETS],
    hashes: [u64; TRAY_PACKETS],
    lists: Lists,
}

/// The packets of a chunk in one list for each shard, in their order.
struct Lists {
    /// The last packet of each shard's list; `NONE` for all between two chunks.
    last: Box<[u8]>,
    /// The packet that follows a packet in its list.
    next: [u8; CHUNK],
    /// The first packet of each list.
    first: Vec<u8>,
}

/// No packet of a chunk.
const NONE: u8 = u8::MAX;
const _: () = assert!(CHUNK <= NONE as usize, "a place in a chunk is a byte");

impl Lists {
    fn new(shards: usize) -> Self {
        Self {
            last: vec![NONE; shards].into_boxed_slice(),
            next: [NONE; CHUNK],
            first: Vec::with_capacity(CHUNK),
        }
    }

    /// Adds packet `i` to the list of its shard; says whether it is the first there.
    #[inline]
    fn add(&mut self, i: usize, shard: usize) -> bool {
        let last = std::mem::replace(&mut self.last[shard], i as u8);
        self.next[i] = NONE;
        match self.next.get_mut(usize::from(last)) {
            Some(next) => *next = i as u8,
            None => self.first.push(i as u8),
        }
        last == NONE
    }
}

impl<'a, A: App, T: FlowTable<FlowKey, A::Flow>> Clerk<'a, A, T> {
    pub(crate) fn new(app: A, flows: Arc<SharedFlows<A::Flow, T>>, desk: Desk<'a>) -> Self {
        let lists = Lists::new(flows.shards());
        Self {
            hands: Hands::new(app),
            flows,
            desk,
            keys: [FlowKey::default(); TRAY_PACKETS],
            hashes: [0; TRAY_PACKETS],
            lists,
        }
    }

    /// Returns the number of the packet that the application has in hand.
    pub(crate) fn at(&self) -> Option<u64> {
        self.hands.at()
    }

    /// Runs the application on a packet, counts what came of it, and tells the egress stage.
    pub(crate) fn process(&mut self, parcel: &Parcel, packet: (u64, PacketView<'_>)) {
        let Self { hands, flows, desk, .. } = self;
        let (hash, key) = (parcel.packet.hash, parcel.key);
        let mut shard = flows.enter(shard_of(hash, flows.shards()));
        hands.work(
            &mut shard.flows,
            (&[key], &[hash]),
            |_| packet,
            |_, _, outcome| desk.tell(parcel, outcome),
        );
        shard.expire();
    }

    /// Does the same with all of a basket, the packets of a shard together: in the order of each flow, and no more.
    fn process_all(&mut self, basket: &Basket) {
        let shards = self.flows.shards();
        let shard_at = |i: u8| shard_of(basket.parcel(usize::from(i)).packet.hash, shards);
        let open = basket.open::<CHUNK>();
        for i in 0..basket.len() {
            open.request(i);
            let shard = shard_at(i as u8);
            if self.lists.add(i, shard) {
                self.flows.request(shard);
            }
        }
        let flows = Arc::clone(&self.flows);
        let mut first = std::mem::take(&mut self.lists.first);
        for &i in &first {
            self.lists.last[shard_at(i)] = NONE;
        }
        for _ in 0..ROUNDS {
            first.retain(|&i| match flows.try_enter(shard_at(i)) {
                Some(mut shard) => {
                    self.process_list(&mut shard, (basket, &open), i);
                    false
                }
                // Somebody is there: rather do something else meanwhile.
                None => true,
            });
            if first.is_empty() {
                break;
            }
            std::hint::spin_loop();
        }
        for i in first.drain(..) {
            self.process_list(&mut flows.enter(shard_at(i)), (basket, &open), i);
        }
        self.lists.first = first;
    }

    /// Deals with the packets of a shard.
    fn process_list(
        &mut self,
        shard: &mut Entered<'_, A::Flow, T>,
        (basket, open): (&Basket, &Open<'_, CHUNK>),
        first: u8,
    ) {
        let Self { hands, desk, keys, hashes, lists, .. } = self;
        let mut places = [0_u8; TRAY_PACKETS];
        let mut i = first;
        while i != NONE {
            let mut count = 0;
            while i != NONE && count < TRAY_PACKETS {
                let parcel = basket.parcel(usize::from(i));
                shard.flows.table.prefetch(parcel.packet.hash);
                (keys[count], hashes[count]) = (parcel.key, parcel.packet.hash);
                places[count] = i;
                i = lists.next[usize::from(i)];
                count += 1;
            }
            hands.work(
                &mut shard.flows,
                (&keys[..count], &hashes[..count]),
                |i| open.view(usize::from(places[i])),
                |i, _, outcome| desk.tell(&basket.parcel(usize::from(places[i])), outcome),
            );
        }
        shard.expire();
    }

    /// Counts a packet as lost.
    fn lose(&mut self, parcel: &Parcel) {
        self.hands.counters.dropped.count(DropReason::WorkerLost);
        self.desk.tell(parcel, None);
    }

    /// Publishes what is counted.
    pub(crate) fn publish(&mut self) {
        self.desk.publisher.publish(&self.hands.counters);
    }

    pub(crate) fn counted(&self, fetched: u64) -> WorkerCounted {
        WorkerCounted { counters: self.hands.counters.clone(), fetched, refused: self.desk.refused() }
    }
}

impl<'a, A: App, T: FlowTable<FlowKey, A::Flow>> SharedWorker<'a, A, T> {
    pub(crate) fn new(inbox: Inbox, clerk: Clerk<'a, A, T>, by_turns: bool, halt: Arc<Halt>) -> Self {
        Self { inbox, clerk, by_turns, halt, basket: Basket::new(CHUNK), next: 0, taken: 0, taken_bytes: 0 }
    }

    /// Deals with the packets of the basket whose turn it is, up to the first whose turn it is not.
    fn process_by_turns(&mut self) {
        let Self { clerk, basket, .. } = self;
        while self.next < basket.len() {
            let parcel = basket.parcel(self.next);
            let (hash, turn) = (parcel.packet.hash, parcel.packet.turn());
            if clerk.flows.is_turn(hash, turn) {
                clerk.process(&parcel, basket.view(self.next));
                clerk.flows.pass_turn(hash, turn);
            } else if self.halt.is_halted() {
                // Whoever has the turn may be gone.
                clerk.lose(&parcel);
            } else {
                break;
            }
            self.taken += 1;
            self.taken_bytes += u64::from(parcel.packet.wire);
            self.next += 1;
        }
    }
}

impl<A, T> Worker<A::Flow> for SharedWorker<'_, A, T>
where
    A: App,
    T: FlowTable<FlowKey, A::Flow> + Send,
{
    fn poll(&mut self) -> Polled {
        if self.basket.len() == 0 {
            match self.inbox.take(&mut self.basket) {
                Polled::Worked => self.next = 0,
                other => return other,
            }
        }
        let begun = self.next;
        if self.by_turns {
            self.process_by_turns();
        } else {
            self.clerk.process_all(&self.basket);
            self.next = self.basket.len();
            self.taken += self.next as u64;
            self.taken_bytes += self.basket.wire_bytes();
        }
        let worked = self.next > begun;
        if self.next == self.basket.len() {
            self.basket.clear();
        }
        self.inbox.publish(self.taken, self.taken_bytes);
        self.clerk.publish();
        if worked { Polled::Worked } else { Polled::Idle }
    }

    fn is_short(&self) -> bool {
        self.inbox.is_short()
    }

    fn at(&self) -> Option<u64> {
        self.clerk.at()
    }

    fn counted(&self) -> WorkerCounted {
        self.clerk.counted(0)
    }

    fn end(self: Box<Self>, _: bool) -> Option<FlowsEnd<A::Flow>> {
        None
    }
}
