//! `simulate tcb-cache`, `generate weblog` and `replay --tcb-cache`.

use serde_json::Value;

use crate::support::{Folder, check_balance, flowloom, flowloom_fed, number, real_data, replay};

const MODEL: [&str; 6] = ["--model", "s", "--overlap", "300", "--accesses", "30k"];

fn simulate(arguments: &[&str]) -> Value {
    flowloom([&["simulate", "tcb-cache", "--format", "json"], arguments].concat()).ends(0).json()
}

/// The document without the parts that may differ between runs.
fn timeless(mut document: Value) -> Value {
    document["seconds"] = 0.into();
    document
}

fn misses(document: &Value, policy: &str) -> u64 {
    let points = document["points"].as_array().unwrap();
    let point = points.iter().find(|point| point["policy"] == policy);
    number(point.unwrap_or_else(|| panic!("no {policy} in {document:#}")), "misses")
}

#[test]
fn a_sweep_is_the_same_for_any_number_of_threads() {
    let lists =
        ["--policy", "mod,2-hash,spec,flowlru,fa-lru,min,opt", "--size", "4k,8k,32k", "--draws", "2"];
    let arguments = [&MODEL[..], &lists].concat();
    let one = timeless(simulate(&[&arguments[..], &["--threads", "1"]].concat()));
    assert_eq!(one["points"].as_array().unwrap().len(), 21);
    for threads in ["2", "7", "64"] {
        let many = timeless(simulate(&[&arguments[..], &["--threads", threads]].concat()));
        assert_eq!(one, many, "{threads} threads");
    }
}

#[test]
fn points_without_banks_are_not_repeated_for_them() {
    let lists = ["--policy", "spec,fa-lru", "--banks", "1,2", "--ways", "4,8", "--hash", "h3-16,crc"];
    let document = simulate(&[&MODEL[..], &lists].concat());
    let points = document["points"].as_array().unwrap();
    let with = |policy: &str| points.iter().filter(|point| point["policy"] == policy).count();
    assert_eq!((with("spec"), with("fa-lru")), (8, 1));
    assert!(points.iter().all(|point| number(point, "accesses") == 22_500));
}

#[test]
fn order_on_the_model_is_the_papers_and_ours_is_better() {
    let policies = "mod,2-hash,no-migrate,spec,flowlru,min";
    let document =
        simulate(&["--model", "s", "--overlap", "2000", "--accesses", "200k", "--policy", policies]);
    let of = |policy| misses(&document, policy);
    assert!(of("mod") > of("2-hash") && of("2-hash") > of("no-migrate"), "{document:#}");
    assert!(of("no-migrate") * 101 >= of("spec") * 100, "{document:#}");
    assert!(of("spec") > of("flowlru") && of("flowlru") > of("min"), "{document:#}");
}

#[test]
fn what_is_generated_is_read_again_in_every_form() {
    let folder = Folder::new();
    let make = |name: &str, seed: &str| {
        let path = folder.path(name);
        let base = [
            "generate",
            "weblog",
            "-q",
            "--overlap",
            "100",
            "--accesses",
            "10k",
            "--seed",
            seed,
            "-o",
            &path,
        ];
        flowloom(base).ends(0);
        path
    };
    let bytes = |path: &str| std::fs::read(path).unwrap();
    for name in ["a.log", "a.tsv", "a.csv", "a.oracleGeneral.bin", "a.log.gz", "a.csv.zst"] {
        let first = make(name, "7");
        assert_eq!(bytes(&first), bytes(&make(&format!("b{name}"), "7")), "{name}: the same seed");
        assert_ne!(bytes(&first), bytes(&make(&format!("c{name}"), "8")), "{name}: another seed");
        let read = simulate(&[&first, "--policy", "fa-lru"]);
        assert_eq!(number(&read["trace"], "accesses"), 10_000, "{name}");
        assert_eq!(number(&read["trace"]["read"], "used"), 10_000, "{name}");
    }
    // A trace contains what the model would generate.
    let model = ["--model", "s", "--overlap", "100", "--accesses", "10k", "--seed", "7", "--warm", "0"];
    let policies = ["--policy", "spec,flowlru,fa-lru", "--hash", "h3-16"];
    let direct = simulate(&[&model[..], &policies].concat());
    let read = simulate(&[&[folder.path("a.csv.zst").as_str(), "--seed", "7"], &policies[..]].concat());
    assert_eq!(direct["points"], read["points"]);
}

#[test]
fn a_log_comes_through_a_pipe_and_dirt_is_counted() {
    let log = b"\
a.b.c - - [01/Aug/1995:00:00:01 -0400] \"GET / HTTP/1.0\" 200 1839
\xFF\xFE\x00garbage
a.b.c - - [01/Aug/1995:00:00:03 -0400] \"GET / HTTP/1.0\" 200 -
d.e.f - - [01/Aug/1995:00:00:02 -0400] \"GET /
";
    let arguments = ["simulate", "tcb-cache", "-", "--format", "json", "--policy", "fa-lru"];
    let outcome = flowloom_fed(arguments, log).ends(0).says(&["2 records of the trace cannot be used"]);
    let document = outcome.json();
    assert_eq!(number(&document["trace"], "accesses"), 2);
    assert_eq!(misses(&document, "fa-lru"), 1);
    let lines = ["simulate", "tcb-cache", "-", "--policy", "fa-lru"];
    flowloom_fed(lines, log).ends(0).shows(&["2 accesses, 1 key, 2 s", "; all counted, compulsory"]);
    let strict = [&arguments[..], &["--strict"]].concat();
    let outcome = flowloom_fed(strict, log).ends(4).says(&["[exit 4]"]);
    assert_eq!(number(&outcome.json()["trace"]["read"]["skipped"], "quoting"), 1);
}

#[test]
fn a_picture_and_a_table_show_the_points() {
    let folder = Folder::new();
    let path = folder.path("curve.svg");
    let lists = ["--size", "4k,8k,16k", "--policy", "spec,min", "--svg", &path, "--format", "csv"];
    let outcome = flowloom([&["simulate", "tcb-cache"], &MODEL[..], &lists].concat()).ends(0);
    assert_eq!(outcome.text().lines().count(), 7);
    let svg = std::fs::read_to_string(&path).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("N = 300") && svg.contains("min"));
    let table = flowloom([&["simulate", "tcb-cache"], &MODEL[..]].concat()).ends(0);
    assert!(table.text().contains("flowlru  h3-16 2×4"), "{}", table.text());
    let nowhere = [&["simulate", "tcb-cache"], &MODEL[..], &["--svg", "/no/such/x.svg"]].concat();
    flowloom(nowhere).ends(5).says(&["cannot draw /no/such/x.svg"]);
}

#[test]
fn what_cannot_be_simulated_is_said() {
    let folder = Folder::new();
    let empty = folder.write("empty.log", b"");
    let odd = folder.write("odd", b"\x00\x01\x02\x03");
    let lines = folder.write("lines.csv", b"x\ny\n");
    let ends = folder.write("one.csv", b"1,1\n");
    let cut = folder.write("cut.log.gz", &[0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3, 1]);
    let model = |more: &[&'static str]| [&MODEL[..], more].concat();
    for (arguments, status, parts) in [
        (vec![empty.as_str()], 3, &["is empty", "a log (clf, tsv, w3c, bu)", "accesses (csv, "][..]),
        (vec![&odd], 3, &["has an unknown format", "--trace-format"]),
        (vec![&lines], 3, &["no record can be used", "--trace-format"]),
        (vec![&cut], 3, &["cannot read"]),
        (vec![&ends, "--warm", "1"], 2, &["none of them to count"]),
        (vec![&ends, "--overlap", "5"], 2, &["--overlap does not apply"]),
        (vec!["/no/such/file"], 3, &["cannot read /no/such/file"]),
        (vec!["--model", "s"], 2, &["--overlap"]),
        (vec![], 2, &["TRACE"]),
        (model(&["--policy", "specc"]), 2, &["did you mean 'spec'?", "flowlru"]),
        (model(&["--hash", "md5"]), 2, &["unknown index function 'md5'", "h3-N"]),
        (model(&["--hash", "h3-4-full"]), 2, &["select at least 6"]),
        (model(&["--size", "33000"]), 2, &["nearest valid sizes: 32768 and 65536"]),
        (model(&["--banks", "5"]), 2, &["invalid banks 5: must be from 1 to 4"]),
        (vec!["--model", "s", "--overlap", "9", "--accesses", "99999G"], 2, &["are free", "--accesses"]),
        (model(&["--ports", "all"]), 2, &["paper-like"]),
        (model(&["--warm", "200%"]), 2, &["not a share"]),
        (vec!["--model", "s", "--overlap", "90k", "--accesses", "10"], 2, &["invalid value '90k'"]),
        (vec!["--model", "s", "--overlap", "90000", "--accesses", "10"], 2, &["fewer sessions at a time"]),
    ] {
        let outcome = flowloom([&["simulate", "tcb-cache"], &arguments[..]].concat());
        outcome.ends(status).says(parts);
    }
    let unnamed = folder.path("x.txt");
    flowloom(["generate", "weblog", "-o", &unnamed]).ends(2).says(&[".oracleGeneral"]);
    let log = folder.path("x.log");
    flowloom(["generate", "weblog", "-o", &log, "--view", "rx"]).ends(2).says(&["--view"]);
    flowloom(["generate", "weblog", "-o", "/dev/full"]).ends(2);
    flowloom(["generate", "weblog", "-o", "/no/such/x.log"]).ends(5).says(&["cannot write"]);
}

#[test]
fn logs_of_the_extended_format_are_told_by_their_directives() {
    let folder = Folder::new();
    let log = "#Software: a server\n#Fields: date time s-ip c-ip sc-bytes\n\
        2015-05-17 10:05:03 10.0.0.1 192.0.2.7 900\n2015-05-17 10:05:04 10.0.0.1 192.0.2.8 -\n";
    let path = folder.write("u_ex150517.log", log.as_bytes());
    let found = simulate(&[&path]);
    assert_eq!((&found["trace"]["form"], number(&found["trace"], "accesses")), (&"w3c".into(), 2));
    let named = simulate(&[&path, "--trace-format", "w3c"]);
    assert_eq!(named["points"], found["points"]);
}

#[test]
fn a_replay_feeds_the_cache_and_is_not_changed_by_it() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--flows", "2k", "--packets", "30k"]);
    let plain = replay(&[&trace, "--seed", "1"]);
    assert!(plain["tcb_cache"].is_null());
    let probed = |policy: &str, more: &[&str]| {
        let base = [&trace, "--seed", "1", "--tcb-cache", "8k", "--tcb-policy", policy];
        replay(&[&base[..], more].concat())
    };
    let spec = probed("spec", &[]);
    assert_eq!(spec["digest"], plain["digest"]);
    let cache = &spec["tcb_cache"];
    let count = |field| number(cache, field);
    assert_eq!(count("accesses"), count("hits") + count("misses"));
    assert!(count("misses") > 500 && count("hits") > 5000, "{cache:#}");
    // The simulator, with the same capture as input, sees the same sessions.
    let simulated = simulate(&[&trace, "--size", "8k", "--policy", "spec,flowlru"]);
    assert_eq!(misses(&simulated, "spec"), count("misses"));
    assert_eq!(misses(&simulated, "flowlru"), number(&probed("flowlru", &[])["tcb_cache"], "misses"));
    let several = probed("spec", &["--workers", "2", "--verify", "--app", "null"]);
    assert_eq!(number(&several["tcb_cache"], "caches"), 2);
    assert_eq!(number(&several["tcb_cache"], "accesses"), count("accesses"));
    check_balance(&several);
    let table = flowloom(["replay", &trace, "--tcb-cache", "32k"]).ends(0);
    assert!(table.text().contains("TCB cache   32.00 KiB, spec h3-16:"), "{}", table.text());
    flowloom(["replay", &trace, "--tcb-cache", "33000"]).ends(2).says(&["--tcb-cache: 33000 bytes"]);
    flowloom(["replay", &trace, "--tcb-cache", "8k", "--tcb-policy", "min"]).ends(2).says(&["whole trace"]);
    flowloom(["replay", &trace, "--tcb-policy", "spec"]).ends(2).says(&["--tcb-cache"]);
}

#[test]
fn an_interrupt_keeps_the_finished_points() {
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use crate::support::{Outcome, command};
    let sweep = ["--model", "s", "--overlap", "100", "--accesses", "100k", "--threads", "1"];
    let lists = ["--policy", "spec,zcache", "--draws", "2000", "--size", "8k,32k", "--format", "json"];
    let mut command = command([&["simulate", "tcb-cache"], &sweep[..], &lists].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let outcome = Outcome::of(&command, child.wait_with_output().unwrap()).ends(130);
    let document = outcome.json();
    assert_eq!(document["interrupted"], true);
    assert_eq!(number(&document, "points_asked"), 4);
    assert!(document["points"].as_array().unwrap().len() < 4, "{document:#}");
}

#[test]
fn the_real_day_is_read_and_ours_is_best_on_it() {
    let Some(data) = real_data() else { return };
    let logs = data.join("logs");
    let day = logs.join("nasa_19950801_a.tsv.gz");
    let day = day.to_str().unwrap();
    let logged = simulate(&[day, "--policy", "spec,flowlru,min"]);
    assert_eq!(number(&logged["trace"]["read"], "used"), 33_996);
    assert_eq!(number(&logged["trace"], "sessions"), 3236);
    assert!(misses(&logged, "flowlru") <= misses(&logged, "spec"));
    let overlapped = simulate(&[day, "--overlap", "970", "--accesses", "300k", "--policy", "spec,flowlru"]);
    assert!(misses(&overlapped, "flowlru") * 10 <= misses(&overlapped, "spec") * 9, "{overlapped:#}");
    let combined = logs.join("apache_logs_elastic.log.gz");
    let combined = simulate(&[combined.to_str().unwrap(), "--policy", "spec"]);
    assert_eq!(number(&combined["trace"]["read"], "used"), 10_000);
    assert!(number(&combined["trace"]["read"], "time_backwards") > 1000);
}
