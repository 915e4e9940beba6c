//! The growing flow table of the commands. A single function keeps the engine compiled for a single
//! table type.

use flowloom::cpu::features::Isa;
use flowloom::cpu::pages::HugePages;
use flowloom::flow_key::FlowKey;
use flowloom::flow_table::segments::GrowthLimits;
use flowloom::flow_table::{BuildError, FlowTable, Growing, LineHash, LineHashConfig, Timeouts};

/// The settings of each segment of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentOptions {
    pub(crate) timeouts: Timeouts,
    pub(crate) isa: Isa,
    pub(crate) huge_pages: HugePages,
    pub(crate) memory_limit_bytes: u64,
    /// Touch the memory before the run.
    pub(crate) prefault: bool,
}

/// Returns a table that grows by segments.
pub(crate) fn growing_linehash<V: Send + 'static>(
    limits: GrowthLimits,
    options: SegmentOptions,
) -> Result<impl FlowTable<FlowKey, V> + Send + use<V>, BuildError> {
    let SegmentOptions { timeouts, isa, huge_pages, memory_limit_bytes, prefault } = options;
    Growing::try_new(limits, move |flows| {
        let usual = LineHashConfig { isa: Some(isa), ..LineHashConfig::for_flows(flows) };
        let config = LineHashConfig { timeouts, huge_pages, memory_limit_bytes, ..usual };
        let mut table = LineHash::<FlowKey, V>::try_new(&config)?;
        if prefault {
            table.prefault();
        }
        Ok(table)
    })
}
