//! Flows that every worker reaches, for policies that move flows from worker to worker.
//!
//! The flows are spread over shards by their hash, each behind a lock. While a policy keeps a flow with one worker at a
//! time the locks are hardly ever waited for. Where it does not, a shard may also be entered by **turns**: each packet
//! gets the next number of its shard when it arrives, and enters when those before it have left. So the packets of a
//! flow meet its state in the order they arrived in, whichever workers have them [FLOWNP §5.1].

use std::sync::{Mutex, PoisonError};

use crossbeam_utils::CachePadded;
use flowloom_flow_key::FlowKey;
use flowloom_flow_table::FlowTable;
use flowloom_packet::PacketView;

use crate::app::{App, FlowState, Verdict};
use crate::flows::{Flows, FlowsEnd};
use crate::time::IdleTimeout;
use crate::turn::Turn;

/// Shards for each worker: two workers meet in one with a chance of 1 in 64, and an elephant shares its shard with one
/// flow in some hundred.
const SHARDS_PER_WORKER: usize = 64;
/// The most shards.
const SHARDS_MAX: usize = 1024;

/// Returns into how many shards flows are spread for so many workers.
pub(crate) fn shards(workers: usize) -> usize {
    (workers * SHARDS_PER_WORKER).next_power_of_two().min(SHARDS_MAX)
}

/// Returns the shard of a flow.
#[inline]
pub(crate) fn shard_of(hash: u64, shards: usize) -> usize {
    // Tables take their line from the upper half of the bits and their signature from the lower; these are mixed anew, so
    // that a shard's flows do not crowd in a part of its table.
    (hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize & (shards - 1)
}

#[derive(Debug)]
struct Shard<F, T> {
    turn: Turn,
    flows: Mutex<Flows<F, T>>,
}

/// All flows of a run.
#[derive(Debug)]
pub(crate) struct SharedFlows<F, T> {
    shards: Box<[CachePadded<Shard<F, T>>]>,
}

impl<F: FlowState, T: FlowTable<FlowKey, F>> SharedFlows<F, T> {
    /// Takes a power of two of tables.
    pub(crate) fn new(tables: Vec<T>, idle_timeout: Option<IdleTimeout>, records_max: usize) -> Self {
        assert!(tables.len().is_power_of_two(), "shards are chosen by bits of a hash");
        let records_max = records_max.div_ceil(tables.len());
        let shards = tables
            .into_iter()
            .map(|table| {
                let flows = Mutex::new(Flows::new(table, idle_timeout, records_max));
                CachePadded::new(Shard { turn: Turn::default(), flows })
            })
            .collect();
        Self { shards }
    }

    fn shard(&self, hash: u64) -> &Shard<F, T> {
        &self.shards[shard_of(hash, self.shards.len())]
    }

    /// Says whether it is a packet's turn.
    pub(crate) fn is_turn(&self, hash: u64, turn: u32) -> bool {
        self.shard(hash).turn.is(turn)
    }

    /// Lets the next packet enter.
    pub(crate) fn pass_turn(&self, hash: u64, turn: u32) {
        self.shard(hash).turn.pass(turn);
    }

    /// Runs the application on a packet and its flow. `None` when the table refuses a new flow.
    pub(crate) fn process<A: App<Flow = F>>(
        &self,
        app: &mut A,
        hash: u64,
        packet: &PacketView<'_>,
    ) -> Option<Verdict> {
        // A worker that panicked left the state of one flow half changed, and the run is ending: its counts are whole.
        let mut flows = self.shard(hash).flows.lock().unwrap_or_else(PoisonError::into_inner);
        let found = flows.table.lookup(&packet.headers.key, hash);
        let verdict = flows.process(app, found, (&packet.headers.key, hash), packet.time_ns, packet);
        flows.expire(packet.time_ns);
        verdict
    }

    /// Returns what each shard leaves.
    pub(crate) fn finish(self) -> impl Iterator<Item = FlowsEnd<F>> {
        self.shards.into_iter().map(|shard| {
            let flows = CachePadded::into_inner(shard).flows;
            flows.into_inner().unwrap_or_else(PoisonError::into_inner).finish()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_a_power_of_two_and_take_equal_shares() {
        assert_eq!((shards(1), shards(3), shards(4), shards(256)), (64, 256, 256, 1024));
        let mut counts = [0_u32; 64];
        for i in 0..64_000_u64 {
            counts[shard_of(i << 7 ^ i << 40, 64)] += 1;
        }
        assert!(counts.iter().all(|&count| (700..1300).contains(&count)), "{counts:?}");
    }
}
