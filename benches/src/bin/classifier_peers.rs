//! Times the classifier and its rivals; `cargo xtask peers classifier` builds and runs it.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use flowloom::cpu::features::Isa;
use flowloom_benches::classify::{Options, run};
use flowloom_benches::goal::JudgedReport;
use flowloom_measure::Host;
use flowloom_measure::rows::Tool;

const USAGE: &str =
    "usage: classifier_peers [--rounds N] [--only NAME,…] [--sizes N,…] [--seeds N] [--headers N]
                        [--dpdk-megabytes N] [--format json|text] [--git COMMIT] [--rustc VERSION]";

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
    let mut options = Options {
        rounds: 15,
        only: Vec::new(),
        sizes: vec![1_000, 10_000, 100_000],
        seeds: 3,
        headers: 65_536,
        dpdk_megabytes: None,
    };
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
            "--only" => options.only = value.split(',').map(str::to_owned).collect(),
            "--sizes" if value == "none" => options.sizes.clear(),
            "--sizes" => {
                options.sizes = value
                    .split(',')
                    .map(|size| number(size).map(|n| n as usize))
                    .collect::<Result<_, _>>()?;
            }
            "--seeds" => options.seeds = number(&value)?.into(),
            "--headers" => options.headers = number(&value)? as usize,
            "--dpdk-megabytes" => options.dpdk_megabytes = Some(number(&value)?),
            "--format" if value == "text" => text = true,
            "--format" if value == "json" => text = false,
            "--git" => git = value,
            "--rustc" => rustc = Some(value),
            _ => return Err(format!("unknown option '{word} {value}'\n{USAGE}")),
        }
    }
    let data = std::env::var_os("FLOWLOOM_DATA").map(PathBuf::from);
    let mut host = Host::read(Isa::detect().to_string(), &[]);
    host.rustc = rustc;
    let input = serde_json::json!({
        "headers": options.headers,
        "batch": 256,
        "traffic": "hits: inside a rule; misses: three of ten at random; zipf: 16,384 flows by rank",
        "rounds": options.rounds,
    });
    let tool = Tool { version: env!("CARGO_PKG_VERSION").to_owned(), git };
    let mut report = JudgedReport::new(tool, host, input);
    for missing in run(&options, data.as_deref(), &mut report).map_err(|error| format!("{error:#}"))? {
        eprintln!("missing row: {missing}");
    }
    let text = if text {
        report.to_text()
    } else {
        serde_json::to_string_pretty(&report).map_err(|error| error.to_string())? + "\n"
    };
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| format!("cannot write the rows: {error}"))
}
