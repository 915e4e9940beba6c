//! Where the jobs of a simulation come from.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args::parse;

/// A capture, or a model of traffic: one of the group `traffic_from`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TrafficOptions {
    /// Captures: files or directories
    #[arg(value_name = "FILE", group = "traffic_from")]
    pub(crate) inputs: Vec<PathBuf>,

    /// A model of traffic instead of a capture
    #[arg(long, value_enum, value_name = "NAME", group = "traffic_from")]
    pub(crate) model: Option<ModelName>,

    /// Packets at most [default: all of a capture, as many as its capture had of a model]
    #[arg(long, value_name = "N", value_parser = parse::positive)]
    pub(crate) packets: Option<u64>,

    /// Seed of models, hashes and everything random
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = parse::whole::<u64>)]
    pub(crate) seed: u64,

    /// Cycles of work for a packet of a capture, beside its bytes
    #[arg(long, default_value_t = 500, value_name = "CYCLES", value_parser = parse::whole::<u32>, conflicts_with = "model")]
    pub(crate) packet_cycles: u32,

    /// Cycles of work for each byte of a packet of a capture; 11 is a fast matcher's measured
    /// speed, 58 a slow one's
    #[arg(long, default_value_t = 11, value_name = "CYCLES", value_parser = parse::whole::<u32>, conflicts_with = "model")]
    pub(crate) byte_cycles: u32,

    /// Follow tunnels of a capture to the innermost headers
    #[arg(long, conflicts_with = "model")]
    pub(crate) decap: bool,
}

/// Models of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModelName {
    /// One flow has half of the packets and 27 % of the work [LFB]
    Dominant,
    /// A hundred thousand small flows [LFB]
    Many,
    /// Neither [LFB]
    Balanced,
    /// Reassembled buffers to be matched [HRWTREE]
    L7,
    /// The same, and one flow that never matches has 5 % of the jobs
    L7Elephant,
    /// Five thousand flows whose shares fall with their rank
    Zipf,
    /// Two thousand flows that send trains of up to 64 packets
    Bursts,
    /// Four flows with a tenth of the packets each
    Elephants,
    /// Half of the packets crafted for one queue of a CRC
    Attack,
}
