//! Checks for code that is not allowed: silenced lints, unfinished work, printing, clocks, the
//! standard hash tables.

use super::{Finding, Tree};
use crate::source::{SourceFile, has_word};

/// The libraries that must behave identically in every run, by directory.
const DETERMINISTIC: [&str; 11] = [
    "crates/cpu/",
    "crates/flow-key/",
    "crates/packet/",
    "crates/flow-table/",
    "crates/classifier/",
    "crates/rules/",
    "crates/scheduler/",
    "crates/tcb-cache/",
    "crates/traffic/",
    "crates/engine/",
    "crates/apps/",
];

/// Returns whether a file may use the standard hash table or read the clock.
fn is_exempt(path: &str) -> bool {
    // An interface is live: its runs cannot be repeated.
    let live = ["crates/engine/src/runtime/clock.rs", "crates/traffic/src/live.rs"];
    live.contains(&path) || path.ends_with("/oracle.rs")
}

/// Checks every Rust file.
pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in tree.rust() {
        silenced_lints(file, findings);
        unfinished_work(file, findings);
        printing(file, findings);
        nondeterminism(file, findings);
    }
}

fn silenced_lints(file: &SourceFile, findings: &mut Vec<Finding>) {
    // Open brackets inside a `cfg_attr`, which may span lines.
    let mut open = 0_usize;
    for (number, line) in file.code_lines() {
        let packed: String = line.chars().filter(|c| !c.is_whitespace()).collect();
        let begins = packed.find("cfg_attr(").map(|at| at + "cfg_attr".len());
        let from = if open > 0 { Some(0) } else { begins };
        let conditional = from.is_some_and(|at| has_word(&packed[at..], "allow"));
        for bracket in from.map_or("", |at| &packed[at..]).chars() {
            match bracket {
                '(' => open += 1,
                ')' => open = open.saturating_sub(1),
                _ => {}
            }
        }
        if packed.contains("#[allow(") || packed.contains("#![allow(") || conditional {
            findings.push(Finding::new(
                &file.path,
                number,
                "silences a lint with `allow`",
                "an `allow` stays when its reason is gone, while an `expect` then warns",
                "write #[expect(lint, reason = \"…\")] at the smallest scope",
            ));
        }
    }
}

fn unfinished_work(file: &SourceFile, findings: &mut Vec<Finding>) {
    const MACROS: [&str; 3] = ["todo!", "unimplemented!", "dbg!"];
    // Concatenated, because otherwise this file would break its own rule.
    let notes = [concat!("TO", "DO"), concat!("FIX", "ME")];
    for ((number, code), text) in file.code_lines().zip(file.text.lines()) {
        let in_code = MACROS.iter().find(|&&word| {
            code.match_indices(word)
                .any(|(at, _)| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
        });
        let found = in_code.copied().or_else(|| notes.into_iter().find(|word| has_word(text, word)));
        if let Some(word) = found {
            findings.push(Finding::new(
                &file.path,
                number,
                format!("{word} in the code"),
                "committed code is finished; plans are issues",
                "finish it, or remove it",
            ));
        }
    }
}

fn printing(file: &SourceFile, findings: &mut Vec<Finding>) {
    if !file.is_library() || file.path.starts_with("crates/cli/") {
        return;
    }
    for (number, line) in file.product_lines() {
        let printed = ["println", "eprintln", "print", "eprint"]
            .into_iter()
            .find(|name| has_word(line, name) && line.contains(&format!("{name}!")));
        if let Some(name) = printed {
            findings.push(Finding::new(
                &file.path,
                number,
                format!("{name}! in a library"),
                "only the command prints; a library returns values",
                "return a value and print it in crates/cli",
            ));
        }
    }
}

fn nondeterminism(file: &SourceFile, findings: &mut Vec<Finding>) {
    let is_listed = DETERMINISTIC.iter().any(|folder| file.path.starts_with(folder));
    if !is_listed || !file.is_library() || is_exempt(&file.path) {
        return;
    }
    for (number, line) in file.product_lines() {
        let found = if has_word(line, "HashMap") || has_word(line, "HashSet") {
            Some((
                "uses the standard library's hash table",
                "it allocates, and its order changes from run to run",
                "use flow-table, a sorted Vec or a BTreeMap; oracles live in oracle.rs",
            ))
        } else if line.contains("Instant::now") || has_word(line, "SystemTime") {
            Some((
                "reads the clock",
                "time enters as a value, so that a run can be repeated",
                "take the time as an argument; only engine/clock.rs and the front ends read the clock",
            ))
        } else {
            None
        };
        if let Some((what, why, remedy)) = found {
            findings.push(Finding::new(&file.path, number, what, why, remedy));
        }
    }
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
    fn allow_is_found_and_expect_is_not() {
        let text =
            "#[allow(dead_code)]\nfn a() {}\n#![allow( x )]\n#[expect(x, reason = \"\")]\n// #[allow(x)]\n";
        let found = findings("crates/a/src/b.rs", text);
        assert_eq!(found, ["1: silences a lint with `allow`", "3: silences a lint with `allow`"]);
    }

    #[test]
    fn allow_under_a_condition_is_found_too() {
        let text = "#[cfg_attr(test, allow(dead_code))]\nfn a() { allow() }\n#![cfg_attr(\n    all(not(x), y),\n    allow(z)\n)]\n\
                    #[cfg_attr(x, expect(y))]\nfn allow() {}\n";
        let found = findings("crates/a/src/b.rs", text);
        assert_eq!(found, ["1: silences a lint with `allow`", "5: silences a lint with `allow`"]);
    }

    #[test]
    fn unfinished_work_is_found_in_code_and_comments() {
        let text = format!(
            "fn a() {{ todo!() }}\n// {}: later\nlet x = my_todo!(); // todo!\ndbg!(x);\n",
            concat!("FIX", "ME")
        );
        let found = findings("crates/a/src/b.rs", &text);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[1].starts_with("2:") && found[2].starts_with("4: dbg!"));
    }

    #[test]
    fn libraries_do_not_print_but_the_command_and_tests_do() {
        let text =
            "fn a() { println!(\"x\"); }\n#[cfg(test)]\nmod tests { fn b() { eprintln!(\"y\"); } }\n";
        assert_eq!(findings("crates/engine/src/b.rs", text), ["1: println! in a library"]);
        for path in [
            "crates/cli/src/b.rs",
            "xtask/src/b.rs",
            "crates/engine/tests/b.rs",
            "crates/engine/examples/b.rs",
        ] {
            assert!(findings(path, text).is_empty(), "{path}");
        }
    }

    #[test]
    fn clocks_and_standard_tables_stay_out_of_deterministic_crates() {
        let text = "use std::collections::HashMap;\nfn a() { Instant::now(); SystemTime::now(); }\n";
        assert_eq!(findings("crates/flow-table/src/b.rs", text).len(), 2);
        for path in
            ["crates/flow-table/src/oracle.rs", "crates/engine/src/runtime/clock.rs", "crates/cli/src/b.rs"]
        {
            assert!(findings(path, text).is_empty(), "{path}");
        }
    }
}
