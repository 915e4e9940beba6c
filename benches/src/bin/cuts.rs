//! Divides captures into chunks of random sizes and compares the results; `cargo xtask cuts` builds
//! and runs it.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use flowloom_benches::partitions::{Checked, Options, run};

const USAGE: &str = "usage: cuts [--cuts N] [--seed S] [--captures PATH]";

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    eprintln!("{} cuts, starting with seed {}", options.cuts, options.seed);
    match run(&options, |progress| eprintln!("{progress}")) {
        Ok(checked) => {
            let Checked { cuts, lists_moved, generated, given, captures } = checked;
            let _ = writeln!(
                std::io::stdout(),
                "{cuts} cuts, no difference: {generated} cases on generated captures, {given} on {captures} given ones; \
                 {lists_moved} lists were processed by other threads than their own"
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let captures = std::env::var_os("FLOWLOOM_DATA").map(PathBuf::from);
    let mut options = Options { captures, ..Options::default() };
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"))?;
        let number = || match value.parse() {
            Ok(number) => Ok(number),
            Err(_) => Err(format!("{word} takes an integer, not '{value}'\n{USAGE}")),
        };
        match word.as_str() {
            "--cuts" => options.cuts = number()?,
            "--seed" => options.seed = number()?,
            "--captures" => options.captures = Some(PathBuf::from(value)),
            _ => return Err(format!("unknown option '{word}'\n{USAGE}")),
        }
    }
    Ok(options)
}
