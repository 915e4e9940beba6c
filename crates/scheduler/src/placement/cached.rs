//! Caches the decisions of a policy that uses only the digest.
//!
//! The paper's table stores weights, 256 bytes per flow that must still be compared. This table
//! stores the result of the comparison, eight bytes per flow.

use flowloom_cpu::prefetch;

use super::{
    ByDigest, Decision, LoadView, OrderGuarantee, Placement, SetupError, WorkItem, WorkerId, bounded,
};

/// Caches the worker of recent digests. Decides exactly like the wrapped policy.
#[derive(Clone)]
pub struct Cached<P> {
    policy: P,
    /// The digest is in the upper bits, the worker in the lower bits; a digest that is not cached
    /// matches no line.
    lines: Vec<u64>,
    mask: usize,
}

impl<P: core::fmt::Debug> core::fmt::Debug for Cached<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Cached")
            .field("policy", &self.policy)
            .field("lines", &self.lines.len())
            .finish_non_exhaustive()
    }
}

/// Marks an empty line; no worker has this number.
const EMPTY: u64 = u64::MAX;

impl<P: ByDigest> Cached<P> {
    /// Default number of lines, as a power of two: 512 KiB.
    pub const BITS: u32 = 16;

    /// Returns the policy with a cache of 2^`bits` decisions of eight bytes.
    ///
    /// # Errors
    ///
    /// Returns [`SetupError::Parameter`] for more than 2²⁴ lines.
    pub fn new(policy: P, bits: u32) -> Result<Self, SetupError> {
        bounded("memory bits", u64::from(bits), 0, 24)?;
        Ok(Self { policy, lines: vec![EMPTY; 1 << bits], mask: (1 << bits) - 1 })
    }
}

impl<P: ByDigest + Placement> Placement for Cached<P> {
    fn place(&mut self, items: &[WorkItem], _load: &LoadView<'_>, decisions: &mut [Decision]) {
        for item in items {
            prefetch::read_at(&self.lines, item.digest as usize & self.mask);
        }
        for (&item, decision) in items.iter().zip(decisions) {
            let line = &mut self.lines[item.digest as usize & self.mask];
            if (*line >> 32) as u32 != item.digest || *line == EMPTY {
                *line = (u64::from(item.digest) << 32) | u64::from(self.policy.worker(item.digest).0);
            }
            *decision = Decision::To(WorkerId(*line as u16));
        }
    }

    fn workers(&self) -> Option<usize> {
        self.policy.workers()
    }

    fn order(&self) -> OrderGuarantee {
        self.policy.order()
    }

    fn name(&self) -> &'static str {
        self.policy.cached_name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HrwFlat, HrwTree, WorkerCount, laws};
    use flowloom_flow_key::hash::fold::split_mix;

    #[test]
    fn cached_policy_passes_the_law_suite() {
        let workers = WorkerCount::new(63).unwrap();
        laws::check(&mut Cached::new(HrwFlat::new(workers), 8).unwrap(), workers, 1);
        let tree = HrwTree::new(&"8x2x4,-0".parse().unwrap());
        laws::check(&mut Cached::new(tree, 8).unwrap(), workers, 1);
    }

    #[test]
    fn cached_policy_decides_as_the_wrapped_policy() {
        let plain = HrwTree::new(&"8x2x4".parse().unwrap());
        let mut cached = Cached::new(plain.clone(), 4).unwrap();
        let mut state = 2;
        for _ in 0..10_000 {
            // Digests that repeat, digests that collide in the cache, and the largest digest.
            let word = split_mix(&mut state);
            let digest = if word.is_multiple_of(5) { u32::MAX } else { (word % 97) as u32 * 16 };
            let mut decision = [Decision::Drop];
            cached.place(&[WorkItem { digest, bytes: 1 }], &LoadView::idle(), &mut decision);
            assert_eq!(decision[0], Decision::To(plain.worker(digest)));
        }
    }
}
