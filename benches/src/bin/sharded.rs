//! Times whole programs in different layouts; `cargo xtask bench sharded` builds the programs and
//! runs it.

use std::path::PathBuf;
use std::process::ExitCode;

use flowloom::cpu::features::Isa;
use flowloom::cpu::topology::allowed_cpus;
use flowloom::engine::Layout;
use flowloom_benches::goal::JudgedReport;
use flowloom_benches::sharded::{Bench, Halves};
use flowloom_measure::Host;
use flowloom_measure::rows::Tool;

const USAGE: &str =
    "usage: sharded --flowloom PATH [--packets N] [--rounds N] [--workers N,...] [--format json|text]
               [-o FILE] [--git COMMIT] [--rustc VERSION]";
const PACKETS: u64 = 5_000_000;
const ROUNDS: u64 = 7;

#[derive(Debug)]
struct Arguments {
    flowloom: PathBuf,
    packets: u64,
    rounds: u64,
    workers: Option<Vec<usize>>,
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
    let mut arguments = Arguments {
        flowloom: PathBuf::new(),
        packets: PACKETS,
        rounds: ROUNDS,
        workers: None,
        text: true,
        output: None,
        git: String::new(),
        rustc: None,
    };
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"))?;
        let whole = |max: u64| match number(&value) {
            Some(number) if (1..=max).contains(&number) => Ok(number),
            _ => Err(format!("{word} is a number from 1 to {max}, not '{value}'")),
        };
        match word.as_str() {
            "--packets" => arguments.packets = whole(u64::from(u32::MAX))?,
            "--rounds" => arguments.rounds = whole(1000)?,
            "--workers" => {
                let max = Layout::WORKERS_MAX;
                let one = |text: &str| text.parse().ok().filter(|workers| (1..=max).contains(workers));
                let workers: Option<Vec<usize>> = value.split(',').map(one).collect();
                let error =
                    || format!("--workers is a list such as 2,4, each from 1 to {max}, not '{value}'");
                arguments.workers = Some(workers.ok_or_else(error)?);
            }
            "--format" if value == "text" => arguments.text = true,
            "--format" if value == "json" => arguments.text = false,
            "-o" | "--output" => arguments.output = Some(value.into()),
            "--flowloom" => arguments.flowloom = value.into(),
            "--git" => arguments.git = value,
            "--rustc" => arguments.rustc = Some(value),
            _ => return Err(format!("unknown option '{word} {value}'\n{USAGE}")),
        }
    }
    if arguments.flowloom.as_os_str().is_empty() {
        return Err(format!("--flowloom, the path of the flowloom command, is missing\n{USAGE}"));
    }
    Ok(arguments)
}

/// Parses a number, which is in thousands or millions if it ends with k or M.
fn number(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1_000),
        None => text.strip_suffix('M').map_or((text, 1), |digits| (digits, 1_000_000)),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let cpus = allowed_cpus().unwrap_or_default();
    if cpus.len() < 2 {
        eprintln!("the comparison needs two CPUs; {} are known to be allowed", cpus.len());
    }
    let doubled = || std::iter::successors(Some(2), |workers| Some(workers * 2));
    let every =
        || doubled().take_while(|workers| *workers <= cpus.len().min(Layout::WORKERS_MAX)).collect();
    let workers = arguments.workers.clone().unwrap_or_else(every);
    let mut host = Host::read(Isa::detect().to_string(), &[]);
    host.rustc.clone_from(&arguments.rustc);
    eprintln!("generating {} packets below {}", arguments.packets, std::env::temp_dir().display());
    let capture = Halves::generate(arguments.packets).map_err(|error| {
        format!(
            "cannot write the capture: {error}\n  set TMPDIR to use another \
            directory"
        )
    })?;
    let flowloom = arguments.flowloom.as_path();
    let rounds = usize::try_from(arguments.rounds).unwrap_or(usize::MAX);
    let bench = Bench { flowloom, capture: &capture, rounds, workers: &workers, cpus: &cpus };
    let (results, ratios) = bench.run()?;
    let tool = Tool { version: env!("CARGO_PKG_VERSION").to_owned(), git: arguments.git.clone() };
    let input = serde_json::json!({ "capture": "generated mixture", "packets": arguments.packets });
    let report = JudgedReport { results, ratios, ..JudgedReport::new(tool, host, input) };
    report.write(arguments.text, arguments.output.as_deref())
}
