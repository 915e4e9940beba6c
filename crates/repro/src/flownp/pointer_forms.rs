//! Pointer arrays in three forms: plain, with a bit string of differences, and with a short bit
//! string [FLOWNP §3.3].

use flowloom::classifier::aggrecuts::{PointerForms, Stride};
use flowloom::classifier::headers::{Traffic, headers};
use flowloom_measure::chart::{Axis, Chart, Series};

use super::rule_sets::{SHARING, aggrecuts, sharing, stand_ins};
use crate::experiment::{Agreement, Band, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::variation::BOTH_RUN;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "flownp/pointer_forms",
    place: "§3.3",
    claim: "fewer than 10 of 256 children differ; plain strings cost more than 104 words per lookup, HABS none",
    numbers: "text of §3.3: two limits",
    fidelity: &[Fidelity::Measured],
    guesses: &[SHARING],
    unswitched: BOTH_RUN,
    run,
    ..Item::PLAIN
};

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let sets = stand_ins(context)?;
    let mut names = Vec::new();
    let mut bytes: [Vec<f64>; 3] = Default::default();
    let (mut children_max, mut kept, mut ratio) = (0.0_f64, Vec::new(), Vec::new());
    let mut for_habs = 0;
    for set in sets.like_the_papers.iter().chain(&sets.harder) {
        context.check_stop()?;
        let Some(tree) = aggrecuts(set, Stride::Eight, sharing(context))? else { continue };
        let (shape, forms) = (tree.shape(), tree.pointer_forms());
        names.push(set.name.clone());
        // A lookup reads one word per cut, unless the strings take further words.
        let keys = headers(&set.rules, Traffic::MISSES, 200, context.seed);
        let read = keys.iter().map(|key| tree.classify(key).1.0).max().unwrap_or(0);
        for_habs = for_habs.max(read.saturating_sub(shape.depth));
        for (series, form) in bytes.iter_mut().zip([forms.plain_bytes, forms.abs_bytes, forms.habs_bytes]) {
            series.push(form as f64 / 1e6);
        }
        children_max = children_max.max(shape.distinct_children as f64 / shape.nodes.max(1) as f64);
        kept.push(shape.sub_arrays as f64 / shape.nodes.max(1) as f64);
        ratio.push(forms.plain_bytes as f64 / forms.habs_bytes.max(1) as f64);
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let depth = Stride::Eight.worst_words();
    let strings = f64::from(PointerForms::abs_words(Stride::Eight, depth));
    let [plain, abs, habs] = bytes;
    Ok(Outcome::new(Agreement::from_check(
        children_max < 10.0,
        "few children differ, and a string of eight bits keeps about a third of the pointers",
        "ten children of 256 or more differ in some set",
    ))
        .value(
            Value::new("distinct children of 256, the set with the most", "", children_max)
                .paper_below(10.0)
                .within(Band::at_most(10.0)),
        )
        .value(Value::new("words of a lookup with plain strings, 13 levels", "words", strings).paper_above(104.0).band(117.0, 117.0))
        .value(Value::new("words for HABS beside the node's own", "words", for_habs.into()).paper(0.0).band(0.0, 0.0))
        .value(Value::new("sub-arrays kept, of 8, mean of the sets", "", mean(&kept)).band(1.0, 4.0))
        .value(Value::new("plain arrays over HABS, mean of the sets", "", mean(&ratio)).within(Band::at_least(2.0)))
        .chart(
            Chart::bars("Pointers in three forms, w = 8", names, Axis::log("MB"))
                .with(Series::bars("plain arrays", plain))
                .with(Series::bars("strings of 256 bits", abs))
                .with(Series::bars("HABS", habs)),
        )
        .note("strings of 256 bits take the least memory of all: what HABS buys is that the string lies in the node's word")
        .note("equal sub-trees below one node stored once, as published; --guess sharing=1 stores those of the whole tree once")
        .note(sets.note)
        .judged())
}
