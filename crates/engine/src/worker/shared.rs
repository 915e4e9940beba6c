//! A worker whose flows are everybody's: for policies that move flows, and for those that keep no order at all.

use std::sync::Arc;

use flowloom_flow_key::FlowKey;
use flowloom_flow_table::FlowTable;
use flowloom_packet::{BATCH_PACKETS, DropReason, SharedBlock};

use super::{Desk, Worker, WorkerEnd, view};
use crate::actor::Polled;
use crate::app::App;
use crate::counters::WorkerCounters;
use crate::descriptor::{Control, Descriptor};
use crate::halt::Halt;
use crate::ring::Inbox;
use crate::shared::SharedFlows;

pub(crate) struct SharedWorker<'a, A: App, T> {
    inbox: Inbox,
    clerk: Clerk<'a, A, T>,
    /// Enter each shard by turns.
    by_turns: bool,
    halt: Arc<Halt>,
    /// Taken from the ring and not yet dealt with.
    held: Vec<Descriptor>,
    next: usize,
    block: Option<(SharedBlock, u32)>,
    taken: u64,
    taken_bytes: u64,
}

/// What deals with one packet of a flow that others may have too.
pub(crate) struct Clerk<'a, A: App, T> {
    pub(crate) app: A,
    pub(crate) flows: Arc<SharedFlows<A::Flow, T>>,
    pub(crate) counters: WorkerCounters,
    /// The packet that the application has in hand.
    pub(crate) at: Option<u64>,
    pub(crate) desk: Desk<'a>,
}

impl<'a, A: App, T: FlowTable<FlowKey, A::Flow>> Clerk<'a, A, T> {
    pub(crate) fn new(app: A, flows: Arc<SharedFlows<A::Flow, T>>, desk: Desk<'a>) -> Self {
        Self { app, flows, counters: WorkerCounters::default(), at: None, desk }
    }

    /// Runs the application on a packet, counts what came of it, and tells the egress stage.
    pub(crate) fn process(&mut self, packet: Descriptor, block: &SharedBlock, pass: u32) {
        let outcome = match view(packet, block, pass, self.desk.options) {
            Ok(view) => {
                self.at = Some(packet.number());
                let outcome = self.flows.process(&mut self.app, packet.hash, &view);
                self.at = None;
                self.counters.count(outcome);
                outcome
            }
            Err(reason) => {
                self.counters.dropped.count(reason);
                None
            }
        };
        self.tell(packet, outcome);
    }

    /// Counts a packet as lost.
    fn lose(&mut self, packet: Descriptor) {
        self.counters.dropped.count(DropReason::WorkerLost);
        self.tell(packet, None);
    }

    fn tell(&mut self, packet: Descriptor, outcome: Option<crate::app::Verdict>) {
        if let Some(done_with) = &mut self.desk.done_with {
            done_with.tell(packet, outcome);
        }
    }

    pub(crate) fn end(self, fetched: u64) -> WorkerEnd<A::Flow> {
        WorkerEnd { counters: self.counters, flows: None, fetched, refused: self.desk.refused() }
    }
}

impl<'a, A: App, T: FlowTable<FlowKey, A::Flow>> SharedWorker<'a, A, T> {
    pub(crate) fn new(inbox: Inbox, clerk: Clerk<'a, A, T>, by_turns: bool, halt: Arc<Halt>) -> Self {
        Self {
            inbox,
            clerk,
            by_turns,
            halt,
            held: Vec::with_capacity(BATCH_PACKETS),
            next: 0,
            block: None,
            taken: 0,
            taken_bytes: 0,
        }
    }

    /// Takes the next descriptors from the ring.
    fn take(&mut self) -> Polled {
        let ready = self.inbox.ring.slots().min(BATCH_PACKETS);
        if ready == 0 {
            let is_over = self.inbox.ring.is_abandoned() && self.inbox.ring.is_empty();
            return if is_over { Polled::Done } else { Polled::Idle };
        }
        let Ok(chunk) = self.inbox.ring.read_chunk(ready) else {
            unreachable!("that many descriptors are ready: only this thread takes them")
        };
        self.held.clear();
        self.held.extend(chunk);
        self.next = 0;
        Polled::Worked
    }

    fn publish(&mut self) {
        self.inbox.publish(self.taken, self.taken_bytes);
        self.clerk.desk.publisher.publish(&self.clerk.counters);
    }
}

impl<A, T> Worker<A::Flow> for SharedWorker<'_, A, T>
where
    A: App,
    T: FlowTable<FlowKey, A::Flow> + Send,
{
    fn poll(&mut self) -> Polled {
        if self.next == self.held.len() {
            match self.take() {
                Polled::Worked => {}
                other => return other,
            }
        }
        let begun = self.next;
        while let Some(&packet) = self.held.get(self.next) {
            match (packet.as_control(), &self.block) {
                (Some(Control::NextBlock), _) => self.block = self.inbox.next_block(),
                (Some(Control::End), _) => {
                    self.publish();
                    return Polled::Done;
                }
                (None, Some((block, pass))) => {
                    let (hash, turn) = (packet.hash, packet.turn());
                    let is_turn = !self.by_turns || self.clerk.flows.is_turn(hash, turn);
                    if is_turn {
                        self.clerk.process(packet, block, *pass);
                        if self.by_turns {
                            self.clerk.flows.pass_turn(hash, turn);
                        }
                    } else if self.halt.is_halted() {
                        // Whoever has the turn may be gone.
                        self.clerk.lose(packet);
                    } else {
                        break;
                    }
                    self.taken += 1;
                    self.taken_bytes += u64::from(packet.wire);
                }
                (None, None) => unreachable!("a block is announced before the first packet in it"),
            }
            self.next += 1;
        }
        self.publish();
        if self.next == begun { Polled::Idle } else { Polled::Worked }
    }

    fn at(&self) -> Option<u64> {
        self.clerk.at
    }

    fn end(self: Box<Self>, _: bool) -> WorkerEnd<A::Flow> {
        self.clerk.end(0)
    }
}
