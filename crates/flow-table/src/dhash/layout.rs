//! The bucket, and the mapping between slots and states.
//!
//! ```text
//!  byte   0    4    8                 60   64
//!         │ s0 │ s1 │ s2 │  …  │ s14 │ s15 │      0 is an empty slot
//! ```
//!
//! Slot j of bucket i belongs to state 16·i + j; the states from 16·N on are the pool. Nothing is
//! stored for this mapping, which keeps the index at 4 bytes per slot.
//!
//! Paper: [DHASH §III-A], Fig. 1.

use flowloom_cpu::pages::CacheLine;

/// Number of signatures in a bucket: as many as fit a cache line.
pub const SLOTS_PER_BUCKET: u32 = 16;

/// Sixteen signatures; 0 is empty.
pub type Bucket = CacheLine<[u32; SLOTS_PER_BUCKET as usize]>;

const _: () =
    assert!(size_of::<Bucket>() == 64 && align_of::<Bucket>() == 64, "a bucket is one cache line");

/// The number of flows that the paper expects in a bucket, [DHASH §V-A]: ten for sixteen slots.
pub const FLOWS_PER_BUCKET: u32 = 10;

/// Returns the state of a bucket's slot.
#[inline(always)]
#[must_use]
pub const fn state_of(bucket: u32, slot: u32) -> u32 {
    bucket * SLOTS_PER_BUCKET + slot
}

/// Returns bucket and slot of a state that is not in the pool.
#[inline]
#[must_use]
pub const fn place_of(state: u32) -> (u32, u32) {
    (state / SLOTS_PER_BUCKET, state % SLOTS_PER_BUCKET)
}

/// Returns the bytes of this many buckets.
#[must_use]
pub const fn index_bytes(buckets: u64) -> u64 {
    buckets * size_of::<Bucket>() as u64
}

/// Returns the share of flows in lists in the steady state of churn: Erlang's loss formula.
///
/// A bucket under churn is a group of sixteen servers; a flow that finds none free overflows. With
/// ten flows per bucket, 2.2 % are in lists. This is four times the share after filling a fresh
/// table, because a flow in a list does not move back when a slot becomes free.
#[must_use]
pub fn steady_share(flows_per_bucket: f64) -> f64 {
    let mut blocked = 1.0;
    for servers in 1..=SLOTS_PER_BUCKET {
        blocked = flows_per_bucket * blocked / (f64::from(servers) + flows_per_bucket * blocked);
    }
    blocked
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use flowloom_flow_key::TableHash;
    use flowloom_flow_key::hash::fold::split_mix;

    #[test]
    fn slots_and_states_are_one_to_one() {
        for state in 0..64 {
            let (bucket, slot) = place_of(state);
            assert!(slot < SLOTS_PER_BUCKET);
            assert_eq!(state_of(bucket, slot), state);
        }
    }

    #[test]
    fn the_papers_hundred_thousand_buckets_take_6_4_megabytes() {
        assert_eq!(index_bytes(100_000), 6_400_000);
    }

    #[test]
    fn the_papers_smallest_table_for_a_million_takes_4_5_megabytes() {
        // [DHASH §IV-A]: 62,500 full buckets with 8 bytes each for a list.
        assert_eq!(1_000_000_u64.div_ceil(u64::from(SLOTS_PER_BUCKET)), 62_500);
        assert_eq!(index_bytes(62_500) + 62_500 * 8, 4_500_000);
    }

    #[test]
    fn the_papers_load_factors() {
        // [DHASH §IV-A, §V-A]: of the equivalent one-level table with N·2³² buckets.
        let signatures = 4_294_967_296.0_f64;
        assert!((16.0 / signatures - 3.72e-9).abs() < 0.01e-9);
        assert!((1e6 / (1e5 * signatures) - 2.3e-9).abs() < 0.05e-9);
        // [DHASH §IV-B]: some pair of k shares a signature.
        let pair = |k: f64, n: f64| k * (k - 1.0) / (2.0 * n);
        assert!((pair(16.0, signatures) - 2.79e-8).abs() < 0.01e-8);
        assert!((pair(10.0, signatures) - 1.05e-8).abs() < 0.01e-8);
        assert!((pair(1e6, 1e5 * signatures) - 1.16e-3).abs() < 0.01e-3);
    }
    #[test]
    fn erlangs_formula_gives_the_steady_state_shares() {
        assert!((steady_share(10.0) - 0.0223).abs() < 0.0001);
        assert!((steady_share(10.48576) - 0.0297).abs() < 0.0001);
    }

    #[test]
    fn filling_a_fresh_table_puts_0_55_percent_into_lists() {
        // A million flows in 100,000 buckets, hashes only. The paper's 11,413 is a different
        // number, although its sessions occur once as well.
        if cfg!(miri) {
            return;
        }
        let mut state = 1;
        let mut flows = vec![0_u32; 100_000];
        let mut conflicts = 0;
        for _ in 0..1_000_000 {
            let bucket = TableHash::from_mixed(split_mix(&mut state)).bucket(100_000);
            flows[bucket as usize] += 1;
            conflicts += u32::from(flows[bucket as usize] > SLOTS_PER_BUCKET);
        }
        let share = f64::from(conflicts) / 1e6;
        assert!((share - 0.0055).abs() < 0.0003, "{share}");
    }
}
