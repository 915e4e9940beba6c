//! `flowloom simulate ordering`.

use clap::{ArgGroup, Args};

use super::traffic::TrafficOptions;
use crate::args::parse;
use crate::args::save::Save;

/// Compare two ways to keep the order of a flow, in virtual time.
///
/// Internal order gives each thread a queue and assigns each flow to one queue. It costs drops,
/// because the queues fill unevenly. External order gives packets to the threads round robin and
/// reorders them at the exit. It costs waiting, for the lock of the flow and for earlier packets.
#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("traffic_from").required(true)))]
#[command(after_help = "\
Examples:
  flowloom simulate ordering --model zipf
  flowloom simulate ordering edge.pcap --threads 64 --queue 512,2048 --locked 10,50,100")]
pub struct Ordering {
    #[command(flatten)]
    pub traffic: TrafficOptions,

    /// Numbers of threads, comma-separated
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32,64", value_name = "N", value_parser = parse::whole::<u32>)]
    pub threads: Vec<u32>,

    /// Maximum lengths of a thread's queue, comma-separated; drops are counted with the most
    /// threads
    #[arg(long, value_delimiter = ',', default_value = "512,1024,2048", value_name = "PACKETS", value_parser = parse::whole::<u32>)]
    pub queue: Vec<u32>,

    /// Percentages of a packet's work that need the state of its flow, comma-separated
    #[arg(long, value_delimiter = ',', default_value = "10,25,50,75,100", value_name = "PERCENT", value_parser = parse::within(0..=100_u32))]
    pub locked: Vec<u32>,

    /// Schedulers that choose the queue for internal order, comma-separated, or `all` schedulers
    /// that keep order
    #[arg(long, value_delimiter = ',', default_value = "crc,dst,dh,flowpin", value_name = "NAMES")]
    pub scheduler: Vec<String>,

    #[command(flatten)]
    pub save: Save,
}
