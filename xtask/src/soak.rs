//! `cargo xtask soak`: runs the engine for a very long time and monitors its memory.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::churn::Churn;
use crate::program::build;
use crate::{is_help, peers, show};

const USAGE: &str = "usage: cargo xtask soak [--packets N] [--flows N] [--round N]
       cargo xtask soak --churn RECORDS [--warm SECONDS] [--flowloom PROGRAM]

  --packets   packets of the whole run [1000000000]
  --flows     flows of the generated mixture [20000]
  --round     packets of the mixture, which the run repeats [400000]

  --churn     writes so many records of short flows as CSV and as IPFIX, and reads them: no packet may be missing,
              memory may grow by 8 MiB after the warm-up, and the run must end within 0.2 s of SIGINT
  --warm      seconds in which memory may grow [60]
  --flowloom  instead of a build with optimisation";

/// Builds the soak test and runs it.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    if is_help(arguments) {
        return Ok(show(USAGE, arguments));
    }
    if arguments.iter().any(|word| word == "--churn") {
        return churn(root, arguments);
    }
    peers::run(root, &[&[String::from("soak")], arguments].concat())
}

fn churn(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let (mut flowloom, mut records, mut warm) = (None, 0, 60);
    for pair in arguments.chunks(2) {
        let [option, value] = pair else { bail!("{} needs a value\n{USAGE}", pair[0]) };
        let number =
            || value.parse::<u64>().with_context(|| format!("{option} takes a number, not '{value}'"));
        match option.as_str() {
            "--churn" => records = number()?,
            "--warm" => warm = number()?,
            "--flowloom" => flowloom = Some(PathBuf::from(value)),
            _ => bail!("unknown option '{option}' with --churn\n{USAGE}"),
        }
    }
    let flowloom = match flowloom {
        Some(flowloom) => flowloom,
        None => build(root, &["-p", "flowloom-cli", "--bin", "flowloom"])?,
    };
    let folder = root.join("target/soak");
    Churn { flowloom, records, warm: Duration::from_secs(warm), folder }.run()?;
    Ok(ExitCode::SUCCESS)
}
