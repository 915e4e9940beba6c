//! The source of the jobs of a simulation.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args::parse;

/// A capture or a model of traffic: one of the argument group `traffic_from`.
#[derive(Clone, Debug, Args)]
pub struct TrafficOptions {
    /// Captures: files or directories
    #[arg(value_name = "FILE", group = "traffic_from")]
    pub inputs: Vec<PathBuf>,

    /// A model of traffic instead of a capture
    #[arg(long, value_enum, value_name = "NAME", group = "traffic_from")]
    pub model: Option<ModelName>,

    /// Maximum number of packets [default: all of a capture; for a model, as many as the original
    /// capture has]
    #[arg(long, value_name = "N", value_parser = parse::positive)]
    pub packets: Option<u64>,

    /// Seed of models, hashes and all other random values
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = parse::whole::<u64>)]
    pub seed: u64,

    /// Cycles of work per packet of a capture, in addition to the work per byte
    #[arg(long, default_value_t = 500, value_name = "CYCLES", value_parser = parse::whole::<u32>, conflicts_with = "model")]
    pub packet_cycles: u32,

    /// Cycles of work per byte of a capture; a fast matcher takes 11, a slow one 58
    #[arg(long, default_value_t = 11, value_name = "CYCLES", value_parser = parse::whole::<u32>, conflicts_with = "model")]
    pub byte_cycles: u32,

    /// Follow tunnels in captures to the innermost headers
    #[arg(long, conflicts_with = "model")]
    pub decap: bool,
}

/// Models of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModelName {
    /// One flow with half of the packets and 27 % of the work [LFB]
    Dominant,
    /// 100,000 small flows [LFB]
    Many,
    /// Neither one dominant flow nor many small ones [LFB]
    Balanced,
    /// Reassembled buffers for pattern matching [HRWTREE]
    L7,
    /// The same, with one flow that never matches and has 5 % of the jobs
    L7Elephant,
    /// Five thousand flows with Zipf popularity
    Zipf,
    /// Two thousand flows that send packet trains of up to 64 packets
    Bursts,
    /// Four flows with a tenth of the packets each
    Elephants,
    /// Half of the packets crafted to hit one queue of a CRC hash
    Attack,
}
