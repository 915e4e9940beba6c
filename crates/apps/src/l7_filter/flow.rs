//! The state of a flow: its protocol, and how far its first bytes were scanned.

use flowloom_dpi::ScanState;
use flowloom_dpi::stream::Sequencer;
use flowloom_engine::{Composed, FlowState, FlowValue};
use flowloom_flow_key::Direction;

use super::names::Name;
use super::pool::Lease;
use crate::accounting::direction::Initiator;

/// How far a connection is identified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum L7State {
    /// More packets are needed.
    #[default]
    NoMatchYet,
    /// A pattern has matched.
    Matched,
    /// No pattern has matched, and no more packets are scanned.
    NoMatch,
}

impl L7State {
    /// Returns the name that flow files use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoMatchYet => "no-match-yet",
            Self::Matched => "matched",
            Self::NoMatch => "no-match",
        }
    }
}

/// One direction of a TCP connection. For datagrams the first entry counts the scanned bytes of
/// both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Side {
    pub(super) order: Sequencer,
    pub(super) scan: ScanState,
    /// Bytes put in sequence while the flow was undecided.
    pub(super) taken: u32,
    pub(super) window: Option<Lease>,
    pub(super) buffer: Option<Lease>,
    /// No pattern can match any more, whatever follows.
    pub(super) closed: bool,
    /// The direction takes no more data, because there is a gap or enough was scanned.
    pub(super) over: bool,
}

impl Side {
    pub(super) fn end(&mut self) {
        self.over = true;
        self.closed = true;
    }
}

/// The state of one flow.
///
/// Fields that every packet changes come first, on the line after the key. Fields that few flows
/// use are allocated separately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct L7Flow {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) inspected: u32,
    pub(super) state: L7State,
    pub(super) initiator: Initiator,
    pub(super) sides: [Side; 2],
    pub(super) protocol: Option<Name>,
}

const _: () = assert!(
    size_of::<L7Flow>() <= 192,
    "with its key a flow has at most four lines, all of which a lookup asks for"
);

impl L7Flow {
    /// Returns how far the flow is identified.
    #[must_use]
    pub fn state(&self) -> L7State {
        self.state
    }

    /// Returns the protocol's name if a pattern has matched.
    #[must_use]
    pub fn protocol(&self) -> Option<&'static str> {
        self.protocol.filter(|_| self.state == L7State::Matched).copied()
    }

    /// Returns the direction of packets from the flow's source, determined as in accounting
    /// records.
    #[must_use]
    pub fn source_direction(&self) -> Option<Direction> {
        self.initiator.is_known().then(|| self.initiator.source_direction())
    }

    /// Returns the number of scanned data packets.
    #[must_use]
    pub fn inspected_packets(&self) -> u32 {
        self.inspected
    }

    /// Returns the bytes that were put in sequence and scanned, each counted once.
    #[must_use]
    pub fn inspected_bytes(&self) -> u64 {
        self.sides.iter().map(|side| u64::from(side.taken)).sum::<u64>()
    }

    /// Returns the retransmitted bytes and the missing bytes of both directions, while the flow was
    /// undecided.
    #[must_use]
    pub fn overlap_and_gap_bytes(&self) -> (u64, u64) {
        self.sides.iter().map(|side| side.order.counts()).fold((0, 0), |(overlap, gap), counts| {
            (overlap + u64::from(counts.overlap_bytes), gap + u64::from(counts.gap_bytes))
        })
    }

    /// Returns whether packets have changed nothing but the counts.
    fn is_untouched(&self) -> bool {
        self.state == L7State::NoMatchYet && self.inspected == 0 && self.sides == <[Side; 2]>::default()
    }
}

impl FlowState for L7Flow {
    const COLUMNS: &'static [&'static str] = &[
        "l7_protocol",
        "l7_state",
        "packets",
        "bytes",
        "inspected_packets",
        "inspected_bytes",
        "overlap_bytes",
        "gap_bytes",
        "source_end",
    ];

    fn values(&self, out: &mut Vec<FlowValue>) {
        let (overlap, gap) = self.overlap_and_gap_bytes();
        out.extend([
            FlowValue::Word(self.protocol().unwrap_or("-")),
            FlowValue::Word(self.state.name()),
            FlowValue::Count(self.packets),
            FlowValue::Count(self.bytes),
            FlowValue::Count(u64::from(self.inspected)),
            FlowValue::Count(self.inspected_bytes()),
            FlowValue::Count(overlap),
            FlowValue::Count(gap),
            FlowValue::Word(match self.source_direction() {
                Some(Direction::LowToHigh) => "low",
                Some(Direction::HighToLow) => "high",
                None => "-",
            }),
        ]);
    }

    /// A decided name stays. An unfinished scan needs the packets.
    fn compose(&mut self, later: &mut Self) -> Composed {
        let (packets, bytes) = (self.packets + later.packets, self.bytes + later.bytes);
        let mut initiator = self.initiator;
        initiator.improve(later.initiator);
        if self.is_untouched() {
            *self = std::mem::take(later);
        } else if self.state == L7State::NoMatchYet && !later.is_untouched() {
            return Composed::NeedsPackets;
        }
        (self.packets, self.bytes, self.initiator) = (packets, bytes, initiator);
        Composed::Joined
    }
}
