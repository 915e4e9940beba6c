//! Pipeline mode: what the input stage admits becomes descriptors, and a policy decides whose ring they go into.

use std::ops::Range;

use flowloom_packet::{BATCH_PACKETS, DropReason, PacketBatch};
use flowloom_scheduler::{Decision, LoadView, Placement, WorkItem};

use crate::descriptor::Descriptor;
use crate::drive::Sink;
use crate::input::Admission;
use crate::ring::{Gone, Outbox};

/// Hands descriptors to workers.
pub(crate) struct PipelineSink<'a> {
    pub(crate) outboxes: Vec<Outbox>,
    placement: &'a mut dyn Placement,
    drop_when_full: bool,
    block_number: Option<(u64, u32)>,
    items: Vec<WorkItem>,
    descriptors: Vec<Descriptor>,
    decisions: Vec<Decision>,
    sent: Vec<u64>,
    completed: Vec<u64>,
    sent_bytes: Vec<u64>,
    completed_bytes: Vec<u64>,
}

impl<'a> PipelineSink<'a> {
    pub(crate) fn new(
        outboxes: Vec<Outbox>,
        placement: &'a mut dyn Placement,
        drop_when_full: bool,
    ) -> Self {
        let workers = outboxes.len();
        Self {
            outboxes,
            placement,
            drop_when_full,
            block_number: None,
            items: Vec::with_capacity(BATCH_PACKETS),
            descriptors: Vec::with_capacity(BATCH_PACKETS),
            decisions: vec![Decision::Drop; BATCH_PACKETS],
            sent: vec![0; workers],
            completed: vec![0; workers],
            sent_bytes: vec![0; workers],
            completed_bytes: vec![0; workers],
        }
    }

    pub(crate) fn end(&mut self) {
        for outbox in &mut self.outboxes {
            // A worker that is gone needs no telling.
            let _ = outbox.end();
        }
    }

    /// After a panic of the source or the policy: hands on what is staged, and counts as lost what was taken in and is
    /// neither with a worker nor dropped.
    pub(crate) fn settle(&mut self, input: &mut Admission) {
        // A worker that is gone as well has had its packets counted by `flush`.
        let _ = self.flush(input);
        let sent: u64 = self.outboxes.iter().map(|outbox| outbox.sent).sum();
        input.lose(DropReason::WorkerLost, input.unaccounted(sent));
    }

    /// Counts everything staged as lost with a worker, for a run that stops because one is gone.
    fn abandon(&mut self, input: &mut Admission) {
        for outbox in &mut self.outboxes {
            input.lose(DropReason::WorkerLost, outbox.discard());
        }
    }
}

impl Sink for PipelineSink<'_> {
    fn take(
        &mut self,
        input: &mut Admission,
        batch: &PacketBatch,
        range: Range<usize>,
    ) -> Result<(), Gone> {
        let Some(block) = &batch.block else { return Ok(()) };
        if self.block_number != Some((batch.block_number, batch.pass)) {
            self.block_number = Some((batch.block_number, batch.pass));
            self.flush(input)?;
            let told = self.outboxes.iter_mut().try_for_each(|outbox| outbox.next_block(block, batch.pass));
            told.inspect_err(|_| self.abandon(input))?;
        }
        let bytes = block.bytes();
        self.items.clear();
        self.descriptors.clear();
        let mut ahead = batch.lookahead();
        input.count(&batch.packets[range.clone()]);
        for raw in &batch.packets[range] {
            ahead.request(bytes);
            if let Some(admitted) = input.admit(raw, bytes, batch.pass) {
                self.items.push(WorkItem { digest: admitted.hash.worker, bytes: raw.wire });
                self.descriptors.push(Descriptor::packet(
                    admitted.hash.table,
                    admitted.time_ns,
                    raw.position,
                    raw.link,
                    raw.captured,
                    raw.wire,
                ));
            }
        }
        for (i, outbox) in self.outboxes.iter().enumerate() {
            self.sent[i] = outbox.sent + outbox.staged() as u64;
            self.completed[i] = outbox.completed();
            self.sent_bytes[i] = outbox.taken_bytes;
            self.completed_bytes[i] = outbox.completed_bytes();
        }
        let count = self.items.len();
        let load = LoadView {
            sent: &self.sent,
            completed: &self.completed,
            sent_bytes: &self.sent_bytes,
            completed_bytes: &self.completed_bytes,
            busy: &[],
        };
        self.placement.place(&self.items, &load, &mut self.decisions[..count]);
        for i in 0..count {
            let pushed = match self.decisions[i] {
                Decision::To(worker) => {
                    self.outboxes[worker.index()].push(self.descriptors[i], self.drop_when_full)
                }
                // No policy here parks: there is no shared queue to park in.
                Decision::Park | Decision::Drop => Ok(1),
            };
            let Ok(dropped) = pushed else {
                // What was staged for the worker that is gone, this packet included, and what follows in the batch.
                input.lose(DropReason::WorkerLost, (count - i - 1) as u64);
                self.abandon(input);
                return Err(Gone);
            };
            input.lose(DropReason::RingFull, dropped);
        }
        Ok(())
    }

    fn flush(&mut self, input: &mut Admission) -> Result<(), Gone> {
        for i in 0..self.outboxes.len() {
            let Ok(dropped) = self.outboxes[i].flush(self.drop_when_full) else {
                self.abandon(input);
                return Err(Gone);
            };
            input.lose(DropReason::RingFull, dropped);
        }
        Ok(())
    }
}
