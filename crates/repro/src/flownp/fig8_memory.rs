//! Memory of AggreCuts and HiCuts [FLOWNP §6.2.2, Fig. 8].

use flowloom::classifier::aggrecuts::{Sharing, Stride};
use flowloom_measure::chart::{Axis, Chart, Series};

use super::fig7_accesses::{SETTINGS, hicuts};
use super::rule_sets::{NamedSet, aggrecuts, rival, stand_ins};
use crate::experiment::{Agreement, Band, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::variation::BOTH_RUN;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "flownp/fig8_memory",
    place: "§6.2.2, Fig. 8",
    claim: "up to 1,530 rules: AggreCuts-4 below 1.4 MB, AggreCuts-8 below 5.3 MB, HiCuts above 28 MB, ten times AggreCuts-4",
    numbers: "text of §6.2.2: limits; no bar of Fig. 8 is legible in our copy",
    fidelity: &[Fidelity::Measured],
    unswitched: BOTH_RUN,
    run,
    ..Item::PLAIN
};

/// Returns the band of HiCuts's megabytes: each rule is stored once or more.
fn hicuts_band(rules: usize) -> Band {
    Band::at_least(rules as f64 * 24e-6)
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let sets = stand_ins(context)?;
    let all: Vec<&NamedSet> = sets.like_the_papers.iter().chain(&sets.harder).collect();
    let names: Vec<String> = all.iter().map(|set| set.name.clone()).collect();
    let count = sets.like_the_papers.len();
    let mut chart = Chart::bars("Memory", names, Axis::log("MB"));
    let mut outcome = Outcome::new(Agreement::cannot_run("nothing was built"));
    let mut worst = [0.0_f64; 2];
    for (i, (stride, paper)) in [(Stride::Eight, 5.3), (Stride::Four, 1.4)].into_iter().enumerate() {
        for (sharing, how) in
            [(Sharing::Siblings, "as published"), (Sharing::Everywhere, "sharing everywhere")]
        {
            let mut megabytes = Vec::new();
            for set in &all {
                context.check_stop()?;
                let tree = aggrecuts(set, stride, sharing)?;
                megabytes.push(tree.map_or(f64::NAN, |tree| tree.bytes() as f64 / 1e6));
            }
            let most = megabytes[..count].iter().copied().fold(0.0, f64::max);
            let value = Value::new(
                format!("AggreCuts-{}, {how}, most of the stand-ins", stride.bits()),
                "MB",
                most,
            );
            outcome = outcome.value(if sharing == Sharing::Siblings {
                worst[i] = most;
                // Some generated sets need half as much again, which the verdict states.
                value.paper_below(paper).within(Band::at_most(2.0 * paper))
            } else {
                // Sharing more takes memory off.
                value.within(Band::at_most(worst[i]))
            });
            chart = chart.with(Series::bars(format!("AggreCuts-{}, {how}", stride.bits()), megabytes));
        }
    }
    // The least and the most of all settings, as published and sharing everywhere.
    let mut extremes = [(f64::INFINITY, 0.0_f64); 2];
    for setting in SETTINGS.into_iter().filter(|&(binth, _)| binth > 4) {
        for ((least, most), sharing) in extremes.iter_mut().zip([Sharing::Siblings, Sharing::Everywhere]) {
            let mut megabytes = Vec::new();
            for set in &all {
                context.check_stop()?;
                let tree = hicuts(set, setting, Some(sharing))?;
                megabytes.push(tree.map_or(f64::NAN, |tree| tree.bytes() as f64 / 1e6));
            }
            let largest = megabytes[count - 1];
            (*least, *most) = (least.min(largest), most.max(largest));
            if sharing == Sharing::Siblings {
                let (binth, spfac) = setting;
                chart = chart.with(Series::bars(format!("HiCuts ({binth}, {spfac})"), megabytes));
            }
        }
    }
    let [(least, most), (least_everywhere, most_everywhere)] = extremes;
    for one in context.rivals.classifiers {
        let mut megabytes = Vec::new();
        for set in &all {
            context.check_stop()?;
            megabytes.push(rival(one, set)?.map_or(f64::NAN, |found| found.bytes() as f64 / 1e6));
        }
        let largest = megabytes[count - 1];
        if largest.is_finite() {
            outcome = outcome.value(Value::new(format!("{}, largest stand-in", one.name), "MB", largest));
        }
        chart = chart.with(Series::bars(one.name, megabytes));
    }
    let sizes_hold = worst[0] <= 5.3 && worst[1] <= 1.4;
    let (ratio, rules) = (least / worst[1], all[count - 1].rules.len());
    let sizes = if sizes_hold {
        "the sizes of AggreCuts hold"
    } else {
        "the sizes of AggreCuts do not hold on these sets"
    };
    outcome.verdict = Agreement::from_check(
        sizes_hold && least > 28.0 && ratio >= 8.0,
        format!("{sizes}, and HiCuts takes {least:.0} MB at its best, {ratio:.1} times AggreCuts-4"),
        format!(
            "{sizes}, but HiCuts takes {least:.2} to {most:.2} MB on the largest stand-in, {ratio:.1} times AggreCuts-4 with its best \
             setting: the paper's HiCuts must have been set otherwise, and how is not stated"
        ),
    );
    Ok(outcome
        .value(Value::new("HiCuts at its best, largest stand-in", "MB", least).paper_above(28.0).within(hicuts_band(rules)))
        .value(Value::new("HiCuts at its worst, largest stand-in", "MB", most).paper_above(28.0).within(hicuts_band(rules)))
        .value(Value::new("HiCuts at its best, sharing everywhere", "MB", least_everywhere).within(Band::at_most(least)))
        .value(Value::new("HiCuts at its worst, sharing everywhere", "MB", most_everywhere).within(Band::at_most(most)))
        .value(Value::new("HiCuts at its best over AggreCuts-4", "×", ratio).paper(10.0).within(Band::at_least(0.001)))
        .chart(chart)
        .note("a missing bar is a tree beyond what twenty bits of base address, beyond 128 MiB, or too many steps")
        .note("HiCuts: a word for a pointer, a node and a rule's number, 24 bytes for a rule; settings are (binth, spfac)")
        .note(sets.note))
}
