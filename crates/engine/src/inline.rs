//! Inline mode: what the input stage admits is looked up and processed on the spot.

use std::ops::Range;
use std::sync::Arc;

use flowloom_flow_key::FlowKey;
use flowloom_flow_table::FlowTable;
use flowloom_packet::{DropReason, PacketBatch};

use crate::actor::Room;
use crate::app::{App, Verdict};
use crate::control::Publisher;
use crate::drive::Intake;
use crate::egress::{PacketSink, Released, SinkCounters};
use crate::error::SinkError;
use crate::halt::Halt;
use crate::input::Admission;
use crate::stage::{Burst, FlowStage};

/// The whole path on one thread.
pub(crate) struct InlineIntake<'a, A: App, T> {
    pub(crate) stage: FlowStage<A, T>,
    pub(crate) burst: Burst,
    pub(crate) publisher: Publisher<'a>,
    pub(crate) outlet: Option<Outlet<'a>>,
}

/// The way out of inline mode: every order there is.
pub(crate) struct Outlet<'a> {
    pub(crate) sink: &'a mut (dyn PacketSink + Send),
    pub(crate) halt: Arc<Halt>,
    pub(crate) counters: SinkCounters,
    pub(crate) failed: Option<SinkError>,
}

impl Outlet<'_> {
    fn release(&mut self, packet: &Released<'_>) {
        if self.failed.is_some() {
            self.counters.refused += 1;
            return;
        }
        match self.sink.take(packet) {
            Ok(()) => self.counters.taken += 1,
            Err(error) => {
                self.counters.refused += 1;
                self.failed = Some(error);
                self.halt.halt();
            }
        }
    }
}

impl<A: App, T: FlowTable<FlowKey, A::Flow>> Intake for InlineIntake<'_, A, T> {
    #[inline]
    fn room(&mut self, _: &mut Admission, _: &PacketBatch, _: &Range<usize>) -> Room {
        Room::Free
    }

    #[inline]
    fn take(&mut self, input: &mut Admission, batch: &PacketBatch, range: Range<usize>) {
        let Some(block) = &batch.block else { return };
        let block = block.bytes();
        let mut ahead = batch.lookahead();
        let packets = &batch.packets[range];
        let first = input.count(packets);
        for (number, raw) in (first..).zip(packets) {
            ahead.request(block);
            input.admit((number, raw), block, batch.pass, |headers, hash, place| {
                self.stage.prefetch(hash.table);
                self.burst.push(hash.table, headers, place);
            });
        }
        if !self.burst.is_empty() {
            match &mut self.outlet {
                None => self.stage.run(block, &mut self.burst, &mut |_, _, _| {}),
                Some(outlet) => self.stage.run(block, &mut self.burst, &mut |packet, place, outcome| {
                    if outcome == Some(Verdict::Accept) {
                        let raw = &packets[(place.number - first) as usize];
                        outlet.release(&Released {
                            bytes: packet.bytes,
                            wire_bytes: packet.wire_bytes,
                            time_ns: packet.time_ns,
                            link: raw.link,
                            number: place.number,
                        });
                    }
                }),
            }
        }
        self.publisher.publish(&self.stage.hands.counters);
    }

    fn flush(&mut self, _: &mut Admission) -> Room {
        Room::Free // Every burst is done before `take` returns: its block may be gone afterwards.
    }

    fn end(&mut self, _: &mut Admission) -> Room {
        if let Some(outlet) = &mut self.outlet
            && outlet.failed.is_none()
        {
            outlet.failed = outlet.sink.finish().err();
        }
        Room::Free
    }

    /// What the application had seen before a panic is known; the packet it panicked on and the rest of its burst are lost.
    fn settle(&mut self, input: &mut Admission) {
        let lost = input.unaccounted(self.stage.hands.counters.done());
        self.stage.hands.counters.dropped.add(DropReason::WorkerLost, lost);
    }
}
