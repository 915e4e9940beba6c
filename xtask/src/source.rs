//! Files of the tree, as text.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A file of the tree.
#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    /// Path relative to the root, with slashes.
    pub(crate) path: String,
    /// The whole text.
    pub(crate) text: String,
}

impl SourceFile {
    /// Returns whether the file is Rust.
    pub(crate) fn is_rust(&self) -> bool {
        Path::new(&self.path).extension().is_some_and(|extension| extension == "rs")
    }

    /// Returns the name of the crate in whose `src` the file is, if it is a published library's.
    pub(crate) fn library(&self) -> Option<&str> {
        let (name, rest) = self.path.strip_prefix("crates/")?.split_once('/')?;
        rest.starts_with("src/").then_some(name)
    }

    /// Returns the lines from 1, without comments.
    pub(crate) fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = (1..).zip(self.text.lines());
        lines.map(|(number, line)| (number, if line.trim_start().starts_with("//") { "" } else { line }))
    }

    /// Returns the lines of code before the module of tests.
    pub(crate) fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let is_test_file = self.path.ends_with("/tests.rs") || self.path.contains("/tests/");
        self.code_lines().take_while(move |(_, line)| !is_test_file && !line.starts_with("#[cfg(test)]"))
    }
}

/// Returns whether `word` occurs in `line` as a whole word.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(part) && !line[at + word.len()..].starts_with(part))
}

/// Returns the paths of all files that git knows or would add, sorted.
pub(crate) fn files(root: &Path) -> Result<Vec<String>> {
    let git = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("git cannot be run")?;
    ensure!(git.status.success(), "git cannot list files: {}", String::from_utf8_lossy(&git.stderr));
    let text = String::from_utf8_lossy(&git.stdout);
    let paths = text.split('\0').filter(|path| !path.is_empty() && root.join(path).is_file());
    let mut found: Vec<String> = paths.map(str::to_owned).collect();
    found.sort();
    found.dedup();
    Ok(found)
}
