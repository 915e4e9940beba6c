//! Sizes of files, widths of comments, and text that no file may contain.

use super::{Finding, Tree};

const LINES_MAX: usize = 700;
const BYTES_MAX: u64 = 1 << 20;
/// rustfmt does not change comments.
const COMMENT_COLUMNS_MAX: usize = 100;

/// Host names of registries, in halves, so that this file does not break its own rule.
const HOSTS: [(&str, &str); 12] = [
    ("crates", ".io"),
    ("py", "pi.org"),
    ("pythonhosted", ".org"),
    ("registry.npm", "js.org"),
    ("githubuser", "content.com"),
    ("proxy.go", "lang.org"),
    ("static.rust", "-lang.org"),
    ("docker", ".io"),
    ("ghcr", ".io"),
    ("repo.maven", ".apache.org"),
    ("anaconda", ".org"),
    ("deb.debian", ".org"),
];

/// First directories of paths that exist only on one machine.
const PLACES: [&str; 4] = ["home", "work", "root", "Users"];

/// Checks every file.
pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for (path, bytes) in tree.sizes.iter().filter(|(_, bytes)| *bytes > BYTES_MAX) {
        let what = format!("has {bytes} bytes, more than {BYTES_MAX}");
        findings.push(Finding::new(path, 0, what, "shorten it, or let the generator make it"));
    }
    for file in &tree.sources {
        let lines = file.text.lines().count();
        if file.is_rust() && lines > LINES_MAX {
            let what = format!("has {lines} lines, more than {LINES_MAX}");
            findings.push(Finding::new(&file.path, 0, what, "move the second idea to a file of its own"));
        }
        // Cargo writes the name of its registry into the lock file.
        let is_lock = file.path.ends_with("Cargo.lock");
        for (number, line) in (1..).zip(file.text.lines()) {
            let mut find = |what: String, remedy: &str| {
                findings.push(Finding::new(&file.path, number, what, remedy));
            };
            let columns = line.chars().count();
            if file.is_rust() && columns > COMMENT_COLUMNS_MAX && is_wrappable(line) {
                find(
                    format!("has a comment line of {columns} columns, more than {COMMENT_COLUMNS_MAX}"),
                    "break the line, or make the sentence shorter",
                );
            }
            let host = HOSTS.iter().map(|(a, b)| format!("{a}{b}")).find(|host| line.contains(host));
            if let Some(host) = host.filter(|_| !is_lock) {
                find(format!("names the host {host}"), "name the thing, not where it comes from");
            }
            if let Some(place) = machine_path(line) {
                find(
                    format!("contains the path {place}… of one machine"),
                    "write the path from the root of the project, or take it as an argument",
                );
            }
        }
    }
}

/// Returns whether a line is a comment that can be wrapped: table rows and links cannot.
fn is_wrappable(line: &str) -> bool {
    let Some(text) = line.trim_start().strip_prefix("//") else { return false };
    let text = text.trim_start_matches(['/', '!']).trim_start();
    !text.starts_with('|') && text.split_whitespace().count() > 1
}

/// Returns the first folder of an absolute path in `line`, if it is one of [`PLACES`].
fn machine_path(line: &str) -> Option<String> {
    PLACES.iter().map(|place| format!("/{place}/")).find(|needle| {
        line.match_indices(needle.as_str()).any(|(at, _)| {
            // After a letter or a dot, it is the middle of a longer path; before a space, it is
            // prose.
            let before = line[..at].chars().next_back();
            let inner = before
                .is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '}' | '*'));
            let after = line[at + needle.len()..].chars().next();
            !inner && after.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '$' | '{'))
        })
    })
}
