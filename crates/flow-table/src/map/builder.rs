//! Settings for building a [`FlowMap`].

use core::hash::{BuildHasher, Hash};

use flowloom_cpu::pages::HugePages;
#[cfg(all(feature = "std", not(target_os = "unknown")))]
use flowloom_flow_key::KeyedState;

use super::FlowMap;
use crate::error::BuildError;
use crate::linehash::LineHash;
use crate::options::TableOptions;
use crate::segments::Growing;
use crate::state::Timeouts;
use crate::table::{TableKey, Tick, TimeoutClass};

/// Flows of the first segment of a map for which no number was set.
const FIRST_FLOWS: u32 = 64;

/// Settings of a [`FlowMap`].
///
/// # Examples
///
/// ```
/// use flowloom_flow_table::{FlowMap, TimeoutClass, Timeouts};
/// let map = FlowMap::builder()
///     .flows(10_000)
///     .max_flows(1_000_000)
///     .memory_max_bytes(1 << 30)
///     .timeouts(Timeouts::NEVER.with(TimeoutClass(0), 30).with(TimeoutClass(1), 3600))
///     .build::<u32, u32>()?;
/// assert_eq!(map.max_flows(), 1_000_000);
/// # Ok::<(), flowloom_flow_table::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a builder builds nothing until `build` is called"]
pub struct FlowMapBuilder {
    flows: u32,
    flows_max: u32,
    memory_max_bytes: u64,
    timeouts: Timeouts,
    has_zero_timeout: bool,
    huge_pages: HugePages,
}

impl Default for FlowMapBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl FlowMapBuilder {
    /// Returns the settings of a map without timeouts that grows up to 2³⁰ flows or the memory of
    /// the machine.
    pub const fn new() -> Self {
        Self {
            flows: 0,
            flows_max: TableOptions::FLOWS_MAX,
            memory_max_bytes: u64::MAX,
            timeouts: Timeouts::NEVER,
            has_zero_timeout: false,
            huge_pages: HugePages::Try,
        }
    }

    /// Returns the settings of a map with these options.
    pub(super) const fn from_options(options: &TableOptions) -> Self {
        let builder = Self::new().max_flows(options.flows).memory_max_bytes(options.memory_limit_bytes);
        builder.timeouts(options.timeouts).huge_pages(options.huge_pages)
    }

    /// Sets the number of flows that the map holds before it grows. The default is 0: the map
    /// allocates nothing before the first insertion.
    pub const fn flows(mut self, flows: u32) -> Self {
        self.flows = flows;
        self
    }

    /// Sets the maximum number of flows; further ones are refused as [`Full`](crate::Full).
    pub const fn max_flows(mut self, flows: u32) -> Self {
        self.flows_max = flows;
        self
    }

    /// Sets the maximum size of the map in bytes, which [`memory`](FlowMap::memory) reports. The
    /// map never allocates more, not even for a moment. Beside each array of 2 MiB or more it
    /// reserves address space to align huge pages, which it never touches.
    pub const fn memory_max_bytes(mut self, bytes: u64) -> Self {
        self.memory_max_bytes = bytes;
        self
    }

    /// Sets one timeout for all flows, in the caller's unit of time; 0 is an error of
    /// [`build`](Self::build).
    pub const fn timeout(mut self, ticks: u64) -> Self {
        self = self.timeouts(Timeouts::NEVER.with(TimeoutClass(0), ticks));
        self.has_zero_timeout = ticks == 0;
        self
    }

    /// Sets a timeout for each class; a new flow is in class 0.
    pub const fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self.has_zero_timeout = false;
        self
    }

    /// Sets whether to request huge pages; the default is to request them.
    pub const fn huge_pages(mut self, huge_pages: HugePages) -> Self {
        self.huge_pages = huge_pages;
        self
    }

    /// Returns the map with a secret drawn from the operating system.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError`] if the maximum is 0 or too large, if the [timeout](Self::timeout) is
    /// 0, or if memory is insufficient.
    #[cfg(all(feature = "std", not(target_os = "unknown")))]
    pub fn build<K: TableKey + Hash, V>(self) -> Result<FlowMap<K, V>, BuildError> {
        self.build_with_hasher(KeyedState::random())
    }

    /// Returns the map with the caller's hasher.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`build`](FlowMapBuilder::build).
    pub fn build_with_hasher<K, V, S>(self, hasher: S) -> Result<FlowMap<K, V, S>, BuildError>
    where
        K: TableKey + Hash,
        S: BuildHasher,
    {
        let Self { flows, flows_max, memory_max_bytes, timeouts, has_zero_timeout, huge_pages } = self;
        if has_zero_timeout {
            return Err(BuildError::ZeroTimeout);
        }
        if flows_max > TableOptions::FLOWS_MAX {
            let (flows, flows_max) = (flows_max.into(), TableOptions::FLOWS_MAX.into());
            return Err(BuildError::TooManyFlows { flows, flows_max });
        }
        if flows_max == 0 {
            return Err(BuildError::NoCapacity);
        }
        let limits =
            TableOptions { memory_limit_bytes: memory_max_bytes, ..TableOptions::for_flows(flows_max) };
        let options = TableOptions { timeouts, huge_pages, ..limits };
        let table = if flows == 0 {
            let first_flows = FIRST_FLOWS.min(flows_max);
            let needed_bytes =
                LineHash::<K, V>::bytes_needed(&TableOptions { flows: first_flows, ..options });
            if needed_bytes > memory_max_bytes {
                return Err(BuildError::TooLarge { needed_bytes, limit_bytes: memory_max_bytes });
            }
            let none = LineHash::try_empty(&options)?;
            Growing::without_segment(none, first_flows, options, LineHash::try_new)
        } else {
            Growing::try_new(flows, options, LineHash::try_new)?
        };
        Ok(FlowMap { table, hasher, now: Tick(0) })
    }
}
