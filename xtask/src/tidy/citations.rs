//! Citations name a known paper and a place that its page in `docs/papers` mentions, and the pages
//! name files that exist.

use super::{Finding, Tree};

const KEYS: [&str; 5] = ["DHASH", "FLOWNP", "TCBCACHE", "HRWTREE", "LFB"];

const MARKS: [&str; 8] = ["§", "Tab.", "Table ", "Fig.", "Figs.", "Figure ", "Eq.", "Alg."];

/// Checks citations such as `[DHASH §III-B]` in the Rust files of the crates, and the files that
/// the pages name.
pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let page_of = |key: &str| format!("docs/papers/{}.md", key.to_lowercase());
    for file in tree.rust().filter(|file| file.path.starts_with("crates/")) {
        for (line, key, places) in citations(&file.text) {
            let page = page_of(key);
            let known = tree.get(&page).filter(|_| KEYS.contains(&key)).map(|page| normalised(&page.text));
            for place in places {
                if !known.as_ref().is_some_and(|known| occurs(known, &place)) {
                    findings.push(Finding::new(
                        &file.path,
                        line,
                        format!("cites {key} {place}, which {page} does not mention"),
                        format!(
                            "add a row to {page}, correct the citation, or use one of {}",
                            KEYS.join(", ")
                        ),
                    ));
                }
            }
        }
    }
    for page in KEYS.iter().filter_map(|key| tree.get(&page_of(key))) {
        for (number, line) in (1..).zip(page.text.lines()).filter(|(_, line)| line.starts_with('|')) {
            for name in line.split('`').skip(1).step_by(2).filter_map(file_name).flat_map(alternatives) {
                if !exists(tree, &name) {
                    let what = format!("names {name}, which does not exist");
                    let remedy = "name the file by its path, with or without `crates/` and `src/`";
                    findings.push(Finding::new(&page.path, number, what, remedy));
                }
            }
        }
    }
}

/// Returns the path at the start of a quoted text, if it is of a Rust file.
fn file_name(quoted: &str) -> Option<&str> {
    let name = &quoted[..quoted.find(".rs")? + 3];
    (!name.contains(char::is_whitespace)).then_some(name)
}

/// Returns whether the tree contains a file, given its path or the end of it; `crates/` and `src/`
/// may be omitted.
fn exists(tree: &Tree, name: &str) -> bool {
    let ends =
        |path: &str| path.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
    tree.sizes.iter().any(|(path, _)| ends(path) || ends(&path.replace("/src/", "/")))
}

/// Expands `a/{b,c}.rs`.
fn alternatives(name: &str) -> Vec<String> {
    let Some((before, (parts, after))) =
        name.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    else {
        return vec![name.to_owned()];
    };
    parts.split(',').map(|part| format!("{before}{}{after}", part.trim())).collect()
}

/// Returns line, key and places of each citation.
fn citations(text: &str) -> Vec<(usize, &str, Vec<String>)> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for rest in line.split('[').skip(1) {
            let Some((key, places)) = rest.split_once(' ') else { continue };
            let is_key = key.len() > 1 && key.chars().all(|c| c.is_ascii_uppercase());
            if let (true, Some((places, _))) = (is_key, places.split_once(']'))
                && MARKS.iter().any(|mark| places.starts_with(mark))
            {
                found.push((number, key, split(places)));
            }
        }
    }
    found
}

/// Splits `§3.1–3.2, Figs. 7–8` into `§3.1`, `§3.2`, `Fig. 7`, `Fig. 8`.
fn split(places: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in normalised(places).split(", ") {
        let mark = MARKS.iter().find(|mark| part.starts_with(**mark)).copied().unwrap_or_default();
        let spaced = if mark == "§" { mark.to_owned() } else { format!("{mark} ") };
        let mut pieces = part.split('–').map(str::to_owned);
        found.extend(pieces.next());
        found.extend(pieces.map(|piece| format!("{spaced}{piece}")));
    }
    found
}

/// Normalises places, so that `Table IV` and `Tab. IV` are equal.
fn normalised(text: &str) -> String {
    let mut text = text.to_owned();
    for (from, to) in [
        ("Tables ", "Tab. "),
        ("Table ", "Tab. "),
        ("Tabs. ", "Tab. "),
        ("Figures ", "Fig. "),
        ("Figure ", "Fig. "),
        ("Figs. ", "Fig. "),
    ] {
        text = text.replace(from, to);
    }
    text
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
