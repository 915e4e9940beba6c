//! The traces of the items: model S with two parameter sets, and the real day.

use std::fs::File;
use std::io::Read;

use flowloom::tcb_cache::model::{LoggedSessions, Overlap, PacketModel, Ports, Surge, SurgeConfig};
use flowloom::tcb_cache::trace::{Format, ReadLimits, read_log};
use flowloom::tcb_cache::{CacheSpec, Counts, Policy, SimulateError, Simulated, Trace};

use crate::experiment::{Context, ItemError};
use crate::rivals::RivalCache;
use crate::variation::Guess;

/// Path of the real day, relative to the data directory.
const DAY: &str = "logs/nasa_19950801_a.tsv.gz";

/// The comparison method of time stamps, which the paper leaves open.
pub(super) const STAMP_ORDER: Guess = Guess::new(
    "stamp-order",
    "",
    0.0,
    &[1.0],
    "how time stamps are compared: 0 plainly, 1 by their distance to the counter",
);

/// The source ports of sessions, which no log has.
pub(super) const PORTS: Guess = Guess::new(
    "ports",
    "",
    0.0,
    &[1.0, 2.0],
    "source ports, of which each client has 256: 0 skewed (paper-like), 1 uniform, 2 in sequence",
);

/// A note for items that measure what hashing gains.
pub(super) const PORTS_NOTE: &str = "what hashing gains depends on the low bits of the ports, which no log has: --guess ports=1 makes them uniform";

fn ports(context: &Context<'_>) -> Ports {
    match context.guess(&PORTS) {
        ..0.5 => Ports::PAPER_LIKE,
        ..1.5 => Ports::Uniform,
        _ => Ports::Sequential,
    }
}

/// Returns TCB(n) with the context's comparison of stamps.
pub(super) fn stamped(context: &Context<'_>, bits: u32) -> Policy {
    if context.guess(&STAMP_ORDER) > 0.5 {
        Policy::TimestampDistance { bits }
    } else {
        Policy::Timestamp { bits }
    }
}

/// Maximum number of unpacked bytes of the day, which has three million.
const DAY_BYTES_MAX: u64 = 64 << 20;

/// A trace with a name that states its parameters.
pub(super) struct Workload {
    /// Short name for rows and legends.
    pub(super) short: &'static str,
    /// Model, number of concurrent sessions, seed, length.
    pub(super) about: String,
    /// Whether the bands of model S apply.
    pub(super) is_model: bool,
    pub(super) trace: Trace,
}

/// A miss ratio over draws of the index functions.
#[derive(Clone, Debug)]
pub(super) struct Misses {
    /// The mean, in percent.
    pub(super) percent: f64,
    /// The miss ratio of each draw, in percent.
    pub(super) draws: Vec<f64>,
    /// Counts of all draws.
    pub(super) counts: Counts,
}

impl Misses {
    /// Returns the median draw in percent. The few bad draws of [TCBCACHE §4.1] affect it less than
    /// the mean.
    pub(super) fn median(&self) -> f64 {
        median(&self.draws)
    }
}

/// Returns the median; of an even number of values, the upper of the two middle ones.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns the seed of a draw of the index functions.
pub(super) fn draw_seed(context: &Context<'_>, draw: u32) -> u64 {
    context.seed.wrapping_mul(1000).wrapping_add(u64::from(draw))
}

/// Returns model S with a number of concurrent sessions, and pauses multiplied by `think`.
pub(super) fn model_s(
    context: &Context<'_>,
    sessions: u32,
    think: f64,
    accesses: usize,
) -> Result<Workload, ItemError> {
    model_s_from(context, sessions, think, accesses, ports(context))
}

/// Returns model S with the given source ports.
pub(super) fn model_s_from(
    context: &Context<'_>,
    sessions: u32,
    think: f64,
    accesses: usize,
    ports: Ports,
) -> Result<Workload, ItemError> {
    context.check_stop()?;
    let mut source =
        Surge::new(SurgeConfig { think_factor: think, ..SurgeConfig::default() }, context.seed);
    let workload = Overlap { ports, ..overlap(context, sessions, accesses) }
        .make(&mut source)
        .map_err(ItemError::during("overlapping sessions"))?;
    let warm = accesses / 4;
    Ok(Workload {
        short: if think < 10.0 { "S think 4" } else { "S think 16" },
        about: format!(
            "model S, N = {sessions} concurrent sessions, think × {think}, {ports} ports, seed {}, {accesses} accesses of which {warm} warm the cache",
            context.seed
        ),
        is_model: true,
        trace: Trace::new(workload.accesses, warm),
    })
}

fn overlap(context: &Context<'_>, sessions: u32, accesses: usize) -> Overlap {
    Overlap {
        sessions,
        accesses,
        packets: PacketModel::default(),
        ports: ports(context),
        seed: context.seed,
    }
}

/// Returns the sessions of the real day, if available.
pub(super) fn day(context: &Context<'_>) -> Result<Option<LoggedSessions>, ItemError> {
    let Some(path) = context.data_file(DAY) else { return Ok(None) };
    let file = File::open(&path).map_err(ItemError::during("opening the real day"))?;
    let unpacked = flate2::read::MultiGzDecoder::new(file).take(DAY_BYTES_MAX);
    let (entries, _) = read_log(unpacked, Format::Tsv, ReadLimits::default())
        .map_err(ItemError::during("reading the real day"))?;
    Ok(Some(LoggedSessions::cut(entries, Some(context.seed))))
}

/// Returns the overlapped sessions of the real day, if available.
pub(super) fn day_overlapped(
    context: &Context<'_>,
    sessions: u32,
    accesses: usize,
) -> Result<Option<Workload>, ItemError> {
    let Some(day) = day(context)? else { return Ok(None) };
    context.check_stop()?;
    let workload = overlap(context, sessions, accesses)
        .make(&mut day.drawn())
        .map_err(ItemError::during("overlapping the day's sessions"))?;
    let warm = accesses / 4;
    Ok(Some(Workload {
        short: "NASA day",
        about: format!(
            "sessions of the NASA day drawn at random, N = {sessions} at a time, {} ports, seed {}, {accesses} accesses of which {warm} warm the cache",
            ports(context),
            context.seed
        ),
        is_model: false,
        trace: Trace::new(workload.accesses, warm),
    }))
}

/// Returns the number of accesses of a trace at the context's scale.
pub(super) fn length(context: &Context<'_>) -> usize {
    context.scale.pick(150_000, 400_000, 1_000_000)
}

/// Returns the number of draws of index functions at the context's scale.
pub(super) fn draws(context: &Context<'_>) -> u32 {
    context.scale.pick(1, 3, 5)
}

/// Returns the traces that most items use: the model with one or two parameter sets, and the real
/// day if available.
pub(super) fn workloads(context: &Context<'_>) -> Result<Vec<Workload>, ItemError> {
    let accesses = length(context);
    let mut workloads = vec![model_s(context, 1600, 4.0, accesses)?];
    if context.scale.pick(false, true, true) {
        workloads.push(model_s(context, 6400, 16.0, accesses)?);
    }
    workloads.extend(day_overlapped(context, 970, accesses)?);
    Ok(workloads)
}

/// Simulates a cache with several draws of its index functions.
pub(super) fn misses(
    context: &Context<'_>,
    trace: &Trace,
    spec: CacheSpec,
    draws: u32,
) -> Result<Misses, ItemError> {
    several(context, spec, draws, |spec, stop| trace.simulate(spec, None, stop))
}

/// Simulates the cache of a rival, with the geometry and the draws of this specification.
pub(super) fn rival_misses(
    context: &Context<'_>,
    trace: &Trace,
    rival: &RivalCache,
    spec: CacheSpec,
    draws: u32,
) -> Result<Misses, ItemError> {
    several(context, spec, draws, |spec, stop| trace.simulate_with(&mut *(rival.make)(spec), stop))
}

fn several(
    context: &Context<'_>,
    spec: CacheSpec,
    draws: u32,
    simulate: impl Fn(&CacheSpec, &dyn Fn() -> bool) -> Result<Simulated, SimulateError>,
) -> Result<Misses, ItemError> {
    let stop = || !(context.go_on)();
    let mut counts = Counts::default();
    let mut ratios = Vec::new();
    for draw in 0..draws {
        match simulate(&CacheSpec { seed: draw_seed(context, draw), ..spec }, &stop) {
            Ok(Simulated::Finished(found)) => {
                ratios.push(found.miss_ratio() * 100.0);
                counts = counts + found;
            }
            Ok(Simulated::Stopped) => return Err(ItemError::Interrupted),
            Err(error) => return Err(ItemError::during("simulating a cache")(error)),
        }
    }
    let percent = ratios.iter().sum::<f64>() / ratios.len().max(1) as f64;
    Ok(Misses { percent, draws: ratios, counts })
}

/// Returns the descriptions of workloads as notes.
pub(super) fn notes(workloads: &[Workload]) -> Vec<String> {
    let mut notes: Vec<String> =
        workloads.iter().map(|workload| format!("{}: {}", workload.short, workload.about)).collect();
    if workloads.iter().all(|workload| workload.is_model) {
        notes.push(String::from("the real day is not in the data directory, so only the model was run"));
    }
    notes
}
