//! Rounds grouped by the distance of the CPUs ([`cpu_distance`](crate::cpu_distance)).
//!
//! A host moves the CPUs of a virtual machine during a run, and a median over near and far rounds
//! describes neither. The groups are derived from the round-trip times: in order of size, a time
//! that is at least half as long again as the previous one starts another group. A round belongs to
//! a group if the round trips before and after it do.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use crate::rounds::Samples;
use crate::stats::Summary;

/// The ratio of two round-trip times from which they count as different distances. On an AMD EPYC
/// (Zen 4), round trips take 31 to 38 ns (probably between threads of one core), 62 to 75 ns if
/// cores share a cache, and 301 to 352 ns if they do not. Times within a group differ by at most a
/// quarter, and times of different groups by a factor of at least 1.6.
const APART: f64 = 1.5;

/// The suffixes of a row's work if there are two groups.
const SUFFIXES: [&str; 2] = [", near", ", far"];

/// The distances at which rounds were run.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Distances {
    /// Round-trip times of a cache line before the first round and after each, in nanoseconds;
    /// `None` if one could not be measured.
    pub line_round_trips_ns: Vec<Option<f64>>,
    /// The kinds of rounds that have rows, the nearest first: the two most frequent ones, one, or
    /// none.
    pub kinds: Vec<DistanceKind>,
    /// Number of rounds during which the distance changed.
    pub changed: usize,
    /// Number of rounds at other distances than those of `kinds`.
    pub elsewhere: usize,
    /// Number of rounds before or after which the line could not be measured.
    pub unmeasured: usize,
}

/// Rounds at one distance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DistanceKind {
    /// The median of the round trips of this kind, in nanoseconds.
    pub line_round_trip_ns: f64,
    /// The shortest time, in nanoseconds.
    pub least_ns: f64,
    /// The longest time, in nanoseconds.
    pub most_ns: f64,
    /// The rounds, numbered from 0.
    pub rounds: Vec<usize>,
}

/// Times of rounds of one kind, as reported.
#[derive(Clone, Debug, PartialEq)]
pub struct Sorted {
    /// The suffix of a row's work: `, near` or `, far` if both exist.
    pub suffix: &'static str,
    /// The round-trip time, if known.
    pub line_round_trip_ns: Option<f64>,
    /// The times.
    pub samples: Vec<Samples>,
}

/// Returns whether two round-trip times belong to different distances.
pub fn is_apart(one_ns: f64, other_ns: f64) -> bool {
    one_ns.max(other_ns) >= APART * one_ns.min(other_ns)
}

/// Returns a row's work without the suffix, because another run may have only far rounds.
pub fn without_kind(work: &str) -> &str {
    SUFFIXES.iter().find_map(|suffix| work.strip_suffix(suffix)).unwrap_or(work)
}

impl Distances {
    /// Sorts rounds by the trips that were measured before the first one and after each.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_measure::distances::Distances;
    /// let found = Distances::from_round_trips(&[60.0, 62.0, 320.0, 310.0, 330.0].map(Some));
    /// assert_eq!(found.kinds[0].rounds, [0]);
    /// assert_eq!((&found.kinds[1].rounds[..], found.changed), (&[2, 3][..], 1));
    /// ```
    pub fn from_round_trips(line_round_trips_ns: &[Option<f64>]) -> Self {
        let mut trips: Vec<f64> = line_round_trips_ns.iter().flatten().copied().collect();
        trips.sort_by(f64::total_cmp);
        let groups: Vec<&[f64]> = trips.chunk_by(|&less, &more| !is_apart(less, more)).collect();
        let group = |trip: f64| groups.iter().position(|group| group.contains(&trip));
        let mut found = Self { line_round_trips_ns: line_round_trips_ns.to_vec(), ..Self::default() };
        let mut rounds = vec![Vec::new(); groups.len()];
        for (round, around) in line_round_trips_ns.windows(2).enumerate() {
            match around.iter().map(|&trip| group(trip?)).collect::<Option<Vec<_>>>().as_deref() {
                None => found.unmeasured += 1,
                Some(&[before, after]) if before == after => rounds[before].push(round),
                Some(_) => found.changed += 1,
            }
        }
        let kinds = groups.iter().zip(rounds).filter(|(_, rounds)| !rounds.is_empty());
        found.kinds = kinds
            .map(|(trips, rounds)| {
                let Summary { min, median, max, .. } = Summary::from_samples(trips.iter().copied());
                DistanceKind { line_round_trip_ns: median, least_ns: min, most_ns: max, rounds }
            })
            .collect();
        found.kinds.sort_by_key(|kind| Reverse(kind.rounds.len()));
        found.elsewhere = found.kinds.drain(2.min(found.kinds.len())..).map(|kind| kind.rounds.len()).sum();
        found.kinds.sort_by(|one, other| one.least_ns.total_cmp(&other.least_ns));
        found
    }

    /// Returns the times of each kind; if no round belongs to a kind, returns all times unchanged.
    pub fn sort(&self, samples: &[Samples]) -> Vec<Sorted> {
        let suffixes = match self.kinds.as_slice() {
            [] => {
                return vec![Sorted { suffix: "", line_round_trip_ns: None, samples: samples.to_vec() }];
            }
            [_] => [""].as_slice(),
            _ => &SUFFIXES,
        };
        let sorted = self.kinds.iter().zip(suffixes).map(|(kind, suffix)| Sorted {
            suffix,
            line_round_trip_ns: Some(kind.line_round_trip_ns),
            samples: samples.iter().map(|samples| samples.of_rounds(&kind.rounds)).collect(),
        });
        sorted.collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn distances(trips: &[f64]) -> Distances {
        Distances::from_round_trips(&trips.iter().copied().map(Some).collect::<Vec<_>>())
    }

    fn rounds(found: &Distances) -> Vec<&[usize]> {
        found.kinds.iter().map(|kind| &kind.rounds[..]).collect()
    }

    #[test]
    fn no_rounds_have_no_distance_class() {
        for trips in [&[][..], &[60.0]] {
            let found = distances(trips);
            assert!(found.kinds.is_empty() && found.changed + found.elsewhere + found.unmeasured == 0);
        }
    }

    #[test]
    fn similar_rounds_form_one_class() {
        let found = distances(&[60.0, 66.0, 63.0]);
        assert_eq!(rounds(&found), [&[0, 1]]);
        let kind = &found.kinds[0];
        assert_eq!((kind.least_ns, kind.line_round_trip_ns, kind.most_ns), (60.0, 63.0, 66.0));
        assert_eq!(rounds(&distances(&[60.0, 60.0])), [&[0]], "a single round is of a kind too");
    }

    #[test]
    fn near_and_far_rounds_are_separated_and_changes_counted() {
        let found = distances(&[310.0, 340.0, 62.0, 60.0, 66.0, 330.0]);
        assert_eq!((rounds(&found), found.changed), (vec![&[2, 3][..], &[0]], 2));
        let found = distances(&[60.0, 320.0, 60.0]);
        assert_eq!((found.kinds.len(), found.changed), (0, 2), "no round is of a kind");
    }

    #[test]
    fn slow_drift_forms_one_class() {
        let found = distances(&[60.0, 80.0, 110.0, 150.0, 210.0, 300.0]);
        assert_eq!(rounds(&found), [&[0, 1, 2, 3, 4]]);
        assert_eq!((found.kinds[0].least_ns, found.kinds[0].most_ns), (60.0, 300.0));
    }

    #[test]
    fn threads_of_a_core_differ_from_cores_that_share_a_cache() {
        let found = distances(&[32.0, 38.0, 37.0, 30.5, 33.5, 33.5, 308.5, 64.0, 69.0, 65.0]);
        assert_eq!((rounds(&found), found.changed), (vec![&[0, 1, 2, 3, 4][..], &[7, 8]], 2));
    }

    #[test]
    fn two_of_many_classes_get_rows() {
        let found = distances(&[20.0, 20.0, 320.0, 320.0, 320.0, 60.0, 60.0, 60.0, 60.0]);
        assert_eq!((rounds(&found), found.elsewhere, found.changed), (vec![&[5, 6, 7][..], &[2, 3]], 1, 2));
    }

    #[test]
    fn failed_measurement_invalidates_two_rounds() {
        let found = Distances::from_round_trips(&[Some(60.0), Some(61.0), None, Some(62.0), Some(63.0)]);
        assert_eq!((rounds(&found), found.unmeasured), (vec![&[0, 3][..]], 2));
        let found = distances(&[60.0, 61.0, 5000.0, 62.0, 63.0]);
        assert_eq!((rounds(&found), found.changed), (vec![&[0, 3][..]], 2));
        let found = Distances::from_round_trips(&[None; 4]);
        assert_eq!((found.kinds.len(), found.unmeasured), (0, 3));
    }

    #[test]
    fn times_are_sorted_with_their_rounds() {
        let samples = [Samples { name: "a".into(), cpu_ns: vec![1, 2, 3, 4], wall_ns: vec![5, 6, 7, 8] }];
        let sorted = distances(&[60.0, 62.0, 320.0, 310.0, 330.0]).sort(&samples);
        let times = |of: &Sorted| (of.suffix, of.samples[0].cpu_ns.clone(), of.samples[0].wall_ns.clone());
        assert_eq!(times(&sorted[0]), (", near", vec![1], vec![5]));
        assert_eq!(times(&sorted[1]), (", far", vec![3, 4], vec![7, 8]));
        assert_eq!((sorted[0].line_round_trip_ns, sorted[1].line_round_trip_ns), (Some(61.0), Some(320.0)));
        let [all] = &distances(&[60.0; 5]).sort(&samples)[..] else { panic!("one kind") };
        assert_eq!((all.suffix, all.line_round_trip_ns, &all.samples[..]), ("", Some(60.0), &samples[..]));
        let [all] = &Distances::from_round_trips(&[None; 5]).sort(&samples)[..] else {
            panic!("nothing is known")
        };
        assert_eq!((all.suffix, all.line_round_trip_ns, &all.samples[..]), ("", None, &samples[..]));
    }

    proptest! {
        #[test]
        fn every_round_has_a_class_and_classes_do_not_overlap(
            trips in prop::collection::vec(prop::option::of(prop_oneof![15.0..25.0, 50.0..70.0, 300.0..340.0, 10.0..5000.0_f64]), 0..30),
            power in -3..4,
        ) {
            let found = Distances::from_round_trips(&trips);
            let mut all: Vec<usize> = found.kinds.iter().flat_map(|kind| kind.rounds.clone()).collect();
            all.sort_unstable();
            all.dedup();
            let known = all.len() + found.changed + found.elsewhere + found.unmeasured;
            prop_assert_eq!(known, trips.len().saturating_sub(1));
            for kind in &found.kinds {
                for trip in kind.rounds.iter().flat_map(|&round| [trips[round], trips[round + 1]]) {
                    prop_assert!(trip.is_some_and(|trip| kind.least_ns <= trip && trip <= kind.most_ns));
                }
            }
            if let [near, far] = &found.kinds[..] {
                prop_assert!(is_apart(near.most_ns, far.least_ns) && near.most_ns < far.least_ns);
            }
            let scaled: Vec<_> = trips.iter().map(|trip| trip.map(|trip| trip * 2_f64.powi(power))).collect();
            let scaled = Distances::from_round_trips(&scaled);
            prop_assert_eq!(rounds(&scaled), rounds(&found), "only ratios count");
        }
    }
}
