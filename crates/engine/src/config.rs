//! What a run is to be, checked once before anything starts.

use std::net::IpAddr;

use flowloom_flow_key::{FlowHasher, FlowKey};
use flowloom_packet::DecodeOptions;
use flowloom_scheduler::OrderGuarantee;
use flowloom_scheduler::placement::modulo::crc_of;

use crate::batch::packet::{PacketDescriptor, SEQUENCE_NUMBERS};
use crate::error::ConfigError;
use crate::ingest::pace::Pace;
use crate::time::IdleTimeout;
use crate::worker::shards::shards;

/// Bytes of all rings together at most: a ring is allocated whole.
const RING_BYTES_MAX: u64 = 1 << 29;

// Fewer packets wait than a shard has turns.
const _: () = assert!(RING_BYTES_MAX / (PacketDescriptor::BYTES as u64) < SEQUENCE_NUMBERS as u64);

/// How the stages are laid out on threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One thread does everything; there is no ring.
    Inline,
    /// This many workers, each with a consecutive part of the input, a table of its own and the loop of the inline
    /// layout; what they know of each flow is composed at the end. See [`run_sharded`](crate::run_sharded).
    Sharded {
        /// Worker threads, 1 to [`Layout::WORKERS_MAX`].
        workers: usize,
    },
    /// An input thread, a ring for each worker (or one pool), and this many workers.
    Pipeline {
        /// Worker threads, 1 to [`Layout::WORKERS_MAX`].
        workers: usize,
    },
}

impl Layout {
    /// The most worker threads of a run.
    pub const WORKERS_MAX: usize = 256;

    /// Returns how many threads run an application: the workers, or one.
    #[must_use]
    pub fn workers(self) -> usize {
        match self {
            Self::Inline => 1,
            Self::Sharded { workers } | Self::Pipeline { workers } => workers,
        }
    }
}

/// In which order packets meet their flow's state, and leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// In none that is promised.
    None,
    /// Those of a flow in the order they arrived in, because the policy keeps a flow's packets in order [FLOWNP §5.2.1].
    Internal,
    /// Those of a flow meet its state, and all leave, in the order they arrived in, whatever the policy [FLOWNP §5.1].
    External,
}

/// What policies know a flow by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlacementDigest {
    /// Bits of the keyed hash: a sender cannot choose which worker gets a flow.
    Keyed,
    /// CRC-32 of the key's words [FLOWNP §5.2.2]. Whoever sends can choose the worker.
    Crc,
    /// The address of the end with the lower port, mostly the server's [FLOWNP §5.2.2]. The paper's destination would send the two
    /// directions of a flow to two workers. Whoever sends can choose the worker.
    Destination,
}

impl PlacementDigest {
    /// Returns the digest of a flow: equal in both directions.
    #[inline]
    pub(crate) fn of(self, key: &FlowKey, keyed: u32) -> u32 {
        match self {
            Self::Keyed => keyed,
            Self::Crc => crc_of(key),
            Self::Destination => server_of(key),
        }
    }
}

fn server_of(key: &FlowKey) -> u32 {
    let is_low = key.low_port() <= key.high_port();
    match if is_low { key.low_address() } else { key.high_address() } {
        IpAddr::V4(address) => address.to_bits(),
        // The lower half of an address tells hosts of a network apart.
        IpAddr::V6(address) => address.to_bits() as u32,
    }
}

/// What happens when a ring of packets, or the queue of records, is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The thread that fills it waits: nothing is lost.
    Block,
    /// The packet or the record is dropped and counted.
    Drop,
}

/// Which CPUs the threads run on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cores {
    /// One CPU per thread, the first ones allowed, as far as they go; threads beyond are not pinned.
    Auto,
    /// These CPUs: in the pipeline layout the first for the input thread, the others for the workers in turn.
    List(Vec<u32>),
    /// No thread is pinned.
    Unpinned,
}

/// The parameters of a run: begin with [`new`](Self::new), and change what should be otherwise.
///
/// Fields may be added in any version: a literal ends with `..EngineConfig::new(layout)`.
///
/// # Examples
///
/// ```
/// use flowloom_engine::{EngineConfig, IdleTimeout, Layout, WhenFull};
/// let config = EngineConfig {
///     idle_timeout: Some(IdleTimeout::from_ns(60_000_000_000)),
///     when_full: WhenFull::Drop,
///     ..EngineConfig::new(Layout::Pipeline { workers: 4 })
/// };
/// config.check()?;
/// assert!(EngineConfig { ring_slots: 1000, ..config }.check().is_err());
/// # Ok::<(), flowloom_engine::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Layout on threads.
    pub layout: Layout,
    /// CPUs; [`Cores::Auto`] unless told otherwise.
    pub cores: Cores,
    /// The keyed hash of the run; its secret decides buckets and workers. Random unless told otherwise.
    pub hasher: FlowHasher,
    /// What the policy knows a flow by, in the pipeline layout; [`PlacementDigest::Keyed`] unless told otherwise.
    pub digest: PlacementDigest,
    /// What the decoder does with tunnels; it does not follow them unless told.
    pub decode: DecodeOptions,
    /// Which order is kept; [`Order::Internal`] unless told otherwise, which refuses policies that keep none.
    pub order: Order,
    /// Packets per ring, a power of two; 112 bytes each, and at most four times that (from 512 on) where a worker is behind the others with few
    /// packets of each batch. Packets that wait at most, where workers fetch them. 16,384 unless told otherwise.
    pub ring_slots: usize,
    /// What happens when a ring is full; [`WhenFull::Block`] unless told otherwise.
    pub when_full: WhenFull,
    /// Flows idle for longer end, in packet time; tables must be built with [`IdleTimeout::for_table`]. `None`: flows
    /// last as long as the run, which is so unless told otherwise.
    pub idle_timeout: Option<IdleTimeout>,
    /// The most records of ended flows that a worker keeps for the results where no sink takes them; 16,777,216
    /// unless told otherwise.
    pub records_max: usize,
    /// What happens when the sink of records is slower than flows end; [`WhenFull::Block`] unless told otherwise.
    pub records_when_full: WhenFull,
    /// Stop after so many packets; never unless told.
    pub packet_limit: Option<u64>,
    /// How fast packets are taken from the source; [`Pace::Max`] unless told otherwise.
    pub pace: Pace,
}

impl EngineConfig {
    /// Returns the parameters of a run in `layout`, with a random secret and nothing special asked for.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        Self {
            layout,
            cores: Cores::Auto,
            hasher: FlowHasher::random(),
            digest: PlacementDigest::Keyed,
            decode: DecodeOptions::default(),
            order: Order::Internal,
            ring_slots: 16 << 10,
            when_full: WhenFull::Block,
            idle_timeout: None,
            records_max: 16 << 20,
            records_when_full: WhenFull::Block,
            packet_limit: None,
            pace: Pace::Max,
        }
    }

    /// Returns how many flow tables a run builds with a policy of this guarantee: one for each worker where a flow stays
    /// with its worker, else one for each shard: 2 a worker, or 64 where their packets are sequenced, rounded up to a power of two, 1,024 at
    /// most; a single one in the inline layout.
    #[must_use]
    pub fn tables(&self, policy: OrderGuarantee) -> usize {
        match self.layout {
            Layout::Inline => 1,
            Layout::Sharded { workers } => workers,
            Layout::Pipeline { workers } if policy == OrderGuarantee::Home => workers,
            Layout::Pipeline { workers } => shards(workers, self.is_sequenced(policy)),
        }
    }

    /// Says whether the packets of each shard are sequenced: the policy keeps no order, and one is asked for.
    pub(crate) fn is_sequenced(&self, policy: OrderGuarantee) -> bool {
        self.order == Order::External && !policy.keeps_flow_order()
    }

    /// Checks the parameters against each other.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] for a number of workers or ring slots that cannot be, and for a pace that would never take a packet.
    pub fn check(&self) -> Result<(), ConfigError> {
        let workers = self.layout.workers();
        if workers == 0 || workers > Layout::WORKERS_MAX {
            return Err(ConfigError::Workers { workers, max: Layout::WORKERS_MAX });
        }
        if !self.ring_slots.is_power_of_two() || !(64..=1 << 24).contains(&self.ring_slots) {
            return Err(ConfigError::RingSlots { slots: self.ring_slots });
        }
        let ring_bytes = self.ring_slots as u64 * PacketDescriptor::BYTES as u64 * workers as u64;
        if ring_bytes > RING_BYTES_MAX {
            return Err(ConfigError::RingMemory { bytes: ring_bytes, max: RING_BYTES_MAX });
        }
        let (Pace::Times(number) | Pace::PerSecond(number)) = self.pace else { return Ok(()) };
        if number.is_nan() || number <= 0.0 {
            return Err(ConfigError::Pace { number: number.to_string() });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_and_rings_are_refused_beyond_their_limits_and_not_at_them() {
        let check = |workers, ring_slots| {
            EngineConfig { ring_slots, ..EngineConfig::new(Layout::Pipeline { workers }) }.check()
        };
        assert_eq!(check(Layout::WORKERS_MAX, 64), Ok(()));
        for workers in [0, Layout::WORKERS_MAX + 1] {
            assert_eq!(check(workers, 64), Err(ConfigError::Workers { workers, max: Layout::WORKERS_MAX }));
        }
        let ring_bytes = (PacketDescriptor::BYTES as u64) << 20;
        let most = RING_BYTES_MAX / ring_bytes;
        let workers = usize::try_from(most).expect("few");
        assert_eq!(check(workers, 1 << 20), Ok(()));
        let refused = ConfigError::RingMemory { bytes: (most + 1) * ring_bytes, max: RING_BYTES_MAX };
        assert_eq!(check(workers + 1, 1 << 20), Err(refused));
    }

    #[test]
    fn a_pace_that_takes_nothing_is_refused() {
        let check = |pace| EngineConfig { pace, ..EngineConfig::new(Layout::Inline) }.check();
        for number in [0.0, -0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
            let refused = Err(ConfigError::Pace { number: number.to_string() });
            assert_eq!(check(Pace::Times(number)), refused);
            assert_eq!(check(Pace::PerSecond(number)), refused);
        }
        for number in [f64::MIN_POSITIVE, 1.0, f64::INFINITY] {
            assert_eq!(check(Pace::Times(number)), Ok(()));
        }
        assert_eq!(check(Pace::Max), Ok(()));
    }
}
