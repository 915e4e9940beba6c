//! The application stage: one thread per worker. It takes descriptors, reads the packets where they lie, and runs the
//! application on their flows.
//!
//! | worker | packets come | flows are |
//! | --- | --- | --- |
//! | [`private`] | through a ring of its own | its own |
//! | [`shared`] | through a ring of its own | everybody's, entered by turns where the policy keeps no order |
//! | [`pull`] | from the pool, one at a time | everybody's |

pub(crate) mod private;
pub(crate) mod pull;
pub(crate) mod shared;

use flowloom_packet::{DecodeOptions, DropReason, Headers, PacketView, SharedBlock, decode};

use crate::actor::Polled;
use crate::control::Publisher;
use crate::counters::WorkerCounters;
use crate::descriptor::Descriptor;
use crate::egress::DoneWith;
use crate::flows::FlowsEnd;

/// A worker, whatever its kind. Asked once per chunk.
pub(crate) trait Worker<F>: Send {
    /// Does a little work.
    fn poll(&mut self) -> Polled;

    /// Returns the number of the packet that its application has in hand, if any.
    fn at(&self) -> Option<u64>;

    /// Ends it, and lets go of its ends of rings. Of one that has panicked only counters are looked at.
    fn end(self: Box<Self>, has_panicked: bool) -> WorkerEnd<F>;
}

/// What a worker leaves.
#[derive(Debug)]
pub(crate) struct WorkerEnd<F> {
    pub(crate) counters: WorkerCounters,
    /// Its own flows, if it had some and has not panicked.
    pub(crate) flows: Option<FlowsEnd<F>>,
    /// Packets it has fetched, where workers fetch.
    pub(crate) fetched: u64,
    /// Accepted packets that nobody was there to take.
    pub(crate) refused: u64,
}

/// What every kind of worker has.
pub(crate) struct Desk<'a> {
    pub(crate) options: DecodeOptions,
    pub(crate) publisher: Publisher<'a>,
    pub(crate) done_with: Option<DoneWith>,
}

impl Desk<'_> {
    fn refused(&self) -> u64 {
        self.done_with.as_ref().map_or(0, |done| done.refused)
    }
}

/// Decodes a packet again: the input stage had its key only for a moment.
#[inline(always)]
fn headers_of(
    packet: Descriptor,
    bytes: &[u8],
    pass: u32,
    options: DecodeOptions,
) -> Result<Headers, DropReason> {
    let mut headers = decode(packet.link(), bytes, options)
        // The input stage decoded the same bytes. Should a mapped file change under us, nothing is lost unseen.
        .map_err(|_| DropReason::MalformedLink)?;
    if pass != 0 {
        headers.key = headers.key.with_pass(pass);
    }
    Ok(headers)
}

/// Returns a packet as applications see it.
fn view(
    packet: Descriptor,
    block: &SharedBlock,
    pass: u32,
    options: DecodeOptions,
) -> Result<PacketView<'_>, DropReason> {
    let bytes = packet.bytes(block.bytes());
    let headers = headers_of(packet, bytes, pass, options)?;
    Ok(PacketView { bytes, headers, time_ns: packet.time_ns, wire_bytes: packet.wire })
}
