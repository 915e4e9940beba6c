//! Each crate names its layer, inherits the workspace's lints, and depends only on lower layers.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::{Finding, Tree};

/// The crates of this layer are independent of each other, also in their tests.
const INDEPENDENT_LAYER: i64 = 2;

/// Checks the manifest of every crate.
pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let manifests: Vec<(&str, Table)> = tree
        .sources
        .iter()
        .filter(|file| {
            let parts: Vec<&str> = file.path.split('/').collect();
            matches!(parts[..], ["crates", _, "Cargo.toml"] | ["benches" | "xtask" | "fuzz", "Cargo.toml"])
        })
        .filter_map(|file| Some((file.path.as_str(), file.text.parse().ok()?)))
        .collect();
    let layers: BTreeMap<&str, i64> = manifests
        .iter()
        .filter_map(|(_, manifest)| {
            let layer = get(manifest, &["package", "metadata", "flowloom", "layer"])?.as_integer()?;
            Some((name(manifest), layer))
        })
        .collect();
    for (path, manifest) in &manifests {
        let mut find = |what: String, remedy: &str| findings.push(Finding::new(path, 0, what, remedy));
        let own = name(manifest);
        let inherits = get(manifest, &["lints", "workspace"]).and_then(Value::as_bool) == Some(true);
        if !inherits && !path.starts_with("fuzz/") {
            find(
                format!("{own} does not inherit the workspace's lints"),
                "add `[lints]` with `workspace = true`",
            );
        }
        let Some(&layer) = layers.get(own) else {
            find(
                format!("{own} names no layer"),
                "add `layer = N` to `[package.metadata.flowloom]`; docs/ARCHITECTURE.md lists the layers",
            );
            continue;
        };
        for (kind, dependency) in dependencies(manifest) {
            let Some(&below) = layers.get(dependency).filter(|_| dependency != own) else { continue };
            let is_for_tests = kind == "dev-dependencies" && below == layer && layer != INDEPENDENT_LAYER;
            if below >= layer && !is_for_tests {
                find(
                    format!("{own} (layer {layer}) depends on {dependency} (layer {below}), in {kind}"),
                    "move shared code to a lower layer, or what joins them to a higher one (docs/adr/0001-layers.md)",
                );
            }
        }
    }
}

/// Returns each kind of dependency with the packages it names, including those for single targets.
fn dependencies(manifest: &Table) -> impl Iterator<Item = (&'static str, &str)> {
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let tables = std::iter::once(manifest).chain(targets.filter_map(Value::as_table));
    tables.flat_map(|table| {
        ["dependencies", "build-dependencies", "dev-dependencies"].into_iter().flat_map(move |kind| {
            let named = table.get(kind).and_then(Value::as_table).into_iter().flatten();
            named.map(move |(name, value)| {
                (kind, value.get("package").and_then(Value::as_str).unwrap_or(name))
            })
        })
    })
}

fn get<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(table.get(*first)?, |value, key| value.get(*key))
}

fn name(manifest: &Table) -> &str {
    get(manifest, &["package", "name"]).and_then(Value::as_str).unwrap_or_default()
}
