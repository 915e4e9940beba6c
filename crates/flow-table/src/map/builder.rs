//! Settings for building a [`FlowMap`].

use core::hash::{BuildHasher, Hash};

use flowloom_cpu::pages::HugePages;
#[cfg(all(feature = "std", not(target_os = "unknown")))]
use flowloom_flow_key::KeyedState;

use super::FlowMap;
use crate::error::{BuildError, FLOWS_MAX};
use crate::linehash::{LineHash, LineHashConfig};
use crate::segments::{BuildSegment, Growing, GrowthLimits};
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
            flows_max: FLOWS_MAX,
            memory_max_bytes: u64::MAX,
            timeouts: Timeouts::NEVER,
            has_zero_timeout: false,
            huge_pages: HugePages::Try,
        }
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

    /// Sets the maximum size of the map in bytes.
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
        if flows_max > FLOWS_MAX {
            let (flows, flows_max) = (flows_max.into(), FLOWS_MAX.into());
            return Err(BuildError::TooManyFlows { flows, flows_max });
        }
        if flows_max == 0 {
            return Err(BuildError::NoCapacity);
        }
        let settings = Settings { timeouts, huge_pages };
        let table = if flows == 0 {
            let first_flows = FIRST_FLOWS.min(flows_max);
            let needed_bytes = settings.config(first_flows).bytes_needed::<K, V>();
            if needed_bytes > memory_max_bytes {
                return Err(BuildError::TooLarge { needed_bytes, limit_bytes: memory_max_bytes });
            }
            let limits = GrowthLimits { first_flows, flows_max, memory_max_bytes };
            Growing::without_segment(limits, LineHash::try_empty(&settings.config(0))?, settings)
        } else {
            let limits = GrowthLimits { first_flows: flows, flows_max, memory_max_bytes };
            Growing::try_with_builder(limits, settings)?
        };
        Ok(FlowMap { table, hasher, now: Tick(0) })
    }
}

/// The settings of a map, which build its segments: a closure would make the map invariant over
/// its values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    timeouts: Timeouts,
    huge_pages: HugePages,
}

impl Settings {
    /// Returns a builder of a map with these settings, within limits.
    pub(super) const fn builder(self, limits: &GrowthLimits) -> FlowMapBuilder {
        let GrowthLimits { flows_max, memory_max_bytes, .. } = *limits;
        let builder = FlowMapBuilder::new().max_flows(flows_max).memory_max_bytes(memory_max_bytes);
        builder.timeouts(self.timeouts).huge_pages(self.huge_pages)
    }

    /// Returns the configuration of a segment for a number of flows.
    fn config(&self, flows: u32) -> LineHashConfig {
        let Self { timeouts, huge_pages } = *self;
        LineHashConfig { timeouts, huge_pages, ..LineHashConfig::for_flows(flows) }
    }
}

impl<K: TableKey, V> BuildSegment<LineHash<K, V>> for Settings {
    fn build(&mut self, flows: u32) -> Result<LineHash<K, V>, BuildError> {
        LineHash::try_new(&self.config(flows))
    }
}
