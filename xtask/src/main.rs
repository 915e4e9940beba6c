//! Development tasks: `cargo xtask tidy` checks the project's rules, `cargo xtask ci` runs the same
//! checks as CI, `cargo xtask bench` measures the published figures.

mod churn;
mod ci;
mod cluster;
mod corpus;
mod emulate;
mod faults;
mod figures;
mod kernel;
mod live;
mod loom;
mod matrix;
mod owners;
mod packaged;
mod packages;
mod peers;
mod program;
mod release;
mod round_trips;
mod sanitize;
mod shuttle;
mod soak;
mod source;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "usage: cargo xtask <verb>

  tidy     check the rules that neither rustc nor clippy checks: layers, unsafe modules, citations,
           words, comment width, sizes
  ci       run exactly what CI runs (.ci/run)
  loom     run the models of the engine's synchronisation
  shuttle  check random histories of the table that threads share: shuttle [--histories N]
  corpus   replay foreign captures in every layout: corpus FOLDER…
  cuts     check that results do not depend on how threads divide captures: cuts [--cuts N]
  faults   stop verbs that write at random times, and read what they leave: faults [--runs N]
  cluster  compare flows from a Spark cluster with one run: cluster [--captures N] [--packets N]
  bench    measure the figures of docs/performance.md: bench replay|sharded [--help]
  peers    compare flow tables, classifier, caches, L7 filter with rivals: peers flow-table [--help]
  figures  write the tables of docs/performance from docs/performance/data
  matrix   compare headers nested two deep with tshark, and say why where they differ
  kernel   compare the kernel's netfilter with classify (as root): kernel [--files N] [--packets N]
  round-trips
           write records in every format, and read them with nfdump, netflow, DuckDB, pyarrow, pandas and
           NFStream: round-trips [FOLDER…]
  live     send packets through veth pairs to replay --iface and through bridge, and count them (as
           root): live [bridge | faults | --short]
  owners   compare records with what Zeek's and Suricata's tests expect of their captures: owners FOLDER…
  packages package all crates, and run the examples against the packages, outside the workspace
  release  check everything and make the files of a release: archive, .deb, bill of materials, checksums
  soak     run the engine for a billion packets, counters exact and memory flat: soak [--packets N],
           or write records of very many flows: soak --churn N
  sanitize thread|address
           run the tests of crates with threads or unsafe code under a sanitizer (nightly)
  emulate aarch64|s390x
           run the tests of the lower crates on another processor, by QEMU: emulate --help";

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<ExitCode> {
    let root = root();
    let Some((verb, rest)) = arguments.split_first() else { return Ok(show(USAGE, arguments)) };
    match verb.as_str() {
        "tidy" | "ci" | "loom" | "figures" if is_help(rest) => Ok(show(USAGE, rest)),
        "tidy" | "ci" | "loom" | "figures" if !rest.is_empty() => {
            bail!("{verb} takes no arguments, but '{}' was given\n{USAGE}", rest.join(" "))
        }
        "tidy" => tidy::run(&root),
        "ci" => ci::run(&root),
        "figures" => figures::run(&root),
        "live" => live::run(&root, rest),
        "loom" => loom::run(&root),
        "matrix" => matrix::run(&root, rest),
        "packages" => packaged::run(&root, rest),
        "release" => release::run(&root, rest),
        "kernel" => kernel::run(&root, rest),
        "cluster" => cluster::run(&root, rest),
        "corpus" => corpus::run(&root, rest),
        "faults" => faults::run(&root, rest),
        "soak" => soak::run(&root, rest),
        "emulate" => emulate::run(&root, rest),
        "sanitize" => sanitize::run(&root, rest),
        "round-trips" => round_trips::run(&root, rest),
        "shuttle" => shuttle::run(&root, rest),
        "owners" => owners::run(&root, rest),
        "peers" | "bench" => peers::run(&root, rest),
        "cuts" => peers::run(&root, arguments),
        _ if is_help(arguments) => Ok(show(USAGE, arguments)),
        _ => bail!("unknown verb '{verb}'\n{USAGE}"),
    }
}

/// Returns whether the arguments request help, before those for another program.
fn is_help(arguments: &[String]) -> bool {
    arguments.first().is_some_and(|first| first == "help")
        || arguments.iter().take_while(|word| *word != "--").any(|word| word == "-h" || word == "--help")
}

/// Prints a usage text. The status is 0 if the arguments request help, otherwise 2.
fn show(usage: &str, arguments: &[String]) -> ExitCode {
    eprintln!("{usage}");
    ExitCode::from(if is_help(arguments) { 0 } else { 2 })
}

/// Returns the root of the workspace, which is the parent of this package.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn help_that_is_asked_for_is_a_success_and_builds_nothing() {
        let verbs = [
            "",
            "tidy ",
            "ci ",
            "kernel ",
            "live ",
            "loom ",
            "matrix ",
            "corpus ",
            "soak ",
            "owners ",
            "emulate ",
            "sanitize ",
            "shuttle ",
            "figures ",
            "packages ",
            "round-trips ",
            "release ",
        ];
        for asked in
            verbs.iter().flat_map(|verb| ["help", "-h", "--help"].map(|help| format!("{verb}{help}")))
        {
            assert_eq!(run(&words(&asked)).unwrap(), ExitCode::SUCCESS, "{asked}");
        }
        assert_eq!(run(&words("emulate s390x -h")).unwrap(), ExitCode::SUCCESS);
        assert!(!is_help(&words("thread -- --help")), "that is for the test program");
    }

    #[test]
    fn what_is_no_verb_and_what_a_verb_does_not_take_are_mistakes() {
        for (asked, said) in
            [("weave", "unknown verb 'weave'"), ("tidy -v", "tidy takes no arguments, but '-v'")]
        {
            assert!(run(&words(asked)).unwrap_err().to_string().starts_with(said), "{asked}");
        }
        for asked in ["", "corpus", "sanitize", "emulate"] {
            assert_eq!(run(&words(asked)).unwrap(), ExitCode::from(2), "{asked}");
        }
    }
}
