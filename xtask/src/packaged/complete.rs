//! Checks that a package has what a registry shows and what its users need.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use toml::Value;

/// Files of every package.
const FILES: [&str; 4] = ["README.md", "LICENSE-APACHE", "LICENSE-MIT", "src"];

/// The largest size of an unpacked package: registries take ten megabytes, packed.
const BYTES_MAX: u64 = 10_000_000;

/// Returns what an unpacked package lacks.
pub(super) fn lacks(folder: &Path) -> Result<Vec<String>> {
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml"))
        .with_context(|| format!("{} has no manifest", folder.display()))?;
    let manifest: toml::Table = manifest.parse()?;
    let package = manifest.get("package").and_then(Value::as_table).context("a manifest has a package")?;
    let mut lacks: Vec<String> =
        of_manifest(package).into_iter().map(|field| format!("package.{field}")).collect();
    lacks.extend(FILES.iter().filter(|file| !folder.join(file).exists()).map(|&file| file.to_owned()));
    let bytes = bytes_below(folder)?;
    if bytes > BYTES_MAX {
        lacks.push(format!("a smaller size: it has {bytes} bytes, at most {BYTES_MAX} are accepted"));
    }
    Ok(lacks)
}

/// Returns the fields that are missing, or have fewer or more entries than a registry takes.
fn of_manifest(package: &toml::Table) -> Vec<&'static str> {
    let texts = ["description", "documentation", "license", "readme", "rust-version"];
    let lists = ["categories", "keywords"];
    let has_text =
        |field: &str| package.get(field).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    let has_list = |field: &str| {
        package.get(field).and_then(Value::as_array).is_some_and(|list| (1..=5).contains(&list.len()))
    };
    let texts = texts.into_iter().filter(|field| !has_text(field));
    let rest = lists.into_iter().filter(|field| !has_list(field));
    let docs = package.get("metadata").and_then(|metadata| metadata.get("docs")?.get("rs"));
    texts.chain(rest).chain(docs.is_none().then_some("metadata.docs.rs")).collect()
}

fn bytes_below(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { bytes_below(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}

/// Returns the difference between the numbers of dependencies in a crate's README and those that it
/// has, if there is one.
pub(super) fn miscounted(root: &Path, name: &str, readme: &str) -> Result<Option<String>> {
    let Some(stated) = stated(readme) else { return Ok(None) };
    let tree = Command::new("cargo")
        .current_dir(root)
        .args(["tree", "--locked", "--package", name, "--edges=normal", "--prefix=none", "--format={p}"])
        .output()
        .context("cargo cannot be run")?;
    let found = counted(&String::from_utf8_lossy(&tree.stdout), name);
    Ok((stated != found).then(|| {
        format!(
            "README.md: it depends on {} crates of Flowloom and {} others, not {} and {}",
            found.0, found.1, stated.0, stated.1
        )
    }))
}

/// Returns the numbers in the sentence "depends on 3 crates of Flowloom and 6 others".
fn stated(readme: &str) -> Option<(usize, usize)> {
    let words: Vec<&str> = readme.split_whitespace().collect();
    words.windows(9).find_map(|words| match words {
        ["depends", "on", ours, "crate" | "crates", "of", "Flowloom", "and", others, rest]
            if rest.starts_with("others") =>
        {
            Some((ours.parse().ok()?, others.parse().ok()?))
        }
        _ => None,
    })
}

/// Counts the crates of Flowloom and the others in a tree of dependencies, without the crate
/// itself.
fn counted(tree: &str, name: &str) -> (usize, usize) {
    let package = |line: &str| {
        let mut words = line.split_whitespace();
        Some(format!("{} {}", words.next()?, words.next()?))
    };
    let all: BTreeSet<String> = tree.lines().filter_map(package).collect();
    let ours = all.iter().filter(|package| package.starts_with("flowloom")).count();
    let is_there = all.iter().any(|package| package.split(' ').next() == Some(name));
    (ours - usize::from(is_there), all.len() - ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_fields_of_a_manifest_are_named() {
        let manifest = "description = 'd'\nlicense = 'MIT'\nreadme = 'README.md'\nrust-version = '1'\n\
                        documentation = 'x'\ncategories = ['a']\nkeywords = []\n[metadata.docs.rs]\n";
        assert_eq!(of_manifest(&manifest.parse().unwrap()), ["keywords"]);
        let manifest = manifest.replace("[metadata.docs.rs]", "").replace("[]", "['k']");
        assert_eq!(of_manifest(&manifest.parse().unwrap()), ["metadata.docs.rs"]);
    }

    #[test]
    fn dependency_count_matches_the_documented_sentence() {
        let readme = "It\ndepends on 1 crate of Flowloom and 2 others, directly.";
        assert_eq!(stated(readme), Some((1, 2)));
        assert_eq!(stated("It depends on 4 crates, none of Flowloom."), None);
        let tree = "flowloom-dpi v0.1.0 (/x)\nflowloom-cpu v0.1.0 (/y)\nlibc v0.2.1\nlibc v0.2.1 (*)\nsyn v3.0.0 (proc-macro)\n";
        assert_eq!(counted(tree, "flowloom-dpi"), (1, 2));
    }
}
