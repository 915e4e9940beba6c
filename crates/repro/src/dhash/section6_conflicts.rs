//! The share of flows in conflict lists [DHASH §VI-B].
//!
//! If a million flows are inserted once into 100,000 buckets, a Poisson tail remains. With churn,
//! more flows remain: a slot that becomes free is not refilled from the list, so the share rises to
//! Erlang's loss formula.

use flowloom::flow_key::TableHash;
use flowloom::flow_key::hash::fold::split_mix;
use flowloom::flow_table::dhash::layout::steady_share;
use flowloom::flow_table::dhash::major_location::Folded;
use flowloom::flow_table::dhash::reference::{ListSearch, ReferenceDHash, Searched, Skipped};
use flowloom::flow_table::dhash::signature::Keyed;
use flowloom::flow_table::{DHash, DHashConfig, FlowTable, Tick, TimeoutClass};
use flowloom_measure::chart::{Axis, Chart, Series};

use crate::experiment::{Band, Context, Fidelity, Item, ItemError, Outcome, Value, Verdict};
use crate::variation::Switch;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "dhash/section6_conflicts",
    place: "§VI-B",
    claim: "11,413 of a million sessions are in conflict lists",
    fidelity: &[Fidelity::Simulated],
    switches: &[LISTS],
    draws: 3,
    run,
    ..Item::PLAIN
};

const LISTS: Switch = Switch::fault("lists", "lookups never search conflict lists");

/// The share of flows in lists, in percent, after the fill and after each turnover; and the number
/// of flows that the table rejected or did not find again.
struct Found {
    shares: Vec<f64>,
    lost: u64,
}

/// Fills a table, then replaces random flows.
fn churn(
    context: &Context<'_>,
    table: &mut impl FlowTable<u64, ()>,
    flows: u32,
    turnovers: u32,
) -> Result<Found, ItemError> {
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
    Ok(Found { shares, lost })
}

fn config(flows: u32, buckets: u32) -> DHashConfig {
    DHashConfig {
        buckets: Some(buckets),
        pool: Some(flows / 10),
        list_cap: 64,
        ..DHashConfig::for_flows(flows)
    }
}

/// Runs churn on the paper's table.
fn reference<L: ListSearch>(
    context: &Context<'_>,
    flows: u32,
    buckets: u32,
    turnovers: u32,
) -> Result<Found, ItemError> {
    let table = ReferenceDHash::<u64, (), Keyed, Folded, L>::try_new(&config(flows, buckets));
    churn(context, &mut table.map_err(ItemError::during("building the paper's table"))?, flows, turnovers)
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let divisor = context.scale.pick(20, 4, 1);
    let turnovers = context.scale.pick(4, 8, 8);
    let (flows, buckets) = (1_000_000 / divisor, 100_000 / divisor);
    let paper_table = if context.is_off(&LISTS) { reference::<Skipped> } else { reference::<Searched> };
    let Found { shares: million, lost } = paper_table(context, flows, buckets, turnovers)?;
    let flows_3 = 1_048_576 / divisor;
    let ours = DHash::try_new(&config(flows_3, buckets));
    let ours = &mut ours.map_err(ItemError::during("building our table"))?;
    let Found { shares: file_3, lost: lost_3 } = churn(context, ours, flows_3, turnovers)?;
    let lost = lost + lost_3;
    let last = million.len() - 1;
    // A twentieth of the flows has √20 times the standard deviation.
    let spread = context.scale.pick(4.0, 2.0, 1.0);
    let band =
        |center: f64, width: f64| Band { low: center - width * spread, high: center + width * spread };
    let series = |shares: &[f64]| (0_u32..).map(f64::from).zip(shares.iter().copied()).collect();
    let paper = 1.1413;
    Ok(Outcome::new(Verdict::of(
        (million[0]..=million[last]).contains(&paper) && lost == 0,
        "1.14 % lies between a fresh fill and the steady state of flows that come and go: a run between the two gives it",
        "1.14 % lies outside what a fresh fill and a steady state give, or the table loses flows",
    ))
    .value(Value::new("a million flows, filled once", "%", million[0]).paper(paper).within(band(0.55, 0.03)))
    .value(Value::new("File-3's flows, filled once", "%", file_3[0]).within(band(0.79, 0.03)))
    .value(Value::new("a million flows, steady", "%", million[last]).paper(paper).within(band(2.23, 0.1)))
    .value(Value::new("File-3's flows, steady", "%", file_3[last]).within(band(2.97, 0.1)))
    .value(Value::new("flows refused or not found again", "", lost as f64).band(0.0, 0.0))
    .value(Value::new("Erlang's loss formula at ten a bucket", "%", steady_share(10.0) * 100.0).band(2.22, 2.24))
    .chart(
        Chart::new("Flows in conflict lists", Axis::linear("turnovers"), Axis::linear("%"))
            .with(Series::line("1,000,000 flows", series(&million)))
            .with(Series::line("1,048,576 flows", series(&file_3)))
            .with(Series::line("paper", vec![(0.0, paper), (f64::from(turnovers), paper)])),
    )
    .note("Depends on the draw: bands of a fresh fill have twice the standard deviation, and one of ten seeds lies outside (0.86 % of File-3's flows).")
    .note(format!("Numbers of flows and buckets divided by {divisor} at this scale. A million flows are in the paper's table, File-3's in ours.")))
}
