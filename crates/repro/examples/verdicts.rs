//! Prints each item's verdict, and the values outside their bands.
//!
//! ```text
//! verdicts [--seeds N] [--scale smoke|quick|full] [--data FOLDER] PAPER|ITEM…
//! ```
//!
//! With several seeds, from 1 on, a word stands with the number of its seeds, and a value with the number of seeds that
//! have it outside, the least and the greatest of all seeds, and its band. `cargo xtask item-mutants` compares the lines
//! of a mutant with those of the unchanged program. The word of a verdict that rests on measured times is `-`, because
//! it may change with the load of the machine.

#![expect(clippy::print_stdout, reason = "a program's output")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use flowloom_repro::{Context, Fidelity, Item, Outcome, Scale, select};

/// What the seeds of an item gave, in their order.
struct Seeds {
    words: Vec<String>,
    outcomes: Vec<Outcome>,
}

fn main() {
    let (mut seeds, mut scale, mut data, mut items) = (1, Scale::Smoke, None::<PathBuf>, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut next = || arguments.next().unwrap_or_default();
        match argument.as_str() {
            "--seeds" => seeds = next().parse().expect("--seeds needs a number"),
            "--scale" => {
                scale = match next().as_str() {
                    "smoke" => Scale::Smoke,
                    "quick" => Scale::Quick,
                    _ => Scale::Full,
                }
            }
            "--data" => data = Some(next().into()),
            name => items.extend(select(name)),
        }
    }
    for item in items {
        let of = |seed| Context { data: data.as_deref(), ..Context::new(scale, seed, &|| true) };
        let mut found = Seeds { words: Vec::new(), outcomes: Vec::new() };
        for seed in 1..=seeds {
            found.run(item, &of(seed));
        }
        println!("{}\t{}", item.id, found.line());
    }
}

impl Seeds {
    fn run(&mut self, item: &Item, context: &Context<'_>) {
        let run = || (item.run)(context).map(Outcome::held_to_bounds);
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
            Err(_) => self.words.push(String::from("panics")),
            Ok(Err(error)) => self.words.push(error.to_string().replace('\n', " ")),
            Ok(Ok(outcome)) => {
                let is_timed = item.fidelity.contains(&Fidelity::Measured);
                self.words.push(String::from(if is_timed { "-" } else { outcome.verdict.word() }));
                self.outcomes.push(outcome);
            }
        }
    }

    fn line(&self) -> String {
        let mut words = BTreeMap::new();
        for word in &self.words {
            *words.entry(word.as_str()).or_insert(0) += 1;
        }
        let several = self.words.len() > 1;
        let word = |(word, count): (&&str, &i32)| {
            if several { format!("{word} {count}") } else { (*word).to_owned() }
        };
        let words = words.iter().map(word).collect::<Vec<_>>().join(", ");
        format!("{words}; outside: {}", self.outside().join(", "))
    }

    /// Returns the values that some seed has outside its band.
    fn outside(&self) -> Vec<String> {
        let mut names: Vec<&str> = Vec::new();
        for value in self.outcomes.iter().flat_map(Outcome::failed) {
            if !names.contains(&value.name.as_str()) {
                names.push(&value.name);
            }
        }
        let described = |name: &str| {
            let all: Vec<_> = self
                .outcomes
                .iter()
                .flat_map(|outcome| &outcome.values)
                .filter(|value| value.name == name)
                .collect();
            let least = all.iter().map(|value| value.ours).fold(f64::INFINITY, f64::min);
            let most = all.iter().map(|value| value.ours).fold(f64::NEG_INFINITY, f64::max);
            let count = all.iter().filter(|value| !value.holds()).count();
            format!("{name} ({count}: {least:.4} … {most:.4} in {})", all[0].band_text())
        };
        names
            .into_iter()
            .map(|name| if self.words.len() > 1 { described(name) } else { name.to_owned() })
            .collect()
    }
}
