//! Each published package contains the texts of its licences.

use super::{Finding, Tree};

const TEXTS: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Checks every crate that can be published, because its package contains only its own directory.
pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let folder = |path: &str| path.strip_suffix("Cargo.toml").map(str::to_owned);
    let published = tree.sources.iter().filter(|file| !file.text.contains("publish = false"));
    for crate_folder in published.filter_map(|file| folder(&file.path)).filter(|f| f.starts_with("crates/"))
    {
        for text in TEXTS {
            let path = format!("{crate_folder}{text}");
            let (Some(whole), own) = (tree.get(text), tree.get(&path)) else { continue };
            if own.is_none_or(|own| own.text != whole.text) {
                findings.push(Finding::new(
                    &path,
                    0,
                    format!("is not the {text} of the project"),
                    "a crate that is distributed alone must contain its licences",
                    format!("ln -s ../../{text} {path}"),
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_without_a_licence_text_is_found() {
        let found = |manifest: &str, text: &str| {
            let tree = Tree::of(&[
                ("LICENSE-MIT", "may be used"),
                ("LICENSE-APACHE", "may be used too"),
                ("crates/a/Cargo.toml", manifest),
                ("crates/a/LICENSE-APACHE", text),
            ]);
            let mut findings = Vec::new();
            check(&tree, &mut findings);
            findings.into_iter().map(|finding| finding.path).collect::<Vec<_>>()
        };
        assert_eq!(found("", "may be used too"), ["crates/a/LICENSE-MIT"]);
        assert_eq!(found("", "may not"), ["crates/a/LICENSE-APACHE", "crates/a/LICENSE-MIT"]);
        assert!(found("publish = false", "").is_empty());
    }
}
