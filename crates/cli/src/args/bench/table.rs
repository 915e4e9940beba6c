//! Arguments of `bench table`.

use clap::{Args, ValueEnum};

use crate::args::parse;
use crate::args::save::Save;

/// Compare flow tables.
///
/// Every flow is looked up once a round in shuffled order, its state included. The answers of all
/// tables must be equal before a time is taken. The first table named is the one that the others
/// are compared with.
#[derive(Debug, Args)]
pub(crate) struct Table {
    /// Tables, the first against the others
    #[arg(long = "table", value_enum, value_delimiter = ',', value_name = "NAME,…",
          default_values_t = [TableName::Linehash, TableName::Dhash, TableName::Sighash, TableName::Direct,
                              TableName::Chained, TableName::Std])]
    pub(crate) tables: Vec<TableName>,

    /// What is timed
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WORK,…",
          default_values_t = [WorkName::Hit, WorkName::Single, WorkName::Dependent, WorkName::Miss, WorkName::Churn,
                              WorkName::Build])]
    pub(crate) work: Vec<WorkName>,

    /// Numbers of flows
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = parse::count, default_values = ["64k", "1M"])]
    pub(crate) flows: Vec<u64>,

    /// Keys of a batch
    #[arg(long, value_name = "N", value_parser = parse::count, default_value = "256")]
    pub(crate) batch: u64,

    /// Bytes of a key
    #[arg(long, value_enum, default_value_t = KeyName::V4)]
    pub(crate) key: KeyName,

    /// Rounds; fewer than six are too few to say
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = parse::whole::<usize>)]
    pub(crate) rounds: usize,

    /// Seed of order and hash
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse::whole::<u64>)]
    pub(crate) seed: u64,

    /// Instruction set of the tables that have a choice
    #[arg(long, value_name = "ISA", default_value = "auto")]
    pub(crate) isa: String,

    #[command(flatten)]
    pub(crate) save: Save,
}

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableName {
    /// Thirty signatures a line; the one to use
    Linehash,
    /// Sixteen signatures a line [DHASH]
    Dhash,
    /// Four signatures a word [FLOWNP]
    Sighash,
    /// Entries in buckets, lists behind them
    Direct,
    /// Lists
    Chained,
    /// The standard library's map
    Std,
}

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkName {
    /// Flows that are there, in batches
    Hit,
    /// The same, their states asked for two batches before
    HitAhead,
    /// Flows that are there, one by one
    Single,
    /// The same, each when the answer before is there
    Dependent,
    /// Flows that are not there, in batches
    Miss,
    /// A flow removed and a new one put in
    Churn,
    /// An empty table filled
    Build,
    /// Flows that an attacker made share one CRC, against random ones
    Flood,
}

/// Bytes of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyName {
    /// Sixteen
    V4,
    /// Forty
    V6,
}
