//! Times maps and their rivals; `cargo xtask peers maps` builds and runs it.

use std::process::ExitCode;

use flowloom::cpu::features::Isa;
use flowloom_benches::goal::JudgedReport;
use flowloom_benches::{maps, users};
use flowloom_measure::Host;
use flowloom_measure::rows::Tool;

const USAGE: &str = "usage: map_peers [--rounds N] [--flows N,…] [--only owned|shared|users] [--format json|text] [--git COMMIT] [--rustc VERSION]";

/// A part of the comparison, for a number of rounds and numbers of flows.
type Part = fn(usize, &[u32], &mut JudgedReport) -> anyhow::Result<()>;

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
    let (mut rounds, mut flows) = (15, vec![65_536, 1_000_000]);
    let (mut text, mut git, mut rustc) = (false, String::new(), None);
    let mut only = None;
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
            "--rounds" => rounds = number(&value)? as usize,
            "--flows" => flows = value.split(',').map(number).collect::<Result<_, _>>()?,
            "--only" if matches!(value.as_str(), "owned" | "shared" | "users") => only = Some(value),
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
        "key_bytes": 16,
        "state_bytes": 32,
        "rounds": rounds,
    });
    let tool = Tool { version: env!("CARGO_PKG_VERSION").to_owned(), git };
    let mut report = JudgedReport::new(tool, host, input);
    let is_wanted = |part: &str| only.as_ref().is_none_or(|only| only == part);
    let parts: [(&str, Part); 3] =
        [("owned", maps::owned), ("shared", maps::shared), ("users", users::run)];
    for (_, part) in parts.into_iter().filter(|(name, _)| is_wanted(name)) {
        part(rounds, &flows, &mut report).map_err(|error| format!("{error:#}"))?;
    }
    report.write(text, None)
}
