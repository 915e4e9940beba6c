//! Times the L7 scanner and vectorscan, or compares labels with those of tshark;
//! `cargo xtask peers l7` builds and runs it.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use flowloom::cpu::features::Isa;
use flowloom::dpi::{Scanner, builtin};
use flowloom_benches::goal::JudgedReport;
use flowloom_benches::l7::labels::{Labels, captures, compare, tshark_version};
use flowloom_benches::l7::speed::{Options, run};
use flowloom_measure::Host;
use flowloom_measure::rows::Tool;

const USAGE: &str = "usage: l7_peers [--rounds N] [--labels] [--capture FILE]… [--format json|text]
                [--git COMMIT] [--rustc VERSION]

  without --capture: the captures below $FLOWLOOM_DATA/pcaps";

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
    let mut options = Options { rounds: 15, captures: Vec::new() };
    let (mut text, mut labels, mut git, mut rustc) = (false, false, String::new(), None);
    while let Some(word) = words.next() {
        match word.as_str() {
            "-h" | "--help" => return Err(USAGE.to_owned()),
            "--labels" => {
                labels = true;
                continue;
            }
            _ => {}
        }
        let value = words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"))?;
        match word.as_str() {
            "--rounds" => {
                options.rounds =
                    value.parse().ok().filter(|&rounds| rounds > 0).ok_or_else(|| {
                        format!("--rounds takes a positive number, not '{value}'\n{USAGE}")
                    })?;
            }
            "--capture" => options.captures.push(PathBuf::from(value)),
            "--format" if value == "text" => text = true,
            "--format" if value == "json" => text = false,
            "--git" => git = value,
            "--rustc" => rustc = Some(value),
            _ => return Err(format!("unknown option '{word} {value}'\n{USAGE}")),
        }
    }
    if options.captures.is_empty() {
        let Some(data) = std::env::var_os("FLOWLOOM_DATA") else {
            eprintln!(
                "skipped: FLOWLOOM_DATA is not set (the directory of real captures), and no --capture \
                 is given"
            );
            return Ok(());
        };
        options.captures =
            captures(&PathBuf::from(data).join("pcaps")).map_err(|error| format!("{error:#}"))?;
    }
    let output = if labels { compare_labels(&options, text)? } else { time(&options, text, git, rustc)? };
    std::io::stdout()
        .write_all(output.as_bytes())
        .map_err(|error| format!("cannot write the rows: {error}"))
}

fn compare_labels(options: &Options, text: bool) -> Result<String, String> {
    match tshark_version() {
        Ok(version) => eprintln!("{version}"),
        Err(error) => {
            eprintln!("skipped: {error:#}");
            return Ok(String::new());
        }
    }
    let mut labels = Labels::default();
    for path in &options.captures {
        if let Err(error) = compare(path, &mut labels) {
            eprintln!("left out: {}: {error:#}", path.display());
        }
    }
    if text {
        return Ok(labels.to_text());
    }
    Ok(serde_json::to_string_pretty(&labels).map_err(|error| error.to_string())? + "\n")
}

fn time(options: &Options, text: bool, git: String, rustc: Option<String>) -> Result<String, String> {
    let mut host = Host::read(Isa::detect().to_string(), &[]);
    host.rustc = rustc;
    let size = Scanner::new(&builtin()).map_err(|error| error.to_string())?.size();
    let input = serde_json::json!({
        "captures": options.captures.len(),
        "patterns": builtin().len(),
        "groups": size.groups,
        "states": size.states,
        "table_bytes": size.bytes,
        "rounds": options.rounds,
    });
    let tool = Tool { version: env!("CARGO_PKG_VERSION").to_owned(), git };
    let mut report = JudgedReport::new(tool, host, input);
    for missing in run(options, &mut report).map_err(|error| format!("{error:#}"))? {
        eprintln!("missing: {missing}");
    }
    if text {
        return Ok(report.to_text());
    }
    Ok(serde_json::to_string_pretty(&report).map_err(|error| error.to_string())? + "\n")
}
