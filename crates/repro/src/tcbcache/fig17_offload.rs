//! Time per packet in an offload engine [TCBCACHE §4.5, Fig. 17].

use flowloom::tcb_cache::cost::OffloadEngine;
use flowloom_measure::chart::{Axis, Chart, Series};

use crate::experiment::{Agreement, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::variation::NO_EFFECT;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "tcbcache/fig17_offload",
    place: "§4.5, Fig. 17",
    claim: "the new cache takes more than 20 % off the processing time",
    numbers: "text of §4.5: a limit; the miss ratios of §4.2",
    fidelity: &[Fidelity::Arithmetic],
    unswitched: NO_EFFECT,
    run,
    ..Item::PLAIN
};

/// Miss ratios of Mod and spec in the paper.
const TRACES: [(&str, f64, f64); 4] =
    [("BU", 0.56, 0.28), ("NASA", 0.50, 0.26), ("ClarkNet", 0.42, 0.22), ("Sak", 0.69, 0.44)];

/// Memory accesses per miss, and bands of the saving in percent: from misses alone, and with the
/// time of hits.
const ACCESSES: [(u32, [(f64, f64); 2]); 3] = [
    (1, [(13.0, 18.0), (11.0, 16.0)]),
    (2, [(20.0, 27.0), (18.0, 25.0)]),
    (3, [(24.0, 32.0), (22.0, 31.0)]),
];

/// Returns the engine whose time, in addition to the packet's own, the paper calculates as "miss
/// ratio * memory latency".
fn misses_only(accesses: u32) -> OffloadEngine {
    OffloadEngine { hit_ns: 0.0, ..OffloadEngine::paper(accesses.into()) }
}

/// Returns the saving on each trace, in percent.
fn saved(engine: OffloadEngine) -> [f64; 4] {
    TRACES.map(|(_, before, after)| engine.saving(before, after) * 100.0)
}

fn run(_context: &Context<'_>) -> Result<Outcome, ItemError> {
    let mut chart = Chart::bars(
        "Time saved in an offload engine, by the paper's miss ratios",
        TRACES.map(|(name, ..)| name),
        Axis::linear("% of the time"),
    );
    let range = |saved: [f64; 4]| {
        let least = saved.into_iter().fold(f64::INFINITY, f64::min);
        (least, saved.into_iter().fold(0.0, f64::max))
    };
    let (least, most) = range(saved(misses_only(1)));
    let (with_hits, with_hits_most) = range(saved(OffloadEngine::paper(1.0)));
    let enough = (1..=9).find(|accesses| range(saved(misses_only(*accesses))).0 > 20.0).unwrap_or(0);
    let mut outcome = Outcome::new(Agreement::from_check(
        least > 20.0,
        format!("by its own formula its miss ratios give {least:.0} to {most:.0} %"),
        format!(
            "by its own formula, miss ratio times memory latency, with the one access per miss of its Fig. 1b, its own ratios give {least:.0} to \
             {most:.0} %, and {with_hits:.0} to {with_hits_most:.0} % where a hit takes its 6.4 ns. By misses alone, more than 20 % on all four takes {enough} \
             accesses a miss, of which it says that there may be several"
        ),
    ));
    for (accesses, bands) in ACCESSES {
        let engines =
            [(misses_only(accesses), "misses alone"), (OffloadEngine::paper(accesses.into()), "with hits")];
        for ((engine, how), (low, high)) in engines.into_iter().zip(bands) {
            for ((name, ..), saved) in TRACES.iter().zip(saved(engine)) {
                let word = if accesses == 1 { "access" } else { "accesses" };
                let text = format!("{name}, {accesses} memory {word} a miss, {how}");
                let value = Value::new(text, "%", saved).paper_above(20.0).band(low, high);
                outcome = outcome.value(value.apart("the paper's own formula and miss ratios give less"));
            }
            chart = chart.with(Series::bars(format!("{accesses} a miss, {how}"), saved(engine)));
        }
    }
    Ok(outcome
        .chart(chart)
        .note("T = 51.2 + m·k·50 ns by misses alone, as §4.1 has it; T = 51.2 + (1 − m)·6.4 + m·k·50 ns with hits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formula_of_the_paper_charges_only_misses() {
        let one = saved(misses_only(1));
        for (ours, by_hand) in one.into_iter().zip([14.0 / 79.2, 12.0 / 76.2, 10.0 / 72.2, 12.5 / 85.7]) {
            assert!((ours - by_hand * 100.0).abs() < 1e-9, "{ours} and {by_hand}");
        }
        assert!(saved(misses_only(2)).iter().all(|saved| *saved > 20.0));
        let outcome = run(&Context::new(crate::Scale::Smoke, 1, &|| true)).unwrap();
        assert!(outcome.verdict.text().contains("give 14 to 18 %"), "{}", outcome.verdict.text());
        assert!(
            outcome.verdict.text().contains("on all four takes 2 accesses"),
            "{}",
            outcome.verdict.text()
        );
    }
}
