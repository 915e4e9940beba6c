//! Saved results with pictures, and their use.

use std::fs;

use serde_json::{Value, json};

use crate::bytes::pcap_header;
use crate::schema::assert_conforms;
use crate::support::{Folder, flowloom};

#[test]
fn a_replay_is_kept_as_a_page_with_pictures_and_its_data() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let run = folder.path("run");
    flowloom(["replay", &trace, "--workers", "2", "--no-pin", "--save", &run])
        .ends(0)
        .says(&["saved in", "report.html"])
        .shows(&["Digest"]);
    let read = |name: &str| fs::read_to_string(format!("{run}/{name}")).unwrap();
    let document: Value = serde_json::from_str(&read("result.json")).unwrap();
    assert_eq!(document["packets"], 5000);
    assert_conforms(&document);
    for name in ["traffic-packets", "traffic-bits", "packets", "workers", "flow-sizes", "flow-durations"] {
        assert!(read(&format!("{name}.svg")).contains("</svg>"), "{name}");
    }
    let ends = read("packets.csv");
    assert!(
        ends.starts_with("series,category,packets\n") && ends.contains("\npackets,processed,"),
        "{ends}"
    );
    assert!(read("flow-sizes.csv").contains("of all flows,1,"));
    let page = read("report.html");
    for part in [
        "<title>replay of t.pcap</title>",
        "Packets over time",
        "Flows by number of packets",
        "<h2>Top talkers</h2>",
        "<div><b>5 000</b><span>packets</span></div>",
        "<summary>The account of every packet</summary>",
        "\"schema\": \"flowloom/replay/1\"",
        "Throughput",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("src=") && !page.contains("href="), "nothing from elsewhere");
}

#[test]
fn a_page_says_at_its_top_that_its_capture_is_cut() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--snaplen", "60"]);
    let bytes = fs::read(&trace).unwrap();
    let cut = folder.write("cut.pcap", &bytes[..bytes.len() - 1]);
    let (top, run) = (r#"class="bad">"#, folder.path("run"));
    let page = |trace: &str| {
        flowloom(["replay", trace, "--no-pin", "-q", "--save", &run]).ends(0);
        fs::read_to_string(format!("{run}/report.html")).unwrap()
    };
    assert!(!page(&folder.trace("whole.pcap", &[])).contains(top));
    assert!(page(&trace).contains(&format!("{top}The capture was cut: it has ")));
    let page = page(&cut);
    assert!(page.contains(&format!("{top}{cut} ends inside packet")), "{page}");
    assert!(page.find(top).unwrap() < page.find("<svg").unwrap());
}

#[test]
fn traffic_and_talkers_of_a_page_are_those_of_the_run_in_any_layout() {
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
fn every_application_has_pictures_and_a_run_of_nothing_too() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    for app in ["null", "accounting", "l7"] {
        let run = folder.path(app);
        flowloom(["replay", &trace, "--app", app, "--layout", "inline", "--no-pin", "-q", "--save", &run])
            .ends(0);
        let has = |name: &str| fs::exists(format!("{run}/{name}")).unwrap();
        assert!(has("report.html") && has("packets.svg"), "{app}");
        assert_eq!(has("flow-sizes.svg"), app != "null", "{app}");
    }
    let (run, none) = (folder.path("none"), folder.write("none.pcap", &pcap_header(1)));
    flowloom(["replay", &none, "--no-pin", "--save", &run]).ends(0);
    assert!(fs::read_to_string(format!("{run}/report.html")).unwrap().contains("no point within its axes"));
}

#[test]
fn what_cannot_be_kept_is_printed_all_the_same() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let run = folder.path("run");
    fs::create_dir_all(format!("{run}/report.html")).unwrap();
    flowloom(["replay", &trace, "--no-pin", "--save", &run])
        .ends(5)
        .says(&["cannot write", "report.html", "[exit 5]"])
        .shows(&["Digest"]);
}

#[test]
fn where_nothing_can_be_kept_no_work_is_done() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let file = folder.write("file", b"as it was");
    for verb in [
        &["replay", &trace, "--no-pin"][..],
        &["bench", "table"],
        &["bench", "classify"],
        &["bench", "pipeline"],
        &["bench", "schedule"],
        &["simulate", "schedule", &trace],
        &["simulate", "ordering", &trace],
        &["reproduce", "dhash/section4_load_factor"],
    ] {
        let outcome = flowloom([verb, &["--save", &file]].concat()).ends(5);
        let outcome = outcome.says(&["error: cannot write", &file, "not a directory", "[exit 5]"]);
        assert_eq!(outcome.text(), "", "{verb:?}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "as it was");
    let run = folder.path("no/such/run");
    flowloom(["replay", &trace, "--cores", "0", "--workers", "5", "--save", &run]).ends(2);
    flowloom(["replay", &trace, "--workers", "1", "--ring", "100", "--save", &run]).ends(2);
    assert!(!fs::exists(folder.path("no")).unwrap(), "a run that is refused leaves nothing");
}

#[test]
fn benches_are_kept_and_compared() {
    let folder = Folder::new();
    let run = folder.path("bench");
    let bench =
        ["bench", "table", "--table", "linehash,std", "--work", "hit", "--flows", "1k", "--rounds", "6"];
    flowloom([&bench[..], &["--save", &run]].concat()).ends(0).says(&["saved in"]);
    let result = format!("{run}/result.json");
    assert!(fs::exists(format!("{run}/time-1.svg")).unwrap());
    flowloom(["compare", &run, &result, "--fail-above", "0"])
        .ends(0)
        .shows(&["no difference shown", "0 slower, 0 faster; 0 slower by more than 0 %"]);
    let changes = folder.path("changes");
    flowloom(["compare", &run, &result, "--save", &changes]).ends(0).says(&["saved in"]);
    let page = fs::read_to_string(format!("{changes}/report.html")).unwrap();
    for part in ["<h2>Rows</h2>", "<th>verdict</th>", "<svg", "0 slower, 0 faster"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(fs::read_to_string(format!("{changes}/changes.csv")).unwrap().contains(",low,high"));
    flowloom(["compare", &run, &result, "--save", &run])
        .ends(2)
        .says(&["would overwrite", "another folder"]);
    flowloom(["compare", &run, &folder.path("")]).ends(3).says(&["cannot read", "result.json"]);
}

/// Returns a saved result with one row, in which every round took this long.
fn saved(folder: &Folder, name: &str, cpu: &str, variant: &str, ns: f64) -> String {
    saved_of(folder, name, cpu, variant, &[ns; 8])
}

/// Returns a saved result with one row, with rounds that took equally long or ever longer.
fn saved_of(folder: &Folder, name: &str, cpu: &str, variant: &str, samples: &[f64]) -> String {
    let ns = samples[samples.len() / 2];
    let document = json!({
        "schema": "flowloom/bench/1",
        "tool": {"version": "0.1.0", "git": ""},
        "host": {"cpu": cpu, "isa": "avx2", "cores": [], "load1": 0.1, "kernel": "", "noise_p95_over_p5": 1.0},
        "results": [{"variant": variant, "work": "hit", "size": 1000, "unit": "ns/op", "n": samples.len(), "min": samples[0], "median": ns,
                     "p5": ns, "p95": ns, "samples": samples}],
        "ratios": [],
        "complete": true,
    });
    folder.write(name, document.to_string().as_bytes())
}

#[test]
fn what_became_slower_fails_where_that_is_asked_for() {
    let folder = Folder::new();
    let base = saved(&folder, "base.json", "one", "ours", 20.0);
    let new = saved(&folder, "new.json", "one", "ours", 23.0);
    flowloom(["compare", &base, &new]).ends(0).shows(&["+15 %", "slower", "1 row: 1 slower"]);
    flowloom(["compare", &base, &new, "--fail-above", "20%"]).ends(0);
    flowloom(["compare", &new, &base, "--fail-above", "5"]).ends(0).shows(&["-13 %", "faster"]);
    let outcome = flowloom(["compare", &base, &new, "--fail-above", "5", "--format", "json"]).ends(1);
    let document = outcome.json();
    assert_eq!((&document["failed"], &document["rows"][0]["verdict"]), (&json!(1), &json!("slower")));
    flowloom(["compare", &base, &new, "--format", "csv"])
        .ends(0)
        .shows(&["ours,hit,1000,ns/op,20,23,1.15,"]);
}

#[test]
fn results_of_different_work_are_said_to_be() {
    let folder = Folder::new();
    let with_input = |name: &str, input: Value| {
        let path = saved(&folder, name, "one", "inline", 20.0);
        let mut document: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        document["input"] = input;
        folder.write(name, document.to_string().as_bytes())
    };
    let base = with_input("base.json", json!({"app": "tcp-tracker", "name": "t.pcap", "packets": 5}));
    let new = with_input("new.json", json!({"app": "l7", "name": "t.pcap", "batch": 8, "packets": 5}));
    flowloom(["compare", &base, &new])
        .ends(0)
        .says(&["from different work: app tcp-tracker and l7, batch nothing and 8\n"]);
    flowloom(["compare", &base, &base]).ends(0).silent();
    let unsaid = saved(&folder, "unsaid.json", "one", "inline", 20.0);
    flowloom(["compare", &base, &unsaid]).ends(0).silent();
}

#[test]
fn too_few_rounds_are_said_to_be_too_few() {
    let folder = Folder::new();
    let base = saved_of(&folder, "base.json", "one", "ours", &[20.0; 3]);
    let new = saved_of(&folder, "new.json", "one", "ours", &[30.0; 3]);
    flowloom(["compare", &base, &new, "--fail-above", "5"])
        .ends(0)
        .shows(&["+50 %", "too few rounds to tell", "1 row: 0 slower, 0 faster; 0 slower by more than 5 %"])
        .says(&["1 row has too few rounds for an interval: bench with --rounds 6 or more"]);
    flowloom(["compare", &base, &new, "--format", "json"]).ends(0).json();
    let wide = saved_of(&folder, "wide.json", "one", "ours", &[15.0, 30.0, 40.0]);
    flowloom(["compare", &base, &wide]).ends(0).shows(&["no difference shown"]).silent();
}

#[test]
fn what_cannot_be_compared_with_what_is_said() {
    let folder = Folder::new();
    let base = saved(&folder, "base.json", "one", "ours", 20.0);
    let elsewhere = saved(&folder, "elsewhere.json", "two", "ours", 30.0);
    let other = saved(&folder, "other.json", "one", "theirs", 30.0);
    flowloom(["compare", &base, &elsewhere])
        .ends(2)
        .says(&["different machines: one avx2 and two avx2", "--force"]);
    flowloom(["compare", &base, &elsewhere, "--force"]).ends(0).shows(&["+50 %"]);
    flowloom(["compare", &base, &other]).ends(2).says(&["no row in common"]);
    flowloom(["compare", &base, &folder.path("none.json")]).ends(3).says(&["cannot read"]);
    flowloom(["compare", "/dev/zero", &base])
        .ends(3)
        .says(&["/dev/zero is not a saved result", "no JSON document"]);
    for (name, text, word) in [
        ("empty.json", "", "no JSON document"),
        ("list.json", "[]", "no JSON document"),
        ("other.json", "{}", "names no schema"),
        ("replay.json", "{\"schema\": \"flowloom/replay/1\"}", "its schema is flowloom/replay/1"),
        ("half.json", "{\"schema\": \"flowloom/bench/1\"}", "missing field"),
    ] {
        let file = folder.write(name, text.as_bytes());
        flowloom(["compare", &base, &file])
            .ends(3)
            .says(&["not a saved result that can be compared", word]);
    }
    flowloom(["compare", &base, &base, "--fail-above", "-3"]).ends(2);
    flowloom(["compare", &base, &base, "--fail-above", "some"])
        .ends(2)
        .says(&["'some' is not a percentage"]);
}

#[test]
fn the_doctor_looks_at_everything_and_says_what_it_means() {
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

#[test]
fn two_runs_are_compared_by_the_conversations_of_their_records() {
    let folder = Folder::new();
    let saved = |name: &str, records: &str| {
        let (trace, run) = (folder.trace(&format!("{name}.pcap"), &[]), folder.path(name));
        let flows = format!("{run}/flows.csv");
        flowloom(["replay", &trace, "--flows", &flows, "--save", &run, "-q"]).ends(0);
        let head = "source,destination,source_port,destination_port,protocol,protocol_name,packets,bytes,\
            reverse_packets,reverse_bytes,handshake_rtt";
        fs::write(flows, format!("{head}\n{records}")).unwrap();
        run
    };
    let base = saved(
        "base",
        "10.0.0.1,10.0.0.2,1000,443,6,tcp,5,500,5,500,1000000\n\
         10.0.0.1,10.0.0.2,1001,443,6,tcp,5,500,5,500,3000000\n\
         10.0.0.1,10.0.0.3,1,53,17,udp,1,80,1,120,\n\
         10.0.0.9,10.0.0.3,8,0,1,icmp,1,98,1,98,\n\
         10.0.0.1,10.0.0.4,,,99,,1,60,0,0,\n",
    );
    let new = saved(
        "new",
        "10.0.0.1,10.0.0.2,2000,443,6,tcp,9,1000,9,1000,8000000\n\
         10.0.0.1,10.0.0.3,1,53,17,udp,1,80,1,322,\n\
         10.0.0.7,10.0.0.2,5,22,6,tcp,1,60,1,60,5000000\n\
         10.0.0.1,10.0.0.4,,,99,,1,60,0,0,\n",
    );
    let compared = flowloom(["compare", &base, &new, "--format", "json"]).ends(0).json();
    assert_conforms(&compared);
    let conversations = &compared["conversations"];
    let counts = ["appeared", "gone", "changed", "alike"].map(|name| &conversations[name]);
    assert_eq!(counts, [1, 1, 1, 2]);
    let of = |list: &str| conversations[list][0].clone();
    assert_eq!(
        of("largest_appeared"),
        json!({
            "name": "10.0.0.7 → 10.0.0.2 port 22 tcp",
            "base": null,
            "new": {"flows": 1, "packets": 2, "bytes": 120, "handshake_ns": 5_000_000},
        })
    );
    assert_eq!(of("largest_gone")["name"], "10.0.0.9 → 10.0.0.3 icmp");
    assert_eq!(of("largest_changed")["name"], "10.0.0.1 → 10.0.0.3 port 53 udp");
    assert_eq!(
        conversations["base_handshakes"],
        json!({"handshakes": 2, "median_ns": 1_000_000, "p95_ns": 3_000_000})
    );
    let text = flowloom(["compare", &base, &new]).ends(0);
    text.shows(&["10.0.0.1 → 10.0.0.3 port 53 udp", "+101 %", "1 new, 1 gone, 1 changed, 2 alike"]);
    // The two captures are the same, and so are protocols and hosts.
    flowloom(["compare", &base, &base])
        .ends(0)
        .shows(&["4 conversations: 0 new, 0 gone, 0 changed, 4 alike"]);
    flowloom(["compare", &base, &new, "--fail-above", "5"]).ends(2).says(&["results of bench"]);
    let odd =
        fs::read_to_string(format!("{new}/flows.csv")).unwrap().replace("9,1000,9,1000", "9,1000,9,1e3");
    fs::write(format!("{new}/flows.csv"), odd).unwrap();
    flowloom(["compare", &base, &new]).ends(3).says(&["line 2 has '1e3' for reverse_bytes"]);
    fs::write(format!("{new}/flows.csv"), "a,b\n1,2\n").unwrap();
    flowloom(["compare", &base, &new]).ends(3).says(&["it has no column source", "replay --flows"]);
    fs::remove_file(format!("{new}/flows.csv")).unwrap();
    flowloom(["compare", &base, &new]).ends(0).shows(&["no flows.csv", "same records"]);
}
