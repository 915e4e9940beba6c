//! Times simulated caches and libCacheSim; `cargo xtask peers tcb-cache` builds and runs it.

use std::io::Write;
use std::process::ExitCode;

use flowloom::cpu::features::Isa;
use flowloom_benches::caches::{Options, run};
use flowloom_benches::goal::JudgedReport;
use flowloom_measure::Host;
use flowloom_measure::rows::Tool;

const USAGE: &str = "usage: tcb_cache_peers [--rounds N] [--accesses N] [--trace FILE] [--python PROGRAM]
                       [--format json|text] [--git COMMIT] [--rustc VERSION]";

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
    let mut options = Options { rounds: 15, accesses: 4_000_000, trace: None, python: None };
    let (mut text, mut git, mut rustc) = (false, String::new(), None);
    while let Some(word) = words.next() {
        if matches!(word.as_str(), "-h" | "--help") {
            return Err(USAGE.to_owned());
        }
        let value = words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"))?;
        let number = || match value.parse::<usize>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(format!("{word} takes a positive number, not '{value}'\n{USAGE}")),
        };
        match word.as_str() {
            "--rounds" => options.rounds = number()?,
            "--accesses" => options.accesses = number()?,
            "--trace" => options.trace = Some(value.into()),
            "--python" => options.python = Some(value.into()),
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
        "trace": options.trace.as_ref().map_or("model s, 4000 sessions at a time, seed 1".into(), |path| path.display().to_string()),
        "lines": 512,
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
