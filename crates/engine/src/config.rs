//! The parameters of a run, checked once before the run starts.

use std::net::IpAddr;

use flowloom_flow_key::{FlowHasher, FlowKey};
use flowloom_packet::DecodeOptions;
use flowloom_scheduler::OrderGuarantee;
use flowloom_scheduler::placement::modulo::crc_of;

use crate::batch::packet::{PacketDescriptor, SEQUENCE_NUMBERS};
use crate::error::ConfigError;
use crate::ingest::pace::Pace;
use crate::shard_count::shard_count;
use crate::time::{FlowTimeouts, IdleTimeout};

/// Maximum size of all rings together, in bytes. A ring is allocated as a whole.
const RING_BYTES_MAX: u64 = 1 << 29;

// The rings hold fewer packets than a shard has sequence numbers.
const _: () = assert!(RING_BYTES_MAX / (PacketDescriptor::BYTES as u64) < SEQUENCE_NUMBERS as u64);

/// The distribution of the stages over threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One thread runs all stages to completion, without rings.
    Inline,
    /// Each thread reads and decodes chunks of the input, and processes the flows of a shard. Every
    /// application and every sink gets the same calls as with one thread.
    Sharded {
        /// Worker threads, 1 to [`Layout::WORKERS_MAX`].
        workers: usize,
    },
    /// One input thread, a ring per worker (or one pool), and the workers.
    Pipeline {
        /// Worker threads, 1 to [`Layout::WORKERS_MAX`].
        workers: usize,
    },
}

impl Layout {
    /// Maximum number of worker threads.
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

/// The order in which packets reach their flow's state and leave the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// No order is guaranteed.
    None,
    /// Packets of a flow stay in arrival order, because the policy keeps the order of a flow
    /// [FLOWNP §5.2.1].
    Internal,
    /// Packets of a flow reach its state, and all packets leave, in arrival order, under any policy
    /// [FLOWNP §5.1].
    External,
}

/// The 32-bit value by which policies identify a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlacementDigest {
    /// Bits of the keyed hash: a sender cannot choose which worker gets a flow.
    Keyed,
    /// CRC-32 of the key's words [FLOWNP §5.2.2]. A sender can choose the worker of its flows.
    Crc,
    /// The address of the endpoint with the lower port, usually the server [FLOWNP §5.2.2]. A
    /// sender can choose the worker of its flows. Unlike the paper, this is not the packet's
    /// destination, which would send the two directions of a flow to two workers.
    Destination,
}

impl PlacementDigest {
    /// Returns the digest of a flow, which is equal in both directions.
    #[inline]
    pub(crate) fn compute(self, key: &FlowKey, keyed: u32) -> u32 {
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
        // The lower half of an IPv6 address distinguishes the hosts of a network.
        IpAddr::V6(address) => address.to_bits() as u32,
    }
}

/// Behaviour when a ring of packets, or the queue of records, is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The thread that fills it waits. Nothing is lost.
    Block,
    /// The engine drops the packet or the record, and counts it.
    Drop,
}

/// The CPUs of the threads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cores {
    /// The allowed CPUs in ascending order, one per thread. With fewer CPUs than threads no thread
    /// is pinned.
    Auto,
    /// These CPUs. In the pipeline layout the first is for the input thread; the workers get the
    /// others in order.
    List(Vec<u32>),
    /// No thread is pinned.
    Unpinned,
}

/// The parameters of a run. Begin with [`new`](Self::new) and change the fields that should differ.
///
/// Any version may add fields, so end a literal with `..EngineConfig::new(layout)`.
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
    /// The distribution of the stages over threads.
    pub layout: Layout,
    /// The CPUs of the threads. Defaults to [`Cores::Auto`].
    pub cores: Cores,
    /// The keyed hash of the run. Its secret determines buckets and workers. Defaults to a random
    /// secret.
    pub hasher: FlowHasher,
    /// The value by which the policy identifies a flow, in the pipeline layout. Defaults to
    /// [`PlacementDigest::Keyed`].
    pub digest: PlacementDigest,
    /// How the decoder treats tunnels. By default the decoder does not follow them.
    pub decode: DecodeOptions,
    /// The order that the run keeps. Defaults to [`Order::Internal`], which refuses policies that
    /// keep no order.
    pub order: Order,
    /// Packets per ring, a power of two. Defaults to 16,384. A packet takes 120 bytes. For a worker
    /// that lags behind and gets few packets of each batch, it takes up to four times that (from
    /// 512 slots on). With a pull policy, this is the maximum number of packets in the pool.
    pub ring_slots: usize,
    /// Packets per chunk in the sharded layout, 1 to 65,536. Defaults to 4,096. A chunk also ends
    /// after 1 MiB of packets, and when a source has no packets for now.
    pub chunk_packets: usize,
    /// Packets after which the sharded layout starts its other threads. Defaults to 16,384: one
    /// thread has processed a shorter input before the others would have started.
    pub threads_after_packets: u64,
    /// Behaviour when a ring is full. Defaults to [`WhenFull::Block`].
    pub when_full: WhenFull,
    /// Idle time in packet time after which a flow ends. Defaults to `None`: flows last as long as
    /// the run. Build the tables with `config.timeouts().for_table()`. A table with other timeouts
    /// keeps silent flows, whose end the application then learns late or never.
    pub idle_timeout: Option<IdleTimeout>,
    /// Idle time after which a flow ends whose application reports it as
    /// [closed](crate::FlowState::is_closed). Build the tables with
    /// [`FlowTimeouts::for_table`](crate::FlowTimeouts::for_table). Defaults to `None`: closed
    /// flows have the timeout of other flows.
    pub closed_timeout: Option<IdleTimeout>,
    /// Maximum number of live flows in all tables together. Further flows displace others, or are
    /// refused, as in a full table. Defaults to `None`: each table has its own limit.
    pub flows_max: Option<u64>,
    /// Maximum number of records of ended flows that a run keeps for the results when there is no
    /// record sink. Defaults to 16,777,216.
    pub records_max: usize,
    /// Behaviour when flows end faster than the record sink writes. Defaults to
    /// [`WhenFull::Block`].
    pub records_when_full: WhenFull,
    /// The number of packets after which the run stops. Defaults to `None`: no limit.
    pub packet_limit: Option<u64>,
    /// Whether the report has the packets and bytes of each interval of packet time. Defaults to
    /// `false`.
    pub timeline: bool,
    /// The speed at which the run takes packets from the source. Defaults to [`Pace::Max`].
    pub pace: Pace,
}

impl EngineConfig {
    /// Maximum number of records that wait between the workers and a
    /// [`RecordSink`](crate::RecordSink), besides an incomplete batch per worker.
    pub const QUEUED_RECORDS_MAX: usize = 16_384;

    /// Returns the default parameters of a run in `layout`, with a random secret.
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
            chunk_packets: 4096,
            threads_after_packets: 16 << 10,
            when_full: WhenFull::Block,
            idle_timeout: None,
            closed_timeout: None,
            flows_max: None,
            records_max: 16 << 20,
            records_when_full: WhenFull::Block,
            packet_limit: None,
            timeline: false,
            pace: Pace::Max,
        }
    }

    /// Returns the idle timeouts of open and closed flows.
    #[must_use]
    pub fn timeouts(&self) -> FlowTimeouts {
        FlowTimeouts { idle: self.idle_timeout, closed: self.closed_timeout }
    }

    /// Returns the number of flow tables that a run builds with a policy of this guarantee. The
    /// inline layout has one. If a flow stays with its worker, each worker has one. Otherwise each
    /// shard has one: 2 shards per worker, or 64 if packets are sequenced, rounded up to a power of
    /// two, and at most 1,024.
    #[must_use]
    pub fn tables(&self, policy: OrderGuarantee) -> usize {
        match self.layout {
            Layout::Inline => 1,
            Layout::Sharded { workers } => workers,
            Layout::Pipeline { workers } if policy == OrderGuarantee::Home => workers,
            Layout::Pipeline { workers } => shard_count(workers, self.is_sequenced(policy)),
        }
    }

    /// Returns whether the packets of each shard are sequenced because the run needs an order that
    /// the policy does not keep.
    pub(crate) fn is_sequenced(&self, policy: OrderGuarantee) -> bool {
        self.order == Order::External && !policy.keeps_flow_order()
    }

    /// Checks the parameters against each other.
    ///
    /// # Errors
    ///
    /// Returns [`ConfigError`] for an invalid number of workers, ring slots or packets of a chunk,
    /// and for a pace that would never take a packet.
    pub fn check(&self) -> Result<(), ConfigError> {
        let workers = self.layout.workers();
        if workers == 0 || workers > Layout::WORKERS_MAX {
            return Err(ConfigError::Workers { workers, max: Layout::WORKERS_MAX });
        }
        if !self.ring_slots.is_power_of_two() || !(64..=1 << 24).contains(&self.ring_slots) {
            return Err(ConfigError::RingSlots { slots: self.ring_slots });
        }
        if !(1..=1 << 16).contains(&self.chunk_packets) {
            return Err(ConfigError::ChunkPackets { packets: self.chunk_packets });
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
        for packets in [0, (1 << 16) + 1] {
            let config = EngineConfig {
                chunk_packets: packets,
                ..EngineConfig::new(Layout::Sharded { workers: 2 })
            };
            assert_eq!(config.check(), Err(ConfigError::ChunkPackets { packets }));
        }
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
