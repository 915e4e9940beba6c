//! Bids of a tree's nodes for a flow, weighted by capacity.
//!
//! A node of capacity W among nodes with a total capacity ΣW should win W / ΣW of the flows. This
//! holds if the winner is the node with the smallest `-log u / W`, where u is its uniformly
//! distributed bid: the minimum of exponentially distributed values. The logarithm is computed in
//! fixed point with integers only, so that a flow has the same worker on every machine.

use flowloom_flow_key::hash::fold::split_mix;

/// Number of entries in the table of logarithms, as a power of two.
const TABLE_BITS: u32 = 10;
/// Fractional bits of a logarithm.
const FRACTION: u32 = 40;

/// Returns the bid of a node for a flow: 64 uniformly distributed bits.
///
/// Node numbers must be unique in the whole tree. If numbers restarted at each node, the winner
/// among eight would also win in any subset of them, and the levels would not be independent.
#[inline]
pub(crate) fn bid(digest: u32, node: u32) -> u64 {
    let mut state = (u64::from(digest) << 32) | u64::from(node);
    split_mix(&mut state)
}

/// Base-2 logarithms by table and interpolation.
#[derive(Clone, Debug)]
pub(crate) struct NegativeLog {
    /// log2(1 + i / 2^bits), for i from 0 to 2^bits.
    table: Vec<u64>,
}

impl NegativeLog {
    /// Computes the table of 2^10 entries, with 40 squarings each.
    pub(crate) fn new() -> Self {
        Self { table: (0..=1_u64 << TABLE_BITS).map(|i| log2((1 << TABLE_BITS) + i)).collect() }
    }

    /// Returns −log2((u + ½) / 2⁶⁴), with [`FRACTION`] fractional bits.
    #[inline]
    pub(crate) fn negative_log(&self, u: u64) -> u64 {
        let u = u | 1;
        let zeros = u.leading_zeros();
        let mantissa = (u << zeros) << 1;
        let (index, rest) = (mantissa >> (64 - TABLE_BITS), mantissa << TABLE_BITS >> 32);
        let (low, high) = (self.table[index as usize], self.table[index as usize + 1]);
        let log = low + (((high - low) * rest) >> 32);
        (u64::from(zeros + 1) << FRACTION) - log
    }
}

/// Returns log2(x / 2^10) for x from 2^10 to 2^11; each squaring gives one bit.
fn log2(x: u64) -> u64 {
    let mut mantissa = u128::from(x) << (62 - TABLE_BITS);
    if x == 2 << TABLE_BITS {
        return 1 << FRACTION;
    }
    let mut log = 0_u64;
    for bit in (0..FRACTION).rev() {
        mantissa = (mantissa * mantissa) >> 62;
        if mantissa >= 2 << 62 {
            mantissa >>= 1;
            log |= 1 << bit;
        }
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_agrees_with_the_platforms() {
        let table = NegativeLog::new();
        let mut state = 1;
        for round in 0..10_000_u32 {
            let u = split_mix(&mut state) >> (round % 60);
            let expected = 64.0 - ((u | 1) as f64).log2();
            let found = table.negative_log(u) as f64 / (1_u64 << FRACTION) as f64;
            assert!((found - expected).abs() < 1e-6, "{u}: {found} instead of {expected}");
        }
        assert!(table.negative_log(u64::MAX) < 1 << 20);
    }

    #[test]
    fn adjacent_nodes_have_independent_weights() {
        let wins = (0..40_000_u32).filter(|&digest| bid(digest, 1) > bid(digest, 2)).count();
        assert!(wins.abs_diff(20_000) < 600, "{wins}");
    }
}
