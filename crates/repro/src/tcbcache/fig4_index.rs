//! Index functions, alone and several at a time [TCBCACHE §2.3, §3.1, Fig. 4].

use flowloom::tcb_cache::{CacheSpec, Geometry, IndexFunction, Policy};
use flowloom_measure::chart::{Axis, Chart, Series};

use super::workload::{draws, misses, notes, workloads};
use crate::experiment::{Context, Fidelity, Item, ItemError, Outcome, Value, Verdict};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "tcbcache/fig4_index",
    place: "§3.1, Fig. 4",
    claim: "Mod and XOR are worst, PMod and PDisp between, Universal and CRC best; two Universal functions are best of all, four are worse than two",
    fidelity: &[Fidelity::Simulated],
    run,
};

fn schemes() -> Result<Vec<(&'static str, CacheSpec)>, ItemError> {
    let one = |index| CacheSpec { index, ..CacheSpec::BASELINE };
    let several = |index, banks: u32| -> Result<CacheSpec, ItemError> {
        let geometry = Geometry::new(Geometry::PAPER.bytes(), 64, banks, 8 / banks)
            .map_err(ItemError::during("shaping a cache"))?;
        Ok(CacheSpec { geometry, index, policy: Policy::Enru, ..CacheSpec::PAPER })
    };
    let universal = IndexFunction::PAPER;
    let (xor, pdisp) = (IndexFunction::Xor, IndexFunction::PrimeDisplacement);
    Ok(vec![
        ("Mod", one(IndexFunction::Modulo)),
        ("XOR", one(xor)),
        ("PMod", one(IndexFunction::PrimeModulo)),
        ("PDisp", one(pdisp)),
        ("CRC", one(IndexFunction::Crc)),
        ("1-Universal", one(universal)),
        ("2-XOR", several(xor, 2)?),
        ("2-PDisp", several(pdisp, 2)?),
        ("2-Universal", several(universal, 2)?),
        ("4-XOR", several(xor, 4)?),
        ("4-PDisp", several(pdisp, 4)?),
        ("4-Universal", several(universal, 4)?),
    ])
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let (schemes, workloads) = (schemes()?, workloads(context)?);
    let names: Vec<&str> = schemes.iter().map(|(name, _)| *name).collect();
    let mut chart = Chart::bars("Misses by index function, of those of Mod", names, Axis::linear("of Mod"));
    let mut outcome = Outcome::new(Verdict::differs(
        "Mod and XOR are worst, CRC and Universal best among single functions, and four banks are worse than two: as \
         the paper has it. But PDisp is as bad as Mod, since the tag's low bits are port bits as well, and two \
         Universal functions under ENRU do not reach one under LRU: the pseudo-LRU costs more than the second bank gains",
    ));
    // Four functions are worse than two by a per cent; one bad draw of three hides that.
    let draws = draws(context) * 3;
    for workload in &workloads {
        let mut percents = Vec::new();
        for (_, spec) in &schemes {
            percents.push(misses(context, &workload.trace, *spec, draws)?.median());
        }
        let of = |name: &str| {
            let at = schemes.iter().position(|(known, _)| *known == name).unwrap_or(0);
            percents[at]
        };
        let model = workload.is_model;
        let short = workload.short;
        let ratio = |a: &str, b: &str| Value::new(format!("{a} of {b}, {short}"), "", of(a) / of(b));
        outcome = outcome.values([
            Value::new(format!("Mod, {short}"), "%", of("Mod")),
            ratio("XOR", "Mod").band(0.97, 1.03).checked_if(model),
            ratio("PDisp", "Mod").band(0.97, 1.03).checked_if(model),
            ratio("PMod", "Mod").band(0.4, 0.8).checked_if(model),
            ratio("CRC", "1-Universal").band(0.95, 1.05).checked_if(model),
            ratio("1-Universal", "Mod").band(0.4, 0.75),
            ratio("2-Universal", "1-Universal").band(1.0, 1.12).checked_if(model),
            ratio("4-Universal", "2-Universal").band(1.0, 1.1).checked_if(model),
        ]);
        let mod_percent = of("Mod");
        chart = chart.with(Series::bars(short, percents.iter().map(|percent| percent / mod_percent)));
    }
    outcome.notes = notes(&workloads);
    Ok(outcome
        .chart(chart)
        .note("single functions: 64 sets of 8 ways, LRU; several: banks of 64 sets, 8 ways in all, ENRU")
        .note(format!("median of {draws} draws")))
}
