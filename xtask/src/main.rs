//! Development tasks: `cargo xtask tidy` checks the project's rules, `cargo xtask ci` runs the same
//! checks as CI, `cargo xtask peers` measures the published figures.
#![expect(clippy::doc_markdown, reason = "the comments of options are the help")]

mod churn;
mod cluster;
mod corpus;
mod draw;
mod faults;
mod figures;
mod kernel;
mod live;
mod matrix;
mod meters;
mod owners;
mod packaged;
mod peers;
mod program;
mod public_api;
mod release;
mod round_trips;
mod source;
mod test_runs;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::Parser;

/// Development tasks.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
enum Task {
    /// Check the rules that neither rustc nor clippy checks: layers, unsafe modules, citations,
    /// words, comment width, sizes; print the lines of each crate
    Tidy,
    /// Run exactly what CI runs (.ci/run)
    Ci,
    /// Check the format, the lints and the tests of one crate, with the time of each
    Check {
        /// The name of its folder, such as flow-table
        name: String,
    },
    /// Run the models of data that threads share
    Loom,
    /// Check random histories of the table that threads share
    Shuttle {
        /// A million take some minutes
        #[arg(long, default_value_t = 10_000)]
        histories: u32,
    },
    /// Run the tests of crates with threads or unsafe code under a sanitizer (nightly, rust-src)
    Sanitize(test_runs::Sanitize),
    /// Run the tests of the lower crates on another processor, by QEMU (Debian: qemu-user, gcc and
    /// libc6-dev for that processor; rustup target add)
    Emulate(test_runs::Emulate),
    /// Replay foreign captures in every layout
    Corpus(corpus::Options),
    /// Stop verbs that write at random times, and read what they leave
    Faults(faults::Options),
    /// Compare flows from a Spark cluster with one run
    Cluster(cluster::Options),
    /// Measure beside peers, and run long checks: peers --help; peers meters compares records of
    /// scenarios with other meters'
    #[command(visible_alias = "bench", disable_help_flag = true)]
    Peers(Words),
    /// Check that results do not depend on how threads divide captures
    #[command(disable_help_flag = true)]
    Cuts(Words),
    /// Run the engine for very many packets: counters exact, memory flat
    #[command(disable_help_flag = true)]
    Soak(Words),
    /// Write records of very many flows
    Churn(churn::Options),
    /// Write the tables of docs/performance from docs/performance/data
    Figures,
    /// Compare headers nested two deep with tshark, and say why where they differ: 100,000 packets
    Matrix,
    /// Compare the kernel's netfilter with classify (as root)
    Kernel(kernel::Options),
    /// Write records in every format, and read them with nfdump, netflow, DuckDB, pyarrow, pandas
    /// and NFStream
    RoundTrips(round_trips::Options),
    /// Send packets through veth pairs to replay --iface and through bridge, and count them (as
    /// root)
    Live(Words),
    /// Compare records with what Zeek's and Suricata's tests expect of their captures
    Owners(owners::Options),
    /// List the public items of the libraries, and compare them with the committed lists
    PublicApi(public_api::Options),
    /// Package all crates, and compile and run examples against the packages, outside the workspace
    Packages,
    /// Check everything and make the files of a release: archive, .deb, bill of materials,
    /// checksums
    Release(release::Options),
}

/// Arguments of another program.
#[derive(Debug, clap::Args)]
struct Words {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

fn main() -> ExitCode {
    match run(Task::parse(), &root()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(task: Task, root: &Path) -> Result<ExitCode> {
    match task {
        Task::Tidy => tidy::run(root),
        Task::Ci => {
            program::succeeds(Command::new("bash").arg(".ci/run").current_dir(root)).map(program::exit_code)
        }
        Task::Check { name } => test_runs::check(root, &name),
        Task::Loom => test_runs::loom(root),
        Task::Shuttle { histories } => test_runs::shuttle(root, histories),
        Task::Sanitize(options) => test_runs::sanitize(root, options),
        Task::Emulate(options) => test_runs::emulate(root, &options),
        Task::Corpus(options) => corpus::run(root, &options),
        Task::Faults(options) => faults::run(root, &options),
        Task::Cluster(options) => cluster::run(root, &options),
        Task::Peers(Words { words }) => peers::run(root, &words),
        Task::Cuts(Words { words }) => peers::run(root, &[&["cuts".to_owned()], &words[..]].concat()),
        Task::Soak(Words { words }) => peers::run(root, &[&["soak".to_owned()], &words[..]].concat()),
        Task::Churn(options) => churn::run(root, options),
        Task::Figures => figures::run(root),
        Task::Matrix => matrix::run(root),
        Task::Kernel(options) => kernel::run(root, options),
        Task::RoundTrips(options) => round_trips::run(root, options),
        Task::Live(Words { words }) => live::run(root, &words),
        Task::Owners(options) => owners::run(root, options),
        Task::PublicApi(options) => public_api::run(root, &options),
        Task::Packages => packaged::run(root),
        Task::Release(options) => release::run(root, options),
    }
}

/// Returns the root of the workspace, which is the parent of this package.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn commands_and_their_options_are_consistent() {
        Task::command().debug_assert();
        for line in ["sanitize thread flowloom-cpu -- pages", "peers l7 --rounds 3 --help", "live peer -x"]
        {
            let words = ["xtask"].into_iter().chain(line.split(' '));
            assert!(Task::try_parse_from(words).is_ok(), "{line}");
        }
        assert!(Task::try_parse_from(["xtask", "sanitize", "memory"]).is_err());
    }
}
