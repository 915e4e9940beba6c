//! Every item runs at the smallest scale, each of Flowloom's values lies in its band, and each item
//! draws a figure. An item whose data is missing reports it, and is skipped.

use std::path::PathBuf;

use flowloom_measure::{Host, rows::Tool};
use flowloom_repro::{Context, PAPERS, Plan, Reproduction, Scale, Verdict};

/// Runs a paper's items, and returns their failures.
fn complaints(paper: &str) -> Vec<String> {
    let data = std::env::var_os("FLOWLOOM_DATA").map(PathBuf::from);
    let go_on = || true;
    let context = Context { data: data.as_deref(), ..Context::new(Scale::Smoke, 1, &go_on) };
    let tool = Tool { version: String::new(), git: String::new() };
    let mut reproduction = Reproduction::new(tool, Host::read("", &[]), &context);
    let mut complaints = Vec::new();
    let paper = PAPERS.iter().find(|known| known.key == paper).expect("a paper of ours");
    for item in paper.items {
        match reproduction.run(item, &context, Plan::default()) {
            Err(error) => complaints.push(format!("{}: {error}", item.id)),
            Ok(record) => {
                let outside = record.outcome.failed();
                complaints.extend(outside.map(|value| format!("{}: {value:?}", item.id)));
                if record.outcome.verdict.text().is_empty() {
                    complaints.push(format!("{}: a verdict without a reason", item.id));
                }
                if matches!(record.outcome.verdict, Verdict::CannotRun { .. }) {
                    // An item that lacks its input gives a reason, and neither numbers nor a
                    // figure.
                    let word = if data.is_none() { "skipped" } else { "cannot run" };
                    eprintln!("{word}: {}: {}", item.id, record.outcome.verdict.text());
                    continue;
                }
                if record.outcome.values.is_empty() {
                    complaints.push(format!("{}: a verdict without numbers", item.id));
                }
                if record.outcome.charts.is_empty() {
                    complaints.push(format!("{}: no figure", item.id));
                }
                for chart in &record.outcome.charts {
                    if let Err(error) = chart.svg() {
                        complaints.push(format!("{}: {error}", item.id));
                    }
                }
            }
        }
    }
    complaints
}

#[test]
fn dhash() {
    assert_eq!(complaints("dhash"), Vec::<String>::new());
}

#[test]
fn flownp() {
    assert_eq!(complaints("flownp"), Vec::<String>::new());
}

#[test]
fn tcbcache() {
    assert_eq!(complaints("tcbcache"), Vec::<String>::new());
}

#[test]
fn hrwtree() {
    assert_eq!(complaints("hrwtree"), Vec::<String>::new());
}

#[test]
fn lfb() {
    assert_eq!(complaints("lfb"), Vec::<String>::new());
}
