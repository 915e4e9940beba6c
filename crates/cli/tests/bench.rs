//! `bench`: what its figures have in common on every machine.

use serde_json::json;

use crate::support::{Folder, flowloom};

#[test]
fn latency_percentiles_of_the_packet_path_ascend() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--packets", "3k", "--flows", "100"]);
    let run =
        ["bench", "pipeline", &trace, "--packets", "6k", "--rounds", "1", "--rates", "50", "--no-pin"];
    let document = flowloom([&run[..], &["--format", "json", "--scheduler", "flowpin"]].concat()).json();
    let latencies = document["latencies"].as_array().unwrap();
    assert!(latencies.len() >= 3);
    for row in latencies {
        let at = |name: &str| row[name].as_u64().unwrap();
        assert!(
            at("packets") > 0 && at("p50_ns") <= at("p99_ns") && at("p99_ns") <= at("max_ns"),
            "{row:#}"
        );
    }
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
fn whole_programs_have_times_and_memory() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--packets", "3k", "--flows", "100"]);
    let script = r#"test -s "$0" && touch "$1/x" && echo '{"packets": 3000, "flows": 100}'"#;
    let run = ["bench", "against", &trace, "--rounds", "2", "--rival", "none"];
    let command = ["--", "sh", "-c", script, "{capture}", "{out}"];
    let document = flowloom([&run[..], &["--format", "json"], &command].concat()).ends(0).json();
    for unit in ["ns/packet", "MiB"] {
        let rows = document["results"].as_array().unwrap().iter().filter(|row| row["unit"] == unit);
        let of_sh = rows.filter(|row| row["variant"] == "sh" && row["n"] == 2);
        assert!(of_sh.map(|row| row["median"].as_f64().unwrap()).all(|median| median > 0.0));
    }
}
