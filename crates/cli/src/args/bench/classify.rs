//! Arguments of `bench classify`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args::generate::{ProfileName, TrafficName};
use crate::args::parse;
use crate::args::rules::FileOptions;
use crate::args::save::Save;

/// Compare ways to classify.
///
/// Every header is looked up once a round. The answers of all variants must be equal before a time
/// is taken. The first variant named is the one that the others are compared with.
#[derive(Debug, Args)]
pub(crate) struct Classify {
    /// Rules, as `classify` reads them [default: generated]
    #[arg(long, value_name = "RULES")]
    pub(crate) rules: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) file: FileOptions,

    /// Kind of generated sets
    #[arg(long, value_enum, default_value_t = ProfileName::Acl, conflicts_with = "rules")]
    pub(crate) profile: ProfileName,

    /// Rules of generated sets
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = parse::positive, default_values = ["1k", "10k"],
          conflicts_with = "rules")]
    pub(crate) sizes: Vec<u64>,

    /// What the headers are like
    #[arg(long, value_enum, value_delimiter = ',', value_name = "KIND,…",
          default_values_t = [TrafficName::Hits, TrafficName::Misses, TrafficName::Zipf])]
    pub(crate) traffic: Vec<TrafficName>,

    /// Headers of a round
    #[arg(long, value_name = "N", value_parser = parse::positive, default_value = "64k")]
    pub(crate) headers: u64,

    /// Variants, the first against the others
    #[arg(long = "variant", value_enum, value_delimiter = ',', value_name = "NAME,…",
          default_values_t = [VariantName::Flowcuts, VariantName::Avx2, VariantName::Scalar, VariantName::Linear,
                              VariantName::Aggrecuts8, VariantName::Aggrecuts4])]
    pub(crate) variants: Vec<VariantName>,

    /// Keys of a batch
    #[arg(long, value_name = "N", value_parser = parse::positive, default_value = "256")]
    pub(crate) batch: u64,

    /// Rounds; fewer than six are too few to say
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = parse::whole::<usize>)]
    pub(crate) rounds: usize,

    /// Seed of rules and headers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse::whole::<u64>)]
    pub(crate) seed: u64,

    #[command(flatten)]
    pub(crate) save: Save,
}

/// A way to classify.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VariantName {
    /// FlowCuts as planned, on the best instruction set
    Flowcuts,
    /// The same with AVX2
    Avx2,
    /// The same without vector instructions
    Scalar,
    /// One rule after the other, eight at a time
    Linear,
    /// AggreCuts, eight bits a node [FLOWNP]; up to 2,000 rules
    Aggrecuts8,
    /// AggreCuts, four bits a node [FLOWNP]; up to 2,000 rules
    Aggrecuts4,
}
