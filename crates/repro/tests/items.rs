//! Every item runs at the smallest scale, each of Flowloom's values lies in its band, and each item
//! draws a figure. An item whose data is missing reports it, and is skipped.

use std::path::PathBuf;

use flowloom_measure::{Host, rows::Tool};
use flowloom_repro::{Agreement, Band, Context, PAPERS, Plan, Reproduction, Scale, Value};

/// Largest ratio of the ends of a band: more says nothing about a value.
const WIDEST: f64 = 1000.0;

/// Returns the error in the band of a value, or in its absence.
fn complaint(value: &Value) -> Option<&'static str> {
    let Some(Band { low, high }) = value.band else {
        let is_compared = value.paper.is_some() && value.unbanded.is_none();
        return is_compared.then_some("a number of the paper with neither a band nor a reason");
    };
    let is_share = value.unit.starts_with('%') && low <= 0.0 && high >= 100.0;
    if value.leaves_out_the_paper() && value.apart.is_none() {
        return Some("a band that leaves out the paper's value without a reason");
    }
    let accepts_all =
        if high.is_finite() { is_share || low > 0.0 && high > WIDEST * low } else { low <= 0.0 };
    accepts_all.then_some("a band that accepts every value")
}

#[test]
fn bands_that_accept_every_value_are_reported() {
    let value = || Value::new("x", "%", 1.0);
    assert!(complaint(&value()).is_none());
    assert!(complaint(&value().paper(1.0)).is_some());
    assert!(complaint(&value().paper(1.0).not_comparable("another processor")).is_none());
    for (low, high) in
        [(0.0, f64::INFINITY), (f64::NEG_INFINITY, f64::INFINITY), (0.0, 100.0), (0.1, 490.0)]
    {
        assert!(complaint(&value().band(low, high)).is_some(), "{low} {high}");
    }
    assert!(complaint(&value().paper(1.0).band(2.0, 3.0)).is_some());
    assert!(complaint(&value().paper(1.0).band(2.0, 3.0).apart("it is proven")).is_none());
    for (low, high) in [(1.0, f64::INFINITY), (0.0, 50.0), (1.0, 2.0), (0.0, 0.0)] {
        assert!(complaint(&value().band(low, high)).is_none(), "{low} {high}");
    }
}

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
                if matches!(record.outcome.verdict, Agreement::CannotRun { .. }) {
                    // An item that lacks its input gives a reason, and neither numbers nor a
                    // figure.
                    let word = if data.is_none() { "skipped" } else { "cannot run" };
                    eprintln!("{word}: {}: {}", item.id, record.outcome.verdict.text());
                    continue;
                }
                let values = &record.outcome.values;
                complaints.extend(values.iter().filter_map(|value| {
                    let about = complaint(value)?;
                    Some(format!("{}: {}: {about}", item.id, value.name))
                }));
                if values.is_empty() {
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
