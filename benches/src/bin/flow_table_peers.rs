//! Times flow tables and their rivals; `cargo xtask peers flow-table` builds and runs it.

use std::io::Write;
use std::process::ExitCode;

use flowloom::cpu::features::Isa;
use flowloom_benches::goal::JudgedReport;
use flowloom_benches::tables::{Options, run};
use flowloom_measure::Host;
use flowloom_measure::rows::Tool;

const USAGE: &str =
    "usage: flow_table_peers [--rounds N] [--flows N,…] [--dpdk-megabytes N] [--format json|text]
                        [--git COMMIT] [--rustc VERSION]";

fn main() -> ExitCode {
    match start(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn start(mut words: impl Iterator<Item = String>) -> Result<(), String> {
    let mut options =
        Options { rounds: 15, flows: vec![65_536, 1_000_000, 8_000_000], dpdk_megabytes: None };
    let (mut text, mut git, mut rustc) = (false, String::new(), None);
    while let Some(word) = words.next() {
        if matches!(word.as_str(), "-h" | "--help") {
            return Err(USAGE.to_owned());
        }
        let value = words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"))?;
        let number = |text: &str| match text.parse::<u32>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(format!("{word} takes positive numbers, not '{text}'\n{USAGE}")),
        };
        match word.as_str() {
            "--rounds" => options.rounds = number(&value)? as usize,
            "--flows" => options.flows = value.split(',').map(number).collect::<Result<_, _>>()?,
            "--dpdk-megabytes" => options.dpdk_megabytes = Some(number(&value)?),
            "--format" if value == "text" => text = true,
            "--format" if value == "json" => text = false,
            "--git" => git = value,
            "--rustc" => rustc = Some(value),
            _ => return Err(format!("unknown option '{word} {value}'\n{USAGE}")),
        }
    }
    let mut host = Host::read(Isa::detect().to_string(), &[]);
    host.rustc = rustc;
    let input = serde_json::json!({
        "order": "shuffled, every flow once a round",
        "state_bytes": 64,
        "dpdk_batch_max": 64,
        "rounds": options.rounds,
    });
    let tool = Tool { version: env!("CARGO_PKG_VERSION").to_owned(), git };
    let mut report = JudgedReport::new(tool, host, input);
    for missing in run(&options, &mut report).map_err(|error| format!("{error:#}"))? {
        eprintln!("missing row: {missing}");
    }
    let text = if text {
        report.to_text()
    } else {
        serde_json::to_string_pretty(&report).map_err(|error| error.to_string())? + "\n"
    };
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| format!("cannot write the rows: {error}"))
}
