//! The number of shards over which the flows of a run are spread, and the shard of a flow.

/// Shards per worker. The number is small, so that many packets of a chunk fall into the same shard
/// and share one lock acquisition. A worker that locks a shard loads the lines that the previous
/// worker wrote from another CPU's cache: the lock, and the table's own words if a flow began. A
/// worker that finds a shard locked processes other shards first.
const SHARDS_PER_WORKER: usize = 2;
/// Shards per worker if shards are sequenced, so that an elephant flow shares its sequence with few
/// others.
const SHARDS_IN_ORDER: usize = 64;
/// Maximum number of shards.
const SHARDS_MAX: usize = 1024;

/// Returns the number of shards for `workers` workers.
pub(crate) fn shard_count(workers: usize, in_order: bool) -> usize {
    let each = if in_order { SHARDS_IN_ORDER } else { SHARDS_PER_WORKER };
    (workers * each).next_power_of_two().min(SHARDS_MAX)
}

/// Returns the shard of a flow.
#[inline]
pub(crate) fn shard_of(hash: flowloom_flow_key::TableHash, shards: usize) -> usize {
    // Tables take the line from the upper half of the bits and the signature from the lower half.
    // This multiplication mixes the bits again, so that the flows of a shard spread over its whole
    // table.
    (hash.bits().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize & (shards - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_a_power_of_two_and_take_equal_shares() {
        assert_eq!([1, 3, 4, 256].map(|workers| shard_count(workers, true)), [64, 256, 256, 1024]);
        assert_eq!([1, 3, 4, 256].map(|workers| shard_count(workers, false)), [2, 8, 8, 512]);
        let mut counts = [0_u32; 64];
        for i in 0..64_000_u64 {
            counts[shard_of(flowloom_flow_key::TableHash::from_mixed(i << 7 ^ i << 40), 64)] += 1;
        }
        assert!(counts.iter().all(|&count| (700..1300).contains(&count)), "{counts:?}");
    }
}
