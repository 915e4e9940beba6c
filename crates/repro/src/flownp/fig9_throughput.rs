//! Throughput at the worst case [FLOWNP §6.2.3, Fig. 9].
//!
//! The network processor is not available, so this item compares the order of the three algorithms
//! on one thread, with headers on the longest paths. Lookups process one packet at a time, like
//! those of the paper's threads. Batches, which hide loads as the paper's threads do together, are
//! shown beside them.

use std::hint::black_box;

use flowloom::classifier::aggrecuts::{AggreCuts, Stride};
use flowloom::classifier::headers::{Traffic, headers};
use flowloom::classifier::{AnyKey, KeyV4, Match};
use flowloom_measure::Rounds;
use flowloom_measure::chart::{Axis, Chart, Series};

use super::fig7_accesses::{HICUTS_SHARING, hicuts, hicuts_sharing};
use super::rule_sets::{SHARING, aggrecuts, rival, sharing, stand_ins};
use crate::experiment::{Agreement, Context, Fidelity, Item, ItemError, Outcome, Scale, Value};
use crate::timing::{FASTER, compare};
use crate::variation::BOTH_RUN;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "flownp/fig9_throughput",
    place: "§6.2.3, Fig. 9",
    claim: "at worst-case depth AggreCuts-8 reaches nearly 9 Gbps, AggreCuts-4 6, HiCuts less than 2 and falling with the rules",
    numbers: "text of §6.2.3: “nearly 9” as 9, “stable 6” as 6, “less than 2” as a limit",
    fidelity: &[Fidelity::Measured],
    guesses: &[SHARING, HICUTS_SHARING],
    unswitched: BOTH_RUN,
    run,
    ..Item::PLAIN
};

const SERIES: [&str; 5] =
    ["AggreCuts-8", "AggreCuts-4", "HiCuts (8, 4)", "AggreCuts-8, batches", "AggreCuts-4, batches"];

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let sets = stand_ins(context)?;
    let packets = context.scale.pick(2_000, 20_000, 100_000);
    let rounds = context.scale.pick(3, 9, 21);
    let checked = context.scale != Scale::Smoke;
    let rivals = context.rivals.classifiers;
    let mut rates = vec![Vec::new(); SERIES.len() + rivals.len()];
    let mut last = vec![f64::NAN; rates.len()];
    let mut names = Vec::new();
    for set in &sets.like_the_papers {
        context.check_stop()?;
        let (Some(eight), Some(four), Some(hi)) = (
            aggrecuts(set, Stride::Eight, sharing(context))?,
            aggrecuts(set, Stride::Four, sharing(context))?,
            hicuts(set, (8, 4.0), hicuts_sharing(context))?,
        ) else {
            continue;
        };
        let pool: Vec<KeyV4> =
            headers(&set.rules, Traffic::MISSES, context.scale.pick(2_000, 20_000, 50_000), context.seed);
        // Each algorithm gets the headers that are worst for it.
        let for_eight = eight.deepest_of(&pool, packets);
        let for_four = four.deepest_of(&pool, packets);
        let words = pool.iter().map(|key| hi.classify(key).1).max().unwrap_or(0);
        let worst: Vec<KeyV4> = pool.iter().filter(|key| hi.classify(key).1 == words).copied().collect();
        let for_hi: Vec<KeyV4> = (0..packets).map(|i| worst[i % worst.len()]).collect();
        let one_by_one = |tree: &AggreCuts, keys: &[KeyV4]| {
            for key in keys {
                black_box(tree.classify_key(key));
            }
        };
        let batched = |tree: &AggreCuts, keys: &[KeyV4]| {
            let mut found = vec![Match::NONE; keys.len()];
            tree.classify_batch(keys, &mut found);
            black_box(found);
        };
        let others: Vec<_> = rivals.iter().map(|one| rival(one, set)).collect::<Result<_, _>>()?;
        // The paper's worst case of a rival is not known: it gets the headers of AggreCuts-8.
        let for_others: Vec<AnyKey> = for_eight.iter().map(|key| AnyKey::V4(*key)).collect();
        let mut timed = Rounds::new(rounds)
            .variant("AggreCuts-8", || one_by_one(&eight, &for_eight))
            .variant("AggreCuts-4", || one_by_one(&four, &for_four))
            .variant("HiCuts (8, 4)", || {
                for key in &for_hi {
                    black_box(hi.classify(key));
                }
            })
            .variant("AggreCuts-8, batches", || batched(&eight, &for_eight))
            .variant("AggreCuts-4, batches", || batched(&four, &for_four));
        for (one, found) in rivals.iter().zip(&others) {
            timed = timed.variant(one.name, || {
                for key in for_others.iter().filter(|_| found.is_some()) {
                    black_box(found.as_ref().map(|found| found.first_match(key)));
                }
            });
        }
        let outcome = compare(timed, context)?;
        for (i, samples) in outcome.samples.iter().enumerate() {
            let mut times = samples.cpu_ns.clone();
            times.sort_unstable();
            let median = times.get(times.len() / 2).copied().unwrap_or(0);
            last[i] = packets as f64 * 1e3 / median.max(1) as f64;
            rates[i].push(last[i]);
        }
        names.push(set.name.clone());
    }
    if names.is_empty() {
        return Err(ItemError::during("building the trees")(String::from("none fitted its limits")));
    }
    let [eight, four, hi, eight_batched, four_batched] = last[..SERIES.len()] else {
        unreachable!("each series has a rate")
    };
    let ordered = eight > FASTER * four && four > FASTER * hi;
    let mut chart =
        Chart::bars("Lookups at worst-case depth, one thread", names, Axis::linear("million a second"));
    let all = SERIES.into_iter().chain(rivals.iter().map(|one| one.name));
    for (name, rates) in all.zip(rates) {
        chart = chart.with(Series::bars(name, rates));
    }
    let outcome = Outcome::new(Agreement::from_check(
        ordered,
        "the order is the paper's; the rates are this machine's",
        "on a processor with caches HiCuts' leaf, which lies together, costs less than the words that the paper counts: words are not time here",
    ))
    .value(Value::new("AggreCuts-8 over AggreCuts-4, largest stand-in", "×", eight / four).paper(1.5).band(1.0, 4.0).checked_if(checked))
    .value(Value::new("AggreCuts-8 over HiCuts, largest stand-in", "×", eight / hi).paper(4.5).not_comparable(
        "a leaf of HiCuts lies together in a cache of today, so its time depends on the set; flownp/fig7_accesses has the words",
    ))
    .value(Value::new("AggreCuts-8", "M/s", eight))
    .value(Value::new("AggreCuts-4", "M/s", four))
    .value(Value::new("HiCuts (8, 4)", "M/s", hi))
    .value(Value::new("AggreCuts-8, batches of 32", "M/s", eight_batched))
    .value(Value::new("AggreCuts-4, batches of 32", "M/s", four_batched))
    .chart(chart)
    .note("9 Gbps of minimal packets are 13.4 million a second on 64 threads of the IXP2850; here one thread, and headers repeat")
    .note("each tree is asked for the headers, of a random pool, on which it reads the most")
    .note(sets.note);
    let others = rivals.iter().zip(&last[SERIES.len()..]).filter(|(_, rate)| rate.is_finite());
    Ok(outcome.values(others.map(|(one, rate)| Value::new(one.name, "M/s", *rate))))
}
