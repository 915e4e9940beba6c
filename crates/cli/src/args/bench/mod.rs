//! `flowloom bench`: a file for each thing that is compared.

pub(crate) mod classify;
pub(crate) mod pipeline;
pub(crate) mod schedule;
pub(crate) mod table;

use clap::Subcommand;

/// Compare our parts with each other: interleaved rounds, answers checked, ratios with intervals.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Flow tables, the standard library's map, and what no table can beat
    Table(table::Table),
    /// Ways to classify: FlowCuts, linear search, the paper's trees
    Classify(classify::Classify),
    /// The packet path: stages, scaling over workers, latency
    Pipeline(pipeline::Pipeline),
    /// What a scheduler's decision costs
    Schedule(schedule::Schedule),
}
