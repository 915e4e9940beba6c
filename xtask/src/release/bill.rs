//! The bill of materials: every crate in the program, with version, licence and checksum, in the
//! JSON of `CycloneDX` 1.5.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Release;

/// The parts of `cargo metadata` that are needed.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    description: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    /// `null` for a normal dependency.
    kind: Option<String>,
}

/// Writes the bill and returns the name of its file.
pub(super) fn write(release: &Release<'_>) -> Result<String> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(release.root).args(["metadata", "--format-version=1", "--locked"]);
    let output =
        cargo.args(["--filter-platform", &release.target]).output().context("cargo cannot be run")?;
    ensure!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Metadata = serde_json::from_slice(&output.stdout)?;
    let lock = std::fs::read_to_string(release.root.join("Cargo.lock"))?;
    let bill = bill(&metadata, &checksums(&lock)?, "flowloom-cli")?;
    let file = format!("{}.cdx.json", release.name());
    std::fs::write(release.out.join(&file), serde_json::to_string_pretty(&bill)? + "\n")?;
    Ok(file)
}

/// Returns the checksums of a lock file, by name and version.
fn checksums(lock: &str) -> Result<BTreeMap<(String, String), String>> {
    let lock: toml::Table = lock.parse()?;
    let packages =
        lock.get("package").and_then(toml::Value::as_array).context("Cargo.lock has no packages")?;
    let of = |package: &toml::Value| {
        let text = |key: &str| package.get(key)?.as_str().map(str::to_owned);
        Some(((text("name")?, text("version")?), text("checksum")?))
    };
    Ok(packages.iter().filter_map(of).collect())
}

/// Returns the bill of a package with everything that is linked into it.
fn bill(
    metadata: &Metadata,
    checksums: &BTreeMap<(String, String), String>,
    program: &str,
) -> Result<Value> {
    let packages: BTreeMap<&str, &Package> =
        metadata.packages.iter().map(|package| (package.id.as_str(), package)).collect();
    let linked: BTreeMap<&str, Vec<&str>> =
        metadata.resolve.nodes.iter().map(normal_dependencies).collect();
    let first = metadata.packages.iter().find(|package| package.name == program);
    let first = first.with_context(|| format!("there is no package {program}"))?;
    let (mut reached, mut open) = (BTreeSet::new(), vec![first.id.as_str()]);
    while let Some(id) = open.pop() {
        if reached.insert(id) {
            open.extend(linked.get(id).into_iter().flatten());
        }
    }
    let url = |package: &Package| format!("pkg:cargo/{}@{}", package.name, package.version);
    let url_of = |id: &str| packages.get(id).map(|package| url(package));
    let component = |package: &Package| {
        let mut component = json!({
            "type": if package.name == program { "application" } else { "library" },
            "bom-ref": url(package),
            "name": package.name,
            "version": package.version,
            "purl": url(package),
        });
        if let Some(description) = &package.description {
            component["description"] = json!(description.trim());
        }
        if let Some(license) = &package.license {
            // The older separator of alternatives is no SPDX expression.
            component["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
        }
        if let Some(checksum) = checksums.get(&(package.name.clone(), package.version.clone())) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        }
        component
    };
    let mut components = BTreeMap::new();
    let mut dependencies = BTreeMap::new();
    for id in &reached {
        let package =
            packages.get(id).with_context(|| format!("cargo metadata names {id} without its package"))?;
        if package.id != first.id {
            components.insert(url(package), component(package));
        }
        let on: BTreeSet<String> = linked[id].iter().filter_map(|id| url_of(id)).collect();
        dependencies.insert(url(package), json!({ "ref": url(package), "dependsOn": on }));
    }
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": component(first) },
        "components": components.into_values().collect::<Vec<_>>(),
        "dependencies": dependencies.into_values().collect::<Vec<_>>(),
    }))
}

/// Returns a package and those that are linked with it: neither for tests nor for building.
fn normal_dependencies(node: &Node) -> (&str, Vec<&str>) {
    let is_normal = |dependency: &&Dependency| dependency.dep_kinds.iter().any(|kind| kind.kind.is_none());
    let on = node.deps.iter().filter(is_normal).map(|dependency| dependency.pkg.as_str());
    (&node.id, on.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_lists_what_is_linked_and_nothing_else() {
        let package = |name: &str| {
            json!({ "id": format!("{name} id"), "name": name, "version": "1.0.0",
                    "license": "MIT/Apache-2.0", "description": null })
        };
        let needs = |name: &str, kind: Value| json!({ "name": name, "pkg": format!("{name} id"), "dep_kinds": [{ "kind": kind, "target": null }] });
        let node = |name: &str, deps: Vec<Value>| json!({ "id": format!("{name} id"), "deps": deps });
        let packages = ["program", "used", "deep", "test", "build"].map(package);
        let metadata = json!({
            "packages": packages,
            "resolve": { "nodes": [
                node("program", vec![
                    needs("used", Value::Null), needs("test", json!("dev")), needs("build", json!("build")),
                ]),
                node("used", vec![needs("deep", Value::Null)]),
                node("deep", vec![]), node("test", vec![]), node("build", vec![]),
            ] },
        });
        let metadata: Metadata = serde_json::from_value(metadata).unwrap();
        let lock = "[[package]]\nname = 'deep'\nversion = '1.0.0'\nchecksum = 'ab12'\n[[package]]\nname = 'used'\nversion = '1.0.0'\n";
        let bill = bill(&metadata, &checksums(lock).unwrap(), "program").unwrap();
        let names: Vec<&str> = bill["components"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["deep", "used"]);
        assert_eq!(bill["components"][0]["hashes"][0]["content"], "ab12");
        assert_eq!(bill["components"][1]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bill["dependencies"][1]["dependsOn"], json!(["pkg:cargo/used@1.0.0"]));
        assert_eq!(bill["metadata"]["component"]["type"], "application");
    }
}
