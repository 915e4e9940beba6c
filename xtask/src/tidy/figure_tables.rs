//! Checks that the tables of `docs/performance` and the book match their data.

use super::{Finding, Tree};
use crate::figures::{FOLDER, PAGES, with_tables};

/// Compares each page with the output of `cargo xtask figures`.
pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let pages = tree.sources.iter().filter(|file| {
        let of = |folder: &&str| file.path.strip_prefix(*folder).and_then(|name| name.strip_suffix(".md"));
        PAGES.iter().find_map(of).is_some_and(|name| !name.contains('/'))
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
        findings.push(Finding::new(
            &page.path,
            0,
            what,
            "published figures come from the data beside them, never by hand",
            "run `cargo xtask figures`",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_written_by_hand_is_found() {
        let found = |table: &str, data: &str| {
            let page = format!("<!-- figures: data/a.json rows=work -->\n{table}<!-- end -->\n");
            let tree = Tree::of(&[
                ("docs/performance/a.md", page.as_str()),
                ("docs/performance/data/a.json", data),
            ]);
            let mut findings = Vec::new();
            check(&tree, &mut findings);
            findings.into_iter().map(|finding| finding.what).collect::<Vec<_>>()
        };
        let data = r#"{"ratios": [{"work": "hit", "ratio_median": 2.0}]}"#;
        let table = "| work | ratio |\n| --- | --- |\n| hit | 2.00 |\n";
        assert!(found(table, data).is_empty());
        assert_eq!(found("| hit | 2.5 |\n", data), ["has a table that differs from its data"]);
        assert!(found(table, "{}")[0].starts_with("has a table that cannot be made"));
    }
}
