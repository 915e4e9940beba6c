//! The tables of `docs/performance` and the book match their data.

use super::{Finding, Tree};
use crate::figures::{BEGIN, FOLDER, PAGES, with_tables};

/// Compares each page with the output of `cargo xtask figures`.
pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let pages = tree.sources.iter().filter(|file| {
        let stem =
            |folder: &&str| file.path.strip_prefix(*folder).and_then(|name| name.strip_suffix(".md"));
        file.text.contains(BEGIN) && PAGES.iter().find_map(stem).is_some_and(|name| !name.contains('/'))
    });
    for page in pages {
        let read = |path: &str| {
            let known = tree.get(&format!("{FOLDER}{path}"));
            known.map(|file| file.text.clone()).ok_or_else(|| "no such file".to_owned())
        };
        let what = match with_tables(&page.text, read) {
            Ok(text) if text == page.text => continue,
            Ok(_) => "has a table that differs from its data".to_owned(),
            Err(error) => format!("has a table that cannot be made: {error:#}"),
        };
        findings.push(Finding::new(&page.path, 0, what, "run `cargo xtask figures`"));
    }
}
