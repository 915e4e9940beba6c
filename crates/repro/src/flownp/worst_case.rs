//! The worst case that a fixed stride guarantees [FLOWNP §3.2].

use flowloom::classifier::aggrecuts::Stride;
use flowloom::classifier::headers::{Traffic, headers};
use flowloom::classifier::{Key, KeyV4};
use flowloom_measure::chart::Axis;

use super::rule_sets::{SHARING, aggrecuts, sharing, stand_ins};
use crate::experiment::{Agreement, Band, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::variation::NO_EFFECT;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "flownp/worst_case",
    place: "§3.2",
    claim: "with w = 8 no lookup reads more than 104/8 = 13 words, with any rules",
    numbers: "text of §3.2: 104/w",
    fidelity: &[Fidelity::Measured],
    guesses: &[SHARING],
    unswitched: NO_EFFECT,
    run,
    ..Item::PLAIN
};

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let sets = stand_ins(context)?;
    let mut outcome = Outcome::new(Agreement::agrees(
        "it holds by construction, and every lookup that was counted kept to it",
    ));
    for (stride, paper) in [(Stride::Eight, 13.0), (Stride::Four, 26.0)] {
        let (mut depth, mut read, mut lookups, mut wrong) = (0, 0, 0_u64, 0_u64);
        for set in sets.like_the_papers.iter().chain(&sets.harder) {
            context.check_stop()?;
            let Some(tree) = aggrecuts(set, stride, sharing(context))? else { continue };
            depth = depth.max(tree.shape().depth);
            let keys: Vec<KeyV4> =
                headers(&set.rules, Traffic::MISSES, context.scale.pick(200, 2000, 20_000), context.seed);
            for key in &keys {
                let (found, accesses) = tree.classify(key);
                read = read.max(accesses.0);
                lookups += 1;
                wrong += u64::from(found != set.rules.first_match(key));
            }
        }
        let w = stride.bits();
        outcome = outcome
            .value(
                Value::new(format!("longest path, w = {w}"), "words", f64::from(depth))
                    .paper_at_most(paper)
                    .within(Band::at_most(paper)),
            )
            .value(
                Value::new(format!("most words that a lookup read, w = {w}"), "words", f64::from(read))
                    .within(Band::at_most(paper)),
            )
            .value(Value::new(format!("lookups counted, w = {w}"), "", lookups as f64))
            .value(
                Value::new(format!("answers that differ from linear search, w = {w}"), "", wrong as f64)
                    .band(0.0, 0.0),
            );
    }
    let bits = (0..KeyV4::DIMENSIONS).map(KeyV4::bits).sum::<u32>();
    Ok(outcome
        .note(format!("a header has {bits} bits; 26 for w = 4 follows, the paper does not state it"))
        .note("the root's word is a constant of the program and not counted")
        .note(sets.note)
        .chart_of("Most words that a lookup reads", Axis::linear("words"), |value| value.unit == "words")
        .judged())
}
