//! Each published package contains the texts of its licences.

use super::{Finding, Tree};

/// Checks every crate that can be published, because its package contains only its own directory.
pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let published = tree.sources.iter().filter(|file| !file.text.contains("publish = false"));
    let folders = published.filter_map(|file| file.path.strip_suffix("Cargo.toml"));
    for folder in folders.filter(|folder| folder.starts_with("crates/")) {
        for text in ["LICENSE-APACHE", "LICENSE-MIT"] {
            let path = format!("{folder}{text}");
            let (Some(whole), own) = (tree.get(text), tree.get(&path)) else { continue };
            if own.is_none_or(|own| own.text != whole.text) {
                let what = format!("is not the {text} of the project");
                findings.push(Finding::new(&path, 0, what, format!("ln -s ../../{text} {path}")));
            }
        }
    }
}
