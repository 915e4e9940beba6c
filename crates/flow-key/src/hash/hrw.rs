//! Highest random weight: every worker bids for every flow, and the highest bid wins [HRWTREE
//! §3.1].

/// The paper's modulus, 2³¹.
pub const MODULUS: u64 = 1 << 31;

/// Returns the weight of a worker for a flow's digest, below 2³¹.
///
/// `(A·((A·worker + B) xor digest) + B) mod 2³¹` with the constants of the BSD generator,
/// A = 1103515245 and B = 12345, as [HRWTREE §3.1] takes them from the original HRW proposal.
#[inline]
#[must_use]
pub const fn weight(worker: u32, digest: u32) -> u32 {
    const A: u64 = 1_103_515_245;
    const B: u64 = 12_345;
    let own = (A.wrapping_mul(worker as u64).wrapping_add(B)) ^ digest as u64;
    (A.wrapping_mul(own).wrapping_add(B) % MODULUS) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_those_of_the_formula() {
        // Computed with integers of any size.
        assert_eq!([0, 1, 2].map(|worker| weight(worker, 0)), [1_406_932_606, 377_401_575, 1_495_354_192]);
        assert_eq!(weight(3, 0x9E37_79B9), 1_891_721_342);
        assert_eq!(weight(u32::MAX, u32::MAX), 755_013_104);
    }

    #[test]
    fn flows_of_a_removed_worker_spread_evenly_over_the_others() {
        let best = |workers: &[u32], digest| {
            workers.iter().copied().max_by_key(|&w| (weight(w, digest), w)).expect("workers are not empty")
        };
        let (mut state, mut before, mut after) = (5, [0_u32; 4], [0_u32; 4]);
        for _ in 0..12_000 {
            let digest = crate::hash::fold::split_mix(&mut state) as u32;
            let first = best(&[0, 1, 2, 3], digest);
            before[first as usize] += 1;
            if first == 2 {
                after[best(&[0, 1, 3], digest) as usize] += 1;
            }
        }
        assert!(before.iter().all(|flows| (2_800..3_200).contains(flows)), "{before:?}");
        assert!([0, 1, 3].iter().all(|&w| (900..1_100).contains(&after[w])), "{after:?}");
    }
}
