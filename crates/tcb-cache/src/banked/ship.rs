//! Signature-based hit prediction over re-reference intervals: a line enters as "distant" if
//! earlier lines of its network were evicted before they were ever hit.
//!
//! The signature is the client's /24 network, folded to 14 bits; each signature has a three-bit
//! counter. A processor would use the program counter, which does not exist for packets.

use flowloom_flow_key::hash::fold::fold;

use super::cache::Replacement;
use super::miss::Miss;
use super::srrip::{DISTANT, LONG, Srrip};

const SIGNATURE_BITS: u32 = 14;
const COUNTER_MAX: u8 = 7;

#[derive(Clone, Debug)]
pub(crate) struct Ship {
    inner: Srrip,
    signatures: Vec<u16>,
    was_hit: Vec<bool>,
    counters: Vec<u8>,
}

impl Ship {
    pub(crate) fn new(lines: usize) -> Self {
        Self {
            inner: Srrip::new(lines),
            signatures: vec![0; lines],
            was_hit: vec![false; lines],
            counters: vec![1; 1 << SIGNATURE_BITS],
        }
    }
}

/// Returns the signature of a session.
pub(crate) fn signature(key: u64) -> u16 {
    (fold(key >> 24 | 1 << 63, 0x9E37_79B9_7F4A_7C15) >> (64 - SIGNATURE_BITS)) as u16
}

impl Replacement for Ship {
    #[inline(always)]
    fn hit(&mut self, line: usize) {
        self.inner.intervals[line] = 0;
        self.was_hit[line] = true;
        let counter = &mut self.counters[usize::from(self.signatures[line])];
        *counter = (*counter + 1).min(COUNTER_MAX);
    }

    #[inline(always)]
    fn place<const B: usize, const W: usize>(&mut self, miss: &mut Miss<'_, B, W>) -> usize {
        let line = self.inner.victim(miss);
        if !miss.lines.is_empty(line) && !self.was_hit[line] {
            let counter = &mut self.counters[usize::from(self.signatures[line])];
            *counter = counter.saturating_sub(1);
        }
        let signature = signature(miss.key);
        self.signatures[line] = signature;
        self.was_hit[line] = false;
        self.inner.intervals[line] =
            if self.counters[usize::from(signature)] == 0 { DISTANT } else { LONG };
        line
    }
}
