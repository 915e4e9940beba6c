//! The share of flows in conflict lists [DHASH §VI-B].
//!
//! Every session of the paper's traces occurs once and none ends before the peak [DHASH Tab. II],
//! so the table is filled once: a Poisson tail is in lists. With churn, which the traces do not
//! have, more flows remain: a slot that becomes free is not refilled from the list, so the share
//! rises to Erlang's loss formula.

use flowloom::flow_key::TableHash;
use flowloom::flow_key::hash::fold::split_mix;
use flowloom::flow_table::dhash::layout::{SLOTS_PER_BUCKET, steady_share};
use flowloom::flow_table::dhash::major_location::Folded;
use flowloom::flow_table::dhash::reference::{ListSearch, ReferenceDHash, Searched, Skipped};
use flowloom::flow_table::dhash::signature::Keyed;
use flowloom::flow_table::{DHash, FlowTable, TableOptions, Tick, TimeoutClass};
use flowloom_measure::chart::{Axis, Chart, Series};

use super::workload::FILE_3_FLOWS;
use crate::experiment::{Agreement, Band, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::variation::Switch;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "dhash/section6_conflicts",
    place: "§VI-B",
    claim: "11,413 of File-3's million sessions are in conflict lists, about 1 %",
    numbers: "text of §VI-B, of 1,048,576 sessions in Tab. II",
    fidelity: &[Fidelity::Simulated],
    switches: &[LISTS],
    draws: 3,
    run,
    ..Item::PLAIN
};

const LISTS: Switch = Switch::fault("lists", "lookups never search conflict lists");

/// The share of flows in lists, in percent, after the fill and after each turnover; and the number
/// of flows that the table rejected or did not find again.
struct Conflicts {
    shares: Vec<f64>,
    lost: u64,
}

/// Fills a table, then replaces random flows.
fn churn(
    context: &Context<'_>,
    table: &mut impl FlowTable<u64, ()>,
    flows: u32,
    turnovers: u32,
) -> Result<Conflicts, ItemError> {
    let mut state = context.seed;
    let mut lost = 0;
    let mut present = Vec::with_capacity(flows as usize);
    for _ in 0..flows {
        let hash = split_mix(&mut state);
        present.push(hash);
        lost += u64::from(
            table.insert(hash, TableHash::from_mixed(hash), (), TimeoutClass(0), Tick(0)).is_err(),
        );
    }
    let share = |table: &dyn Fn() -> u32| f64::from(table()) * 100.0 / f64::from(flows);
    let mut shares = vec![share(&|| table.stats().displaced)];
    for _ in 0..turnovers {
        context.check_stop()?;
        for _ in 0..flows {
            let leaver = usize::try_from(split_mix(&mut state) % u64::from(flows)).unwrap_or(0);
            let hash = split_mix(&mut state);
            let left = std::mem::replace(&mut present[leaver], hash);
            lost += u64::from(table.remove_key(&left, TableHash::from_mixed(left)).is_none());
            lost += u64::from(
                table.insert(hash, TableHash::from_mixed(hash), (), TimeoutClass(0), Tick(0)).is_err(),
            );
        }
        shares.push(share(&|| table.stats().displaced));
    }
    Ok(Conflicts { shares, lost })
}

/// Returns the expected share of flows in lists after a fill, and its standard deviation, both in
/// percent: buckets have Poisson numbers of flows, which add up to `flows`.
fn filled_once(flows: u32, buckets: u32) -> (f64, f64) {
    let load = f64::from(flows) / f64::from(buckets);
    let (mut chance, mut mean, mut square, mut with_load) = ((-load).exp(), 0.0, 0.0, 0.0);
    for count in 0..200 {
        let listed = f64::from(count) - f64::from(SLOTS_PER_BUCKET);
        if listed > 0.0 {
            mean += chance * listed;
            square += chance * listed * listed;
            with_load += chance * listed * (f64::from(count) - load);
        }
        chance *= load / f64::from(count + 1);
    }
    let variance = square - mean * mean - with_load * with_load / load;
    let percent = |share: f64| share * 100.0 / load;
    (percent(mean), percent((variance / f64::from(buckets)).sqrt()))
}

/// Standard deviations to either end of a band: one of two million draws lies outside.
const DEVIATIONS: f64 = 5.0;

/// Returns the band of the share of a fill.
fn band_filled_once(flows: u32, buckets: u32) -> Band {
    let (mean, deviation) = filled_once(flows, buckets);
    Band { low: mean - DEVIATIONS * deviation, high: mean + DEVIATIONS * deviation }
}

/// Returns the band of the share after turnovers. The deviation is that of a fill but for the
/// larger share; several turnovers are a fiftieth short of the steady state.
fn band_steady(flows: u32, buckets: u32) -> Band {
    let steady = steady_share(f64::from(flows) / f64::from(buckets)) * 100.0;
    let (mean, deviation) = filled_once(flows, buckets);
    let off = DEVIATIONS * deviation * (steady / mean).sqrt() + 0.02 * steady;
    Band { low: steady - off, high: steady + off }
}

fn config(flows: u32, buckets: u32) -> TableOptions {
    TableOptions {
        buckets: Some(buckets),
        pool: Some(flows / 10),
        list_cap: Some(64),
        ..TableOptions::for_flows(flows)
    }
}

/// Runs churn on the paper's table.
fn reference<L: ListSearch>(
    context: &Context<'_>,
    flows: u32,
    buckets: u32,
    turnovers: u32,
) -> Result<Conflicts, ItemError> {
    let table = ReferenceDHash::<u64, (), Keyed, Folded, L>::try_new(&config(flows, buckets));
    churn(context, &mut table.map_err(ItemError::during("building the paper's table"))?, flows, turnovers)
}

/// Sessions in lists [DHASH §VI-B].
const PAPER_LISTED: f64 = 11_413.0;

/// Returns the verdict on the share of flows in lists after a fill, in percent.
fn verdict(share: &Value, lost: u64, steady: f64) -> Agreement {
    let (ours, paper) = (share.ours, share.paper.unwrap_or_default());
    Agreement::from_check(
        share.is_as_stated() == Some(true) && lost == 0,
        format!("{ours:.2} % of File-3's flows, {paper:.2} % in the paper"),
        if lost > 0 {
            format!("the table loses {lost} flows")
        } else {
            format!(
                "filled once, as by the paper's traces, whose sessions occur once and stay until the peak, {ours:.2} % of File-3's flows are \
                 in lists and not {paper:.2} %. That takes a hash less even than a random one, or flows that come and go, which in the \
                 end bring {steady:.1} %"
            )
        },
    )
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let divisor = context.scale.pick(20, 4, 1);
    let turnovers = context.scale.pick(4, 8, 8);
    let (flows, buckets) = (1_000_000 / divisor, 100_000 / divisor);
    let paper_table = if context.is_off(&LISTS) { reference::<Skipped> } else { reference::<Searched> };
    let Conflicts { shares: million, lost } = paper_table(context, flows, buckets, turnovers)?;
    let flows_3 = FILE_3_FLOWS / divisor;
    let ours = DHash::try_new(&config(flows_3, buckets));
    let ours = &mut ours.map_err(ItemError::during("building our table"))?;
    let Conflicts { shares: file_3, lost: lost_3 } = churn(context, ours, flows_3, turnovers)?;
    let lost = lost + lost_3;
    let last = million.len() - 1;
    let series = |shares: &[f64]| (0_u32..).map(f64::from).zip(shares.iter().copied()).collect();
    let share = Value::new("File-3's flows, filled once", "%", file_3[0])
        .paper(PAPER_LISTED * 100.0 / f64::from(FILE_3_FLOWS))
        .within(band_filled_once(flows_3, buckets))
        .apart("the tail of a Poisson distribution; a hash that spreads flows less evenly gives more");
    let paper = share.paper.unwrap_or_default();
    Ok(Outcome::new(verdict(&share, lost, file_3[last]))
    .value(share)
    .value(Value::new("a million flows, filled once", "%", million[0]).within(band_filled_once(flows, buckets)))
    .value(Value::new("a million flows, steady", "%", million[last]).within(band_steady(flows, buckets)))
    .value(Value::new("File-3's flows, steady", "%", file_3[last]).within(band_steady(flows_3, buckets)))
    .value(Value::new("flows refused or not found again", "", lost as f64).band(0.0, 0.0))
    .value(Value::new("Erlang's loss formula at ten a bucket", "%", steady_share(10.0) * 100.0).band(2.22, 2.24))
    .chart(
        Chart::new("Flows in conflict lists", Axis::linear("turnovers"), Axis::linear("%"))
            .with(Series::line("1,000,000 flows", series(&million)))
            .with(Series::line("1,048,576 flows", series(&file_3)))
            .with(Series::line("paper", vec![(0.0, paper), (f64::from(turnovers), paper)])),
    )
    .note("Bands are five standard deviations of a fill wide, which follow from the numbers of flows and buckets.")
    .note(format!("Numbers of flows and buckets divided by {divisor} at this scale. A million flows are in the paper's table, File-3's in ours.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_lengths_after_a_fill_follow_a_poisson_distribution() {
        for (flows, expected) in [(1_000_000, 0.5474), (1_048_576, 0.7901)] {
            let (mean, deviation) = filled_once(flows, 100_000);
            assert!(
                (mean - expected).abs() < 1e-4 && (0.01..0.015).contains(&deviation),
                "{mean} ± {deviation}"
            );
        }
    }

    #[test]
    fn verdict_depends_on_the_fill_and_not_on_turnover() {
        let word = |ours, lost| verdict(&Value::new("x", "%", ours).paper(1.0884), lost, 2.97).word();
        assert_eq!(
            [word(1.09, 0), word(1.0, 0), word(0.79, 0), word(2.97, 0), word(1.09, 1)]
                .map(|word| word == "agrees"),
            [true, true, false, false, false]
        );
    }
}
