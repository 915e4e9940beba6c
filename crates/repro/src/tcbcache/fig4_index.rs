//! Index functions, alone and in combination [TCBCACHE §2.3, §3.1, Fig. 4].

use flowloom::tcb_cache::{CacheSpec, Geometry, IndexFunction, Policy};
use flowloom_measure::chart::{Axis, Chart, Series};

use super::workload::{PORTS, draws, misses, notes, workloads};
use crate::experiment::{Agreement, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::variation::BOTH_RUN;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "tcbcache/fig4_index",
    place: "§3.1, Fig. 4",
    claim: "Mod and XOR are worst, PMod and PDisp between, Universal and CRC best; two Universal functions are best of all, four are worse than two",
    numbers: "none: the bars of Fig. 4 are not legible in our copy, §3.1 states an order",
    fidelity: &[Fidelity::Simulated],
    unswitched: BOTH_RUN,
    guesses: &[PORTS],
    run,
    ..Item::PLAIN
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

/// Returns the parts of the claim, and whether each holds for these misses. Two values within 3 %
/// count as equal.
fn claims(of: impl Fn(&str) -> f64) -> [(&'static str, bool); 6] {
    let below = |a: &str, b: &str| of(a) < 0.97 * of(b);
    let two = |name: &str| of(&format!("2-{name}"));
    let all = [
        "XOR", "PMod", "PDisp", "CRC", "1-Universal", "2-XOR", "2-PDisp", "4-XOR", "4-PDisp", "4-Universal",
    ];
    [
        (
            "Mod and XOR are worst of single functions",
            ["PMod", "CRC", "1-Universal"].iter().all(|one| below(one, "Mod") && below(one, "XOR")),
        ),
        (
            "CRC and Universal are best of them",
            ["Mod", "XOR", "PMod", "PDisp"].iter().all(|one| of("CRC").max(of("1-Universal")) < of(one)),
        ),
        ("PDisp is better than Mod", below("PDisp", "Mod")),
        (
            "two functions are better than one",
            two("XOR") < of("XOR") && two("PDisp") < of("PDisp") && two("Universal") < of("1-Universal"),
        ),
        ("two Universal functions are best of all", all.iter().all(|one| two("Universal") < of(one))),
        ("four Universal functions are worse than two", of("4-Universal") > two("Universal")),
    ]
}

fn verdict(found: &[(&str, [(&'static str, bool); 6])]) -> Agreement {
    let (mut as_claimed, mut not) = (Vec::new(), Vec::new());
    for at in 0..found.first().map_or(0, |one| one.1.len()) {
        let claim = found[0].1[at].0;
        let wrong: Vec<&str> = found.iter().filter(|one| !one.1[at].1).map(|one| one.0).collect();
        if wrong.is_empty() {
            as_claimed.push(claim.to_owned());
        } else {
            not.push(format!("{claim} (not on {})", wrong.join(", ")));
        }
    }
    Agreement::from_check(
        not.is_empty(),
        as_claimed.join("; "),
        format!(
            "as in the paper: {}. Not confirmed: {}. The tag's low bits are port bits as well, so displacing by them changes nothing, and the \
             pseudo-LRU of several banks costs more than they gain",
            as_claimed.join("; "),
            not.join("; ")
        ),
    )
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let (schemes, workloads) = (schemes()?, workloads(context)?);
    let names: Vec<&str> = schemes.iter().map(|(name, _)| *name).collect();
    let mut chart = Chart::bars("Misses by index function, of those of Mod", names, Axis::linear("of Mod"));
    let mut outcome = Outcome::new(Agreement::cannot_run("nothing was simulated"));
    let mut found = Vec::new();
    // Four functions are worse than two by one percent; one bad draw of three hides this.
    let draws = draws(context) * 3;
    for workload in &workloads {
        let mut percents = Vec::new();
        for (_, spec) in &schemes {
            percents.push(misses(context, &workload.trace, *spec, draws)?.median());
        }
        let misses = |name: &str| {
            let at = schemes.iter().position(|(known, _)| *known == name).unwrap_or(0);
            percents[at]
        };
        let model = workload.is_model;
        let short = workload.short;
        let ratio =
            |a: &str, b: &str| Value::new(format!("{a} of {b}, {short}"), "", misses(a) / misses(b));
        outcome = outcome.values([
            Value::new(format!("Mod, {short}"), "%", misses("Mod")),
            ratio("XOR", "Mod").band(0.97, 1.03).checked_if(model),
            ratio("PDisp", "Mod").band(0.97, 1.03).checked_if(model),
            ratio("PMod", "Mod").band(0.4, 0.8).checked_if(model),
            ratio("CRC", "1-Universal").band(0.95, 1.05).checked_if(model),
            ratio("1-Universal", "Mod").band(0.4, 0.75),
            ratio("2-XOR", "XOR"),
            ratio("2-PDisp", "PDisp"),
            ratio("2-Universal", "1-Universal").band(1.0, 1.12).checked_if(model),
            ratio("4-Universal", "2-Universal").band(1.0, 1.1).checked_if(model),
        ]);
        found.push((short, claims(misses)));
        let mod_percent = misses("Mod");
        chart = chart.with(Series::bars(short, percents.iter().map(|percent| percent / mod_percent)));
    }
    outcome.verdict = verdict(&found);
    outcome.notes = notes(&workloads);
    Ok(outcome
        .chart(chart)
        .note("single functions: 64 sets of 8 ways, LRU; several: banks of 64 sets, 8 ways in all, ENRU")
        .note(format!("median of {draws} draws")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_in_the_order_of_the_paper_agree() {
        let displaced = |pdisp: f64| {
            move |name: &str| match name {
                "Mod" | "XOR" => 1.0,
                "PMod" => 0.9,
                "PDisp" => pdisp,
                "CRC" | "1-Universal" => 0.7,
                "2-Universal" => 0.6,
                _ => 0.65,
            }
        };
        let agrees = verdict(&[("one", claims(displaced(0.9)))]);
        assert_eq!(agrees.word(), "agrees", "{}", agrees.text());
        let differs = verdict(&[("one", claims(displaced(0.9))), ("two", claims(displaced(1.0)))]);
        assert_eq!(differs.word(), "differs");
        assert!(
            differs.text().contains("Not confirmed: PDisp is better than Mod (not on two)."),
            "{}",
            differs.text()
        );
    }
}
