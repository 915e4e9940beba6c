//! `flowloom bench`: a file for each thing that is compared.

pub(crate) mod against;
pub(crate) mod classify;
pub(crate) mod pipeline;
pub(crate) mod schedule;
pub(crate) mod table;

use clap::Subcommand;

/// Compare our parts with each other and the whole with other programs: interleaved rounds, answers
/// checked, ratios with intervals.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Whole programs on a capture: this one, nfpcapd, softflowd, tshark, `NFStream`, yours
    Against(against::Against),
    /// Flow tables, the standard library's map, and what no table can beat
    Table(table::Table),
    /// Ways to classify: FlowCuts, linear search, the paper's trees
    Classify(classify::Classify),
    /// The packet path: stages, scaling over workers, latency
    ///
    /// Stages are timed by the processor time of one thread, scaling by the wall. Latency is open
    /// loop: every packet is due at a time that does not move, and its latency counts from there,
    /// so a pause is charged to all that were due in it.
    ///
    /// Threads that work together depend on how far apart their CPUs are, and the host of a virtual
    /// machine moves these. So a cache line is timed between them, to the furthest and back, before
    /// the first round of scaling and after each. Where rounds are near and far, at least half as
    /// far again, either kind has rows of its own; rounds in which it changed have none, and are
    /// counted.
    Pipeline(pipeline::Pipeline),
    /// What a scheduler's decision costs
    Schedule(schedule::Schedule),
}
