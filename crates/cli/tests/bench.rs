//! `bench`: every contender gives the same answers, and the report can be parsed.

use serde_json::json;

use crate::support::{Folder, flowloom};

#[test]
fn tables_are_compared_with_the_first_one_and_the_floor() {
    let arguments = ["bench", "table", "--flows", "2k", "--rounds", "2", "--format", "json"];
    let document = flowloom(arguments).ends(0).json();
    assert_eq!(document["complete"], true);
    let memory = document["memory"].as_array().unwrap();
    assert_eq!(memory[0]["variant"], "linehash");
    assert!(memory[0]["bytes"].as_u64() > Some(2000 * 64));
    assert_eq!(memory[0]["huge_pages_requested"], false, "so little takes no huge page");
    let ratios = document["ratios"].as_array().unwrap();
    let has = |work: &str, rival: &str| {
        ratios.iter().any(|row| row["work"].as_str().unwrap().starts_with(work) && row["rival"] == rival)
    };
    assert!(
        has("hit, batch 256: linehash", "std") && has("miss", "lower bound") && has("build", "chained")
    );
    assert!(has("hit, single, dependent: linehash", "std"));
    assert!(!has("hit, single", "lower bound"), "the lower bound has no single lookups");
}

#[test]
fn keys_of_forty_bytes_and_a_flood_have_rows() {
    let arguments = [
        "bench",
        "table",
        "--table",
        "dhash,linehash",
        "--flows",
        "1k",
        "--rounds",
        "1",
        "--work",
        "hit,hit-ahead,flood",
        "--key",
        "v6",
    ];
    flowloom(arguments).ends(0).shows(&[
        "hit, batch 256: dhash",
        "hit, batch 256, 2 ahead: dhash",
        "flows of one CRC",
        "paper mode",
    ]);
}

#[test]
fn what_cannot_be_compared_is_said() {
    // More memory than test machines have free.
    let vast = ["bench", "table", "--flows", "134217728", "--key", "v6", "--work", "build,flood"];
    flowloom(vast).ends(2).says(&["--flows 134217728", "are free", "a smaller --flows", "--table"]);
    flowloom(["bench", "table", "--flows", "0"]).ends(2).says(&["--flows 0"]);
    flowloom(["bench", "table", "--rounds", "0"]).ends(2).says(&["--rounds"]);
    flowloom(["bench", "table", "--table", "tabel"]).ends(2).says(&["'tabel'", "linehash"]);
    flowloom(["bench", "table", "--isa", "mmx"]).ends(2).says(&["'mmx'"]);
}

#[test]
fn the_packet_path_is_timed_by_stage_by_layout_and_by_lateness() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--packets", "3k", "--flows", "100"]);
    let run =
        ["bench", "pipeline", &trace, "--packets", "6k", "--rounds", "1", "--rates", "50", "--no-pin"];
    let document = flowloom([&run[..], &["--format", "json", "--scheduler", "flowpin"]].concat()).json();
    assert_eq!(document["input"]["packets_of_a_round"], 6000);
    let results = document["results"].as_array().unwrap();
    // Six steps on one thread; two times of inline, one worker and two.
    let stages =
        results.iter().filter(|row| row["work"].as_str().unwrap().starts_with("one thread")).count();
    assert_eq!(stages, 6);
    assert!(results.len() >= 6 + 2 * 3);
    let latencies = document["latencies"].as_array().unwrap();
    assert!(latencies.len() >= 3);
    for row in latencies {
        let at = |name: &str| row[name].as_u64().unwrap();
        assert!(
            at("packets") > 0 && at("p50_ns") <= at("p99_ns") && at("p99_ns") <= at("max_ns"),
            "{row:#}"
        );
    }
    assert_eq!(document["distances"]["line_round_trips_ns"], json!([]), "threads are not pinned");
    flowloom(run).ends(0).shows(&[
        "hand-written",
        "p99.9",
        "1 worker",
        "round trip of a line to another CPU: not measured",
    ]);
    flowloom([&run[..], &["--format", "csv"]].concat()).shows(&["p95,line_round_trip_ns\n"]);
    flowloom(["bench", "pipeline", &trace, "--rounds", "0"]).ends(2);
    flowloom(["bench", "pipeline", &trace, "--workers", "0"]).ends(2).says(&["--workers 0"]);
    flowloom(["bench", "pipeline", &trace, "--rates", "0"]).ends(2).says(&["--rates 0"]);
    flowloom(["bench", "pipeline", "/no/such.pcap"]).ends(3).says(&["/no/such.pcap"]);
}

#[test]
fn the_packet_path_is_timed_with_every_application() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--packets", "3k", "--flows", "100"]);
    let rules = folder.write(
        "rules.toml",
        b"default_action = 'none'\n[[rule]]\nprotocol = 'tcp'\n[[rule]]\nprotocol = 'udp'\n",
    );
    let run = [
        "bench",
        "pipeline",
        &trace,
        "--packets",
        "3k",
        "--rounds",
        "1",
        "--rates",
        "50",
        "--workers",
        "2",
        "--no-pin",
        "--app",
    ];
    for (app, options, expected) in [
        ("null", &[][..], json!(null)),
        ("tcp-tracker", &[], json!(null)),
        ("firewall", &[], json!("generated")),
        ("firewall", &["--rules", &rules], json!(rules)),
        ("accounting", &[], json!(null)),
        ("l7", &[], json!(null)),
    ] {
        let document = flowloom([&run[..], &[app, "--format", "json"], options].concat()).json();
        assert_eq!((&document["input"]["app"], &document["input"]["rules"]), (&json!(app), &expected));
        let count = if app != "firewall" {
            json!(null)
        } else if options.is_empty() {
            json!(1000)
        } else {
            json!(2)
        };
        assert_eq!(document["input"]["rule_count"], count);
        let results = document["results"].as_array().unwrap();
        assert!(results.iter().any(|row| row["variant"] == format!("hand-written, {app}")), "{document:#}");
    }
    flowloom([&run[..], &["l7", "--rules", &rules]].concat()).ends(2).says(&["--app firewall"]);
    flowloom([&run[..], &["firewall", "--chain", "A"]].concat()).ends(2).says(&["--rules"]);
    flowloom([&run[..], &["firewall", "--rules", "/no/such"]].concat()).ends(3).says(&["/no/such"]);
}

#[test]
fn every_round_of_pinned_threads_is_sorted_by_distance_or_counted() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--packets", "3k", "--flows", "100"]);
    let run = ["bench", "pipeline", &trace, "--packets", "3k", "--rounds", "3", "--rates", "50"];
    let document = flowloom([&run[..], &["--workers", "1", "--format", "json"]].concat()).json();
    let distances = &document["distances"];
    let trips = distances["line_round_trips_ns"].as_array().unwrap();
    assert!(
        [0, 4].contains(&trips.len()),
        "before the first round and after each, or never: {distances:#}"
    );
    let kinds = distances["kinds"].as_array().unwrap();
    let sorted: usize = kinds.iter().map(|kind| kind["rounds"].as_array().unwrap().len()).sum();
    let counted: u64 =
        ["changed", "elsewhere", "unmeasured"].iter().map(|name| distances[name].as_u64().unwrap()).sum();
    assert_eq!(sorted as u64 + counted, trips.len().saturating_sub(1) as u64);
    // Rows of each kind, which state its distance, or of all rounds, which state none.
    let expected: Vec<_> = match &kinds[..] {
        [] => vec![(json!(3), json!(null))],
        kinds => kinds
            .iter()
            .map(|kind| {
                (json!(kind["rounds"].as_array().unwrap().len()), kind["line_round_trip_ns"].clone())
            })
            .collect(),
    };
    let ratios = document["ratios"].as_array().unwrap().iter().filter(|row| row["rival"] == "inline");
    let found: Vec<_> =
        ratios.map(|row| (row["rounds"].clone(), row["line_round_trip_ns"].clone())).collect();
    assert_eq!(found, expected, "{distances:#}");
}

#[test]
fn whole_programs_are_compared_once_their_answers_are_checked() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--packets", "3k", "--flows", "100"]);
    let script = r#"test -s "$0" && touch "$1/x" && echo '{"packets": 3000, "flows": 100}'"#;
    let run = ["bench", "against", &trace, "--rounds", "2", "--rival", "none"];
    let command = ["--", "sh", "-c", script, "{capture}", "{out}"];
    let document = flowloom([&run[..], &["--format", "json"], &command].concat()).ends(0).json();
    assert_eq!((&document["complete"], &document["input"]["packets"]), (&json!(true), &json!(3000)));
    let answers = document["input"]["answers"].as_array().unwrap();
    assert!(answers.iter().all(|answer| answer["packets"] == 3000), "{answers:?}");
    assert_eq!(answers.last().unwrap()["variant"], "sh");
    for unit in ["ns/packet", "MiB"] {
        let rows = document["results"].as_array().unwrap().iter().filter(|row| row["unit"] == unit);
        let of_sh = rows.filter(|row| row["variant"] == "sh" && row["n"] == 2);
        assert!(of_sh.map(|row| row["median"].as_f64().unwrap()).all(|median| median > 0.0));
    }
    let ratios = document["ratios"].as_array().unwrap();
    let works: Vec<&str> =
        ratios.iter().filter(|row| row["rival"] == "sh").map(|row| row["work"].as_str().unwrap()).collect();
    assert_eq!(works, ["flowloom, IPFIX, processor time", "flowloom, IPFIX, wall time"]);

    let generated = flowloom(["bench", "against", "--packets", "2k", "--rounds", "1", "--rival", "none"]);
    generated.ends(0).shows(&["flowloom, IPFIX", "resident memory", "flowloom replay, processor time"]);
}

#[test]
fn a_program_with_other_answers_has_no_row() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--packets", "3k", "--flows", "100"]);
    let run = ["bench", "against", &trace, "--rounds", "1", "--rival", "none", "--format", "json", "--"];
    let has_row = |document: &serde_json::Value| document.to_string().contains("\"variant\":\"sh\"");
    for (script, words) in
        [("echo '{\"packets\": 1500}'", "it counts 1500 packets"), ("echo broken >&2; exit 4", "broken")]
    {
        let ran = flowloom([&run[..], &["sh", "-c", script]].concat()).ends(0);
        assert!(!has_row(&ran.says(&["no row of sh", words]).json()));
    }
    let ran = flowloom([&run[..], &["sh", "-c", "echo no number"]].concat()).ends(0);
    assert!(has_row(&ran.says(&["sh reports no number of packets"]).json()));

    flowloom(["bench", "against", "--rounds", "0"]).ends(2).says(&["--rounds"]);
    flowloom(["bench", "against", "/no/such.pcap"]).ends(3).says(&["/no/such.pcap"]);
    flowloom(["bench", "against", &trace, "--rival", "nfstream", "--python", "no-such-python"])
        .ends(2)
        .says(&["no-such-python is not installed"]);
}
