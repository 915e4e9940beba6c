//! Words that are not the usual terms, and their replacements, in comments, identifiers, strings,
//! and documents. A word counts in any case, as a part of an identifier, and with a final `s`.

use super::{Finding, Tree};

/// A word in lower case, and what to write.
const GLOSSARY: [(&str, &str); 23] = [
    ("basket", "descriptor batch"),
    ("clerk", "the name of the stage"),
    ("crew", "workers"),
    ("desk", "the name of the queue or stage"),
    ("discipline", "policy"),
    ("everybody", "all, with the noun"),
    ("ledger", "claims page; checked answers; table"),
    ("lot", "batch; many"),
    ("mend", "fix"),
    ("mended", "fixed"),
    ("nobody", "no, with the noun; nothing"),
    ("outline", "packet descriptor"),
    ("parcel", "packet descriptor"),
    ("portion", "batch; part"),
    ("room", "crate, module; space, capacity"),
    ("sieve", "prefilter"),
    ("somebody", "a thread, another writer, the caller"),
    ("stock", "batch pool"),
    ("stranger", "another flow; outside load"),
    ("tray", "descriptor batch"),
    ("whoever", "which, with the noun; the caller"),
    ("whomever", "which, with the noun"),
    ("workshop", "development tasks"),
];

/// Places where a word has another meaning: SIEVE is the published name of a replacement policy.
const EXCEPTIONS: [(&str, &str); 7] = [
    ("xtask/src/tidy/", "*"),
    ("crates/tcb-cache/", "sieve"),
    ("benches/src/caches.rs", "sieve"),
    ("docs/performance/simulators.md", "sieve"),
    ("crates/repro/src/tcbcache/", "sieve"),
    ("crates/lab/src/args/simulate/tcb_cache.rs", "sieve"),
    ("fuzz/", "sieve"),
];

/// Searches every text file except licences, lock files and data.
pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let is_checked =
        |path: &str| [".rs", ".md", ".toml", ".ci/run", ".c"].into_iter().any(|end| path.ends_with(end));
    for file in tree.sources.iter().filter(|file| is_checked(&file.path)) {
        for (number, line) in (1..).zip(file.text.lines()) {
            for word in words(line) {
                let known = |(term, _): &&(&str, &str)| {
                    word == *term || word.strip_suffix('s').is_some_and(|one| one == *term)
                };
                let Some((term, instead)) = GLOSSARY.iter().find(known) else { continue };
                let is_excepted = |(place, except): &(&str, &str)| {
                    file.path.starts_with(place) && (*except == "*" || except == term)
                };
                if !EXCEPTIONS.iter().any(is_excepted) {
                    let what = format!("says '{word}'");
                    findings.push(Finding::new(&file.path, number, what, format!("write {instead}")));
                }
            }
        }
    }
}

/// Returns the words of a line in lower case; identifiers are split at underscores and capitals.
fn words(line: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut was_lower = false;
    for c in line.chars() {
        if !c.is_ascii_alphabetic() || (was_lower && c.is_ascii_uppercase()) {
            found.push(String::new());
        }
        if let (true, Some(word)) = (c.is_ascii_alphabetic(), found.last_mut()) {
            word.push(c.to_ascii_lowercase());
        }
        was_lower = c.is_ascii_lowercase();
    }
    found
}
