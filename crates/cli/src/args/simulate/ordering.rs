//! `flowloom simulate ordering`.

use clap::{ArgGroup, Args};

use super::traffic::TrafficOptions;
use crate::args::parse;
use crate::args::save::Save;

/// Compare two ways to keep a flow's order, in virtual time.
///
/// Internal order gives each thread a queue and a flow to one of them; what it costs is drops, for
/// the queues are uneven. External order gives packets to threads in turn and puts them in order at
/// the exit; what it costs is waiting, for the flow's lock and for the packets before.
#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("traffic_from").required(true)))]
#[command(after_help = "\
Examples:
  flowloom simulate ordering --model zipf
  flowloom simulate ordering edge.pcap --threads 64 --queue 512,2048 --locked 10,50,100")]
pub(crate) struct Ordering {
    #[command(flatten)]
    pub(crate) traffic: TrafficOptions,

    /// Threads, by comma
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32,64", value_name = "N", value_parser = parse::whole::<u32>)]
    pub(crate) threads: Vec<u32>,

    /// Bounds of a thread's queue, by comma; drops are counted with the most threads
    #[arg(long, value_delimiter = ',', default_value = "512,1024,2048", value_name = "PACKETS", value_parser = parse::whole::<u32>)]
    pub(crate) queue: Vec<u32>,

    /// Percentages of a packet's work that are on its flow's state, by comma
    #[arg(long, value_delimiter = ',', default_value = "10,25,50,75,100", value_name = "PERCENT", value_parser = parse::within(0..=100_u32))]
    pub(crate) locked: Vec<u32>,

    /// Who chooses the queue of internal order, by comma: schedulers that keep it, or `all` of them
    #[arg(long, value_delimiter = ',', default_value = "crc,dst,dh,flowpin", value_name = "NAMES")]
    pub(crate) scheduler: Vec<String>,

    #[command(flatten)]
    pub(crate) save: Save,
}
