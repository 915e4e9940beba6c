//! Arguments of `bench classify`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args::generate::{ProfileName, TrafficName};
use crate::args::parse;
use crate::args::rules::FileOptions;
use crate::args::save::Save;

/// Compare classification algorithms.
///
/// Each round looks up every header once. The answers of all variants must be equal before the
/// bench takes a time. The first variant is the one with which the others are compared.
#[derive(Debug, Args)]
pub struct Classify {
    /// Rules, as `classify` reads them [default: generated]
    #[arg(long, value_name = "RULES")]
    pub rules: Option<PathBuf>,

    #[command(flatten)]
    pub file: FileOptions,

    /// Kind of the generated rule sets
    #[arg(long, value_enum, default_value_t = ProfileName::Acl, conflicts_with = "rules")]
    pub profile: ProfileName,

    /// Number of rules in the generated sets
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = parse::positive, default_values = ["1k", "10k"],
          conflicts_with = "rules")]
    pub sizes: Vec<u64>,

    /// Kind of headers
    #[arg(long, value_enum, value_delimiter = ',', value_name = "KIND,…",
          default_values_t = [TrafficName::Hits, TrafficName::Misses, TrafficName::Zipf])]
    pub traffic: Vec<TrafficName>,

    /// Headers per round
    #[arg(long, value_name = "N", value_parser = parse::positive, default_value = "64k")]
    pub headers: u64,

    /// Variants; the first is compared with the others
    #[arg(long = "variant", value_enum, value_delimiter = ',', value_name = "NAME,…",
          default_values_t = [VariantName::Flowcuts, VariantName::Avx2, VariantName::Scalar, VariantName::Linear,
                              VariantName::Aggrecuts8, VariantName::Aggrecuts4])]
    pub variants: Vec<VariantName>,

    /// Headers per batch
    #[arg(long, value_name = "N", value_parser = parse::positive, default_value = "256")]
    pub batch: u64,

    /// Rounds; fewer than six give no interval
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = parse::whole::<usize>)]
    pub rounds: usize,

    /// Seed for rules and headers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse::whole::<u64>)]
    pub seed: u64,

    #[command(flatten)]
    pub save: Save,
}

/// A classification algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum VariantName {
    /// FlowCuts with the default plan, on the best instruction set
    Flowcuts,
    /// FlowCuts with AVX2
    Avx2,
    /// FlowCuts without vector instructions
    Scalar,
    /// Linear search, eight rules at a time
    Linear,
    /// AggreCuts, eight bits per node [FLOWNP]; up to 2,000 rules
    Aggrecuts8,
    /// AggreCuts, four bits per node [FLOWNP]; up to 2,000 rules
    Aggrecuts4,
}
