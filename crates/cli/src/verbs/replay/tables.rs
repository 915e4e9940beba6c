//! The flow tables of a run, sized by arguments, a sample of the captures and the memory.

use std::sync::Arc;

use flowloom::apps::accounting::fields::FieldMemory;
use flowloom::cpu::features::Isa;
use flowloom::cpu::pages::HugePages;
use flowloom::engine::{EngineConfig, Layout};
use flowloom::flow_key::FlowKey;
use flowloom::flow_table::baseline::{Chained, ChainedConfig, DirectTable, DirectTableConfig};
use flowloom::flow_table::dhash::ReferenceDHash;
use flowloom::flow_table::dhash::major_location::Folded;
use flowloom::flow_table::dhash::signature::SignatureAlgorithm;
use flowloom::flow_table::segments::GrowthLimits;
use flowloom::flow_table::{
    BuildError, DHash, DHashConfig, FlowTable, Growing, SigHash, SigHashConfig, Timeouts,
};
use flowloom::scheduler::OrderGuarantee;
use flowloom::traffic::capture::SetOptions;

use crate::args::replay::{HugePagesName, MajorLocationName, Replay, SignatureName, TableName};
use crate::exit::{Failure, TableError};
use crate::growing_table::{SegmentOptions, fitted, growing_linehash};
use crate::memory_budget::{FieldShare, Shares};

use super::flow_guess;
use super::source::Source;

/// Refuses more flows than so many tables can number.
fn check_flows(option: &str, flows: u64, tables: u64, each_max: u32) -> Result<(), Failure> {
    let flows_max = tables * u64::from(each_max);
    if flows <= flows_max {
        return Ok(());
    }
    let whose = if tables == 1 { String::from("a flow table") } else { format!("{tables} flow tables") };
    Err(Failure::Usage(format!(
        "{option} {flows}: {whose} can number {flows_max} flows\n  use a smaller {option}"
    )))
}

/// What takes memory in a run besides its tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryOf<'a> {
    pub(super) fields: Option<&'a FieldMemory>,
    pub(super) record_bytes: usize,
    /// Bytes of a flow outside of its slot.
    pub(super) beside_bytes: usize,
    pub(super) labels_bytes: usize,
}

impl MemoryOf<'_> {
    /// Returns the bytes of records on their way to an output, of a file format that collects
    /// records, and of labels.
    fn others_bytes(&self, config: &EngineConfig) -> u64 {
        const FILE_BYTES: usize = 64 << 20;
        let records = EngineConfig::QUEUED_RECORDS_MAX + 512 * config.layout.workers();
        (records * self.record_bytes + FILE_BYTES + self.labels_bytes) as u64
    }
}

/// The flow tables of a run; all workers have the same kind.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    limits: GrowthLimits,
    /// Whether an option gives the flows of the first segment.
    is_given: bool,
    fields: Option<Arc<FieldShare>>,
    timeouts: Timeouts,
    isa: Isa,
    huge_pages: HugePages,
    memory_limit_bytes: u64,
    /// Bytes that a flow takes outside of its slot.
    beside_bytes: u64,
    /// The signature and the major location of [DHASH], if an option asks for the paper's search.
    pub(super) published: Option<(SignatureAlgorithm, Option<Folded>)>,
}

fn published(arguments: &Replay) -> Option<(SignatureAlgorithm, Option<Folded>)> {
    let signature = match arguments.signature {
        None | Some(SignatureName::Keyed) => SignatureAlgorithm::Keyed,
        Some(SignatureName::One) => SignatureAlgorithm::One,
        Some(SignatureName::Two) => SignatureAlgorithm::Two,
        Some(SignatureName::Three) => SignatureAlgorithm::Three,
        Some(SignatureName::Four) => SignatureAlgorithm::Four,
    };
    let major = (arguments.major_location != Some(MajorLocationName::Off)).then_some(Folded);
    let is_asked_for = arguments.signature.is_some() || arguments.major_location.is_some();
    is_asked_for.then_some((signature, major))
}

/// The table of one worker, or the reason for a failure.
type Built<T> = Result<T, TableError>;

impl Tables {
    /// Determines the sizes of the tables from the arguments or from a sample of the captures.
    pub(super) fn plan(
        arguments: &Replay,
        config: &EngineConfig,
        order: OrderGuarantee,
        source: &Source,
        options: SetOptions,
        isa: Isa,
        memory: MemoryOf<'_>,
    ) -> Result<Self, Failure> {
        let tables = config.tables(order) as u64;
        // A growing table consists of segments, each limited to the flows that one table can
        // number.
        let first_max = match arguments.table {
            TableName::Sighash => SigHashConfig::FLOWS_MAX,
            TableName::Linehash | TableName::Dhash => DHashConfig::FLOWS_MAX,
            TableName::Chained => ChainedConfig::FLOWS_MAX,
            TableName::Direct => DirectTableConfig::FLOWS_MAX,
        };
        check_flows("--table-flows", arguments.table_flows.unwrap_or(0), tables, first_max)?;
        check_flows("--flows-max", arguments.flows_max, tables, DHashConfig::FLOWS_MAX)?;
        let guess = || flow_guess::guess(&source.paths(), source.bytes_on_disk(), options, config.decode);
        let flows = arguments.table_flows.unwrap_or_else(guess);
        // Tables get unequal shares of the flows; four standard deviations above the mean suffice
        // nearly always.
        let is_hashed = tables > 1
            && (matches!(config.layout, Layout::Sharded { .. }) || tables > config.layout.workers() as u64);
        let share = |flows: u64| {
            let equal = flows.div_ceil(tables);
            let more = if is_hashed { 4 * equal.isqrt() + 4 } else { 0 };
            u32::try_from(equal + more).unwrap_or(u32::MAX)
        };
        let Shares { tables_bytes, fields } =
            arguments.budget().divide(memory.others_bytes(config), memory.fields)?;
        // What flows keep outside of the tables takes its share of their memory.
        let (all, beside) = (memory.record_bytes as u64, memory.beside_bytes as u64);
        let memory_max_bytes = tables_bytes / tables / all.max(1) * (all - beside);
        Ok(Self {
            limits: GrowthLimits {
                first_flows: share(flows).min(first_max),
                // The run has a limit of its own for several tables.
                flows_max: u32::try_from(arguments.flows_max)
                    .unwrap_or(u32::MAX)
                    .min(DHashConfig::FLOWS_MAX),
                memory_max_bytes,
            },
            is_given: arguments.table_flows.is_some(),
            fields,
            timeouts: config.timeouts().for_table(),
            isa,
            huge_pages: match arguments.hugepages {
                HugePagesName::Auto => HugePages::Try,
                HugePagesName::Off => HugePages::No,
            },
            memory_limit_bytes: memory_max_bytes,
            beside_bytes: beside,
            published: published(arguments),
        })
    }

    /// Builds a table. An estimate of its first segment yields to the memory that there is.
    fn build<T>(&self, build: impl FnMut(GrowthLimits) -> Result<T, BuildError>) -> Result<T, TableError> {
        let mut build = build;
        if self.is_given {
            return build(self.limits).map_err(TableError::Given);
        }
        fitted(self.limits, build).map_err(TableError::Estimated)
    }

    pub(super) fn linehash<V: Send + 'static>(&self) -> Built<impl FlowTable<FlowKey, V> + Send + use<V>> {
        let Self { timeouts, isa, huge_pages, memory_limit_bytes, .. } = *self;
        let beside_bytes = self.beside_bytes;
        let options =
            SegmentOptions { timeouts, isa, huge_pages, memory_limit_bytes, beside_bytes, prefault: false };
        self.build(|limits| growing_linehash(limits, options, self.fields.clone()))
    }

    /// Returns a growing table of segments that `segment` builds, with the settings that all tables
    /// share.
    fn growing<V, T, B>(&self, segment: B) -> Built<impl FlowTable<FlowKey, V> + Send + use<V, T, B>>
    where
        V: Send + 'static,
        T: FlowTable<FlowKey, V> + Send,
        B: Fn(u32, Shared) -> Result<T, BuildError> + Copy + Send,
    {
        let Self { timeouts, isa, huge_pages, memory_limit_bytes, .. } = *self;
        let shared = Shared { timeouts, isa, huge_pages, memory_limit_bytes };
        let (fields, beside_bytes) = (self.fields.clone(), self.beside_bytes);
        self.build(move |limits| {
            let fields = fields.clone();
            Growing::try_new(limits, move |flows| {
                let table = segment(flows, shared)?;
                if let Some(fields) = &fields {
                    fields.opened(table.memory().total_bytes() + u64::from(flows) * beside_bytes);
                }
                Ok(table)
            })
        })
    }

    pub(super) fn dhash<V: Send + 'static>(&self) -> Built<impl FlowTable<FlowKey, V> + Send + use<V>> {
        self.growing(|flows, Shared { timeouts, isa, huge_pages, memory_limit_bytes }| {
            let usual = DHashConfig { isa: Some(isa), ..DHashConfig::for_flows(flows) };
            DHash::<FlowKey, V>::try_new(&DHashConfig { timeouts, huge_pages, memory_limit_bytes, ..usual })
        })
    }

    /// Returns the table of [DHASH] as published, which counts the steps of its searches.
    pub(super) fn published_dhash<V: Send + 'static>(
        &self,
        (signature, major): (SignatureAlgorithm, Option<Folded>),
    ) -> Built<impl FlowTable<FlowKey, V> + Send + use<V>> {
        self.growing(move |flows, Shared { timeouts, huge_pages, memory_limit_bytes, .. }| {
            let usual = DHashConfig::for_flows(flows);
            let config = DHashConfig { timeouts, huge_pages, memory_limit_bytes, ..usual };
            ReferenceDHash::<FlowKey, V, _, _>::with(&config, signature, major)
                .map(ReferenceDHash::<FlowKey, V, _, _>::counting)
        })
    }

    pub(super) fn sighash<V: Send + 'static>(&self) -> Built<impl FlowTable<FlowKey, V> + Send + use<V>> {
        self.growing(|flows, Shared { timeouts, huge_pages, memory_limit_bytes, .. }| {
            let usual = SigHashConfig::for_flows(flows);
            SigHash::<FlowKey, V>::try_new(&SigHashConfig {
                timeouts,
                huge_pages,
                memory_limit_bytes,
                ..usual
            })
        })
    }

    pub(super) fn chained<V: Send + 'static>(&self) -> Built<impl FlowTable<FlowKey, V> + Send + use<V>> {
        self.growing(|flows, Shared { timeouts, huge_pages, memory_limit_bytes, .. }| {
            let usual = ChainedConfig::for_flows(flows);
            Chained::<FlowKey, V>::try_new(&ChainedConfig {
                timeouts,
                huge_pages,
                memory_limit_bytes,
                ..usual
            })
        })
    }

    pub(super) fn direct<V: Send + 'static>(&self) -> Built<impl FlowTable<FlowKey, V> + Send + use<V>> {
        self.growing(|flows, Shared { timeouts, huge_pages, memory_limit_bytes, .. }| {
            let usual = DirectTableConfig::for_flows(flows);
            DirectTable::<FlowKey, V>::try_new(&DirectTableConfig {
                timeouts,
                huge_pages,
                memory_limit_bytes,
                ..usual
            })
        })
    }
}

/// The settings of a table that do not depend on its kind.
#[derive(Clone, Copy)]
struct Shared {
    timeouts: Timeouts,
    isa: Isa,
    huge_pages: HugePages,
    memory_limit_bytes: u64,
}
