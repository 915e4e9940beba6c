//! Bytes to headers, without panics or copies.
//!
//! A [`PacketSource`] yields batches of records that lie in a [`Block`] of the arena; [`decode`](decode::decode) says
//! what each one is: [`Headers`] with the flow's key, or the [`DropReason`] why there is none.

pub mod arena;
pub mod checksum;
pub mod decode;
pub mod link;
pub mod reason;
pub mod source;
#[cfg(feature = "proptest")]
pub mod strategies;
pub mod view;

pub use arena::{Block, SharedBlock};
pub use decode::{DecodeOptions, decode};
pub use link::LinkType;
pub use reason::{DropCounts, DropReason};
pub use source::{BATCH_PACKETS, Fill, PacketBatch, PacketSource, RawPacket, SourceError};
pub use view::{Headers, PacketView};
