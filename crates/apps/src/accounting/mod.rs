//! Flow accounting like NetFlow: records with a start, an end, and the reason for the end.
//!
//! ```text
//!  packets of one key   a a a . a a a . . . . . . . b b F F . S
//!  records              ├─────┤├───┤               ├──────┤  ├┤
//!  ended by             active  idle                 fin     end of input
//! ```
//!
//! The times of a record are those that its packets are stamped with. Timeouts follow the time of
//! the run, which a wrong stamp does not move. A record ends for one of these reasons:
//!
//! * *idle*: no packet arrived for longer than the engine's idle timeout;
//! * *active*: a packet arrived so long after the record's first that it begins a new record, which
//!   inherits the direction, the sequence numbers and the FINs of the connection;
//! * *fin*: both sides had sent FIN. An RST in place of the last acknowledgement, or behind it,
//!   changes nothing;
//! * *reset*: one side had sent an RST within the window of the other, and not both had sent FIN.
//!   Later packets still belong to the record, until another connection begins;
//! * *new connection*: a SYN (or SYN+ACK) with another initial sequence number begins another
//!   connection on the same addresses and ports. A retransmission has the same number, and comes
//!   before the connection is closed;
//! * *evicted*: the flow table needed the space;
//! * *end*: the input ended.
//!
//! The source of a record is the initiator of its connection: the end that sent the SYN, otherwise
//! the end that received the SYN+ACK, otherwise the end that sent the first packet.
//! [`DirectionBasis`] shows which rule applied.
//!
//! The records of one key stay separate and in order. The key's own packets determine where records
//! are split, so records do not depend on the number of workers.

mod accounted;
mod columns;
mod community_id;
mod connection;
pub(crate) mod direction;
mod end;
pub mod fields;
#[cfg(test)]
mod laws;
mod record;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod segments;

use flowloom_engine::{App, Composed, FlowState, Verdict};
use flowloom_packet::PacketView;

pub use accounted::{Accounted, SplitReason};
pub use community_id::community_id;
pub use direction::DirectionBasis;
pub use end::EndReason;
pub use flowloom_engine::EndedBy;
pub use record::AccountingRecord;
pub(crate) use record::Ends;

/// Accounts for packets and bytes in records that end by timeouts and by the end of TCP
/// connections.
///
/// The engine applies the idle timeout.
///
/// # Examples
///
/// ```
/// use flowloom_apps::Accounting;
/// use flowloom_engine::App;
/// // Records of half an hour at most: `engine::run` takes a closure like this.
/// let app = |_worker: usize| Accounting::new(Some(1_800_000_000_000));
/// # let _ = app(0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounting {
    active_ns: Option<u64>,
}

impl Accounting {
    /// Returns the application. A packet that arrives `active_ns` nanoseconds or more after its
    /// record's first begins a new record. With `None` a record continues as long as packets
    /// arrive.
    #[must_use]
    pub fn new(active_ns: Option<u64>) -> Self {
        Self { active_ns }
    }

    /// Adds a record of a later part of an input to `flow`, as [`FlowState::compose`] does, and
    /// ends it by the active timeout.
    pub fn compose(self, flow: &mut Accounted, later: &mut Accounted) -> Composed {
        match self.active_ns {
            Some(active) => flow.compose_within(later, active),
            None => flow.compose(later),
        }
    }
}

impl App for Accounting {
    type Flow = Accounted;

    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut Accounted) -> Verdict {
        flow.add_packet(packet);
        Verdict::Accept
    }

    #[inline(always)]
    fn next_record(&self, packet: &PacketView<'_>, flow: &mut Accounted) -> Option<Accounted> {
        if direction::opening(packet).is_some() && flow.ends_before_opening(packet) {
            return Some(Accounted::default());
        }
        let age_ns = packet.time_ns.saturating_sub(flow.begun_ns());
        if self.active_ns.is_some_and(|active| age_ns >= active) {
            let next = flow.carried();
            flow.mark(SplitReason::Active);
            return Some(next);
        }
        None
    }
}
