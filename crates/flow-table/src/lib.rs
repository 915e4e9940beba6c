//! Tables that map the key of a flow to its state.
//!
//! ```text
//!  key, hash ──▶ index: signatures by bucket ──▶ slot ──▶ key, time, value
//!                each table its own                       ids, ageing, eviction: shared
//! ```
//!
//! * [`FlowMap`] is the map to start with: it hashes, grows, and is used like `HashMap`.
//! * [`FlowTable`] is the trait of all other tables, for callers that hash each packet once.
//! * [`LineHash`] is the recommended table; as [`FlowIndex`] it gives ids and stores no values.
//! * [`evict`] frees slots in a full table, according to the caller's policy.
//! * [`Growing`] lets any table grow without moving a flow.
//! * [`Indexed`] is the trait for writing a table: you provide the index, and this crate the rest.
//! * `oracle` and `laws` are the model and the test suite of all implementations.
//!
//! # Examples
//!
//! Packets by flow, in a map that hashes:
//!
//! ```
//! use flowloom_flow_table::FlowMap;
//! let mut packets: FlowMap<(u32, u16), u64> = FlowMap::new();
//! for key in [(7, 443), (9, 53), (7, 443)] {
//!     *packets.get_or_insert_with(key, || 0)? += 1;
//! }
//! assert_eq!(packets.get(&(7, 443)), Some(&2));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The connections of a NAT, whose caller hashes, with a key type of its own, two timeouts, and
//! eviction of flows that are not established:
//!
//! ```
//! use flowloom_flow_table::evict::UnestablishedFirst;
//! use flowloom_flow_table::{
//!     FlowHasher, FlowTable, LineHash, TableOptions, Tick, TimeoutClass, Timeouts,
//! };
//!
//! #[derive(Clone, Copy, PartialEq, Eq, Debug)]
//! struct Inside {
//!     address: u128,
//!     ports: (u16, u16),
//! }
//!
//! impl Inside {
//!     fn words(self) -> [u64; 3] {
//!         let ports = u64::from(self.ports.0) << 16 | u64::from(self.ports.1);
//!         [(self.address >> 64) as u64, self.address as u64, ports]
//!     }
//! }
//!
//! struct Connection {
//!     established: bool,
//!     packets: u64,
//! }
//!
//! const HALF_OPEN: TimeoutClass = TimeoutClass(0);
//! const OPEN: TimeoutClass = TimeoutClass(1);
//!
//! let hasher = FlowHasher::random();
//! let mut table = LineHash::<Inside, Connection>::try_new(&TableOptions {
//!     timeouts: Timeouts::NEVER.with(HALF_OPEN, 5).with(OPEN, 300),
//!     ..TableOptions::for_flows(1000)
//! })?;
//! let mut policy = UnestablishedFirst::new(|connection: &Connection| connection.established);
//!
//! // A packet: find its flow or begin it, and look at its state.
//! let key = Inside { address: 7, ports: (1024, 443) };
//! let (hash, now) = (hasher.hash_words(&key.words()).table, Tick(1));
//! let new = || Connection { established: false, packets: 0 };
//! let id = table.entry_or_evict(key, hash, HALF_OPEN, now, new, &mut policy)?.id;
//! let (connection, _) = table.get_mut_touch(id, now).expect("just found");
//! connection.packets += 1;
//! connection.established = true;
//! table.set_class(id, OPEN);
//!
//! // From time to time: remove flows that were idle for too long, a bounded number per call.
//! let gone = table.expire(Tick(100), 64, &mut |_, key, _| println!("{key:?} has ended"));
//! assert_eq!((gone.removed, table.lookup(&key, hash)), (0, Some(id)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Only [`FlowMap`] and the concurrent table compute hashes. No table reads a clock or panics on
//! packet contents. After it is built, no table allocates, except these two and [`Growing`] when
//! they grow.
//!
//! # Features
//!
//! * `concurrent`: `ConcurrentFlowTable`, a table that many threads read.
//! * `papers`: tables for comparisons. `DHash` of [DHASH §III] and `SigHash` of [FLOWNP §4] exist
//!   for production and as their papers describe them; `baseline` has the tables of lists with
//!   which the papers compare. Their interfaces may change in any version.
//! * `std` (default): run-time detection of instruction sets, huge pages, `oracle` and `laws`.
//!   Without it the crate is `no_std` with `alloc`.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(any(feature = "std", test)), no_std)]

extern crate alloc;

mod arch;
#[cfg(feature = "papers")]
pub mod baseline;
#[cfg(feature = "concurrent")]
pub mod concurrent;
mod conflict;
mod cursor;
#[cfg(feature = "papers")]
pub mod dhash;
pub mod error;
pub mod evict;
mod flow;
mod flow_id;
mod full;
pub mod indexed;
#[cfg(feature = "std")]
pub mod laws;
pub mod linehash;
pub mod map;
mod options;
#[cfg(feature = "std")]
pub mod oracle;
pub mod probe;
pub mod segments;
#[cfg(feature = "papers")]
pub mod sighash;
pub mod state;
pub mod table;
mod table_key;
mod table_stats;
mod tick;

pub use flowloom_cpu::features::Isa;
pub use flowloom_cpu::pages::{AllocError, CacheLine, HugePages, PageReport};
pub use flowloom_flow_key::{
    Direction, FiveTuple, FlowHash, FlowHasher, FlowKey, KeyedHasher, KeyedState, TableHash,
};

#[cfg(feature = "concurrent")]
pub use concurrent::ConcurrentFlowTable;
#[cfg(feature = "papers")]
pub use dhash::DHash;
pub use error::BuildError;
pub use indexed::Indexed;
pub use linehash::{FlowIndex, LineHash};
pub use map::{FlowMap, FlowMapBuilder};
pub use options::TableOptions;
pub use segments::Growing;
#[cfg(feature = "papers")]
pub use sighash::SigHash;
pub use state::Timeouts;
pub use table::{
    Cursor, Entry, Expired, Flow, FlowId, FlowTable, Full, FullReason, MemoryReport, Refused, TableKey,
    TableStats, Tick, TimeoutClass,
};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
