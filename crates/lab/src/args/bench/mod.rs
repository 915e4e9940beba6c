//! `flowloom bench`: one file per comparison.

pub mod against;
pub mod classify;
pub mod pipeline;
pub mod schedule;
pub mod table;

use clap::Subcommand;

/// Compare parts of Flowloom with each other, and the whole with other programs. Rounds are
/// interleaved, answers are checked, and ratios have intervals.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Whole programs on a capture: this one, nfpcapd, softflowd, tshark, `NFStream`, and one of
    /// yours
    Against(against::Against),
    /// Flow tables, the standard library's map, and the lower bound
    Table(table::Table),
    /// Classification algorithms: FlowCuts, linear search, the paper's trees
    Classify(classify::Classify),
    /// The packet path: stages, scaling over workers, latency
    ///
    /// Stages are timed by the processor time of one thread, scaling by wall time. Latency is open
    /// loop: every packet has a fixed due time, and its latency counts from that time. A pause
    /// therefore delays every packet that was due during it.
    ///
    /// The speed of cooperating threads depends on the distance between their CPUs, which the host
    /// of a virtual machine changes. The bench therefore measures the round-trip time of a cache
    /// line between the furthest of these CPUs before the first round of scaling and after each
    /// round. If the times of rounds differ by half or more, near and far rounds get separate rows.
    /// A round in which the distance changed gets no row and is counted.
    Pipeline(pipeline::Pipeline),
    /// Cost of a scheduling decision
    Schedule(schedule::Schedule),
}
