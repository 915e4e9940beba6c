//! `simulate`: models in virtual time, with repeatable results.

use crate::bytes::{pcap_header, pcap_record};
use crate::support::{Folder, flowloom};

#[test]
fn every_scheduler_runs_and_says_whether_it_keeps_order() {
    let run = ["simulate", "schedule", "--model", "dominant", "--packets", "3k", "--scheduler", "all"];
    let document = flowloom([&run[..], &["--format", "json"]].concat()).ends(0).silent().json();
    let schedulers = document["schedulers"].as_array().unwrap();
    assert!(schedulers.len() > 20);
    for scheduler in schedulers {
        let broken = scheduler["reorders"].as_u64().unwrap() + scheduler["races"].as_u64().unwrap();
        if scheduler["keeps_order"] == true {
            assert_eq!(broken, 0, "{scheduler:#}");
        }
        assert_eq!(scheduler["completed"], 3000);
    }
    assert!(schedulers.iter().any(|scheduler| scheduler["races"].as_u64() > Some(0)));
    flowloom(run).ends(0).shows(&["flowpin", "of bound", "is the fastest that kept order"]);
    for traffic in [&["--model", "many"][..], &[]] {
        flowloom([&["simulate", "schedule", "--scheduler", "list"], traffic].concat())
            .ends(0)
            .shows(&["hrw3-2009", "round robin"]);
    }
    flowloom(["simulate", "schedule", "--scheduler", "list", "--format", "json"]).ends(0).json();
}

#[test]
fn the_same_seed_gives_the_same_digests() {
    let run = |seed: &str| {
        let run = ["simulate", "schedule", "--model", "l7", "--packets", "5k", "--machine", "niagara"];
        let run =
            [&run[..], &["--scheduler", "dh,p2c,flowpull", "--seed", seed, "--format", "csv"]].concat();
        flowloom(run).ends(0).text().to_owned()
    };
    assert_eq!(run("4"), run("4"));
    assert_ne!(run("4"), run("5"));
}

#[test]
fn a_capture_is_scheduled_and_charts_are_written() {
    let folder = Folder::new();
    let (trace, charts) = (folder.path("t.pcap"), folder.path("charts"));
    flowloom(["generate", "trace", "--packets", "3k", "--flows", "50", "-o", &trace]).ends(0);
    flowloom(["simulate", "schedule", &trace, "--topology", "2x2,3=50", "--save", &charts])
        .ends(0)
        .shows(&["2 cores, 4 threads", "Charts:"]);
    for name in ["throughput", "levels", "queues", "latency"] {
        let svg = std::fs::read_to_string(format!("{charts}/{name}.svg")).unwrap();
        assert!(svg.contains("</svg>"), "{name}");
    }
    flowloom(["simulate", "schedule", &trace, "--topology", "host"]).ends(0);
    let file = folder.write("file", b"");
    flowloom(["simulate", "schedule", &trace, "--save", &file]).ends(5).says(&["cannot write"]);
}

#[test]
fn ordering_shows_drops_and_both_orders() {
    let run = ["simulate", "ordering", "--model", "zipf", "--packets", "5k", "--threads", "1,16"];
    flowloom(run).ends(0).silent().shows(&[
        "queue 512",
        "  1 thread  16 threads\n",
        "internal, flowpin",
        "external, 50 % locked",
        "with 16 threads",
    ]);
    // A policy that keeps no order is not called internal order.
    let all = flowloom([&run[..], &["--scheduler", "all"]].concat()).ends(0).silent();
    let names = all.shows(&["internal, dh ", "internal, flowpull"]);
    assert!(!names.text().contains("internal, rr") && !names.text().contains("minload"));
    for name in ["rr", "dh,adaptive-racy"] {
        let said = flowloom([&run[..], &["--scheduler", name]].concat()).ends(2);
        said.says(&[name.trim_start_matches("dh,"), "keeps no order"]);
    }
}

#[test]
fn what_cannot_be_simulated_is_said_by_kind() {
    let model = ["simulate", "schedule", "--model", "many", "--packets", "2k"];
    for (options, word) in [
        (&["--topology", "0"][..], "from 1 to 1024"),
        (&["--topology", "8x"], "8x2x4"),
        (&["--topology", "2,1=0"], "capacity"),
        (&["--queue", "0"], "queue bound"),
        (&["--pool", "0"], "packet pool"),
        (&["--topology", "8x8x16"], "smaller topology"),
        (&["--scheduler", "best"], "schedulers: all, rr"),
        (&["--byte-cycles", "9"], "cannot be used with"),
        (&["--decap"], "cannot be used with"),
    ] {
        flowloom([&model[..], options].concat()).ends(2).says(&[word]);
    }
    flowloom(["simulate", "schedule", "--model", "many", "--packets", "10"]).ends(2).says(&["from 1000"]);
    let both = flowloom(["simulate", "schedule", "edge.pcap", "--model", "many"]);
    both.ends(2).says(&["cannot be used with", "--model"]);
    for (verb, input) in [("schedule", "FILE"), ("ordering", "FILE"), ("tcb-cache", "TRACE")] {
        flowloom(["simulate", verb]).ends(2).says(&["required", input, "--model"]);
    }
    flowloom(["simulate", "schedule", "no-such.pcap"]).ends(3);
    let ordering = ["simulate", "ordering", "--model", "many", "--packets", "2k"];
    for (options, word) in [
        (["--threads", "0"], "workers"),
        (["--locked", "101"], "between 0 and 100"),
        (["--queue", "0"], "queue bound"),
        (["--packet-cycles", "9"], "cannot be used with"),
    ] {
        flowloom([&ordering[..], &options].concat()).ends(2).says(&[word]);
    }
    let folder = Folder::new();
    // An Ethernet frame of a protocol that has no flows.
    let mut frame = vec![0; 60];
    frame[12..14].copy_from_slice(&[0x08, 0x06]);
    let bytes = [pcap_header(1), pcap_record(1, 60, 60, &frame)].concat();
    let empty = folder.write("arp.pcap", &bytes);
    flowloom(["simulate", "schedule", &empty]).ends(3).says(&["no packet with a flow"]);
}

#[test]
fn decisions_are_timed_against_each_other_and_a_floor() {
    let bench = ["bench", "schedule", "--rounds", "1", "--topology", "2x2", "--format", "json"];
    let document =
        flowloom([&bench[..], &["--scheduler", "flowpin,dh,hrw-flat,hrw"]].concat()).ends(0).json();
    let names: Vec<&str> = document["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["variant"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["flowpin", "dh", "hrw-flat", "hrw", "lower bound"]);
    flowloom([&bench[..], &["--scheduler", "ph"]].concat())
        .ends(2)
        .says(&["no push scheduler", "hrw3-tree"]);
    flowloom([&bench[..], &["--batch", "1M"]].concat()).ends(2).says(&["--batch"]);
}
