//! `simulate tcb-cache`, `generate weblog` and `replay --tcb-cache`.

use serde_json::Value;

use crate::support::{flowloom, number, real_data};

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
    let outcome = Outcome::new(&command, child.wait_with_output().unwrap()).ends(130);
    let document = outcome.json();
    assert_eq!(document["interrupted"], true);
    assert_eq!(number(&document, "points_asked"), 4);
    assert!(document["points"].as_array().unwrap().len() < 4, "{document:#}");
}

#[test]
fn policy_of_the_paper_is_best_on_the_real_day() {
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
