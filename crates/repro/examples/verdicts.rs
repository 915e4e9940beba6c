//! Prints each item's verdict, and the values outside their bands, at the smallest scale.
//!
//! The arguments name papers or items. `cargo xtask item-mutants` compares the lines of a mutant
//! with those of the unchanged program. The word of a verdict that rests on measured times is `-`,
//! because it may change with the load of the machine.

#![expect(clippy::print_stdout, reason = "a program's output")]

use flowloom_repro::{Context, Fidelity, Scale, select};

fn main() {
    for item in std::env::args().skip(1).flat_map(|name| select(&name)) {
        let run = || (item.run)(&Context::new(Scale::Smoke, 1, &|| true));
        let line = match std::panic::catch_unwind(run) {
            Err(_) => String::from("panics"),
            Ok(Err(error)) => error.to_string().replace('\n', " "),
            Ok(Ok(outcome)) => {
                let is_timed = item.fidelity.contains(&Fidelity::Measured);
                let outside: Vec<&str> = outcome.failed().map(|value| value.name.as_str()).collect();
                let word = if is_timed { "-" } else { outcome.verdict.word() };
                format!("{word}; outside: {}", outside.join(", "))
            }
        };
        println!("{}\t{line}", item.id);
    }
}
