//! Production and reference forms of the fully associative caches agree, and none is better than
//! the optimal one.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use flowloom_tcb_cache::reference::{build, misses_of_min};
use flowloom_tcb_cache::{Access, CacheSpec, Counts, Geometry, IndexFunction, Policy, Simulated, Trace};
use proptest::prelude::*;

fn sorted(mut keys: Vec<u64>) -> Vec<u64> {
    keys.sort_unstable();
    keys
}

/// Accesses with some locality: a key near recent ones, or any key.
fn accesses(keys: u64) -> impl Strategy<Value = Vec<Access>> {
    prop::collection::vec((0..keys, 0_u64..4, 0_u64..400, 0_u32..9), 1..600).prop_map(move |steps| {
        let mut now = 0;
        let mut base = 0;
        steps
            .into_iter()
            .map(|(key, near, gap, close)| {
                now += gap;
                let key = if near == 0 { key } else { (base + near) % keys };
                base = key;
                let access = Access::new(key * 0x1_0007, now);
                if close == 0 { access.closing() } else { access }
            })
            .collect()
    })
}

fn spec(policy: Policy, lines: u64, drops_closed: bool) -> CacheSpec {
    let geometry = Geometry::new(64 * lines, 64, 1, u32::try_from(lines).unwrap()).unwrap();
    CacheSpec { geometry, index: IndexFunction::Modulo, policy, drops_closed, seed: 1 }
}

fn finished(trace: &Trace, spec: &CacheSpec) -> Counts {
    match trace.simulate(spec, None, &|| false).unwrap() {
        Simulated::Finished(counts) => counts,
        Simulated::Stopped => panic!("the run was not stopped"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn production_and_reference_agree(lines in 1_u64..40, drops: bool, accesses in accesses(90)) {
        for policy in Policy::ALL.into_iter().filter(|p| p.is_fully_associative() && !p.needs_future()) {
            let spec = spec(policy, lines, drops);
            let (mut quick, mut plain) = (spec.build().unwrap(), build(&spec).unwrap());
            for (number, access) in accesses.iter().enumerate() {
                quick.run(&[*access]);
                plain.run(&[*access]);
                prop_assert_eq!(quick.counts(), plain.counts(), "{} of {} at {}", policy, lines, number);
                if number % 16 == 0 {
                    let (quick, plain) = (sorted(quick.resident()), sorted(plain.resident()));
                    prop_assert_eq!(quick, plain, "{} of {} at {}", policy, lines, number);
                }
            }
            let keys = sorted(quick.resident());
            prop_assert!(keys.len() as u64 <= lines, "{}", policy);
            prop_assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "{}", policy);
            let counts = quick.counts();
            let filled = counts.misses - counts.not_filled;
            prop_assert_eq!(filled, counts.evictions + counts.closed + keys.len() as u64, "{}", policy);
        }
    }

    #[test]
    fn min_evicts_as_beladys_algorithm_at_every_access(lines in 1_u64..12, drops: bool, accesses in accesses(30)) {
        let missed = misses_of_min(&accesses, usize::try_from(lines).unwrap(), drops);
        let spec = spec(Policy::Min, lines, drops);
        let uses = Trace::new(accesses.clone(), 0).next_uses(drops).unwrap();
        let mut before = 0;
        for (position, miss) in missed.iter().enumerate() {
            let trace = Trace::new(accesses.clone(), position);
            let Simulated::Finished(rest) = trace.simulate(&spec, Some(&uses), &|| false).unwrap() else {
                panic!("the run was not stopped")
            };
            let misses = missed[position..].iter().filter(|miss| **miss).count() as u64;
            prop_assert_eq!(rest.misses, misses, "from access {}", position);
            before += u64::from(*miss);
        }
        prop_assert_eq!(before, missed.iter().filter(|miss| **miss).count() as u64);
    }

    #[test]
    fn min_has_the_fewest_misses(banks in 1_u32..3, drops: bool, accesses in accesses(200)) {
        let geometry = Geometry::new(64 * 64, 64, banks, 4).unwrap();
        let trace = Trace::new(accesses, 0);
        let misses = |policy, drops_closed| {
            let spec = CacheSpec { geometry, policy, drops_closed, ..CacheSpec::PAPER };
            finished(&trace, &spec)
        };
        let best = misses(Policy::Min, drops).misses;
        for policy in Policy::ALL {
            if policy.always_drops_closed() && !drops {
                continue;
            }
            let misses = misses(policy, drops).misses;
            prop_assert!(best <= misses, "{} has {} misses, MIN {}", policy, misses, best);
        }
        // In one bank, evicting the latest next use is optimal for each set.
        if banks == 1 {
            let greedy = misses(Policy::GreedyOpt, drops).misses;
            for policy in Policy::ALL {
                let spec = CacheSpec { geometry, policy, drops_closed: drops, ..CacheSpec::PAPER };
                let is_own_set = matches!(
                    policy,
                    Policy::Lru | Policy::Fifo | Policy::Enru | Policy::RoundRobin | Policy::AccessCount { .. }
                        | Policy::Timestamp { .. } | Policy::NoMigrate { .. } | Policy::Srrip
                        | Policy::Drrip | Policy::Ship
                );
                if is_own_set {
                    prop_assert!(greedy <= finished(&trace, &spec).misses, "{}", policy);
                }
            }
        }
    }

    #[test]
    fn farthest_next_use_in_one_set_equals_min(ways in 1_u32..20, drops: bool, accesses in accesses(60)) {
        let trace = Trace::new(accesses, 0);
        let min = spec(Policy::Min, u64::from(ways), drops);
        let greedy = CacheSpec { policy: Policy::GreedyOpt, ..min };
        prop_assert_eq!(finished(&trace, &min).misses, finished(&trace, &greedy).misses);
        let lru = CacheSpec { policy: Policy::Lru, ..min };
        let full = CacheSpec { policy: Policy::FullLru, ..min };
        prop_assert_eq!(finished(&trace, &lru), finished(&trace, &full));
    }
}
