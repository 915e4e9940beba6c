//! Measures a rule set that changes during classification: the delay until lookups see a change,
//! and the cost of pending changes.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use flowloom::classifier::headers::{Traffic, headers};
use flowloom::classifier::live::{Live, LiveId, LiveMatch};
use flowloom::classifier::synth::{self, Profile};
use flowloom::classifier::{Classifier, ClassifierBuilder, KeyV4, Match, Rule, RuleSet};
use flowloom_measure::clock::wall_ns;
use flowloom_measure::{RatioRow, ResultRow, Rounds, Samples};

use crate::goal::{Clock, JudgedReport, JudgedResult, JudgedRow};

/// Number of pending changes.
const PENDING: usize = 64;
/// The maximum delay of a change in nanoseconds, at the 99th percentile.
const VISIBLE_NS: f64 = 10_000.0;
/// The minimum rate with pending changes: they may cost 15 %.
const RATE_GOAL: f64 = 0.85;
/// Number of lookups of each key per round; during the first lookup, the caches contain the set of
/// another variant.
const PASSES: usize = 12;

/// Runs both measurements.
///
/// # Errors
///
/// Returns an error if the set cannot be built or changed.
pub fn run(rules: usize, rounds: usize, count: usize, report: &mut JudgedReport) -> Result<()> {
    let set = synth::rules(Profile::Acl, rules, 1, false)?;
    let more = synth::rules(Profile::Acl, 4 * PENDING, 99, false)?;
    let keys: Vec<KeyV4> = headers(&set, Traffic::MISSES, count, 42);
    let live = Live::new(&set, ClassifierBuilder::new())?;
    changes(&live, more.rules(), &keys, rules as u64, report)?;
    live.rebuild()?;
    let given = Given { more: &more.rules()[..PENDING], keys: &keys, rounds };
    // The values are positions, which loaders use by default, or values that are unrelated to the
    // position.
    given.rates("the rules' places", &set, report)?;
    given.rates("any values", &with_any_values(&set)?, report)
}

/// Returns the rules with distinct values in random order.
fn with_any_values(set: &RuleSet) -> Result<RuleSet> {
    let value = |place: u32| (place ^ 0x5A5A_5A5A).wrapping_mul(0x9E37_79B1);
    let rules = (0..).zip(set.rules()).map(|(place, rule)| Rule { value: value(place), ..*rule });
    Ok(RuleSet::new(rules.collect())?)
}

/// Parameters of the rate measurement.
struct Given<'a> {
    more: &'a [Rule],
    keys: &'a [KeyV4],
    rounds: usize,
}

impl Given<'_> {
    /// Times lookups in sets of the same size. Pending rules are new ones, after all others.
    fn rates(&self, values: &str, set: &RuleSet, report: &mut JudgedReport) -> Result<()> {
        // All variants share a classifier, because separate ones would not fit into the caches.
        let idle = Live::new(set, ClassifierBuilder::new())?;
        let pend = |settle: bool| -> Result<Live> {
            let live = idle.clone();
            for rule in self.more {
                live.insert(Rule { priority: -1, ..*rule })?;
            }
            if settle {
                live.settle()?;
            }
            Ok(live)
        };
        let plain = ClassifierBuilder::new().build(set)?;
        let table: Vec<u32> = set.rules().iter().map(|rule| rule.value).chain([0]).collect();
        let (idle, listed, settled) =
            (Live::new(set, ClassifierBuilder::new())?, pend(false)?, pend(true)?);
        let removed = Live::new(set, ClassifierBuilder::new())?;
        for (id, _) in removed.rules().into_iter().step_by((set.len() / PENDING).max(1)).take(PENDING) {
            removed.remove(id)?;
        }
        removed.settle()?;
        let keys = self.keys;
        let outcome = Rounds::new(self.rounds)
            .variant("classifier", || plainly(&plain, keys))
            .variant("classifier and a table of values", || with_values(&plain, &table, keys))
            .variant("live, nothing waits", || alive(&idle, keys))
            .variant("live, 64 rules pending", || alive(&listed, keys))
            .variant("live, 64 rules settled", || alive(&settled, keys))
            .variant("live, 64 rules removed and settled", || alive(&removed, keys))
            .run()?;
        let (items, size) = ((PASSES * keys.len()) as u64, set.len() as u64);
        for samples in &outcome.samples {
            let row = ResultRow::new(format!("live lookups, {values}"), size, items, samples);
            report.results.push(JudgedResult::new(row, None));
        }
        // The reference for the cost of pending changes is a set without any; the reference for the
        // cost of a changeable set is a separate table.
        if let [plain, table, idle, waiting @ ..] = &outcome.samples[..] {
            let mut judge = |rival: &Samples, live: &Samples, goal| {
                let row =
                    RatioRow::new(format!("live lookups, {values}, {}", live.name), size, rival, live);
                let row = row.with_items(items, &rival.cpu_ns, &live.cpu_ns);
                report.ratios.push(JudgedRow::new(row, Clock::Cpu, goal));
            };
            for live in waiting {
                judge(idle, live, Some(RATE_GOAL));
                judge(table, live, Some(RATE_GOAL));
                judge(plain, live, None);
            }
            judge(table, idle, Some(RATE_GOAL));
            judge(plain, idle, None);
        }
        Ok(())
    }
}

/// Returns batches of the keys, repeated endlessly.
fn again(keys: &[KeyV4]) -> impl Iterator<Item = &[KeyV4]> {
    (0..PASSES).flat_map(|_| keys.chunks(256))
}

fn plainly(classifier: &Classifier, keys: &[KeyV4]) -> usize {
    let mut found = [Match::NONE; 256];
    for keys in again(keys) {
        classifier.classify_batch(keys, &mut found[..keys.len()]);
        std::hint::black_box(&found);
    }
    PASSES * keys.len()
}

/// Looks up like a user of the classifier whose rules have separate values.
fn with_values(classifier: &Classifier, values: &[u32], keys: &[KeyV4]) -> usize {
    let mut found = [Match::NONE; 256];
    let mut reported = [None; 256];
    for keys in again(keys) {
        let found = &mut found[..keys.len()];
        classifier.classify_batch(keys, found);
        for (reported, found) in reported.iter_mut().zip(&*found) {
            *reported = found.rule().map(|rule| (rule, values[rule.index()]));
        }
        std::hint::black_box(&reported);
    }
    PASSES * keys.len()
}

fn alive(live: &Live, keys: &[KeyV4]) -> usize {
    let mut reader = live.reader();
    let mut found = [LiveMatch::default(); 256];
    for keys in again(keys) {
        reader.classify_batch(keys, &mut found[..keys.len()]);
        std::hint::black_box(&found);
    }
    PASSES * keys.len()
}

/// Times changes while another thread classifies: from the call to its return, after which every
/// lookup sees the change.
fn changes(live: &Live, more: &[Rule], keys: &[KeyV4], size: u64, report: &mut JudgedReport) -> Result<()> {
    let stop = AtomicBool::new(false);
    let (mut inserts, mut removals) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| -> Result<()> {
        let reading = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                alive(live, &keys[..keys.len().min(4096)]);
            }
        });
        let changed = (|| -> Result<()> {
            for rules in more.chunks(PENDING) {
                let mut ids: Vec<LiveId> = Vec::new();
                for &rule in rules {
                    let begun = wall_ns();
                    ids.push(live.insert(rule)?);
                    inserts.push(wall_ns() - begun);
                }
                for id in ids {
                    let begun = wall_ns();
                    live.remove(id)?;
                    removals.push(wall_ns() - begun);
                }
                live.settle()?;
            }
            Ok(())
        })();
        stop.store(true, Ordering::Relaxed);
        drop(reading.join());
        changed
    })?;
    for (variant, times) in [("insert", inserts), ("remove", removals)] {
        report.results.push(JudgedResult::new(percentile(variant, size, times), Some(VISIBLE_NS)));
    }
    Ok(())
}

/// Returns a row with the 99th percentile, and with the median in place of the minimum.
#[expect(clippy::cast_precision_loss, reason = "nanoseconds, for readers")]
fn percentile(variant: &str, size: u64, mut times: Vec<u64>) -> ResultRow {
    times.sort_unstable();
    let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or(0) as f64;
    ResultRow {
        variant: variant.to_owned(),
        work: String::from("change until seen, 99th percentile on the wall (min: median)"),
        size,
        unit: String::from("ns"),
        n: times.len(),
        min: at(50),
        median: at(99),
        p5: at(5),
        p95: at(95),
        samples: times.iter().map(|&time| time as f64).collect(),
        line_round_trip_ns: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_measure::{Host, rows::Tool};

    #[test]
    fn a_small_set_is_changed_and_timed() {
        let tool = Tool { version: String::new(), git: String::new() };
        let mut report = JudgedReport::new(tool, Host::read("", &[]), serde_json::Value::Null);
        run(300, 1, 512, &mut report).unwrap();
        assert_eq!((report.results.len(), report.ratios.len()), (14, 22));
    }
}
