//! Libraries do not print. Those whose runs repeat read neither clocks nor tables of random order.

use super::{Finding, Tree};
use crate::source::has_word;

/// The libraries that must behave identically in every run.
const DETERMINISTIC: [&str; 11] = [
    "cpu", "flow-key", "packet", "flow-table", "classifier", "rules", "scheduler", "tcb-cache", "traffic",
    "engine", "apps",
];

/// Files that read the clock: the runs of an interface cannot be repeated.
const CLOCKS: [&str; 2] = ["crates/engine/src/stage/clock.rs", "crates/traffic/src/live.rs"];

/// Words, and what to do instead.
const PRINTING: [&str; 4] = ["println!", "eprintln!", "print!", "eprint!"];
const RANDOM: [&str; 4] = ["HashMap", "HashSet", "Instant::now", "SystemTime::now"];

/// Checks the code of every library, apart from its tests.
pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in tree.rust() {
        let Some(library) = file.library().filter(|library| *library != "cli") else { continue };
        let is_free = !DETERMINISTIC.contains(&library)
            || CLOCKS.contains(&file.path.as_str())
            || file.path.ends_with("/oracle.rs");
        for (number, line) in file.product_lines() {
            let has = |word: &&&str| has_word(line, word.trim_end_matches('!')) && line.contains(**word);
            if let Some(word) = PRINTING.iter().find(has) {
                findings.push(Finding::new(
                    &file.path,
                    number,
                    format!("{word} in a library"),
                    "return a value; only the command prints",
                ));
            }
            if let Some(word) = RANDOM.iter().find(has).filter(|_| !is_free) {
                findings.push(Finding::new(
                    &file.path,
                    number,
                    format!("{word} in a library whose runs repeat"),
                    "take the time as an argument; use flow-table, a sorted Vec or a BTreeMap",
                ));
            }
        }
    }
}
