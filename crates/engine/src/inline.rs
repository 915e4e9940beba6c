//! Inline mode: what the input stage admits is looked up and processed on the spot.

use std::ops::Range;

use flowloom_flow_key::FlowKey;
use flowloom_flow_table::FlowTable;
use flowloom_packet::PacketBatch;

use crate::app::App;
use crate::drive::Sink;
use crate::input::Admission;
use crate::ring::Gone;
use crate::stage::{Burst, FlowStage, Place};

/// The whole path on one thread.
pub(crate) struct InlineSink<A: App, T> {
    pub(crate) stage: FlowStage<A, T>,
    pub(crate) burst: Burst,
}

impl<A: App, T: FlowTable<FlowKey, A::Flow>> Sink for InlineSink<A, T> {
    #[inline]
    fn take(
        &mut self,
        input: &mut Admission,
        batch: &PacketBatch,
        range: Range<usize>,
    ) -> Result<(), Gone> {
        let Some(block) = &batch.block else { return Ok(()) };
        let block = block.bytes();
        let mut ahead = batch.lookahead();
        input.count(&batch.packets[range.clone()]);
        for raw in &batch.packets[range] {
            ahead.request(block);
            if let Some(admitted) = input.admit(raw, block, batch.pass) {
                let hash = admitted.hash.table;
                self.stage.prefetch(hash);
                let place = Place {
                    position: raw.position,
                    time_ns: admitted.time_ns,
                    captured: raw.captured,
                    wire: raw.wire,
                };
                self.burst.push(hash, &admitted.headers, place);
            }
        }
        if !self.burst.is_empty() {
            self.stage.run(block, &mut self.burst);
        }
        Ok(())
    }

    fn flush(&mut self, _input: &mut Admission) -> Result<(), Gone> {
        Ok(()) // Every burst is done before `take` returns: its block may be gone afterwards.
    }
}
