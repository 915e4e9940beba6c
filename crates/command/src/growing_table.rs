//! The growing flow table of the commands. A single function keeps the engine compiled for a single
//! table type.

use std::sync::Arc;

use flowloom::cpu::features::Isa;
use flowloom::cpu::pages::HugePages;
use flowloom::flow_key::FlowKey;
use flowloom::flow_table::segments::GrowthLimits;
use flowloom::flow_table::{BuildError, FlowTable, Growing, LineHash, LineHashConfig, Timeouts};

use crate::memory_budget::FieldShare;

/// The smallest first segment, in flows.
const FIRST_FLOWS_MIN: u32 = 64;

/// The settings of each segment of a table.
#[derive(Clone, Copy, Debug)]
pub struct SegmentOptions {
    pub timeouts: Timeouts,
    pub isa: Isa,
    pub huge_pages: HugePages,
    pub memory_limit_bytes: u64,
    /// Bytes that a flow takes outside of its slot.
    pub beside_bytes: u64,
    /// Touch the memory before the run.
    pub prefault: bool,
}

/// Builds a table whose first segment is an estimate: where it does not fit, it is smaller.
pub fn fitted<T>(
    limits: GrowthLimits,
    mut build: impl FnMut(GrowthLimits) -> Result<T, BuildError>,
) -> Result<T, BuildError> {
    let mut limits = limits;
    loop {
        let flows = limits.first_flows;
        let fewer = match build(limits) {
            Err(BuildError::TooLarge { needed_bytes, limit_bytes }) if flows > FIRST_FLOWS_MIN => {
                let part = u128::from(flows) * u128::from(limit_bytes) / u128::from(needed_bytes.max(1));
                u32::try_from(part).unwrap_or(flows).min(flows - flows / 32 - 1)
            }
            Err(BuildError::OutOfMemory { .. }) if flows > FIRST_FLOWS_MIN => flows / 2,
            built => return built,
        };
        limits.first_flows = fewer.max(FIRST_FLOWS_MIN);
    }
}

/// Returns a table that grows by segments, and takes their memory from that of fields.
pub fn growing_linehash<V: Send + 'static>(
    limits: GrowthLimits,
    options: SegmentOptions,
    fields: Option<Arc<FieldShare>>,
) -> Result<impl FlowTable<FlowKey, V> + Send + use<V>, BuildError> {
    let SegmentOptions { timeouts, isa, huge_pages, memory_limit_bytes, beside_bytes, prefault } = options;
    Growing::try_new(limits, move |flows| {
        let usual = LineHashConfig { isa: Some(isa), ..LineHashConfig::for_flows(flows) };
        let config = LineHashConfig { timeouts, huge_pages, memory_limit_bytes, ..usual };
        let mut table = LineHash::<FlowKey, V>::try_new(&config)?;
        if prefault {
            table.prefault();
        }
        if let Some(fields) = &fields {
            let table_bytes = FlowTable::<FlowKey, V>::memory(&table).total_bytes();
            fields.opened(table_bytes + u64::from(flows) * beside_bytes);
        }
        Ok(table)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimate_beyond_memory_is_reduced_and_not_refused() {
        let limits = GrowthLimits { first_flows: 1 << 20, flows_max: 1 << 24, memory_max_bytes: 1 << 20 };
        let build = |limits: GrowthLimits| {
            let (needed_bytes, limit_bytes) = (u64::from(limits.first_flows) * 100 + 4096, 1 << 20);
            let fits = needed_bytes <= limit_bytes;
            fits.then_some(limits.first_flows).ok_or(BuildError::TooLarge { needed_bytes, limit_bytes })
        };
        let flows = fitted(limits, build).unwrap();
        assert!((9500..=10_444).contains(&flows), "close to the largest table that fits: {flows}");
        let out_of_memory = |limits: GrowthLimits| match limits.first_flows {
            flows if flows > 1000 => Err(BuildError::OutOfMemory { bytes: u64::from(flows) }),
            flows => Ok(flows),
        };
        assert_eq!(fitted(limits, out_of_memory).unwrap(), 512);
        let never = |_| -> Result<(), _> { Err(BuildError::TooLarge { needed_bytes: 9, limit_bytes: 0 }) };
        assert!(fitted(limits, never).is_err());
    }
}
