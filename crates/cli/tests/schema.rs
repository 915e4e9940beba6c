//! The documents match `docs/schema/`.

use std::path::Path;

use serde_json::Value;

use crate::bytes::{enhanced, pcap, pcapng_header, udp_frame};
use crate::support::{Folder, flowloom};

/// Keywords that [`Schema::check`] supports; a schema with another keyword would be checked only in
/// part.
const KEYWORDS: [&str; 16] = [
    "$schema",
    "$id",
    "$defs",
    "$ref",
    "title",
    "description",
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "minItems",
    "maxItems",
    "const",
    "enum",
    "minimum",
];

pub(crate) struct Schema(Value);

impl Schema {
    pub(crate) fn read(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema").join(name);
        Self(serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
    }

    #[track_caller]
    pub(crate) fn accepts(&self, document: &Value) {
        let mistakes = self.mistakes(document);
        assert!(mistakes.is_empty(), "{mistakes:#?}\n{document:#}");
    }

    fn mistakes(&self, document: &Value) -> Vec<String> {
        let mut mistakes = Vec::new();
        self.check(&self.0, document, "$", &mut mistakes);
        mistakes
    }

    fn check(&self, schema: &Value, value: &Value, place: &str, mistakes: &mut Vec<String>) {
        if let Some(name) = schema["$ref"].as_str() {
            let target = self.0.pointer(name.strip_prefix('#').unwrap()).unwrap();
            return self.check(target, value, place, mistakes);
        }
        let types = match &schema["type"] {
            Value::String(one) => vec![one.as_str()],
            several => several.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect(),
        };
        if !types.iter().any(|name| is_of(value, name)) {
            mistakes.push(format!("{place} is {value}, not {types:?}"));
            return;
        }
        if !schema["const"].is_null() && schema["const"] != *value {
            mistakes.push(format!("{place} is {value}, not {}", schema["const"]));
        }
        if schema["enum"].as_array().is_some_and(|values| !values.contains(value)) {
            mistakes.push(format!("{place} is {value}, not one of {}", schema["enum"]));
        }
        if let (Some(least), Some(number)) = (schema["minimum"].as_f64(), value.as_f64())
            && number < least
        {
            mistakes.push(format!("{place} is {value}, below {least}"));
        }
        if let Some(items) = value.as_array() {
            let (least, most) = (schema["minItems"].as_u64(), schema["maxItems"].as_u64());
            if least.unwrap_or(0) > items.len() as u64 || most.unwrap_or(u64::MAX) < items.len() as u64 {
                mistakes.push(format!("{place} has {} items", items.len()));
            }
        }
        for (i, item) in value.as_array().into_iter().flatten().enumerate() {
            self.check(&schema["items"], item, &format!("{place}[{i}]"), mistakes);
        }
        let Some(fields) = value.as_object() else { return };
        for name in schema["required"].as_array().into_iter().flatten() {
            if !fields.contains_key(name.as_str().unwrap()) {
                mistakes.push(format!("{place} lacks {name}"));
            }
        }
        for (name, field) in fields {
            let place = format!("{place}.{name}");
            match (schema["properties"].get(name), &schema["additionalProperties"]) {
                (Some(known), _) => self.check(known, field, &place, mistakes),
                (None, Value::Object(_)) => {
                    self.check(&schema["additionalProperties"], field, &place, mistakes);
                }
                (None, _) => mistakes.push(format!("{place} is not described")),
            }
        }
    }
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        _ => panic!("{name} is no type of JSON Schema"),
    }
}

/// Visits a schema and all schemas in it.
fn visit(schema: &Value, place: &str, visitor: &mut impl FnMut(&Value, &str)) {
    visitor(schema, place);
    for part in ["properties", "$defs"] {
        for (name, inner) in schema[part].as_object().into_iter().flatten() {
            visit(inner, &format!("{place}.{name}"), visitor);
        }
    }
    for part in ["items", "additionalProperties"] {
        if schema[part].is_object() {
            visit(&schema[part], &format!("{place}.{part}"), visitor);
        }
    }
}

#[test]
fn schemas_are_closed_described_and_of_known_words() {
    for name in [
        "replay-1.json",
        "inspect-1.json",
        "generate-1.json",
        "generate-weblog-1.json",
        "reproduce-1.json",
        "reproduce-list-1.json",
        "simulate-tcb-cache-1.json",
        "classify-1.json",
        "rules-check-1.json",
        "rules-stats-1.json",
        "rules-explain-1.json",
        "rules-convert-1.json",
        "rules-diff-1.json",
        "rules-minimise-1.json",
        "generate-lines-1.json",
        "simulate-schedule-1.json",
        "simulate-ordering-1.json",
        "scheduler-list-1.json",
        "bench-1.json",
        "compare-1.json",
        "compare-reproductions-1.json",
        "doctor-1.json",
        "top-1.json",
        "extract-1.json",
        "bridge-1.json",
        "send-1.json",
    ] {
        let schema = Schema::read(name);
        assert_eq!(schema.0["$schema"], "https://json-schema.org/draft/2020-12/schema");
        visit(&schema.0, name, &mut |schema, place| {
            for (keyword, _) in schema.as_object().unwrap() {
                assert!(KEYWORDS.contains(&keyword.as_str()), "{place}: {keyword} is not checked");
            }
            assert!(schema["description"].is_string(), "{place} has no description");
            if schema["type"] == "object" {
                assert!(!schema["additionalProperties"].is_null(), "{place} is open");
            }
            for required in schema["required"].as_array().into_iter().flatten() {
                assert!(!schema["properties"][required.as_str().unwrap()].is_null(), "{place}: {required}");
            }
        });
    }
}

#[test]
fn the_validator_sees_mistakes() {
    let folder = Folder::new();
    let path = folder.write("t.pcap", &pcap(3));
    let document = flowloom(["replay", &path, "--format", "json"]).ends(0).json();
    let schema = Schema::read("replay-1.json");
    let spoiled = |place: &str, value: Value| {
        let mut document = document.clone();
        *document.pointer_mut(place).unwrap() = value;
        schema.mistakes(&document)
    };
    assert_eq!(schema.mistakes(&document), [""; 0]);
    assert_eq!(spoiled("/packets", "many".into()).len(), 1);
    assert_eq!(spoiled("/packets", (-1).into()).len(), 1);
    assert_eq!(spoiled("/packets", 1.5.into()).len(), 1);
    assert_eq!(spoiled("/run/layout", "both".into()).len(), 1);
    assert_eq!(spoiled("/schema", "flowloom/replay/2".into()).len(), 1);
    assert_eq!(spoiled("/workers/0", Value::Array(Vec::new())).len(), 1);
    assert!(spoiled("/table", serde_json::json!({ "new": 1 })).len() > 1);
    let pair = Schema(
        serde_json::json!({ "type": "array", "minItems": 2, "maxItems": 2, "items": { "type": "number" } }),
    );
    for (items, mistakes) in [(1, 1), (2, 0), (3, 1)] {
        assert_eq!(pair.mistakes(&vec![7; items].into()).len(), mistakes);
    }
}

#[test]
fn replay_documents_conform() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let cut = folder.write("cut.pcap", &pcap(5)[..200]);
    let none = folder.write("none.pcap", &pcap(0));
    let mut mixed = pcapng_header(&[1, 190]);
    mixed.extend(enhanced(0, 1, 46, &udp_frame(7)));
    mixed.extend(enhanced(1, 2, 46, &udp_frame(7)));
    let mixed = folder.write("mixed.pcapng", &mixed);
    let bomb = folder.trace("t.pcap.gz", &["--flows", "10", "--packets", "2k"]);
    let rules = folder.write(
        "rules.toml",
        b"default_action = 'none'\n[[rule]]\nprotocol = 'tcp'\n[[rule]]\nprotocol = 'udp'\n",
    );
    let written = folder.path("written.pcapng");
    let flows = folder.path("flows.csv");
    let schema = Schema::read("replay-1.json");
    for arguments in [
        &[trace.as_str()][..],
        &[&trace, "--workers", "2", "--scheduler", "hrw", "--seed", "3", "--timeout", "1"],
        &[&trace, "--no-pin", "--workers", "2", "--full", "drop", "--ring", "64"],
        &[&trace, "--verify", "--passes", "2", "--decap", "--no-mmap"],
        &[&trace, "--loop", "--limit", "6000", "--app", "null"],
        &[&trace, "--workers", "2", "--scheduler", "lfb", "--write", &written],
        &[&trace, "--tcb-cache", "8k", "--tcb-policy", "flowlru", "--workers", "2", "--no-pin"],
        &[&trace, "--rules", &rules, "--top-rules", "1", "--strict-tcp", "--listen", "127.0.0.1:0"],
        &[&trace, "--app", "accounting", "--timeout", "1", "--active-timeout", "2"],
        &[&trace, "--flows", &flows, "--fields", "all", "--where", "bytes > 1k"],
        &[&trace, "--app", "l7", "--workers", "2", "--no-pin"],
        &[&trace, &mixed],
        &[&cut],
        &[&none],
        &[&mixed],
        &[&bomb, "--unpack-max", "100k"],
    ] {
        schema.accepts(&flowloom([&["replay", "--format", "json"], arguments].concat()).json());
    }
}

#[test]
fn inspect_documents_conform() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let packed = folder.trace("t.pcapng.zst", &["--flows", "10", "--packets", "2k"]);
    let cut = folder.write("cut.pcap", &pcap(5)[..200]);
    let none = folder.write("none.pcap", &pcap(0));
    let schema = Schema::read("inspect-1.json");
    for arguments in [
        &[trace.as_str()][..],
        &[&trace, "--why", "--top", "5", "--decap"],
        &[&trace, &packed, "--limit", "100"],
        &[&packed],
        &[&cut, "--strict"],
        &[&none, "--why"],
    ] {
        schema.accepts(&flowloom([&["inspect", "--format", "json"], arguments].concat()).json());
    }
}

#[test]
fn generate_documents_conform() {
    let folder = Folder::new();
    let schema = Schema::read("generate-1.json");
    for (name, options) in [("a.pcap", &[][..]), ("b.pcapng.zst", &["--sessions", "10"])] {
        let path = folder.path(name);
        let base = ["generate", "trace", "--format", "json", "-o", &path];
        schema.accepts(&flowloom([&base, options].concat()).ends(0).json());
    }
}

#[test]
fn simulate_documents_conform() {
    let folder = Folder::new();
    let trace = folder.path("t.pcap");
    flowloom(["generate", "trace", "--packets", "2k", "-o", &trace]).ends(0);
    let model = ["--model", "balanced", "--packets", "2k"];
    for (what, traffic) in
        [("schedule", &[&*trace, "--load", "50"][..]), ("schedule", &model), ("ordering", &model)]
    {
        let schema = Schema::read(&format!("simulate-{what}-1.json"));
        let base = ["simulate", what, "--format", "json"];
        schema.accepts(&flowloom([&base, traffic].concat()).ends(0).json());
    }
}

#[test]
fn reproduce_is_what_its_schema_says() {
    let schema = Schema::read("reproduce-1.json");
    for what in ["dhash/table5", "dhash/section4_load_factor"] {
        let arguments = ["reproduce", what, "--scale", "smoke", "--format", "json"];
        schema.accepts(&flowloom(arguments).ends(0).json());
    }
    let all = ["--scale", "smoke", "--format", "json", "--ablate", "--sweep", "--seeds", "3"];
    schema.accepts(&flowloom([&["reproduce", "hrwtree/fig1"][..], &all].concat()).ends(0).json());
}

#[test]
fn weblog_and_cache_simulation_documents_conform() {
    let folder = Folder::new();
    let made = Schema::read("generate-weblog-1.json");
    let simulated = Schema::read("simulate-tcb-cache-1.json");
    let base = ["generate", "weblog", "--format", "json", "--overlap", "20", "--accesses", "3k", "-o"];
    for name in ["a.log", "a.tsv.gz", "a.csv.zst", "a.oracleGeneral"] {
        let path = folder.path(name);
        made.accepts(&flowloom([&base[..], &[&path]].concat()).ends(0).json());
        let read = ["simulate", "tcb-cache", &path, "--format", "json", "--policy", "mod,spec,fa-lru,min"];
        simulated.accepts(&flowloom(read).ends(0).json());
    }
    let capture = folder.trace("t.pcap", &[]);
    let log = folder.path("a.log");
    for arguments in [
        &[capture.as_str()][..],
        &[&log, "--overlap", "10", "--accesses", "2k", "--view", "rx", "--draws", "2", "--fin", "on"],
        &["--model", "s", "--overlap", "10", "--accesses", "2k"],
    ] {
        let read = ["simulate", "tcb-cache", "--format", "json"];
        simulated.accepts(&flowloom([&read[..], arguments].concat()).ends(0).json());
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
    Schema::read("bridge-1.json").accepts(&bridge);
    Schema::read("send-1.json").accepts(&send);
    assert_eq!(send["sent"], 2000);
    assert_eq!(bridge["balanced"], true);
    assert!(bridge["ports"][0]["received"].as_u64().unwrap() >= 2000, "{bridge:#}");
    assert!(!bridge["protocols"].is_null());
}
