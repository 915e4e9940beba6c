//! The flow tables of a run, sized by arguments, a sample of the captures and the memory.

use std::sync::Arc;

use flowloom::apps::accounting::fields::FieldMemory;
use flowloom::cpu::features::Isa;
use flowloom::cpu::pages::HugePages;
use flowloom::engine::{EngineConfig, Layout};
use flowloom::flow_key::FlowKey;
use flowloom::flow_table::baseline::{Chained, DirectTable};
use flowloom::flow_table::dhash::ReferenceDHash;
use flowloom::flow_table::dhash::major_location::Folded;
use flowloom::flow_table::dhash::signature::SignatureAlgorithm;
use flowloom::flow_table::{BuildError, FlowTable, Growing, SigHash, TableOptions};
use flowloom::scheduler::OrderGuarantee;
use flowloom::traffic::capture::SetOptions;

use crate::args::replay::{HugePagesName, MajorLocationName, Replay, SignatureName, TableName};
use crate::exit::{Failure, TableError};
use crate::growing_table::fitted;
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
    /// Flows of the first segment.
    first_flows: u32,
    /// Whether an option gives the flows of the first segment.
    is_given: bool,
    fields: Option<Arc<FieldShare>>,
    options: TableOptions,
    /// Bytes that a flow takes outside of its slot.
    beside_bytes: u64,
    /// The signature and the major location of [DHASH], if options ask for the paper's search.
    published: (Option<SignatureName>, Option<MajorLocationName>),
}

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
            TableName::Sighash => SigHash::<FlowKey, ()>::FLOWS_MAX,
            TableName::Linehash | TableName::Dhash => TableOptions::FLOWS_MAX,
            TableName::Chained => Chained::<FlowKey, ()>::FLOWS_MAX,
            TableName::Direct => DirectTable::<FlowKey, ()>::FLOWS_MAX,
        };
        check_flows("--table-flows", arguments.table_flows.unwrap_or(0), tables, first_max)?;
        check_flows("--flows-max", arguments.flows_max, tables, TableOptions::FLOWS_MAX)?;
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
            first_flows: share(flows).min(first_max),
            is_given: arguments.table_flows.is_some(),
            fields,
            options: TableOptions {
                // The run has a limit of its own for several tables.
                flows: u32::try_from(arguments.flows_max).unwrap_or(u32::MAX).min(TableOptions::FLOWS_MAX),
                timeouts: config.timeouts().for_table(),
                isa: Some(isa),
                huge_pages: match arguments.hugepages {
                    HugePagesName::Auto => HugePages::Try,
                    HugePagesName::Off => HugePages::No,
                },
                memory_limit_bytes: memory_max_bytes,
                ..TableOptions::default()
            },
            beside_bytes: beside,
            published: (arguments.signature, arguments.major_location),
        })
    }

    /// Returns a growing table of segments that `segment` builds, the `try_new` of a table. An
    /// estimate of its first segment yields to the memory that there is.
    pub(super) fn build<V, T: FlowTable<FlowKey, V>>(
        &self,
        segment: Build<T>,
    ) -> Result<Growing<FlowKey, V, T>, TableError> {
        let build = |first_flows| {
            let table = Growing::try_new(first_flows, self.options, segment)?;
            let Some(fields) = self.fields.clone() else { return Ok(table) };
            let beside_bytes = self.beside_bytes;
            Ok(table.on_open(move |flows, bytes| fields.opened(bytes + u64::from(flows) * beside_bytes)))
        };
        if self.is_given {
            return build(self.first_flows).map_err(TableError::Given);
        }
        fitted(self.first_flows, build).map_err(TableError::Estimated)
    }

    /// Returns the function that builds the table of [DHASH] as published, if an option asks for
    /// the paper's search.
    pub(super) fn published_search<V>(&self) -> Option<Build<Published<V>>> {
        use MajorLocationName::Off;
        use SignatureName::{Four, Keyed, One, Three, Two};
        let (signature, major) = self.published;
        if signature.is_none() && major.is_none() {
            return None;
        }
        Some(match (signature.unwrap_or(Keyed), major != Some(Off)) {
            (Keyed, true) => published::<V, 0, true>,
            (Keyed, false) => published::<V, 0, false>,
            (One, true) => published::<V, 1, true>,
            (One, false) => published::<V, 1, false>,
            (Two, true) => published::<V, 2, true>,
            (Two, false) => published::<V, 2, false>,
            (Three, true) => published::<V, 3, true>,
            (Three, false) => published::<V, 3, false>,
            (Four, true) => published::<V, 4, true>,
            (Four, false) => published::<V, 4, false>,
        })
    }
}

/// The table of [DHASH] as published.
type Published<V> = ReferenceDHash<FlowKey, V, SignatureAlgorithm, Option<Folded>>;

/// Builds a segment: the `try_new` of a table.
type Build<T> = fn(&TableOptions) -> Result<T, BuildError>;

/// Builds a table of [DHASH] as published, which counts the steps of its searches.
fn published<V, const SIGNATURE: usize, const IS_FOLDED: bool>(
    options: &TableOptions,
) -> Result<Published<V>, BuildError> {
    let major = IS_FOLDED.then_some(Folded);
    Published::with(options, SIGNATURES[SIGNATURE], major).map(Published::counting)
}

const SIGNATURES: [SignatureAlgorithm; 5] = [
    SignatureAlgorithm::Keyed,
    SignatureAlgorithm::One,
    SignatureAlgorithm::Two,
    SignatureAlgorithm::Three,
    SignatureAlgorithm::Four,
];
