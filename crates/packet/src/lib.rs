//! Decodes bytes to headers, without panics or copies.
//!
//! A [`PacketSource`] yields batches of records that lie in a [`Block`] of the arena.
//! [`decode`](decode::decode) returns the [`Headers`] of a record with the flow's key, or the
//! [`DropReason`] why it has no key. The decoder needs neither source nor arena; it takes any slice
//! of bytes.
//!
//! # Examples
//!
//! ```
//! use flowloom_packet::{DecodeOptions, DropCounts, LinkType, decode};
//!
//! // A datagram from 10.0.0.1:1024 to 192.0.2.1:53, as it lies in a frame.
//! let mut frame = vec![0; 12];
//! frame.extend([0x08, 0x00]);
//! frame.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 192, 0, 2, 1]);
//! frame.extend([4, 0, 0, 53, 0, 8, 0, 0]);
//!
//! let mut dropped = DropCounts::default();
//! match decode(LinkType::ETHERNET, &frame, DecodeOptions::default()) {
//!     Ok(headers) => {
//!         assert_eq!(headers.tuple().to_string(), "10.0.0.1:1024 > 192.0.2.1:53 proto 17");
//!         assert_eq!(headers.key.to_string(), "10.0.0.1:1024 <> 192.0.2.1:53 proto 17");
//!     }
//!     Err(reason) => dropped.count(reason),
//! }
//! assert_eq!(dropped.total(), 0);
//! ```
//!
//! # Features
//!
//! * `proptest`: exports strategies for packets in `strategies`.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod arena;
pub mod arp;
pub mod census;
pub mod checksum;
pub mod clock;
pub mod decode;
pub mod drop_reason;
mod frame;
pub mod icmp;
pub mod interface;
pub mod link;
mod live_time;
mod memory_wire;
mod pool;
pub mod refusal;
pub mod rewrite;
pub mod source;
#[cfg(feature = "proptest")]
pub mod strategies;
pub mod view;
pub mod wire;

pub use flowloom_flow_key::{Direction, FiveTuple, FlowKey, IpFamily};

pub use arena::{Block, Fragments, OpenBlock, SharedBlock};
pub use census::EncapsulationCounts;
pub use decode::{CustomEncapsulations, DecodeOptions, decode};
pub use drop_reason::{DropCounts, DropReason};
pub use interface::InterfaceName;
pub use link::LinkType;
pub use live_time::LiveTime;
pub use memory_wire::MemoryWire;
pub use pool::BlockPool;
pub use source::{BATCH_PACKETS, Fill, PacketBatch, PacketSource, RawPacket, Segment, SourceError};
pub use view::{Headers, PacketView};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
