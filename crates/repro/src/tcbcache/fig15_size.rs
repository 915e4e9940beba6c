//! Misses by cache size [TCBCACHE §4.4, Fig. 15].

use flowloom::tcb_cache::{CacheSpec, Geometry, Policy};
use flowloom_measure::chart::{Axis, Chart, Series};

use super::workload::{draws, misses, notes, workloads};
use crate::experiment::{Agreement, Context, Fidelity, Item, ItemError, Outcome, Scale, Value};
use crate::variation::SWEPT;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "tcbcache/fig15_size",
    place: "§4.4, Fig. 15",
    claim: "32 and 64 KB do about equally well, 16 and 8 KB much worse",
    numbers: "text of §4.4: 1 for two sizes that are “good”, above 1 for those “degraded”; the bars of Fig. 15 are not legible in our copy",
    fidelity: &[Fidelity::Simulated],
    unswitched: SWEPT,
    run,
    ..Item::PLAIN
};

const KIB: [u64; 6] = [4, 8, 16, 32, 64, 128];

fn longer(scale: Scale) -> Scale {
    scale.pick(Scale::Smoke, Scale::Full, Scale::Full)
}

/// Judges the traces' results for the speculative policy: misses with 16 and with 64 KB, relative
/// to 32 KB.
fn verdict(found: &[(&str, f64, f64)]) -> Agreement {
    let words = |pick: fn(&(&str, f64, f64)) -> f64| {
        found.iter().map(|one| format!("{:.2} on {}", pick(one), one.0)).collect::<Vec<_>>().join(", ")
    };
    let (half, double) = (words(|one| one.1), words(|one| one.2));
    Agreement::from_check(
        found.iter().all(|&(_, half, double)| half > 1.1 && (0.95..=1.05).contains(&double)),
        format!("64 KB miss as often as 32, {double}, and 16 KB much more, {half}"),
        format!(
            "64 KB miss {double} of what 32 do, and 16 KB {half}. That 64 do not help needs more concurrent sessions, or longer pauses, than \
             make the other figures come out"
        ),
    )
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    // Large caches take long to fill, so the number of accesses is that of a full run, except for a
    // smoke test.
    let workloads = workloads(&Context { scale: longer(context.scale), ..*context })?;
    let mut chart = Chart::new(
        "Misses by size, of those of 32 KiB",
        Axis::log("size in KiB"),
        Axis::linear("of 32 KiB"),
    );
    let mut outcome = Outcome::new(Agreement::cannot_run("nothing was simulated"));
    let mut found = Vec::new();
    let long = context.scale > Scale::Smoke;
    for workload in &workloads {
        let short = workload.short;
        for (name, policy) in [("spec", CacheSpec::PAPER.policy), ("FlowLRU", Policy::FlowLru)] {
            let mut percents = Vec::new();
            for kib in KIB {
                let geometry =
                    Geometry::new(kib << 10, 64, 2, 4).map_err(ItemError::during("shaping a cache"))?;
                let spec = CacheSpec { geometry, policy, ..CacheSpec::PAPER };
                percents.push(misses(context, &workload.trace, spec, draws(context))?.percent);
            }
            let relative = |at: usize| percents[at] / percents[3];
            let model = workload.is_model && name == "spec";
            if name == "spec" {
                found.push((short, relative(2), relative(4)));
            }
            // With short pauses, all sessions nearly fit into 64 KiB: how nearly depends on the
            // draw of the sessions.
            let band = match (short, name) {
                ("S think 4", "spec") => (0.5, 0.8),
                ("S think 4", _) => (0.3, 0.6),
                ("S think 16", "spec") => (0.75, 0.9),
                ("S think 16", _) => (0.72, 0.9),
                (_, "spec") => (0.65, 0.9),
                _ => (0.6, 0.85),
            };
            outcome = outcome.values([
                Value::new(format!("8 KB, {name}, {short}"), "", relative(1))
                    .paper_above(1.0)
                    .band(1.5, 3.0)
                    .checked_if(model),
                Value::new(format!("16 KB, {name}, {short}"), "", relative(2))
                    .paper_above(1.0)
                    .band(1.2, 2.0)
                    .checked_if(model),
                Value::new(format!("64 KB, {name}, {short}"), "", relative(4))
                    .paper(1.0)
                    .band(band.0, band.1)
                    .checked_if(long),
                Value::new(format!("128 KB, {name}, {short}"), "", relative(5)),
                Value::new(format!("steps that do not get better, {name}, {short}"), "", {
                    percents.windows(2).filter(|pair| pair[1] > pair[0] * 1.001).count() as f64
                })
                .band(0.0, 0.0),
            ]);
            let points =
                KIB.iter().zip(&percents).map(|(kib, percent)| (*kib as f64, percent / percents[3]));
            chart = chart.with(Series::line(format!("{name}, {short}"), points.collect()));
        }
    }
    outcome.verdict = verdict(&found);
    outcome.notes = notes(&workloads);
    Ok(outcome.chart(chart).note(
        "an earlier study of this model had 0.64 and 0.85 for 64 KB, where our bands are around our own figures: seven seeds give \
         0.57 to 0.75 at think × 4 and 0.84 to 0.88 at think × 16",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_the_paper_agree_with_themselves() {
        assert_eq!(verdict(&[("one", 1.4, 0.98), ("two", 1.3, 1.0)]).word(), "agrees");
        assert_eq!(verdict(&[("one", 1.4, 0.98), ("two", 1.3, 0.84)]).word(), "differs");
        assert_eq!(verdict(&[("one", 1.02, 0.98)]).word(), "differs", "16 KB are no worse");
    }
}
