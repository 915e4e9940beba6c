//! Prints each item's verdict, and the values outside their bands.
//!
//! ```text
//! verdicts [--seeds N] [--scale smoke|quick|full] [--data FOLDER] [--values] PAPER|ITEM…
//! ```
//!
//! With several seeds, from 1 on, a word stands with the number of its seeds, and a value with the
//! number of seeds outside its band and the range over all seeds; `--values` lists every value so.
//! The word of a verdict that rests on measured times is `-`, because it may change with the load
//! of the machine.

#![expect(clippy::print_stdout, reason = "a program's output")]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use flowloom_repro::{Context, Fidelity, Item, Outcome, Scale, Value, select};

fn main() {
    let (mut seeds, mut scale, mut data) = (1, Scale::Smoke, None::<PathBuf>);
    let (mut items, mut lists_values) = (Vec::<&Item>::new(), false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut next = || arguments.next().unwrap_or_default();
        match argument.as_str() {
            "--seeds" => seeds = next().parse().expect("--seeds needs a number"),
            "--scale" => {
                scale = match next().as_str() {
                    "smoke" => Scale::Smoke,
                    "quick" => Scale::Quick,
                    "full" => Scale::Full,
                    other => panic!("no scale '{other}': smoke, quick or full"),
                }
            }
            "--data" => data = Some(next().into()),
            "--values" => lists_values = true,
            name => items.extend(select(name)),
        }
    }
    for item in items {
        let (mut words, mut outcomes) = (BTreeMap::<String, u32>::new(), Vec::new());
        for seed in 1..=seeds {
            let context = Context { data: data.as_deref(), ..Context::new(scale, seed, &|| true) };
            let run = || (item.run)(&context).map(Outcome::held_to_bounds);
            let word = match catch_unwind(AssertUnwindSafe(run)) {
                Err(_) => String::from("panics"),
                Ok(Err(error)) => error.to_string().replace('\n', " "),
                Ok(Ok(outcome)) => {
                    let is_timed = item.fidelity.contains(&Fidelity::Measured);
                    let word = if is_timed { "-" } else { outcome.verdict.word() };
                    outcomes.push(outcome);
                    word.to_owned()
                }
            };
            *words.entry(word).or_default() += 1;
        }
        let of_seeds =
            |(word, count): (String, u32)| if seeds > 1 { format!("{word} {count}") } else { word };
        let words: Vec<String> = words.into_iter().map(of_seeds).collect();
        let values = by_name(&outcomes);
        let failed = values.iter().filter(|(_, same)| same.iter().any(|value| !value.holds()));
        let outside: Vec<String> = failed
            .map(|(name, same)| if seeds > 1 { range(name, same) } else { (*name).to_owned() })
            .collect();
        println!("{}\t{}; outside: {}", item.id, words.join(", "), outside.join(", "));
        for (name, same) in values.iter().filter(|_| lists_values) {
            println!("\t{}", range(name, same));
        }
    }
}

/// Returns the values of all outcomes by name, in the order of the first.
fn by_name(outcomes: &[Outcome]) -> Vec<(&str, Vec<&Value>)> {
    let mut names: Vec<(&str, Vec<&Value>)> = Vec::new();
    for value in outcomes.iter().flat_map(|outcome| &outcome.values) {
        match names.iter_mut().find(|(name, _)| *name == value.name) {
            Some((_, same)) => same.push(value),
            None => names.push((&value.name, vec![value])),
        }
    }
    names
}

/// Describes a value over seeds: how many lie outside the band, and which range all take.
fn range(name: &str, same: &[&Value]) -> String {
    let count = f64::from(u32::try_from(same.len()).unwrap_or(u32::MAX));
    let mean = same.iter().map(|value| value.ours).sum::<f64>() / count;
    let deviation = (same.iter().map(|value| (value.ours - mean).powi(2)).sum::<f64>() / count).sqrt();
    let least = same.iter().map(|value| value.ours).fold(f64::INFINITY, f64::min);
    let most = same.iter().map(|value| value.ours).fold(f64::NEG_INFINITY, f64::max);
    let outside = same.iter().filter(|value| !value.holds()).count();
    let band = same[0].band_text();
    let paper = same[0].paper.map_or_else(String::new, |paper| format!(", paper {paper:.4e}"));
    format!("{name} ({outside}: {least:.4} … {mean:.4} ± {deviation:.4} … {most:.4} in {band}{paper})")
}
