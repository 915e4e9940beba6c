//! `cargo xtask tidy`: the project's rules that neither rustc nor clippy checks.
//!
//! | rule | module |
//! | --- | --- |
//! | layers of crates, inherited lints | [`layers`] |
//! | unsafe code only in listed modules | [`unsafe_modules`] |
//! | citations name a known paper and place | [`citations`] |
//! | libraries do not print or read clocks | [`code_rules`] |
//! | words of the glossary | [`glossary`] |
//! | tables of published figures | [`figure_tables`] |
//! | sizes, width of comments, machine paths, hosts | [`files`] |
//! | licence texts in every package | [`licences`] |
//!
//! It also prints the lines of each crate.

mod citations;
mod code_rules;
mod figure_tables;
mod files;
mod glossary;
mod layers;
mod licences;
mod lines;
mod unsafe_modules;

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::program::exit_code;
use crate::source::{self, SourceFile};

/// A broken rule: the place, the problem, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    /// Line number, starting at 1; 0 means the whole file.
    line: usize,
    what: String,
    remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, what, remedy } = self;
        write!(f, "{path}:{line}: {what}\n    do:  {remedy}")
    }
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into(), remedy: remedy.into() }
    }
}

/// All files that the rules check.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    /// Text files, by path.
    sources: Vec<SourceFile>,
    /// Every file with its size in bytes.
    sizes: Vec<(String, u64)>,
}

impl Tree {
    fn read(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        for path in source::files(root)? {
            let bytes = std::fs::read(root.join(&path)).with_context(|| format!("cannot read {path}"))?;
            tree.add(path, bytes);
        }
        Ok(tree)
    }

    fn add(&mut self, path: String, bytes: Vec<u8>) {
        self.sizes.push((path.clone(), bytes.len() as u64));
        if let Ok(text) = String::from_utf8(bytes) {
            self.sources.push(SourceFile { path, text });
        }
    }

    fn rust(&self) -> impl Iterator<Item = &SourceFile> {
        self.sources.iter().filter(|file| file.is_rust())
    }

    fn get(&self, path: &str) -> Option<&SourceFile> {
        self.sources.iter().find(|file| file.path == path)
    }

    fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for rule in [
            layers::check,
            unsafe_modules::check,
            citations::check,
            code_rules::check,
            glossary::check,
            figure_tables::check,
            files::check,
            licences::check,
        ] {
            rule(self, &mut findings);
        }
        findings.sort();
        findings
    }
}

/// Checks the tree at `root`, prints the findings, and succeeds if there are none.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let tree = Tree::read(root)?;
    let findings = tree.findings();
    for finding in &findings {
        eprintln!("{finding}\n");
    }
    eprintln!("{}tidy: {} findings in {} files", lines::table(&tree), findings.len(), tree.sizes.len());
    Ok(exit_code(findings.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.add((*path).to_owned(), text.as_bytes().to_vec());
        }
        tree.findings().iter().map(ToString::to_string).collect()
    }

    fn manifest(name: &str, layer: i64, rest: &str) -> String {
        format!(
            "[package]\nname = \"{name}\"\npublish = false\n[package.metadata.flowloom]\nlayer = {layer}\n\
             [lints]\nworkspace = true\n{rest}"
        )
    }

    #[test]
    fn dependencies_upwards_are_found_in_every_table() {
        let both = |a: &str, b: &str| findings(&[("crates/a/Cargo.toml", a), ("crates/b/Cargo.toml", b)]);
        for table in
            ["dependencies", "build-dependencies", "dev-dependencies", "target.'cfg(unix)'.dependencies"]
        {
            for dependency in ["b = \"1\"", "x = { package = \"b\" }"] {
                let a = manifest("a", 3, &format!("[{table}]\n{dependency}\n"));
                assert!(both(&a, &manifest("b", 2, "")).is_empty());
                let found = both(&a, &manifest("b", 4, ""));
                assert!(found[0].contains("a (layer 3) depends on b (layer 4)"), "{table}: {found:?}");
            }
        }
        let two = manifest("a", 2, "[dev-dependencies]\nb = \"1\"\n");
        assert_eq!(both(&two, &manifest("b", 2, "")).len(), 1);
        let found = both("[package]\nname = \"a\"\npublish = false\n", &manifest("b", 2, ""));
        assert!(found[0].contains("does not inherit") && found[1].contains("names no layer"), "{found:?}");
    }

    #[test]
    fn each_tidy_rule_finds_exactly_its_violations() {
        let page = "| §III-B, Fig. 4 | `dhash/{signature,gone}.rs` |\nTable IV\n";
        let host = format!("a\nsee {}{}", "crates", ".io");
        let path = format!("cd \"/{}/me/x\"", "home");
        let long = format!("// {}\n", "word ".repeat(20));
        let many = "x\n".repeat(701);
        let big = "x".repeat((1 << 20) + 1);
        let figures = "<!-- figures: data/a.json rows=work -->\n| hit | 2.5 |\n<!-- end -->\n";
        let data = r#"{"ratios": [{"work": "hit", "ratio_median": 2.0}]}"#;
        for (path, text, found) in [
            ("crates/packet/src/a.rs", "#![expect(\n    unsafe_code,\n", "2: unsafe code outside"),
            ("crates/cpu/src/a.rs", "#![expect(unsafe_code, reason = \"\")]", ""),
            ("crates/packet/src/a.rs", "// unsafe_code\n#![deny(unsafe_code)]", ""),
            (
                "crates/x/src/signature.rs",
                "// [DHASH §III-B], [DHASH §III-B, Tab. IV], [DHASH Figure 4]",
                "",
            ),
            (
                "crates/x/src/a.rs",
                "// x\n// [DHASH §III]",
                "2: cites DHASH §III, which docs/papers/dhash.md",
            ),
            ("crates/x/src/a.rs", "// [DHASH Tab. IV, Fig. 40]", "1: cites DHASH Fig. 40"),
            ("crates/x/src/a.rs", "// [DHASH §III-B–III-C]", "1: cites DHASH §III-C"),
            ("crates/x/src/a.rs", "// [DHASCH §1]", "1: cites DHASCH §1"),
            ("crates/x/src/a.rs", "// [see §4] [RFC 791 §3]", ""),
            ("crates/engine/src/a.rs", "fn a() { println!(\"x\"); }", "1: println! in a library"),
            ("crates/cli/src/a.rs", "fn a() { println!(\"x\"); }", ""),
            ("crates/engine/src/a.rs", "#[cfg(test)]\nmod tests { eprintln!() }", ""),
            ("crates/cpu/src/a.rs", "use std::collections::HashMap;", "1: HashMap in a library"),
            ("crates/cpu/src/a.rs", "let x = Instant::now();", "1: Instant::now in a library"),
            ("crates/measure/src/a.rs", "let x = Instant::now();", ""),
            ("crates/cpu/src/oracle.rs", "use std::collections::HashMap;", ""),
            ("xtask/src/a.rs", "// A Tray.", "1: says 'tray'"),
            ("docs/a.md", "x\n\nNobody waits.", "3: says 'nobody'"),
            ("xtask/src/a.rs", "struct LotPool;", "1: says 'lot'"),
            ("xtask/src/a.rs", "const ALL_TRAYS: u8 = 1;", "1: says 'trays'"),
            ("xtask/src/a.rs", "// a slot, allotted; ashtrays, bedroom, SIEVE", "1: says 'sieve'"),
            ("crates/tcb-cache/src/a.rs", "// a slot, allotted; ashtrays, bedroom, SIEVE", ""),
            ("a.rs", many.as_str(), "0: has 701 lines"),
            ("a.md", many.as_str(), ""),
            ("a.bin", big.as_str(), "0: has 1048577 bytes"),
            ("README.md", host.as_str(), "2: names the host"),
            ("Cargo.lock", host.as_str(), ""),
            ("a.sh", path.as_str(), "1: contains the path"),
            ("a.sh", "ls b/home/c", ""),
            ("a.rs", long.as_str(), "1: has a comment line of 103 columns"),
            ("docs/performance/a.md", figures, "0: has a table that differs"),
            (
                "docs/performance/b.md",
                &figures.replace("a.json", "c.json"),
                "0: has a table that cannot be made",
            ),
            (
                "crates/b/Cargo.toml",
                &manifest("b", 2, "").replace("publish = false\n", ""),
                "0: is not the LICENSE-MIT",
            ),
        ] {
            let licence = ("LICENSE-MIT", "may be used");
            let data = ("docs/performance/data/a.json", data);
            let known = ("crates/flow-table/src/dhash/signature.rs", "");
            let all = findings(&[(path, text), ("docs/papers/dhash.md", page), data, licence, known]);
            let (gone, others): (Vec<_>, Vec<_>) =
                all.iter().partition(|line| line.contains("dhash/gone.rs"));
            assert_eq!(gone.len(), 1, "the page names a file that does not exist");
            match found {
                "" => assert!(others.is_empty(), "{path}: {text}: {others:?}"),
                _ => assert!(others.len() == 1 && others[0].contains(found), "{path}: {text}: {others:?}"),
            }
        }
    }
}
