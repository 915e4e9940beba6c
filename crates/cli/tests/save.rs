//! Figures of saved pages, and the doctor.

use serde_json::{Value, json};

use crate::support::{Folder, flowloom};

#[test]
fn traffic_and_talkers_of_a_page_match_the_run_in_any_layout() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let result = |arguments: &[&str]| {
        let save = folder.path("run");
        let usual = ["replay", &trace, "--no-pin", "--format", "json", "--save", &save];
        flowloom([&usual, arguments].concat()).ends(0).json()
    };
    let whole = result(&["--layout", "inline"]);
    let sum = |values: &Value| -> u64 {
        values.as_array().unwrap().iter().map(|value| value.as_u64().unwrap()).sum()
    };
    let traffic = &whole["traffic"];
    assert_eq!(sum(&traffic["packets"]), 5000);
    assert_eq!(json!(sum(&traffic["bytes"])), whole["bytes_on_wire"]);
    assert_eq!(
        (&whole["sums"]["flows"], &whole["sums"]["packets"]),
        (&whole["flows"], &whole["processed"])
    );
    for arguments in
        [&["--layout", "sharded", "--workers", "3"][..], &["--layout", "pipeline"], &["--verify"]]
    {
        let other = result(arguments);
        assert_eq!((traffic, &whole["sums"]), (&other["traffic"], &other["sums"]), "{arguments:?}");
    }
    let top = flowloom(["top", &trace, "-n", "50", "--format", "json"]).ends(0).json();
    let figures = |rows: &Value, name: &str| -> Vec<Value> {
        rows.as_array()
            .unwrap()
            .iter()
            .map(|row| json!([row[name], row["bytes"], row["packets"]]))
            .collect()
    };
    let talkers = &whole["sums"]["talkers"];
    assert_eq!(figures(&talkers["rows"], "host"), figures(&top["rows"], "name"));
    assert_eq!((&talkers["hosts"], &talkers["bytes_missed_max"]), (&top["groups"], &json!(0)));
    assert!(flowloom(["replay", &trace, "--format", "json"]).ends(0).json().get("traffic").is_none());
}

#[test]
fn the_verdict_of_the_doctor_follows_from_its_checks() {
    let outcome = flowloom(["doctor", "--format", "json"]);
    let document = outcome.json();
    let checks = document["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 11);
    assert!(checks.iter().any(|check| check["name"] == "Cache lines"));
    let is_bad = checks.iter().any(|check| check["state"] == "bad");
    outcome.ends(i32::from(is_bad));
    let verdict = document["verdict"].as_str().unwrap();
    assert_eq!(verdict.starts_with("only ratios"), is_bad);
    assert!(checks.iter().all(|check| !check["found"].as_str().unwrap().is_empty()));
}
