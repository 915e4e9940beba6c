//! A worker that fetches its packets from the pool, one at a time.

use std::sync::Arc;

use flowloom_scheduler::WorkerId;

use super::{Worker, WorkerCounted};
use crate::dispatch::pull::{Fetched, Pool};
use crate::stage::poll::Polled;
use crate::stage::shutdown::Halt;
use crate::worker::flows::FlowsEnd;
use crate::worker::shared::SharedRunner;

/// Packets fetched per poll.
const CHUNK: usize = 32;

pub(crate) struct PullWorker<'a> {
    pool: Arc<Pool<'a>>,
    id: WorkerId,
    runner: SharedRunner<'a>,
    halt: Arc<Halt>,
    fetched: u64,
}

impl<'a> PullWorker<'a> {
    pub(crate) fn new(
        pool: Arc<Pool<'a>>,
        id: WorkerId,
        runner: SharedRunner<'a>,
        halt: Arc<Halt>,
    ) -> Self {
        Self { pool, id, runner, halt, fetched: 0 }
    }
}

impl Worker for PullWorker<'_> {
    fn poll(&mut self) -> Polled {
        if self.halt.is_halted() {
            return Polled::Done; // No worker will complete the flows of a worker that has ended.
        }
        let mut polled = Polled::Idle;
        for _ in 0..CHUNK {
            match self.pool.fetch(self.id) {
                Fetched::Packet(waiting) => {
                    self.fetched += 1;
                    let descriptor = &waiting.descriptor;
                    self.runner.process(descriptor, descriptor.view(waiting.block.open()));
                    polled = Polled::Worked;
                }
                Fetched::Nothing => break,
                Fetched::End => {
                    polled = Polled::Done;
                    break;
                }
            }
        }
        if polled == Polled::Idle {
            self.runner.idle();
        }
        self.runner.publish();
        polled
    }

    fn at(&self) -> Option<u64> {
        self.runner.at()
    }

    fn counted(&self) -> WorkerCounted {
        self.runner.counted(self.fetched)
    }

    fn end(self: Box<Self>, _: bool) -> Option<FlowsEnd> {
        None
    }
}
