//! Arguments of `bench table`.

use clap::{Args, ValueEnum};

use crate::args::parse;
use crate::args::save::Save;

/// Compare flow tables.
///
/// Each round looks up every flow once, in shuffled order, and reads its state. The answers of all
/// tables must be equal before the bench takes a time. The first table is the one with which the
/// others are compared.
#[derive(Debug, Args)]
pub struct Table {
    /// Tables; the first is compared with the others
    #[arg(long = "table", value_enum, value_delimiter = ',', value_name = "NAME,…",
          default_values_t = [TableName::Linehash, TableName::Dhash, TableName::Sighash, TableName::Direct,
                              TableName::Chained, TableName::Std])]
    pub tables: Vec<TableName>,

    /// Work to time
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WORK,…",
          default_values_t = [WorkName::Hit, WorkName::Single, WorkName::Dependent, WorkName::Miss, WorkName::Churn,
                              WorkName::Build])]
    pub work: Vec<WorkName>,

    /// Numbers of flows
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = parse::count, default_values = ["64k", "1M"])]
    pub flows: Vec<u64>,

    /// Keys per batch
    #[arg(long, value_name = "N", value_parser = parse::count, default_value = "256")]
    pub batch: u64,

    /// Size of a key
    #[arg(long, value_enum, default_value_t = KeyName::V4)]
    pub key: KeyName,

    /// Rounds; fewer than six give no interval
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = parse::whole::<usize>)]
    pub rounds: usize,

    /// Seed for order and hash
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse::whole::<u64>)]
    pub seed: u64,

    /// Instruction set for the tables that support several
    #[arg(long, value_name = "ISA", default_value = "auto")]
    pub isa: String,

    #[command(flatten)]
    pub save: Save,
}

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TableName {
    /// Thirty signatures per line; the default of `replay`
    Linehash,
    /// Sixteen signatures per line [DHASH]
    Dhash,
    /// Four signatures per word [FLOWNP]
    Sighash,
    /// Entries in buckets, with overflow lists
    Direct,
    /// Chained lists
    Chained,
    /// The standard library's map
    Std,
}

/// The work to time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WorkName {
    /// Lookups of present flows, in batches
    Hit,
    /// The same, with states prefetched two batches ahead
    HitAhead,
    /// Lookups of present flows, one at a time
    Single,
    /// The same, each waiting for the answer to the previous one
    Dependent,
    /// Lookups of absent flows, in batches
    Miss,
    /// Removal of a flow and insertion of a new one
    Churn,
    /// Filling an empty table
    Build,
    /// Flows with one CRC, made by an attacker, compared with random flows
    Flood,
}

/// Size of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KeyName {
    /// 16 bytes
    V4,
    /// 40 bytes
    V6,
}
