//! Time to find and read connection state with one session and with 4,096 sessions [TCBCACHE
//! §2.1.2, Fig. 2].

use flowloom::flow_table::baseline::{Chained, PAPER_BUCKETS};
use flowloom::flow_table::{DHash, FlowTable, TableOptions};
use flowloom_measure::Stopwatch;
use flowloom_measure::chart::Axis;
use flowloom_measure::lookup::{Flows, State};

use crate::experiment::{Agreement, Context, Fidelity, Item, ItemError, Outcome, Scale, Value};
use crate::variation::SWEPT;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "tcbcache/fig2_sessions",
    place: "§2.1.2, Fig. 2",
    claim: "the time to find and read connection state grows from one session to 4,096",
    numbers: "none: the bars of Fig. 2 have no numbers, §2.1.2 states a direction",
    fidelity: &[Fidelity::Measured],
    unswitched: SWEPT,
    run,
    ..Item::PLAIN
};

const SESSIONS: u32 = 4096;

/// Returns the median nanoseconds per lookup that reads the state, one at a time.
fn time<T: FlowTable<[u64; 2], State>>(
    context: &Context<'_>,
    sessions: u32,
    build: impl FnOnce(u32) -> Result<T, flowloom::flow_table::BuildError>,
) -> Result<f64, ItemError> {
    context.check_stop()?;
    let flows = Flows::<2>::new(sessions, context.seed);
    let table = flows.trial(build).map_err(ItemError::during("filling a table"))?;
    let rounds = context.scale.pick(9, 31, 101);
    let passes = (context.scale.pick(20_000, 200_000, 400_000) / sessions).max(1);
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let watch = Stopwatch::start();
            let sum: u64 = (0..passes).map(|_| flows.single_hits(&table)).sum();
            std::hint::black_box(sum);
            watch.elapsed().cpu_ns as f64 / f64::from(passes * sessions)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let chained = |sessions| {
        time(context, sessions, |flows| {
            let buckets = Some(PAPER_BUCKETS);
            Chained::<[u64; 2], State>::try_new(&TableOptions { buckets, ..TableOptions::for_flows(flows) })
        })
    };
    let ours = |sessions| {
        time(context, sessions, |flows| DHash::<[u64; 2], State>::try_new(&TableOptions::for_flows(flows)))
    };
    let (one, many) = (chained(1)?, chained(SESSIONS)?);
    let (ours_one, ours_many) = (ours(1)?, ours(SESSIONS)?);
    let timed = context.scale > Scale::Smoke;
    Ok(Outcome::new(Agreement::from_check(
        many > 1.3 * one,
        "in shape: a chained table of 1,040 buckets takes longer per lookup with 4,096 sessions than with one",
        "a lookup takes no longer here: the table of 4,096 sessions fits this machine's caches",
    ))
    .value(Value::new("chained, one session", "ns", one))
    .value(Value::new("chained, 4096 sessions", "ns", many))
    .value(Value::new("chained, growth", "", many / one).band(1.0, f64::INFINITY).checked_if(timed))
    .value(Value::new("DHash, one session", "ns", ours_one))
    .value(Value::new("DHash, 4096 sessions", "ns", ours_many))
    .value(Value::new("DHash, growth", "", ours_many / ours_one))
    .chart_of("A lookup and its state", Axis::linear("ns"), |value| value.unit == "ns")
    .note("tables alone, median of rounds, processor time; the paper's figure is of a whole network stack of 2010"))
}
