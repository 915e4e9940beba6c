//! Direct hash: a flow's digest determines its worker permanently [FLOWNP §5.2.2].
//!
//! It has no state, and preserves the order within a flow by construction. It cannot move a heavy
//! flow away from its worker.

use super::{Decision, LoadView, OrderGuarantee, Placement, WorkItem, WorkerCount, WorkerId};

/// Places each flow by its digest.
///
/// The paper takes a CRC modulo the number of threads. Here, the digest is keyed and scaled by
/// multiplication, which gives the same spread without a division and prevents attackers from
/// targeting one worker.
#[derive(Clone, Copy, Debug)]
pub struct DirectHash {
    workers: WorkerCount,
}

impl DirectHash {
    /// Returns the policy over a number of workers.
    #[must_use]
    pub const fn new(workers: WorkerCount) -> Self {
        Self { workers }
    }

    #[inline]
    fn worker(self, digest: u32) -> WorkerId {
        let scaled = (u64::from(digest) * u64::from(self.workers.get())) >> 32;
        // The result is below the worker count, which is a u16.
        WorkerId((scaled & 0xFFFF) as u16)
    }
}

impl Placement for DirectHash {
    fn place(&mut self, items: &[WorkItem], _load: &LoadView<'_>, decisions: &mut [Decision]) {
        for (&item, decision) in items.iter().zip(decisions) {
            *decision = Decision::To(self.worker(item.digest));
        }
    }

    fn workers(&self) -> Option<usize> {
        Some(self.workers.get().into())
    }

    fn order(&self) -> OrderGuarantee {
        OrderGuarantee::Home
    }

    fn name(&self) -> &'static str {
        "dh"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_digest_stays_below_the_count() {
        let policy = DirectHash::new(WorkerCount::new(1024).unwrap());
        assert_eq!(policy.worker(u32::MAX).index(), 1023);
        assert_eq!(policy.worker(0).index(), 0);
    }
}
