//! Times this project beside its peers, and checks itself over long runs: `cargo xtask peers`.
#![expect(clippy::doc_markdown, reason = "the comments are the help")]

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand, ValueEnum};
use flowloom::cpu::features::Isa;
use flowloom::cpu::topology::allowed_cpus;
use flowloom::dpi::{Scanner, builtin};
use flowloom::engine::Layout;
use flowloom_benches::goal::JudgedReport;
use flowloom_benches::input::CaptureFile;
use flowloom_benches::sharded::{Bench, Halves};
use flowloom_benches::{caches, classify, concurrent, l7, maps, partitions, pauses};
use flowloom_benches::{replay, soak, tables, users};
use flowloom_measure::Host;
use flowloom_measure::rows::Tool;
use serde_json::{Value, json};

#[derive(Debug, Parser)]
#[command(name = "peers", version, about = "Time Flowloom beside its peers")]
struct Command {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    write: Output,
}

#[derive(Debug, Args)]
struct Output {
    /// Rows as JSON or as tables.
    #[arg(long, global = true, value_enum, default_value_t = Format::Json)]
    format: Format,
    /// Writes the rows to a file.
    #[arg(short = 'o', long = "output", global = true)]
    out: Option<PathBuf>,
    /// The commit, for the rows.
    #[arg(long, global = true, default_value = "")]
    git: String,
    /// The compiler, for the rows.
    #[arg(long, global = true)]
    rustc: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Format {
    Json,
    Text,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Compare the packet path with copying the same bytes, with libpcap, and step by step.
    Replay {
        #[arg(long, default_value_t = 15)]
        rounds: usize,
        /// The capture [pcaps/dev_mix_ether.pcap.zst below $FLOWLOOM_DATA, or a generated mixture].
        #[arg(long)]
        capture: Option<PathBuf>,
    },
    /// Compare whole programs on a generated capture: one thread, workers with shards of the flows,
    /// a pipeline, and two programs on its halves. Both captures take 700 bytes per packet below
    /// $TMPDIR.
    Sharded(Sharded),
    /// LineHash and DHash beside hashbrown, DashMap, the standard library's map, and DPDK's
    /// rte_hash, which needs reserved huge pages (as root, sysctl vm.nr_hugepages=2048).
    FlowTable(tables::Options),
    /// FlowMap beside LineHash, Abseil (with its prefetch), Boost, hashbrown (alone and with
    /// prefetches by its user), the standard library's map and DPDK's rte_hash: batches beside
    /// batches, single calls beside single calls.
    Tables(tables::Options),
    /// ConcurrentFlowTable beside DashMap, papaya, scc and a locked hashbrown, alone and beside a
    /// writer; then times of single operations and bytes while they grow and shrink.
    Concurrent {
        #[arg(long, default_value_t = 15)]
        rounds: usize,
        #[arg(long, value_delimiter = ',', default_values_t = [65_536, 1_000_000])]
        flows: Vec<u32>,
        /// Flows to which the maps grow; 0 leaves this part out.
        #[arg(long, default_value_t = 8_000_000)]
        grow: u32,
    },
    /// The tables of two users: a virtual switch (BTreeMap, hashbrown) and a proxy (a map with a
    /// mutex, DashMap).
    Users {
        #[arg(long, default_value_t = 15)]
        rounds: usize,
        #[arg(long, value_delimiter = ',', default_values_t = [65_536, 1_000_000])]
        flows: Vec<u32>,
    },
    /// FlowCuts beside DPDK's rte_acl, on the rule sets below $FLOWLOOM_DATA and on generated ones.
    /// rte_acl runs on 4 KiB pages where no huge ones are reserved, which is slower. One set takes
    /// a minute: --only made_acl_100000_2 (profile, rules, seed) --sizes 100000 --seeds 2.
    Classifier(classify::Options),
    /// Simulated caches beside libCacheSim's Python package (pip install libcachesim).
    TcbCache(caches::Options),
    /// The L7 scanner beside vectorscan, on the payload of captures.
    L7 {
        #[command(flatten)]
        options: l7::speed::Options,
        /// Compares labels with tshark's instead.
        #[arg(long)]
        labels: bool,
    },
    /// Compare the results of one thread with those of a pipeline and of 2 to 16 workers that
    /// exchange chunks of a random size in a random schedule, on generated captures and, every
    /// second time, on given ones.
    Cuts(partitions::Options),
    /// Run the engine for very many packets: counters exact, memory flat.
    Soak(soak::Options),
}

#[derive(Debug, Args)]
struct Sharded {
    /// The flowloom command.
    #[arg(long)]
    flowloom: PathBuf,
    #[arg(long, default_value_t = 5_000_000)]
    packets: u64,
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Numbers of workers [2, 4, ... as far as there are CPUs].
    #[arg(long, value_delimiter = ',')]
    workers: Vec<usize>,
}

fn main() -> ExitCode {
    let Command { what, write } = Command::parse();
    match run(what, &write) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::too_many_lines, reason = "an arm for each comparison")]
fn run(what: What, output: &Output) -> Result<()> {
    let data = std::env::var_os("FLOWLOOM_DATA").map(PathBuf::from);
    // Fills a report and writes it.
    let written = |input: Value, fill: &mut dyn FnMut(&mut JudgedReport) -> Result<Vec<String>>| {
        let mut host = Host::read(Isa::detect().to_string(), &[]);
        host.rustc.clone_from(&output.rustc);
        let tool = Tool { version: env!("CARGO_PKG_VERSION").to_owned(), git: output.git.clone() };
        let mut report = JudgedReport::new(tool, host, input);
        for missing in fill(&mut report)? {
            eprintln!("missing row: {missing}");
        }
        report.write(output.format == Format::Text, output.out.as_deref()).map_err(anyhow::Error::msg)
    };
    match what {
        What::Replay { rounds, capture } => {
            let capture = CaptureFile::choose(capture.as_deref(), data.as_deref()).context("no capture")?;
            let outcome = replay::run(&capture, rounds).map_err(anyhow::Error::msg)?;
            let input = json!({
                "capture": capture.name,
                "packets": outcome.pass_packets,
                "passes": outcome.passes,
                "bytes_captured": outcome.bytes / u64::from(outcome.passes.max(1)),
                "flows_of_a_round": outcome.flows,
            });
            written(input, &mut |report| {
                report.results.clone_from(&outcome.results);
                report.ratios.clone_from(&outcome.ratios);
                Ok(outcome.missing.clone())
            })
        }
        What::Sharded(options) => {
            let cpus = allowed_cpus().unwrap_or_default();
            let workers = if options.workers.is_empty() {
                let doubled = std::iter::successors(Some(2), |workers| Some(workers * 2));
                doubled.take_while(|workers| *workers <= cpus.len().min(Layout::WORKERS_MAX)).collect()
            } else {
                options.workers
            };
            eprintln!("generating {} packets below {}", options.packets, std::env::temp_dir().display());
            let capture = Halves::generate(options.packets)
                .context("cannot write the capture; set TMPDIR to use another directory")?;
            let (flowloom, rounds) = (options.flowloom.as_path(), options.rounds);
            let bench = Bench { flowloom, capture: &capture, rounds, workers: &workers, cpus: &cpus };
            let input = json!({ "capture": "generated mixture", "packets": options.packets });
            written(input, &mut |report| {
                (report.results, report.ratios) = bench.run().map_err(anyhow::Error::msg)?;
                Ok(Vec::new())
            })
        }
        What::FlowTable(mut options) => {
            options.reserve_dpdk(reserved_megabytes());
            let input = json!({
                "order": "shuffled, every flow once a round",
                "state_bytes": 64,
                "dpdk_batch_max": 64,
                "rounds": options.rounds,
            });
            written(input, &mut |report| tables::run(&options, report))
        }
        What::Tables(mut options) => {
            options.reserve_dpdk(reserved_megabytes());
            written(of_maps(options.rounds), &mut |report| maps::run(&options, report))
        }
        What::Concurrent { rounds, flows, grow } => {
            written(of_maps(rounds), &mut |report| {
                concurrent::run(rounds, &flows, report).map(|()| Vec::new())
            })?;
            if grow > 0 {
                pauses::run(grow);
            }
            Ok(())
        }
        What::Users { rounds, flows } => written(json!({ "rounds": rounds }), &mut |report| {
            users::run(rounds, &flows, report).map(|()| Vec::new())
        }),
        What::Classifier(mut options) => {
            let megabytes = Some(reserved_megabytes()).filter(|reserved| *reserved > 0).unwrap_or(2048);
            options.dpdk_megabytes = options.dpdk_megabytes.or(Some(megabytes));
            let input = json!({
                "headers": options.headers,
                "batch": 256,
                "traffic": "hits: inside a rule; misses: three of ten at random; zipf: 16,384 flows by rank",
                "rounds": options.rounds,
            });
            written(input, &mut |report| classify::run(&options, data.as_deref(), report))
        }
        What::TcbCache(options) => {
            let generated = || "model s, 4000 sessions at a time, seed 1".to_owned();
            let input = json!({
                "trace": options.trace.as_ref().map_or_else(generated, |path| path.display().to_string()),
                "lines": 512,
                "rounds": options.rounds,
            });
            written(input, &mut |report| caches::run(&options, report))
        }
        What::L7 { mut options, labels } => {
            if options.captures.is_empty() {
                let data = data.context("name captures: --capture, or FLOWLOOM_DATA with real captures")?;
                options.captures = l7::labels::captures(&data.join("pcaps"))?;
            }
            if labels {
                return compare_labels(&options.captures, output.format);
            }
            let size = Scanner::new(&builtin())?.size();
            let input = json!({
                "captures": options.captures.len(),
                "patterns": builtin().len(),
                "groups": size.groups,
                "states": size.states,
                "table_bytes": size.bytes,
                "rounds": options.rounds,
            });
            written(input, &mut |report| l7::speed::run(&options, report))
        }
        What::Cuts(mut options) => {
            options.captures = options.captures.or(data);
            eprintln!("{} cuts, starting with seed {}", options.cuts, options.seed);
            let partitions::Checked { cuts, lists_moved, generated, given, captures } =
                partitions::run(&options, |progress| eprintln!("{progress}"))
                    .map_err(anyhow::Error::msg)?;
            eprintln!(
                "{cuts} cuts, no difference: {generated} cases on generated captures, {given} on {captures} given \
                 ones; {lists_moved} lists were processed by other threads than their own"
            );
            Ok(())
        }
        What::Soak(options) => soak::run(&options).map_err(anyhow::Error::msg),
    }
}

/// Describes the input of comparisons of maps.
fn of_maps(rounds: usize) -> Value {
    json!({ "order": "shuffled, every flow once a round", "state_bytes": 32, "rounds": rounds })
}

/// Returns the megabytes of reserved and free huge pages.
fn reserved_megabytes() -> u32 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        let value = meminfo.lines().find_map(|line| line.strip_prefix(name));
        value.and_then(|value| value.split_whitespace().next()?.parse::<u32>().ok()).unwrap_or(0)
    };
    field("HugePages_Free:").saturating_mul(field("Hugepagesize:") / 1024)
}

fn compare_labels(captures: &[PathBuf], format: Format) -> Result<()> {
    eprintln!("{}", l7::labels::tshark_version()?);
    let mut labels = l7::labels::Labels::default();
    for path in captures {
        if let Err(error) = l7::labels::compare(path, &mut labels) {
            eprintln!("left out: {}: {error:#}", path.display());
        }
    }
    let text = match format {
        Format::Text => labels.to_text(),
        Format::Json => serde_json::to_string_pretty(&labels)? + "\n",
    };
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_options_of_all_comparisons_fit_together() {
        Command::command().debug_assert();
    }
}
