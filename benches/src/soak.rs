//! Runs the engine for a very large number of packets and monitors its memory.
//!
//! The run repeats the packets of one capture as the same flows. Therefore all memory that may grow
//! has grown after the first round, and every flow's counters are known: those of one round times
//! the number of rounds.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::input::CaptureFile;
use crate::looped::count;
use flowloom::apps::TcpTracker;
use flowloom::engine::{self, Control, Cores, EngineConfig, FlowState, Layout, RunReport};
use flowloom::flow_key::FlowKey;
use flowloom::flow_table::{LineHash, TableOptions};
use flowloom::packet::{Fill, PacketBatch, PacketSource, SourceError};
use flowloom::record::Value;
use flowloom::scheduler::{DirectHash, WorkerCount};
use flowloom::traffic::capture::{CaptureSet, Input, SetOptions};

/// The length of the run.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Packets of the whole run.
    #[arg(long, default_value_t = 1_000_000_000)]
    packets: u64,
    /// Flows of the generated mixture.
    #[arg(long, default_value_t = 20_000)]
    flows: u32,
    /// Packets of the mixture, which the run repeats.
    #[arg(long, default_value_t = 400_000)]
    round: u64,
}

/// Allowed growth of memory after the warm-up, in bytes.
const GROWTH_BYTES_MAX: u64 = 1 << 20;
/// Number whose reciprocal is the share of packets in the warm-up: an eighth.
const WARM_ONE_IN: u64 = 8;
const LOOK: Duration = Duration::from_millis(100);

/// Repeats a capture for a number of rounds, with the same flows at later times.
struct Rounds {
    set: CaptureSet,
    left: u64,
}

impl Rounds {
    fn open(path: &Path, rounds: u32) -> Result<Self, String> {
        let round = count(path).map_err(|error| error.to_string())?;
        let options = SetOptions { passes: u32::MAX, ..SetOptions::default() };
        let set = CaptureSet::open(&[Input::Path(path.to_path_buf())], options)
            .map_err(|error| error.to_string())?;
        Ok(Self { set, left: round * u64::from(rounds) })
    }
}

impl PacketSource for Rounds {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        if self.left == 0 {
            batch.packets.clear();
            batch.block = None;
            return Ok(Fill::End);
        }
        let fill = self.set.next_batch(batch)?;
        batch.pass = 0;
        self.left -= batch.packets.len() as u64;
        Ok(fill)
    }
}

/// Packets and bytes of each flow in both directions.
type Flows = HashMap<FlowKey, [u64; 4]>;

fn flows_of<F: FlowState>(report: &RunReport<F>) -> Flows {
    let mut values = Vec::new();
    let counters = |values: &[Value]| -> [u64; 4] {
        std::array::from_fn(|at| match values.get(at) {
            Some(Value::Number(count)) => *count,
            _ => 0,
        })
    };
    report
        .flows
        .iter()
        .map(|record| {
            values.clear();
            record.state.values(&mut values);
            (record.key, counters(&values))
        })
        .collect()
}

/// Returns the memory of this process that no file backs, in bytes.
fn anonymous_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}

/// The minimum and maximum memory between the warm-up and the end, and the number of measurements.
#[derive(Debug, Default)]
struct Memory {
    least: u64,
    most: u64,
    looks: u64,
}

fn watched(
    path: &Path,
    rounds: u32,
    flows: u32,
    mode: Layout,
) -> Result<(Flows, u64, u64, Memory), String> {
    let mut source = Rounds::open(path, rounds)?;
    let packets = source.left;
    let mut config = EngineConfig::new(mode);
    config.cores = Cores::Unpinned;
    let mut placement =
        DirectHash::new(WorkerCount::new(mode.workers()).map_err(|error| error.to_string())?);
    let table = |_| LineHash::try_new(&TableOptions::for_flows(2 * flows));
    let control = Control::default();
    let mut memory = Memory { least: u64::MAX, ..Memory::default() };
    let report = std::thread::scope(|scope| {
        let running = scope
            .spawn(|| engine::run(&config, &mut source, &mut placement, table, |_| TcpTracker, &control));
        while !running.is_finished() {
            std::thread::sleep(LOOK);
            // At the end, the run collects results, which takes additional memory.
            let warm = packets / WARM_ONE_IN..packets - packets / 64;
            if let (true, Some(bytes)) = (warm.contains(&control.packets()), anonymous_bytes()) {
                memory.least = memory.least.min(bytes);
                memory.most = memory.most.max(bytes);
                memory.looks += 1;
            }
        }
        running.join().map_err(|_| String::from("the run panicked"))
    })?
    .map_err(|error| error.to_string())?;
    if !report.is_balanced() || report.fault.is_some() || report.input.packets != packets {
        return Err(format!("{packets} packets went in: {:?}", report.input));
    }
    Ok((flows_of(&report), report.processed(), report.dropped().total(), memory))
}

/// Runs one layout, and prints the results.
fn soak(path: &Path, rounds: u32, flows: u32, mode: Layout) -> Result<String, String> {
    let (once, processed_once, dropped_once, _) = watched(path, 1, flows, Layout::Inline)?;
    let begun = Instant::now();
    let (all, processed, dropped, memory) = watched(path, rounds, flows, mode)?;
    let seconds = begun.elapsed().as_secs_f64();
    let times = u64::from(rounds);
    let exact = all.len() == once.len()
        && once.iter().all(|(key, one)| all.get(key) == Some(&one.map(|count| count * times)));
    if !exact || processed != processed_once * times || dropped != dropped_once * times {
        return Err(format!(
            "{mode:?}: the counters of {rounds} rounds are not {rounds} times those of one"
        ));
    }
    let growth = memory.most.saturating_sub(memory.least);
    let line = format!(
        "{mode:?}: {} packets of {} flows in {seconds:.0} s, processed {processed}, dropped {dropped}, all counters exact; \
         memory {} KiB to {} KiB in {} looks",
        processed + dropped,
        all.len(),
        memory.least >> 10,
        memory.most >> 10,
        memory.looks
    );
    if memory.looks < 10 {
        return Err(format!("{line}\n  too short to judge memory: increase --packets"));
    }
    if growth > GROWTH_BYTES_MAX {
        return Err(format!("{line}\n  memory grew by {growth} bytes; {GROWTH_BYTES_MAX} are allowed"));
    }
    Ok(line)
}

/// Runs two layouts, and prints what they did.
///
/// # Errors
///
/// Returns an error if a counter is wrong, or memory grows.
pub fn run(options: &Options) -> Result<(), String> {
    let (flows, round) = (options.flows, options.round.max(1));
    let capture = CaptureFile::generate(round, u64::from(flows)).map_err(|error| error.to_string())?;
    let rounds = u32::try_from(options.packets.div_ceil(round)).map_err(|error| error.to_string())?;
    for mode in [Layout::Inline, Layout::Pipeline { workers: 2 }] {
        eprintln!("{}", soak(capture.path(), rounds, flows, mode)?);
    }
    Ok(())
}
