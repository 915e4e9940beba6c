//! Parameters of a [`LineHash`](super::LineHash).

use flowloom_cpu::features::Isa;
use flowloom_cpu::pages::HugePages;

#[cfg(doc)]
use super::LineHash;
use super::layout::{Counts, LANES, Line};
use crate::conflict::ConflictLists;
#[cfg(doc)]
use crate::error::BuildError;
use crate::state::{States, Timeouts};

/// Number of lines that share one list of the stash.
pub(super) const LINES_PER_LIST: u32 = 8;

/// Minimum number of states after those of lanes: a mask of lanes has 32 bits, and each bit must
/// name a state for every line.
const SPARE: u32 = u32::BITS - LANES;

/// Parameters of a [`LineHash`]: start with [`for_flows`](Self::for_flows) and change fields as
/// needed.
///
/// Fields may be added in any version: a literal ends with `..LineHashConfig::for_flows(n)`.
///
/// # Examples
///
/// ```
/// use flowloom_flow_table::{FlowTable, LineHash, LineHashConfig, TimeoutClass, Timeouts};
/// let config = LineHashConfig {
///     timeouts: Timeouts::NEVER.with(TimeoutClass(0), 300),
///     memory_limit_bytes: 1 << 30,
///     ..LineHashConfig::for_flows(1_000_000)
/// };
/// let table = LineHash::<u64, ()>::try_new(&config)?;
/// assert!(table.memory().lookup_bytes() < 3_000_000);
/// # Ok::<(), flowloom_flow_table::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LineHashConfig {
    /// The maximum number of flows, up to 2³⁰.
    pub flows: u32,
    /// Number of lines; `None` for lines that are three quarters full when the table is full.
    pub lines: Option<u32>,
    /// Number of states for the stash, at least two; `None` for one per thousand flows plus 64,
    /// about forty times the need.
    pub pool: Option<u32>,
    /// Maximum number of flows in one list of the stash; eight lines share a list.
    pub list_cap: u32,
    /// Maximum idle time of flows. In a run of the engine, which has timeouts too, both must agree:
    /// `config.timeouts().for_table()` gives these.
    pub timeouts: Timeouts,
    /// The instruction set; `None` for the best one of this processor.
    pub isa: Option<Isa>,
    /// Whether to request huge pages.
    pub huge_pages: HugePages,
    /// Limit of the reserved memory in bytes; see [`BuildError::OutOfMemory`] about free memory.
    pub memory_limit_bytes: u64,
}

impl LineHashConfig {
    /// Returns the configuration for a number of flows: no timeouts, no memory limit, huge pages if
    /// available.
    #[must_use]
    pub const fn for_flows(flows: u32) -> Self {
        Self {
            flows,
            lines: None,
            pool: None,
            list_cap: 64,
            timeouts: Timeouts::NEVER,
            isa: None,
            huge_pages: HugePages::Try,
            memory_limit_bytes: u64::MAX,
        }
    }

    /// Returns the number of lines.
    pub fn line_count(&self) -> u32 {
        // 22.5 flows per line.
        let lines = (u64::from(self.flows) * 2).div_ceil(u64::from(LANES) * 3 / 2);
        self.lines.unwrap_or(u32::try_from(lines).unwrap_or(u32::MAX)).max(1)
    }

    /// Returns the number of states of the stash.
    pub fn pool_size(&self) -> u32 {
        self.pool.unwrap_or(self.flows / 1000 + 64)
    }

    /// Returns the bytes that a table of keys `K` and values `V` reserves.
    pub fn bytes_needed<K: Copy, V>(&self) -> u64 {
        u64::from(self.line_count()) * (size_of::<Line>() + size_of::<Counts>()) as u64
            + ConflictLists::bytes_needed(u64::from(self.list_count()), u64::from(self.pool_size()))
            + States::<K, V>::bytes_needed(self.places(), &self.timeouts)
    }

    pub(super) fn list_count(&self) -> u32 {
        self.line_count().div_ceil(LINES_PER_LIST)
    }

    pub(super) fn places(&self) -> u64 {
        u64::from(self.line_count()) * u64::from(LANES) + u64::from(self.pool_size().max(SPARE))
    }
}
