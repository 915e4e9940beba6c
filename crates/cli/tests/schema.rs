//! The results conform to the schemas that `flowloom schema` prints.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jsonschema::{Validator, draft202012};
use serde_json::{Value, json};

use crate::bytes::pcap;
use crate::support::{Folder, flowloom};

/// Validators by the name and version that a document states.
static VALIDATORS: LazyLock<BTreeMap<String, Validator>> = LazyLock::new(|| {
    let schemas = schemas().into_iter();
    schemas.map(|schema| (text(&schema["$id"]), draft202012::new(&schema).unwrap())).collect()
});

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns all schemas.
fn schemas() -> Vec<Value> {
    let printed = |words: &[&str]| -> Value {
        serde_json::from_slice(&flowloom(words).ends(0).silent().stdout).unwrap()
    };
    let list = printed(&["schema", "--format", "json"]);
    let listed = list["schemas"].as_array().unwrap().iter();
    let names = |listed: &Value| {
        let schema = printed(&["schema", listed["name"].as_str().unwrap()]);
        assert_eq!(schema["$id"], listed["id"]);
        schema
    };
    listed.map(names).collect()
}

fn mistakes(document: &Value) -> Vec<String> {
    let id = text(&document["schema"]);
    let Some(validator) = VALIDATORS.get(&id) else { return vec![format!("'{id}' has no schema")] };
    validator.iter_errors(document).map(|error| format!("{} {error}", error.instance_path())).collect()
}

/// Asserts that a document conforms to the schema that it names.
#[track_caller]
pub(crate) fn assert_conforms(document: &Value) {
    let mistakes = mistakes(document);
    assert!(mistakes.is_empty(), "{mistakes:#?}\n{document:#}");
}

/// Visits a schema and all schemas in it. The visitor also gets whether the schema is a variant,
/// whose object has more properties.
fn visit(schema: &Value, place: &str, is_variant: bool, visitor: &mut impl FnMut(&Value, &str, bool)) {
    if !schema.is_object() {
        return;
    }
    visitor(schema, place, is_variant);
    let properties = schema["properties"].as_object();
    for (name, inner) in properties.into_iter().flatten() {
        visit(inner, &format!("{place}.{name}"), false, visitor);
    }
    for part in ["items", "additionalProperties"] {
        visit(&schema[part], &format!("{place}.{part}"), false, visitor);
    }
    for inner in ["oneOf", "anyOf"].iter().filter_map(|part| schema[part].as_array()).flatten() {
        visit(inner, place, properties.is_some(), visitor);
    }
}

#[test]
fn schemas_are_closed_and_every_property_is_described() {
    let mut count = 0;
    for schema in schemas() {
        assert!(draft202012::meta::validate(&schema).is_ok());
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        visit(&schema, &text(&schema["$id"]), false, &mut |schema, place, is_variant| {
            let Some(properties) = schema["properties"].as_object() else {
                return assert!(schema["type"] != "object" || !schema["additionalProperties"].is_null());
            };
            let is_closed = |others| schema[others] == false;
            let others = ["additionalProperties", "unevaluatedProperties"];
            assert!(is_variant || others.into_iter().any(is_closed), "{place} is open");
            assert_ne!(text(&schema["description"]), "", "{place} has no description");
            for (name, property) in properties {
                let about = text(&property["description"]);
                assert!(about.ends_with('.') && !about.contains("None"), "{place}.{name}: '{about}'");
                count += 1;
            }
        });
    }
    assert!(count > 700, "{count} properties");
}

/// Returns the places of all objects in a document.
fn objects(value: &Value, place: String, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                objects(field, format!("{place}/{name}"), found);
            }
            found.push(place);
        }
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(at, item)| objects(item, format!("{place}/{at}"), found));
        }
        _ => {}
    }
}

#[test]
fn documents_with_wrong_unknown_or_missing_properties_are_rejected() {
    let folder = Folder::new();
    let path = folder.write("t.pcap", &pcap(3));
    let replayed = flowloom(["replay", &path, "--format", "json"]).ends(0).json();
    let item = ["reproduce", "dhash/table5", "--scale", "smoke", "--format", "json"];
    let reproduced = flowloom(item).ends(0).json();
    let refused = |document: &Value, place: &str, change: &dyn Fn(&mut Value)| {
        let mut document = document.clone();
        change(document.pointer_mut(place).unwrap());
        assert_ne!(mistakes(&document), [""; 0], "{place}: {document:#}");
    };
    for (place, value) in [
        ("/packets", json!("many")),
        ("/packets", json!(-1)),
        ("/packets", json!(1.5)),
        ("/packets", json!(null)),
        ("/run/layout", json!("both")),
        ("/run/order", json!("some")),
        ("/schema", json!("flowloom/replay/2")),
        ("/workers/0", json!([])),
        ("/table", json!({ "new": 1 })),
    ] {
        refused(&replayed, place, &|field| *field = value.clone());
    }
    for (place, name) in [("", "packets"), ("/host", "cpu"), ("/workers/0", "sent")] {
        refused(&replayed, place, &|object| drop(object.as_object_mut().unwrap().remove(name)));
    }
    for (place, name) in [("/items/0", "verdict"), ("/items/0", "values"), ("/items/0/charts/0/x", "scale")]
    {
        refused(&reproduced, place, &|object| drop(object.as_object_mut().unwrap().remove(name)));
    }
    for document in [&replayed, &reproduced] {
        let mut places = Vec::new();
        objects(document, String::new(), &mut places);
        assert!(places.len() > 10);
        for place in places {
            refused(document, &place, &|object| object["unknown"] = json!("text"));
        }
    }
}

/// Frames sent on one interface pass a bridge, in a network of their own.
const WIRE: &str = "
    ip link add eth0 type veth peer name west
    ip link add eth1 type veth peer name east
    for name in eth0 eth1 west east; do ip link set $name up; done
    FLOWLOOM bridge eth0 eth1 --l7 --on-panic drop --without-flow drop --without-flow not_ip=pass \\
        --format json > bridge.json 2> bridge.err & bridge=$!
    until grep -q 'until it is stopped' bridge.err || ! kill -0 $bridge; do sleep 0.05; done
    FLOWLOOM send t.pcap --iface west --speed 5k --format json > send.json
    sleep 0.3
    kill $bridge
    wait $bridge
";

#[test]
fn a_bridge_and_a_sender_describe_their_results() {
    let folder = Folder::new();
    folder.trace("t.pcap", &["--flows", "50", "--packets", "2k"]);
    let script = WIRE.replace("FLOWLOOM", concat!("'", env!("CARGO_BIN_EXE_flowloom"), "'"));
    let in_network = |script: &str| {
        let mut command = std::process::Command::new("unshare");
        command.args(["-n", "sh", "-ec", script]).current_dir(folder.path(".")).output()
    };
    let has_veth = in_network("ip link add eth0 type veth peer name west");
    if !has_veth.is_ok_and(|output| output.status.success()) {
        eprintln!("not run, without network namespaces");
        return;
    }
    let output = in_network(&script).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read = |name: &str| -> Value {
        serde_json::from_slice(&std::fs::read(folder.path(name)).unwrap()).unwrap()
    };
    let (bridge, send) = (read("bridge.json"), read("send.json"));
    assert_conforms(&bridge);
    assert_conforms(&send);
    assert_eq!(send["sent"], 2000);
    assert_eq!(bridge["balanced"], true);
    assert!(bridge["ports"][0]["received"].as_u64().unwrap() >= 2000, "{bridge:#}");
    assert!(!bridge["protocols"].is_null());
}
