//! [`TableOptions`]: how a table is built.

use flowloom_cpu::features::Isa;
use flowloom_cpu::pages::HugePages;

#[cfg(doc)]
use crate::error::BuildError;
use crate::state::Timeouts;

/// How a table is built: start with [`for_flows`](Self::for_flows) and change fields as needed.
///
/// All tables of this crate take the same options; a field that is `None` leaves the choice to the
/// table. Fields may be added in any version: a literal ends with `..TableOptions::for_flows(n)`.
///
/// # Examples
///
/// ```
/// use flowloom_flow_table::{FlowTable, LineHash, TableOptions, TimeoutClass, Timeouts};
/// let options = TableOptions {
///     timeouts: Timeouts::NEVER.with(TimeoutClass(0), 300),
///     memory_limit_bytes: 1 << 30,
///     ..TableOptions::for_flows(1_000_000)
/// };
/// let table = LineHash::<u64, ()>::try_new(&options)?;
/// assert_eq!(table.capacity(), 1_000_000);
/// assert!(table.memory().lookup_bytes() < 3_000_000);
/// # Ok::<(), flowloom_flow_table::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TableOptions {
    /// The maximum number of flows, up to [`FLOWS_MAX`](Self::FLOWS_MAX) or the maximum of the
    /// table, if it has one.
    pub flows: u32,
    /// Number of buckets of the index. `None` chooses:
    ///
    /// * `LineHash`, whose buckets are lines: three quarters full when the table is full;
    /// * `DHash`: the paper's ten flows per bucket;
    /// * `SigHash`: one per flow, rounded up to a power of two, the paper's load factor below 1
    ///   [FLOWNP Fig. 5]. That is four states per flow, and nearly eight if the number of flows is
    ///   just above a power of two;
    /// * `Chained`: 1.5 per flow, and 2³¹ at most;
    /// * `DirectTable`: one per flow.
    pub buckets: Option<u32>,
    /// Number of states for flows that do not fit their bucket. `None` chooses one per thousand
    /// flows plus 64 for `LineHash`, about forty times the need, and 3 % of the flows plus 64 for
    /// `DHash` and `SigHash`, which is enough for churn. The tables of `baseline` have no such
    /// states.
    pub pool: Option<u32>,
    /// Maximum number of flows in one list of flows that do not fit. `None` chooses 64 for
    /// `LineHash` and `DirectTable`, 16 for `DHash` and `SigHash`, 4,096 for `Chained`.
    pub list_cap: Option<u32>,
    /// Maximum idle time of flows. A run of the engine, which has timeouts too, refuses a table
    /// with others than `config.timeouts().for_table()`.
    pub timeouts: Timeouts,
    /// The instruction set of tables that compare with vectors, `LineHash` and `DHash`; `None` for
    /// the best one of this processor.
    pub isa: Option<Isa>,
    /// Whether to request huge pages.
    pub huge_pages: HugePages,
    /// Limit of the reserved memory in bytes; see [`BuildError::OutOfMemory`] about free memory.
    pub memory_limit_bytes: u64,
    /// Whether to touch all memory at once. Otherwise the first flow in a fresh page pays for the
    /// page fault: several hundred nanoseconds, or the clearing of 2 MiB for a huge page.
    pub prefault: bool,
}

impl TableOptions {
    /// Maximum number of flows in one table.
    pub const FLOWS_MAX: u32 = 1 << 30;

    /// Returns the options for a number of flows: no timeouts, no memory limit, huge pages if
    /// available, and all else chosen by the table.
    #[must_use]
    pub const fn for_flows(flows: u32) -> Self {
        Self {
            flows,
            buckets: None,
            pool: None,
            list_cap: None,
            timeouts: Timeouts::NEVER,
            isa: None,
            huge_pages: HugePages::Try,
            memory_limit_bytes: u64::MAX,
            prefault: false,
        }
    }
}

/// The options of a table whose number of flows is set later, as by [`Growing`](crate::Growing).
impl Default for TableOptions {
    fn default() -> Self {
        Self::for_flows(0)
    }
}
