//! Checks that each crate names its layer and depends only on lower layers.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::{Finding, Tree};

const WHY: &str = "a crate of a lower layer can be used without the higher ones (docs/adr/0001-layers.md)";
const NORMAL: [&str; 2] = ["dependencies", "build-dependencies"];
const INDEPENDENT_LAYER: i64 = 2;

struct Member<'a> {
    path: &'a str,
    text: &'a str,
    name: String,
    layer: Option<i64>,
    manifest: Table,
}

/// Checks the manifest of every crate.
pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let mut members = Vec::new();
    for file in tree.sources.iter().filter(|file| is_member(&file.path)) {
        match file.text.parse::<Table>() {
            Ok(manifest) => members.push(Member {
                path: &file.path,
                text: &file.text,
                name: text(&manifest, &["package", "name"]),
                layer: get(&manifest, &["package", "metadata", "flowloom", "layer"])
                    .and_then(Value::as_integer),
                manifest,
            }),
            Err(error) => findings.push(Finding::new(
                &file.path,
                0,
                format!("is no valid TOML: {}", error.message()),
                "cargo cannot read it either",
                "fix the manifest",
            )),
        }
    }
    let layers: BTreeMap<&str, i64> =
        members.iter().filter_map(|member| Some((member.name.as_str(), member.layer?))).collect();
    for member in &members {
        check_member(member, &layers, findings);
    }
}

fn is_member(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts[..], ["crates", _, "Cargo.toml"] | ["benches" | "xtask" | "fuzz", "Cargo.toml"])
}

fn check_member(member: &Member<'_>, layers: &BTreeMap<&str, i64>, findings: &mut Vec<Finding>) {
    let standalone = member.path.starts_with("fuzz/");
    let inherits = get(&member.manifest, &["lints", "workspace"]).and_then(Value::as_bool) == Some(true);
    if !inherits && !standalone {
        findings.push(Finding::new(
            member.path,
            0,
            format!("{} does not inherit the workspace's lints", member.name),
            "one set of lints holds everywhere",
            "add `[lints]` with `workspace = true`",
        ));
    }
    let Some(layer) = member.layer else {
        findings.push(Finding::new(
            member.path,
            0,
            format!("{} names no layer", member.name),
            WHY,
            "add `[package.metadata.flowloom]` with `layer = N`; docs/ARCHITECTURE.md lists the layers",
        ));
        return;
    };
    for (kind, dependency) in dependencies(&member.manifest) {
        let Some(&below) = layers.get(dependency.as_str()) else { continue };
        if dependency == member.name {
            continue;
        }
        let for_tests = kind == "dev-dependencies";
        let allowed = below < layer || (for_tests && below == layer && layer != INDEPENDENT_LAYER);
        if allowed {
            continue;
        }
        let what = if below == layer && layer == INDEPENDENT_LAYER {
            format!(
                "{} and {dependency} are both in layer 2, whose crates are independent of each other",
                member.name
            )
        } else {
            format!("{} (layer {layer}) depends on {dependency} (layer {below}), in {kind}", member.name)
        };
        findings.push(Finding::new(
            member.path,
            line_of(member.text, &dependency),
            what,
            WHY,
            "move shared code to a lower layer, or the code that joins them to a higher one",
        ));
    }
}

/// Returns each kind of dependency table with the packages it names, including tables for single
/// targets.
fn dependencies(manifest: &Table) -> Vec<(&'static str, String)> {
    let mut tables = vec![manifest];
    if let Some(targets) = manifest.get("target").and_then(Value::as_table) {
        tables.extend(targets.values().filter_map(Value::as_table));
    }
    let mut found = Vec::new();
    for table in tables {
        for kind in NORMAL.into_iter().chain(["dev-dependencies"]) {
            for (name, value) in table.get(kind).and_then(Value::as_table).into_iter().flatten() {
                let package = value.get("package").and_then(Value::as_str).unwrap_or(name);
                found.push((kind, package.to_owned()));
            }
        }
    }
    found
}

fn get<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(table.get(*first)?, |value, key| value.get(*key))
}

fn text(table: &Table, path: &[&str]) -> String {
    get(table, path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn line_of(text: &str, name: &str) -> usize {
    (1..)
        .zip(text.lines())
        .find(|(_, line)| line.trim_start().starts_with(name))
        .map_or(0, |(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str, layer: i64, rest: &str) -> String {
        format!(
            "[package]\nname = \"{name}\"\n[package.metadata.flowloom]\nlayer = {layer}\n[lints]\nworkspace = true\n{rest}"
        )
    }

    fn findings(a: &str, b: &str) -> Vec<String> {
        let tree = Tree::of(&[("crates/a/Cargo.toml", a), ("crates/b/Cargo.toml", b)]);
        let mut findings = Vec::new();
        check(&tree, &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn dependencies_on_lower_layers_are_fine() {
        let a = manifest("a", 3, "[dependencies]\nb = { workspace = true }\nserde = \"1\"\n");
        assert_eq!(findings(&a, &manifest("b", 2, "")), [""; 0]);
    }

    #[test]
    fn dependencies_upwards_are_found_in_every_table() {
        for table in
            ["dependencies", "build-dependencies", "dev-dependencies", "target.'cfg(unix)'.dependencies"]
        {
            let a = manifest("a", 3, &format!("[{table}]\nb = {{ workspace = true }}\n"));
            let found = findings(&a, &manifest("b", 4, ""));
            assert_eq!(found.len(), 1, "{table}");
            assert!(found[0].contains("a (layer 3) depends on b (layer 4)"), "{}", found[0]);
            assert!(found[0].starts_with("crates/a/Cargo.toml:8:"), "{}", found[0]);
        }
    }

    #[test]
    fn crates_of_layer_two_are_independent_even_in_tests() {
        for table in ["dependencies", "dev-dependencies"] {
            let a = manifest("a", 2, &format!("[{table}]\nb = \"1\"\n"));
            let found = findings(&a, &manifest("b", 2, ""));
            assert!(found[0].contains("are independent of each other"), "{found:?}");
        }
    }

    #[test]
    fn a_renamed_dependency_is_still_known() {
        let a = manifest("a", 1, "[dependencies]\nx = { package = \"b\", version = \"1\" }\n");
        assert_eq!(findings(&a, &manifest("b", 1, "")).len(), 1);
    }

    #[test]
    fn a_crate_without_layer_or_lints_is_found() {
        let found = findings("[package]\nname = \"a\"\n", &manifest("b", 2, ""));
        assert_eq!(found.len(), 2);
        assert!(found[0].contains("does not inherit") && found[1].contains("names no layer"));
    }
}
