//! Times the packet path and prints rows; `cargo xtask bench replay` builds and runs it.

use std::path::PathBuf;
use std::process::ExitCode;

use flowloom::cpu::features::Isa;
use flowloom_benches::goal::JudgedReport;
use flowloom_benches::input::CaptureFile;
use flowloom_benches::replay;
use flowloom_measure::Host;
use flowloom_measure::rows::Tool;

const USAGE: &str = "usage: replay [--rounds N] [--capture FILE] [--format json|text] [-o FILE]
              [--git COMMIT] [--rustc VERSION]";

#[derive(Debug, Default)]
struct Arguments {
    rounds: Option<usize>,
    capture: Option<PathBuf>,
    text: bool,
    output: Option<PathBuf>,
    git: String,
    rustc: Option<String>,
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)).and_then(|arguments| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments::default();
    while let Some(word) = words.next() {
        if matches!(word.as_str(), "-h" | "--help") {
            return Err(USAGE.to_owned());
        }
        let value = words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"))?;
        let path = || Some(PathBuf::from(&value));
        match word.as_str() {
            "--rounds" => match value.parse() {
                Ok(rounds) if rounds > 0 => arguments.rounds = Some(rounds),
                _ => return Err(format!("--rounds takes a positive number, not {value}")),
            },
            "--capture" => arguments.capture = path(),
            "--format" if value == "text" => arguments.text = true,
            "--format" if value == "json" => arguments.text = false,
            "-o" | "--output" => arguments.output = path(),
            "--git" => arguments.git = value,
            "--rustc" => arguments.rustc = Some(value),
            _ => return Err(format!("unknown option '{word} {value}'\n{USAGE}")),
        }
    }
    Ok(arguments)
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let data = std::env::var_os("FLOWLOOM_DATA").map(PathBuf::from);
    let capture = CaptureFile::choose(arguments.capture.as_deref(), data.as_deref())
        .map_err(|error| format!("no capture: {error}"))?;
    let mut host = Host::read(Isa::detect().to_string(), &[]);
    host.rustc.clone_from(&arguments.rustc);
    let outcome = replay::run(&capture, arguments.rounds.unwrap_or(15))?;
    for missing in &outcome.missing {
        eprintln!("missing row: {missing}");
    }
    let input = serde_json::json!({
        "capture": capture.name,
        "packets": outcome.pass_packets,
        "passes": outcome.passes,
        "bytes_captured": outcome.bytes / u64::from(outcome.passes.max(1)),
        "flows_of_a_round": outcome.flows,
    });
    let tool = Tool { version: env!("CARGO_PKG_VERSION").to_owned(), git: arguments.git.clone() };
    let mut report = JudgedReport::new(tool, host, input);
    (report.results, report.ratios) = (outcome.results, outcome.ratios);
    report.write(arguments.text, arguments.output.as_deref())
}
