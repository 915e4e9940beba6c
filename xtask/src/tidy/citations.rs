//! Checks that citations name a known paper and a place that its page in `docs/papers` mentions.

use super::{Finding, Tree};

const KEYS: [&str; 5] = ["DHASH", "FLOWNP", "TCBCACHE", "HRWTREE", "LFB"];

const MARKS: [&str; 8] = ["§", "Tab.", "Table ", "Fig.", "Figs.", "Figure ", "Eq.", "Alg."];

/// A place in a paper, as cited: `[DHASH §III-B]`.
#[derive(Debug, PartialEq)]
struct Citation {
    line: usize,
    key: String,
    places: Vec<String>,
}

/// Checks citations in the Rust files of the crates, and the files that the pages name.
pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in tree.rust().filter(|file| file.path.starts_with("crates/")) {
        for citation in citations(&file.text) {
            check_citation(tree, &file.path, &citation, findings);
        }
    }
    for file in tree.sources.iter().filter(|file| is_page(&file.path)) {
        check_page(tree, &file.path, &file.text, findings);
    }
}

fn page_of(key: &str) -> String {
    format!("docs/papers/{}.md", key.to_lowercase())
}

fn is_page(path: &str) -> bool {
    KEYS.iter().any(|key| path == page_of(key))
}

fn check_citation(tree: &Tree, path: &str, citation: &Citation, findings: &mut Vec<Finding>) {
    let Citation { line, key, places } = citation;
    if !KEYS.contains(&key.as_str()) {
        findings.push(Finding::new(
            path,
            *line,
            format!("cites {key}, which is not a known paper"),
            "an unknown key leads nowhere",
            format!("use one of {}", KEYS.join(", ")),
        ));
        return;
    }
    let page = page_of(key);
    let Some(file) = tree.get(&page) else {
        findings.push(Finding::new(
            path,
            *line,
            format!("cites {key}, but {page} does not exist"),
            "the page says how we read the place, and which file implements it",
            format!("write {page}"),
        ));
        return;
    };
    let known = normalised(&file.text);
    for place in places.iter().filter(|place| !occurs(&known, place)) {
        findings.push(Finding::new(
            path,
            *line,
            format!("cites {key} {place}, which {page} does not mention"),
            "the page says how we read the place, and which file implements it",
            format!("add a row for {place} to {page}, or correct the citation"),
        ));
    }
}

/// Checks that every Rust file that a row of the page names exists.
fn check_page(tree: &Tree, path: &str, text: &str, findings: &mut Vec<Finding>) {
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| line.trim_start().starts_with('|')) {
        for quoted in line.split('`').skip(1).step_by(2) {
            let Some(end) = quoted.find(".rs") else { continue };
            let name = &quoted[..end + 3];
            if name.contains(char::is_whitespace) {
                continue;
            }
            for name in alternatives(name).iter().filter(|name| !exists(tree, name)) {
                findings.push(Finding::new(
                    path,
                    number,
                    format!("names {name}, which does not exist"),
                    "a row names the file that implements its claim",
                    "name the file by its path, with or without `crates/` and `src/`",
                ));
            }
        }
    }
}

/// Returns whether the tree contains a file, given its path or the end of it; `crates/` and `src/`
/// may be omitted.
fn exists(tree: &Tree, name: &str) -> bool {
    let ends = |path: &str| path == name || path.strip_suffix(name).is_some_and(|rest| rest.ends_with('/'));
    tree.holds(name) || tree.sizes.iter().any(|(path, _)| ends(path) || ends(&path.replace("/src/", "/")))
}

/// Expands `a/{b,c}.rs`.
fn alternatives(name: &str) -> Vec<String> {
    match (name.find('{'), name.find('}')) {
        (Some(open), Some(close)) if open < close => name[open + 1..close]
            .split(',')
            .map(|part| format!("{}{}{}", &name[..open], part.trim(), &name[close + 1..]))
            .collect(),
        _ => vec![name.to_owned()],
    }
}

fn citations(text: &str) -> Vec<Citation> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for (at, _) in line.match_indices('[') {
            let rest = &line[at + 1..];
            let letters = rest.find(|c: char| !c.is_ascii_uppercase()).unwrap_or(rest.len());
            let (key, rest) = rest.split_at(letters);
            let Some(places) = rest.strip_prefix(' ') else { continue };
            if key.len() < 2 || !MARKS.iter().any(|mark| places.starts_with(mark)) {
                continue;
            }
            let Some(end) = places.find(']') else { continue };
            found.push(Citation { line: number, key: key.to_owned(), places: split(&places[..end]) });
        }
    }
    found
}

/// Splits `§3.1–3.2, Figs. 7–8` into `§3.1`, `§3.2`, `Fig. 7`, `Fig. 8`.
fn split(places: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in normalised(places).split(", ") {
        let mark: String = part.chars().take_while(|c| !c.is_alphanumeric() || c.is_lowercase()).collect();
        let lettered = MARKS.iter().find(|mark| part.starts_with(**mark)).copied().unwrap_or_default();
        let mark = if lettered.is_empty() { mark } else { part[..lettered.len()].to_owned() };
        for (index, piece) in part.split('–').enumerate() {
            let spaced = if mark == "§" { mark.clone() } else { format!("{mark} ") };
            found.push(if index == 0 { piece.to_owned() } else { format!("{spaced}{piece}") });
        }
    }
    found
}

/// Normalises places, so that `Table IV` and `Tab. IV` are equal.
fn normalised(text: &str) -> String {
    text.replace("Tables ", "Tab. ")
        .replace("Table ", "Tab. ")
        .replace("Tabs. ", "Tab. ")
        .replace("Figures ", "Fig. ")
        .replace("Figure ", "Fig. ")
        .replace("Figs. ", "Fig. ")
}

/// Returns whether a text contains a place, and not only as the beginning of a longer one.
fn occurs(text: &str, place: &str) -> bool {
    text.match_indices(place).any(|(at, _)| {
        let mut after = text[at + place.len()..].chars();
        match after.next() {
            Some('.' | '-') => !after.next().is_some_and(char::is_alphanumeric),
            next => !next.is_some_and(char::is_alphanumeric),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "# DHASH\n| §III-B, Fig. 4 | `dhash/signature.rs` | `tests/laws.rs::holds` |\nTable IV\n";

    fn findings(cited: &str, page: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("crates/flow-table/src/dhash/signature.rs", cited),
            ("crates/flow-table/tests/laws.rs", ""),
            ("docs/papers/dhash.md", page),
        ]);
        let mut findings = Vec::new();
        check(&tree, &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn places_of_the_page_may_be_cited() {
        assert_eq!(
            findings("//! Paper: [DHASH §III-B], [DHASH §III-B, Tab. IV] and [DHASH Figure 4].", PAGE),
            [""; 0]
        );
    }

    #[test]
    fn an_unknown_place_is_found() {
        let found = findings("//! A.\n//! [DHASH §III]", PAGE);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].contains("signature.rs:2: cites DHASH §III, which docs/papers/dhash.md"),
            "{found:?}"
        );
        assert_eq!(findings("// [DHASH Tab. V]", PAGE).len(), 1);
        assert_eq!(findings("// [DHASH Tab. IV, Fig. 40]", PAGE).len(), 1);
    }

    #[test]
    fn an_unknown_key_is_found() {
        assert!(findings("// [DHASCH §1]", PAGE)[0].contains("not a known paper"));
    }

    #[test]
    fn a_paper_without_page_is_found() {
        let tree = Tree::of(&[("crates/a/src/lib.rs", "// [DHASH §1]")]);
        let mut findings = Vec::new();
        check(&tree, &mut findings);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].what.contains("docs/papers/dhash.md does not exist"));
    }

    #[test]
    fn a_page_names_files_that_exist() {
        let page = "| a | `dhash/signature.rs` |\n| b | `dhash/{signature,layout}.rs` |\n`prose.rs`\n";
        let found = findings("", page);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("docs/papers/dhash.md:2: names dhash/layout.rs"), "{found:?}");
    }

    #[test]
    fn ranges_and_lists_are_taken_apart() {
        assert_eq!(split("§3.1–3.2, Figs. 7–8"), ["§3.1", "§3.2", "Fig. 7", "Fig. 8"]);
        assert_eq!(citations("let a = b[KEY]; // [see §4] [RFC 791 §3]"), []);
    }
}
