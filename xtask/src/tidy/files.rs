//! Checks the sizes of files, and text that no file may contain.

use super::{Finding, Tree};

const LINES_MAX: usize = 700;
const BYTES_MAX: u64 = 1 << 20;

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
        findings.push(Finding::new(
            path,
            0,
            format!("has {bytes} bytes, more than {BYTES_MAX}"),
            "every clone of the project keeps it forever",
            "shorten it, or let the generator make it",
        ));
    }
    for file in &tree.sources {
        if file.is_rust() && file.text.lines().count() > LINES_MAX {
            findings.push(Finding::new(
                &file.path,
                LINES_MAX + 1,
                format!("has {} lines, more than {LINES_MAX}", file.text.lines().count()),
                "a file contains one idea",
                "find the second idea and move it to a file of its own",
            ));
        }
        // Cargo writes the name of its registry into the lock file.
        let is_lock = file.path.ends_with("Cargo.lock");
        for (number, line) in (1..).zip(file.text.lines()) {
            if let Some(host) =
                HOSTS.iter().map(|(a, b)| format!("{a}{b}")).find(|host| !is_lock && line.contains(host))
            {
                findings.push(Finding::new(
                    &file.path,
                    number,
                    format!("names the host {host}"),
                    "builds reach registries through cargo's own settings, which differ from site to site",
                    "leave the host out; name the thing, not where it comes from",
                ));
            }
            if let Some(place) = machine_path(line) {
                findings.push(Finding::new(
                    &file.path,
                    number,
                    format!("contains the path {place}… of one machine"),
                    "the path does not exist elsewhere",
                    "write the path from the root of the project, or take it as an argument",
                ));
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check(&Tree::of(&[(path, text)]), &mut findings);
        findings.iter().map(|finding| format!("{}: {}", finding.line, finding.what)).collect()
    }

    #[test]
    fn long_files_are_found() {
        assert!(findings("crates/a/src/b.rs", &"x\n".repeat(700)).is_empty());
        assert_eq!(
            findings("crates/a/src/b.rs", &"x\n".repeat(701)),
            ["701: has 701 lines, more than 700"]
        );
        assert!(findings("a.md", &"x\n".repeat(701)).is_empty());
    }

    #[test]
    fn large_files_are_found() {
        let text = "x".repeat((1 << 20) + 1);
        assert_eq!(findings("a.bin", &text), ["0: has 1048577 bytes, more than 1048576"]);
    }

    #[test]
    fn registries_are_found_but_in_the_lock_file() {
        let text = format!("a\nsee {}{}", "crates", ".io");
        assert_eq!(findings("README.md", &text).len(), 1);
        assert!(findings("Cargo.lock", &text).is_empty());
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        for place in PLACES {
            let text = format!("cd \"/{place}/me/x\"");
            assert_eq!(findings("a.sh", &text).len(), 1, "{text}");
            assert!(findings("a.sh", &format!("cd ../{place}/me && ls b/{place}/c")).is_empty());
        }
    }
}
