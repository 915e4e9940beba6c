//! `cargo xtask tidy`: the project's rules that neither rustc nor clippy checks.
//!
//! | rule | module |
//! | --- | --- |
//! | layers of crates, inherited lints | [`layers`] |
//! | unsafe code only in listed modules | [`unsafe_modules`] |
//! | citations name a known paper and place | [`citations`] |
//! | lints are not silenced, libraries do not print or read clocks | [`code_rules`] |
//! | words of the glossary | [`glossary`] |
//! | width of comments | [`comment_width`] |
//! | tables of published figures | [`figure_tables`] |
//! | sizes, machine paths, hosts | [`files`] |
//! | licence texts in every package | [`licences`] |

mod citations;
mod code_rules;
mod comment_width;
mod figure_tables;
mod files;
mod glossary;
mod layers;
mod licences;
mod unsafe_modules;

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::source::{self, SourceFile};

/// A broken rule: the place, the problem, the reason for the rule, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) path: String,
    /// Line number, starting at 1; 0 means the whole file.
    pub(crate) line: usize,
    pub(crate) what: String,
    pub(crate) why: &'static str,
    pub(crate) remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, what, why, remedy } = self;
        match line {
            0 => write!(f, "{path}")?,
            _ => write!(f, "{path}:{line}")?,
        }
        write!(f, ": {what}\n    why: {why}\n    do:  {remedy}")
    }
}

impl Finding {
    fn new(
        path: &str,
        line: usize,
        what: impl Into<String>,
        why: &'static str,
        remedy: impl Into<String>,
    ) -> Self {
        Self { path: path.to_owned(), line, what: what.into(), why, remedy: remedy.into() }
    }
}

/// All files that the rules check.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    /// Text files, by path.
    pub(crate) sources: Vec<SourceFile>,
    /// Every file with its size in bytes.
    pub(crate) sizes: Vec<(String, u64)>,
}

impl Tree {
    fn read(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        for path in source::files(root).context("cannot list the files of the tree")? {
            let bytes = std::fs::read(root.join(&path)).with_context(|| format!("cannot read {path}"))?;
            tree.sizes.push((path.clone(), bytes.len() as u64));
            if let Ok(text) = String::from_utf8(bytes) {
                tree.sources.push(SourceFile::new(&path, &text));
            }
        }
        Ok(tree)
    }

    fn rust(&self) -> impl Iterator<Item = &SourceFile> {
        self.sources.iter().filter(|file| file.is_rust())
    }

    fn get(&self, path: &str) -> Option<&SourceFile> {
        self.sources.iter().find(|file| file.path == path)
    }

    fn holds(&self, path: &str) -> bool {
        self.sizes.iter().any(|(known, _)| known == path)
    }

    /// Returns a tree of these files, for the tests of the rules.
    #[cfg(test)]
    fn of(files: &[(&str, &str)]) -> Self {
        Self {
            sources: files.iter().map(|(path, text)| SourceFile::new(path, text)).collect(),
            sizes: files.iter().map(|(path, text)| ((*path).to_owned(), text.len() as u64)).collect(),
        }
    }
}

fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let rules = [
        layers::check,
        unsafe_modules::check,
        citations::check,
        code_rules::check,
        glossary::check,
        comment_width::check,
        figure_tables::check,
        files::check,
        licences::check,
    ];
    for rule in rules {
        rule(tree, &mut findings);
    }
    findings.sort();
    findings
}

/// Checks the tree at `root`, prints the findings, and succeeds if there are none.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let tree = Tree::read(root)?;
    let findings = check(&tree);
    for finding in &findings {
        eprintln!("{finding}\n");
    }
    if findings.is_empty() {
        eprintln!("tidy: {} files, no findings", tree.sizes.len());
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("tidy: {} findings in {} files", findings.len(), tree.sizes.len());
    Ok(ExitCode::FAILURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_says_where_what_why_and_what_to_do() {
        let finding = Finding::new("a.rs", 3, "x", "y", "z");
        assert_eq!(finding.to_string(), "a.rs:3: x\n    why: y\n    do:  z");
        assert!(Finding::new("a.rs", 0, "x", "y", "z").to_string().starts_with("a.rs: x\n"));
    }
}
