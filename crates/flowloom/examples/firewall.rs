//! A firewall as an appliance: rules from a file, two workers, a verdict per flow, and rules that
//! are replaced while packets flow.
//!
//! ```console
//! $ cargo run --release -p flowloom --example firewall -- edge.pcap acl.toml
//! ```
#![expect(clippy::print_stdout, reason = "an example says what it found")]

use std::sync::Arc;
use std::time::Duration;

use flowloom::apps::firewall::{Defaults, Firewall, FirewallOptions, FirewallRules, LiveRules};
use flowloom::classifier::{ClassifierBuilder, RuleSet};
use flowloom::engine::{Control, EngineConfig, Layout, run};
use flowloom::flow_table::{LineHash, TableOptions};
use flowloom::rules::load::{LoadLimits, toml};
use flowloom::scheduler::{DirectHash, WorkerCount};
use flowloom::traffic::capture::{CaptureSet, Input, SetOptions};

type Failure = Box<dyn std::error::Error>;

fn load(text: &str, path: &str) -> Result<FirewallRules, Failure> {
    let rules = toml::parse(text, LoadLimits::default()).map_err(|error| error.in_file(path))?;
    let builder = ClassifierBuilder::new().memory_bytes_max(64 << 20);
    Ok(FirewallRules::build(RuleSet::new(rules)?, Defaults::default(), builder)?)
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [capture, rules] = &arguments[..] else { return Err("usage: firewall CAPTURE RULES.toml".into()) };
    let mut source = CaptureSet::open(&[Input::from_argument(capture.as_ref())], SetOptions::default())?;
    let mut text = std::fs::read_to_string(rules)?;
    let live = Arc::new(LiveRules::new(load(&text, rules)?));

    // Meanwhile this thread reads the file again every second. An invalid or unchanged file has no
    // effect. New rules judge all flows again, and the counts per rule restart at zero.
    let (again, path) = (Arc::clone(&live), rules.clone());
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let Ok(now) = std::fs::read_to_string(&path) else { continue };
            if now != text {
                load(&now, &path).map_or_else(|error| println!("{error}"), |rules| again.replace(rules));
                text = now;
            }
        }
    });

    let config = EngineConfig::new(Layout::Pipeline { workers: 2 });
    let mut placement = DirectHash::new(WorkerCount::new(2)?);
    let table = |_| LineHash::try_new(&TableOptions::for_flows(100_000));
    let app = |_| Firewall::new(Arc::clone(&live), FirewallOptions::default());
    let report = run(&config, &mut source, &mut placement, table, app, &Control::default())?;

    let counts = live.counts();
    println!("{} packets, {} flows", report.input.packets, report.flows.len());
    println!("accepted {:>10} packets of {:>7} flows", counts.accepted.packets, counts.accepted.flows);
    println!("denied   {:>10} packets of {:>7} flows", counts.denied.packets, counts.denied.flows);
    println!("no rule  {:>10} packets of {:>7} flows", counts.unmatched.packets, counts.unmatched.flows);
    for (number, hits) in counts.by_rule.iter().enumerate().skip(1).filter(|(_, hits)| hits.packets > 0) {
        println!("rule {number:>4} {:>9} packets of {:>7} flows", hits.packets, hits.flows);
    }
    Ok(())
}
