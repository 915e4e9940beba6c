//! Generated packets: the same seed gives the same bytes on every machine.
//!
//! | module | makes |
//! | --- | --- |
//! | [`sessions`] | the paper's traces: N sessions at the greatest reuse distance |
//! | [`mix`] | traffic like that of a site: protocols, flow sizes, bursts, a SYN flood |
//! | [`sample`] | the traces committed under `traces/`, by name |
//! | [`generated`] | a source from any generator |
//! | [`reuse`] | the figures of a trace: concurrent sessions, reuse distance, mean length |
//!
//! Generators produce packets as a stream, and [`Generated`] turns any generator into a source.
//! Nothing here reads a clock, the system's entropy or the environment. No number that determines a
//! byte comes from a function whose last digit differs between mathematical libraries.

#![expect(
    clippy::cast_possible_truncation,
    reason = "header fields are extracted from wider words; the configuration limits sizes"
)]

pub mod generated;
mod hosts;
pub mod mix;
mod random;
pub mod reuse;
pub mod sample;
pub mod sessions;
mod wire;
mod zipf;

pub use generated::Generated;
pub use mix::{FrameSize, Mix, MixConfig, MixError};
pub use reuse::TraceProfile;
pub use sample::Sample;
pub use sessions::{PaperTrace, PaperTraceError};

/// The default beginning of generated traces: 2026-01-01 00:00:00 UTC, in nanoseconds since 1970.
pub const START_NS: u64 = 1_767_225_600 * 1_000_000_000;

/// Properties of a generated packet other than its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Nanoseconds since 1970. Never goes backwards.
    pub time_ns: u64,
    /// Length of the frame.
    pub wire_bytes: u32,
    /// The generator's number of the flow; `None` for packets that belong to no flow, such as ARP.
    ///
    /// A number represents a conversation: later fragments of its datagrams have the same number,
    /// but another flow key, because they have no ports.
    pub flow: Option<u32>,
}

/// A generator of packets.
pub trait Generate {
    /// Replaces the contents of `frame` by the next packet, an Ethernet frame without check
    /// sequence.
    ///
    /// Returns `None` at the end, and at every later call.
    fn next_into(&mut self, frame: &mut Vec<u8>) -> Option<Meta>;

    /// Returns the same as [`next_into`](Self::next_into) for callers that do not need the bytes.
    fn next_meta(&mut self) -> Option<Meta> {
        self.next_into(&mut Vec::new())
    }

    /// Returns the number of packets of the whole trace.
    fn packets(&self) -> u64;
}
