//! Writing rules into the blocks that a lookup compares.

use alloc::vec::Vec;

use crate::arch::Program;
use crate::key::Key;
use crate::rule_set::Flat;

/// Number of rules in a block.
pub(crate) const LANES: usize = 8;

/// Appends the blocks of these rules, which must be ascending.
pub(crate) fn push_blocks<'a, K: Key>(rows: &mut Vec<[u32; 8]>, rules: impl Iterator<Item = &'a Flat<K>>) {
    let n = K::ADDRESS_DIMENSIONS;
    for (position, rule) in rules.enumerate() {
        let lane = position % LANES;
        if lane == 0 {
            push_padding::<K>(rows);
        }
        let start = rows.len() - Program::<K>::BLOCK_ROWS;
        let block = &mut rows[start..];
        for (d, row) in block[..2 * n].iter_mut().enumerate() {
            row[lane] = rule.span(d).low;
        }
        let host_bits = rule.lengths.map(|length| K::ADDRESS_BITS - u32::from(length));
        block[2 * n][lane] = host_bits[0]
            | host_bits[1] << 8
            | u32::from(rule.protocol.value()) << 16
            | u32::from(rule.protocol.mask()) << 24;
        let (source, destination) = (rule.span(2 * n), rule.span(2 * n + 1));
        block[2 * n + 1][lane] = source.low << 16 | destination.low;
        block[2 * n + 2][lane] = source.high << 16 | destination.high;
        block[2 * n + 3][lane] = rule.id;
    }
}

/// Appends a block without rules.
fn push_padding<K: Key>(rows: &mut Vec<[u32; 8]>) {
    rows.resize(rows.len() + Program::<K>::BLOCK_ROWS, [0; 8]);
    let start = rows.len() - 4;
    // The low port is above the high port, so only a packet without ports can match, and then the
    // rule says "none".
    rows[start + 1] = [u32::MAX; 8];
    rows[start + 3] = [u32::MAX; 8];
}
