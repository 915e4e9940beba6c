//! Highest random weight over all workers at once [HRWTREE §3.1].
//!
//! Every worker bids for a flow with a pseudo-random weight, and the highest bid wins. When a
//! worker joins or leaves, only its own flows move. Workers are numbered from zero, so only the
//! last one can join or leave. If another one leaves, the last one takes its number.

use flowloom_flow_key::hash::hrw::weight;

use super::{ByDigest, Decision, LoadView, OrderGuarantee, Placement, WorkItem, WorkerCount, WorkerId};

/// Places each flow on the worker with the highest weight for it. Costs one weight per worker and
/// packet.
///
/// # Examples
///
/// The example has servers behind a load balancer, one of which leaves from the middle. The last
/// server gets its number, so only the flows of these two move:
///
/// ```
/// use flowloom_scheduler::{ByDigest, HrwFlat, WorkerCount};
///
/// let mut servers = vec!["berlin", "lagos", "lima", "oslo"];
/// let before = HrwFlat::new(WorkerCount::new(servers.len())?);
/// let digests = (0..10_000_u32).map(|flow| flow.wrapping_mul(0x9E37_79B9));
/// let was: Vec<&str> =
///     digests.clone().map(|digest| servers[before.worker(digest).index()]).collect();
///
/// servers.swap_remove(1);
/// let after = HrwFlat::new(WorkerCount::new(servers.len())?);
/// for (digest, was) in digests.zip(was) {
///     let is = servers[after.worker(digest).index()];
///     assert!(is == was || was == "lagos" || was == "oslo");
/// }
/// # Ok::<(), flowloom_scheduler::SetupError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct HrwFlat {
    workers: WorkerCount,
}

impl HrwFlat {
    /// Returns the policy over a number of workers.
    #[must_use]
    pub const fn new(workers: WorkerCount) -> Self {
        Self { workers }
    }
}

impl ByDigest for HrwFlat {
    #[inline]
    fn worker(&self, digest: u32) -> WorkerId {
        // The paper's digest has 31 bits.
        let digest = digest >> 1;
        let mut best = (weight(0, digest), 0);
        for worker in 1..self.workers.get() {
            let bid = weight(u32::from(worker), digest);
            // Ties go to the lower number, because a scan from the left finds it first.
            if bid > best.0 {
                best = (bid, worker);
            }
        }
        WorkerId(best.1)
    }

    fn cached_name(&self) -> &'static str {
        "hrw-cached"
    }
}

impl Placement for HrwFlat {
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
        "hrw"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_with_the_highest_31_bit_weight_gets_the_flow() {
        for workers in [2, 7, 64] {
            let policy = HrwFlat::new(WorkerCount::new(workers).unwrap());
            for digest in (0..2000_u32).map(|flow| flow.wrapping_mul(0x9E37_79B9)) {
                let highest = (0..workers as u32).max_by_key(|&worker| weight(worker, digest >> 1));
                assert_eq!(Some(u32::from(policy.worker(digest).0)), highest, "{digest:#x} of {workers}");
            }
        }
    }

    #[test]
    fn additional_worker_moves_no_flow_between_the_others() {
        let (four, five) =
            (HrwFlat::new(WorkerCount::new(4).unwrap()), HrwFlat::new(WorkerCount::new(5).unwrap()));
        let mut moved = 0_u32;
        for i in 0..20_000_u32 {
            let digest = i.wrapping_mul(0x9E37_79B9);
            let (before, after) = (four.worker(digest), five.worker(digest));
            if before != after {
                assert_eq!(after.index(), 4);
                moved += 1;
            }
        }
        assert!((3_000..5_000).contains(&moved), "about a fifth moves, not {moved} of 20000");
    }
}
