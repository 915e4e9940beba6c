//! The bill of materials: every crate in the program, with version, licence, checksum and
//! dependencies, in the JSON of `CycloneDX` 1.5.
//!
//! `cargo tree` tells which crates are linked. cargo-cyclonedx 0.5.9 takes the features of the
//! whole workspace and lists crates that only tests use.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::Release;

/// Writes the bill and returns the name of its file.
pub(super) fn write(release: &Release<'_>) -> Result<String> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(release.root).args(["tree", "--locked", "--package=flowloom-cli", "--edges=normal"]);
    let tree = cargo.args(["--prefix=depth", "--format=|{p}|{l}", "--target", &release.target]).output()?;
    ensure!(tree.status.success(), "cargo tree failed: {}", String::from_utf8_lossy(&tree.stderr));
    let lock = std::fs::read_to_string(release.root.join("Cargo.lock"))?;
    let bill = bill(&String::from_utf8(tree.stdout)?, &lock.parse()?)?;
    let file = format!("{}.cdx.json", release.name());
    std::fs::write(release.out.join(&file), serde_json::to_string_pretty(&bill)? + "\n")?;
    Ok(file)
}

/// Returns the bill of the first package of a tree, with checksums from the lock file.
fn bill(tree: &str, lock: &toml::Table) -> Result<Value> {
    let locked =
        lock.get("package").and_then(toml::Value::as_array).context("Cargo.lock has no packages")?;
    let (mut components, mut dependencies) = (BTreeMap::new(), BTreeMap::<String, BTreeSet<String>>::new());
    let mut path: Vec<String> = Vec::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let mut fields = line.split('|');
        let depth: usize = fields.next().unwrap_or_default().parse()?;
        let mut package = fields.next().unwrap_or_default().split(' ');
        let (name, version) = package.next().zip(package.next()).context("cargo tree names no package")?;
        let version = version.trim_start_matches('v');
        let url = format!("pkg:cargo/{name}@{version}");
        path.truncate(depth);
        if let Some(user) = path.last() {
            dependencies.entry(user.clone()).or_default().insert(url.clone());
        }
        path.push(url.clone());
        dependencies.entry(url.clone()).or_default();
        let mut component = json!({
            "type": if depth == 0 { "application" } else { "library" },
            "bom-ref": url, "name": name, "version": version, "purl": url,
        });
        let license = fields.next().unwrap_or_default().trim_end_matches(" (*)");
        if !license.is_empty() {
            // The older separator of alternatives is no SPDX expression.
            component["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
        }
        let is_it = |locked: &&toml::Value| {
            locked.get("name").and_then(toml::Value::as_str) == Some(name)
                && locked.get("version").and_then(toml::Value::as_str) == Some(version)
        };
        let checksum = locked.iter().find(is_it).and_then(|locked| locked.get("checksum")?.as_str());
        if let Some(checksum) = checksum {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        }
        components.entry(url).or_insert(component);
    }
    let program = path.first().and_then(|first| components.remove(first)).context("the tree is empty")?;
    let needs = |(url, on): (String, BTreeSet<String>)| json!({ "ref": url, "dependsOn": on });
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": program },
        "components": components.into_values().collect::<Vec<_>>(),
        "dependencies": dependencies.into_iter().map(needs).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_lists_each_crate_of_the_tree_once() {
        let tree =
            "0|program v1.0.0 (x)|MIT\n1|used v1.0.0|MIT/Apache-2.0\n2|deep v2.0.0|\n1|deep v2.0.0| (*)\n";
        let lock = "[[package]]\nname = 'deep'\nversion = '2.0.0'\nchecksum = 'ab12'\n";
        let bill = bill(tree, &lock.parse().unwrap()).unwrap();
        assert_eq!(bill["components"].as_array().unwrap().len(), 2);
        assert_eq!(bill["components"][0]["hashes"][0]["content"], "ab12");
        assert_eq!(bill["components"][1]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        let needs = json!(["pkg:cargo/deep@2.0.0", "pkg:cargo/used@1.0.0"]);
        assert_eq!(bill["dependencies"][1]["dependsOn"], needs);
        assert_eq!(bill["metadata"]["component"]["type"], "application");
    }
}
