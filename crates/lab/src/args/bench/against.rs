//! Arguments of `bench against`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args::parse;
use crate::args::save::Save;

/// Compare whole programs on a capture: this one and others that write flow records.
///
/// Each round runs every program once, in changing order. Time is the processor time of all threads
/// and the wall time, start-up included. Memory is the largest resident set of a program's main
/// process. Before the first round each program runs once. It must report as many packets as the
/// capture has, or as many as have a flow key; a program that is off by more than 3 % gets no row.
///
/// Each rival is compared with the `flowloom` command that does the same kind of work: nfpcapd,
/// softflowd and a command of yours with records written as IPFIX, tshark with a table of
/// conversations, `NFStream` with records with all additional fields.
///
/// The interval of a ratio is wider than that of other benches: a second run of at least nine
/// rounds has its median in it with a probability of 97 %, if the state of the machine is the same.
#[derive(Debug, Args)]
pub struct Against {
    /// Capture: pcap or pcapng, plain or compressed with zstd [default: a generated mixture]
    #[arg(value_name = "CAPTURE")]
    pub capture: Option<PathBuf>,

    /// Packets of the generated mixture; 20 per flow
    #[arg(
        long,
        value_name = "N",
        value_parser = parse::positive,
        default_value = "1M",
        conflicts_with = "capture"
    )]
    pub packets: u64,

    /// Rivals [default: the installed ones]
    #[arg(long = "rival", value_enum, value_delimiter = ',', value_name = "NAME,…")]
    pub rivals: Vec<RivalName>,

    /// Python interpreter with the package nfstream
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub python: PathBuf,

    /// Rounds; fewer than six give no interval
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = parse::whole::<usize>)]
    pub rounds: usize,

    #[command(flatten)]
    pub save: Save,

    /// A further program, after --; {capture} stands for the capture, {out} for an empty folder.
    ///
    /// If its last line of output is a JSON object with "packets", that number is checked.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// A program whose output `bench against` understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RivalName {
    /// `nfpcapd -r`: records in nfdump's format
    Nfpcapd,
    /// `softflowd -r`: records sent as NetFlow 9 to a local port
    Softflowd,
    /// `tshark -z conv,tcp -z conv,udp`: tables of conversations
    Tshark,
    /// `NFStream` with statistics, first packets and labels
    Nfstream,
    /// Only this program, and the command after --
    None,
}
