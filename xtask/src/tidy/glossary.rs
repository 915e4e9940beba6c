//! The glossary: words that are not the usual terms for these things, and their replacements.
//!
//! The rule applies to comments, identifiers, strings, documents and manifests. A word counts
//! alone, in any case, and as a part of an identifier: `batch_of_lots` and `LotPool` contain `lot`.

use super::{Finding, Tree};
use crate::source::SourceFile;

/// A word or phrase in lower case, and its replacement.
const GLOSSARY: [(&str, &str); 51] = [
    ("basket", "descriptor batch"),
    ("baskets", "descriptor batches"),
    ("clerk", "the name of the stage"),
    ("clerks", "the names of the stages"),
    ("crew", "workers"),
    ("crews", "workers"),
    ("desk", "the name of the queue or stage"),
    ("desks", "the names of the queues or stages"),
    ("discipline", "policy"),
    ("disciplines", "policies"),
    ("everybody", "all, with the noun"),
    ("floor", "layer; lower bound"),
    ("floors", "layers; lower bounds"),
    ("ledger", "claims page; checked answers; table"),
    ("ledgers", "claims pages; tables"),
    ("let go", "evict, remove, release"),
    ("lets go", "evicts, removes, releases"),
    ("letting go", "evicting, removing, releasing"),
    ("lot", "batch; many"),
    ("lots", "batches; many"),
    ("mend", "fix"),
    ("mended", "fixed"),
    ("mends", "fixes"),
    ("nobody", "no, with the noun; nothing"),
    ("outline", "packet descriptor"),
    ("outlines", "packet descriptors"),
    ("parcel", "packet descriptor"),
    ("parcels", "packet descriptors"),
    ("portion", "batch; part"),
    ("portions", "batches; parts"),
    ("room", "crate, module; space, capacity"),
    ("rooms", "crates, modules"),
    ("sieve", "prefilter"),
    ("sieves", "prefilters"),
    ("somebody", "a thread, another writer, the caller"),
    ("stock", "batch pool"),
    ("stocks", "batch pools"),
    ("stranger", "another flow; outside load"),
    ("strangers", "other flows; outside load; independent test"),
    ("take turns", "alternate"),
    ("takes turns", "alternates"),
    ("taking turns", "alternating"),
    ("to the letter", "exactly as the paper has it; reference implementation"),
    ("tray", "descriptor batch"),
    ("trays", "descriptor batches"),
    ("turns at", "sequence at, order of"),
    ("by turns", "alternately"),
    ("in turns", "alternately"),
    ("whoever", "which, with the noun; the caller"),
    ("whomever", "which, with the noun"),
    ("workshop", "development tasks"),
];

/// Places where a word has another meaning.
const EXCEPTIONS: [(&str, &str); 7] = [
    // The list itself.
    ("xtask/src/tidy/glossary.rs", "*"),
    // SIEVE is the published name of a replacement policy.
    ("crates/tcb-cache/", "sieve"),
    ("benches/src/caches.rs", "sieve"),
    ("docs/performance/simulators.md", "sieve"),
    ("crates/repro/src/tcbcache/", "sieve"),
    ("crates/lab/src/args/simulate/tcb_cache.rs", "sieve"),
    ("fuzz/", "sieve"),
];

const WHY: &str = "readers know the usual terms, but not private ones";

/// Searches for the words of the glossary in every text file except licences, lock files and data.
pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in tree.sources.iter().filter(|file| is_checked(&file.path)) {
        for (line, word, instead) in forbidden(file) {
            findings.push(Finding::new(
                &file.path,
                line,
                format!("says '{word}'"),
                WHY,
                format!("write {instead}"),
            ));
        }
    }
}

fn is_checked(path: &str) -> bool {
    let ends = |end: &str| path.ends_with(end);
    [".rs", ".md", ".toml", ".ci/run", ".c"].into_iter().any(ends)
}

/// Returns line, phrase and replacement of each occurrence that no exception covers.
fn forbidden(file: &SourceFile) -> Vec<(usize, &'static str, &'static str)> {
    let words = words(&file.text);
    let mut found = Vec::new();
    for (first, word) in words.iter().enumerate() {
        for (phrase, instead) in GLOSSARY {
            let mut parts = phrase.split(' ');
            if parts.next() != Some(word.text.as_str()) || word.is_function {
                continue;
            }
            let rest = &words[first + 1..];
            let matches = parts.zip(0..).all(|(part, at): (&str, usize)| {
                rest.get(at).is_some_and(|next| next.text == part && next.follows)
            });
            let excepted = EXCEPTIONS.iter().any(|(place, excepted)| {
                file.path.starts_with(place) && (*excepted == "*" || phrase.starts_with(excepted))
            });
            if matches && !excepted && !(phrase == "let go" && binds_go(file, word.line)) {
                found.push((word.line, phrase, instead));
            }
        }
    }
    found
}

/// Returns whether a line of code binds a variable whose name begins with `go`.
fn binds_go(file: &SourceFile, line: usize) -> bool {
    file.code.lines().nth(line - 1).is_some_and(|code| code.contains("let go"))
}

/// A run of letters, in lower case; identifiers are split at underscores and capitals.
struct Word {
    line: usize,
    text: String,
    /// Whether only spaces, line breaks, comment marks or an underscore separate it from the
    /// previous word.
    follows: bool,
    /// Whether it is the mathematical function `floor(…)`.
    is_function: bool,
}

fn words(text: &str) -> Vec<Word> {
    let mut found: Vec<Word> = Vec::new();
    let mut line = 1;
    let mut follows = false;
    let mut is_inside = false;
    let mut was_lower = false;
    for (at, c) in text.char_indices() {
        if c.is_ascii_alphabetic() {
            let begins = !is_inside || (was_lower && c.is_ascii_uppercase());
            if begins {
                let follows = if is_inside { true } else { follows };
                found.push(Word { line, text: String::new(), follows, is_function: false });
                is_inside = true;
            }
            let word = found.last_mut().expect("a word was begun above");
            word.text.push(c.to_ascii_lowercase());
            was_lower = c.is_ascii_lowercase();
            let after = &text[at + 1..];
            word.is_function = word.text == "floor" && after.starts_with('(');
        } else {
            if is_inside {
                (is_inside, follows) = (false, true);
            }
            follows &= c.is_whitespace() || matches!(c, '_' | '/' | '!');
            line += usize::from(c == '\n');
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check(&Tree::of(&[(path, text)]), &mut findings);
        findings.iter().map(|finding| format!("{}: {}", finding.line, finding.what)).collect()
    }

    #[test]
    fn words_are_found_in_comments_identifiers_strings_and_documents() {
        let text = "// A Tray.\nfn lot_of(x: LotPool) {}\nconst A: &str = \"whoever\";\n";
        assert_eq!(
            findings("xtask/src/a.rs", text),
            ["1: says 'tray'", "2: says 'lot'", "2: says 'lot'", "3: says 'whoever'"]
        );
        assert_eq!(findings("docs/a.md", "x\n\nNobody waits.\n"), ["3: says 'nobody'"]);
        assert_eq!(findings("xtask/Cargo.toml", "floor = 3\n"), ["1: says 'floor'"]);
    }

    #[test]
    fn phrases_are_found_over_lines_and_in_identifiers() {
        let text = "/// May let\n/// go of it, to the letter.\nconst LETS_GO: bool = true;\n";
        assert_eq!(
            findings("xtask/src/a.rs", text),
            ["1: says 'let go'", "2: says 'to the letter'", "3: says 'lets go'"]
        );
        let code = "// It lets. Go on: let x, go.\nlet go_on = true;\n";
        assert!(findings("xtask/src/a.rs", code).is_empty());
    }

    #[test]
    fn parts_of_words_and_the_function_floor_are_fine() {
        let text = "// a slot, allotted; ashtrays, bedroom\nlet x = y.floor(); f64::floor(z);\n";
        assert!(findings("xtask/src/a.rs", text).is_empty());
        assert_eq!(findings("xtask/src/a.rs", "let floor = 3;\n").len(), 1);
    }

    #[test]
    fn exceptions_hold_for_their_word_and_place_only() {
        assert!(findings("docs/performance/simulators.md", "// SIEVE\n").is_empty());
        assert_eq!(findings("docs/performance/simulators.md", "// SIEVE, a tray\n").len(), 1);
        assert_eq!(findings("xtask/src/a.rs", "// SIEVE\n").len(), 1);
    }

    #[test]
    fn each_entry_is_lower_case_and_named_once() {
        for (at, (phrase, instead)) in GLOSSARY.iter().enumerate() {
            assert_eq!(*phrase, phrase.to_lowercase());
            assert!(!instead.is_empty());
            assert!(GLOSSARY[..at].iter().all(|(known, _)| known != phrase), "{phrase}");
        }
    }
}
