//! A worker that fetches its packets from the pool, one at a time.

use std::sync::Arc;

use flowloom_flow_key::FlowKey;
use flowloom_flow_table::FlowTable;
use flowloom_scheduler::WorkerId;

use super::shared::Clerk;
use super::{Worker, WorkerCounted};
use crate::actor::Polled;
use crate::app::App;
use crate::flows::FlowsEnd;
use crate::halt::Halt;
use crate::pool::{Fetched, Pool};

/// Packets between two looks at anything else.
const CHUNK: usize = 32;

pub(crate) struct PullWorker<'a, A: App, T> {
    pool: Arc<Pool<'a>>,
    me: WorkerId,
    clerk: Clerk<'a, A, T>,
    halt: Arc<Halt>,
    fetched: u64,
}

impl<'a, A: App, T: FlowTable<FlowKey, A::Flow>> PullWorker<'a, A, T> {
    pub(crate) fn new(pool: Arc<Pool<'a>>, me: WorkerId, clerk: Clerk<'a, A, T>, halt: Arc<Halt>) -> Self {
        Self { pool, me, clerk, halt, fetched: 0 }
    }
}

impl<A, T> Worker<A::Flow> for PullWorker<'_, A, T>
where
    A: App,
    T: FlowTable<FlowKey, A::Flow> + Send,
{
    fn poll(&mut self) -> Polled {
        if self.halt.is_halted() {
            return Polled::Done; // Flows of a worker that died would be waited for.
        }
        let mut polled = Polled::Idle;
        for _ in 0..CHUNK {
            match self.pool.fetch(self.me) {
                Fetched::Packet(waiting) => {
                    self.fetched += 1;
                    let parcel = &waiting.parcel;
                    self.clerk.process(parcel, parcel.view(waiting.block.bytes()));
                    polled = Polled::Worked;
                }
                Fetched::Nothing => break,
                Fetched::End => {
                    polled = Polled::Done;
                    break;
                }
            }
        }
        self.clerk.publish();
        polled
    }

    fn is_short(&self) -> bool {
        false // What waits, waits for all of them: who finds nothing looks after the input.
    }

    fn at(&self) -> Option<u64> {
        self.clerk.at()
    }

    fn counted(&self) -> WorkerCounted {
        self.clerk.counted(self.fetched)
    }

    fn end(self: Box<Self>, _: bool) -> Option<FlowsEnd<A::Flow>> {
        None
    }
}
