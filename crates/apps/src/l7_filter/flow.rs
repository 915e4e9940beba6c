//! The state of a flow: its protocol, and how far its first bytes were scanned.

use flowloom_dpi::ScanState;
use flowloom_dpi::stream::Sequencer;
use flowloom_engine::FlowState;
use flowloom_flow_key::Direction;
use flowloom_record::{Column, Group, Kind, Value, Word, element};

use super::label::{Confidence, Evidence, Seen};
use super::names::Name;
use super::pool::Lease;
use crate::accounting::direction::Initiator;
use crate::record_columns::{LABEL, SOURCE_END, end_word};

/// The progress of identification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum L7State {
    /// More packets are needed.
    #[default]
    NoMatchYet,
    /// A pattern has matched. The label may change while more of the first packets arrive.
    Matched,
    /// No pattern has matched, and no more packets are scanned.
    NoMatch,
}

impl L7State {
    /// Returns the name that flow files use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoMatchYet => "no-match-yet",
            Self::Matched => "matched",
            Self::NoMatch => "no-match",
        }
    }
}

/// One direction of a flow. For datagrams only the number of scanned bytes and the match are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct DirectionScan {
    pub(super) order: Sequencer,
    pub(super) scan: ScanState,
    pub(super) window: Option<Lease>,
    pub(super) buffer: Option<Lease>,
    /// No pattern can match any more, regardless of later data.
    pub(super) closed: bool,
    /// The direction takes no more data, because there is a gap or enough was scanned.
    pub(super) over: bool,
    /// The pattern that has matched. No more data of the direction is scanned then.
    pub(super) found: Evidence,
}

impl DirectionScan {
    pub(super) fn end(&mut self) {
        self.over = true;
        self.closed = true;
    }

    /// Returns the evidence of the direction for the flow's label.
    pub(super) fn seen(&self) -> Seen {
        let found = self.found.get();
        Seen { found, unknown: found.is_none() && self.scan.bytes() > 0 && !self.over }
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
    /// No more packets are scanned.
    pub(super) decided: bool,
    pub(super) confidence: Confidence,
    pub(super) initiator: Initiator,
    /// The initiator as it was known when the first data came. The label depends on it, so it stays
    /// as it is.
    pub(super) asker: Initiator,
    pub(super) sides: [DirectionScan; 2],
    pub(super) protocol: Option<Name>,
}

const _: () = assert!(
    size_of::<L7Flow>() <= 192,
    "with its key a flow has at most four lines, all of which a lookup prefetches"
);

impl L7Flow {
    /// Returns the progress of identification.
    #[must_use]
    pub fn state(&self) -> L7State {
        match (self.protocol, self.decided) {
            (Some(_), _) => L7State::Matched,
            (None, true) => L7State::NoMatch,
            (None, false) => L7State::NoMatchYet,
        }
    }

    /// Returns the protocol's name if a pattern has matched.
    #[must_use]
    pub fn protocol(&self) -> Option<&'static str> {
        self.protocol.copied()
    }

    /// Returns the confidence of the protocol label, if there is one.
    #[must_use]
    pub fn confidence(&self) -> Option<Confidence> {
        self.protocol.map(|_| self.confidence)
    }

    /// Returns whether the label is final: both directions have matched, or all packets within the
    /// limit were scanned.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        self.decided
    }

    /// Returns the direction of packets from the flow's source, determined as in accounting
    /// records.
    #[must_use]
    pub fn source_direction(&self) -> Option<Direction> {
        self.initiator.is_known().then(|| self.initiator.source_direction())
    }

    /// Returns the state with which the next record of the connection begins, and leaves the label
    /// here.
    #[cfg(feature = "firewall")]
    pub(crate) fn carry(&mut self) -> Self {
        let Self { decided, confidence, initiator, asker, protocol, .. } = *self;
        let left = Self { decided, confidence, initiator, asker, protocol, ..Self::default() };
        let mut next = std::mem::replace(self, left);
        (self.packets, self.bytes) = (next.packets, next.bytes);
        (next.packets, next.bytes) = (0, 0);
        next
    }

    /// Returns the number of packets of both directions.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the bytes of these packets on the wire.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of scanned data packets.
    #[must_use]
    pub fn inspected_packets(&self) -> u32 {
        self.inspected
    }

    /// Returns the bytes that were put in sequence and scanned, each counted once.
    #[must_use]
    pub fn inspected_bytes(&self) -> u64 {
        self.sides.iter().map(|side| u64::from(side.scan.bytes())).sum::<u64>()
    }

    /// Returns the retransmitted bytes and the missing bytes of both directions, while the flow was
    /// undecided.
    #[must_use]
    pub fn overlap_and_gap_bytes(&self) -> (u64, u64) {
        self.sides.iter().map(|side| side.order.counts()).fold((0, 0), |(overlap, gap), counts| {
            (overlap + u64::from(counts.overlap_bytes), gap + u64::from(counts.gap_bytes))
        })
    }
}

const fn label(name: &'static str, kind: Kind, description: &'static str) -> Column {
    Column::new(name, kind, description).in_group(Group::Label)
}

const STATES: [Word; 3] = {
    let [a, b, c] = [L7State::NoMatchYet, L7State::Matched, L7State::NoMatch];
    [Word::new(a.name(), 0), Word::new(b.name(), 0), Word::new(c.name(), 0)]
};
const CONFIDENCES: [Word; 4] = {
    let [a, b, c] = Confidence::ALL;
    [Word::new("-", 0), Word::new(a.name(), 0), Word::new(b.name(), 0), Word::new(c.name(), 0)]
};

impl FlowState for L7Flow {
    const COLUMNS: &'static [Column] = &[
        LABEL,
        label("l7_state", Kind::Word(&STATES), "How far the flow's first packets were scanned."),
        label("l7_confidence", Kind::Word(&CONFIDENCES), "How certain the name is; `-` without one."),
        Column::new("packets", Kind::Packets, "Packets of both directions.")
            .with_elements(element::PACKETS),
        Column::new("bytes", Kind::Bytes, "The bytes of these packets on the wire, link layer included.")
            .with_elements(element::BYTES),
        label("inspected_packets", Kind::Packets, "Packets with data that were scanned."),
        label("inspected_bytes", Kind::Bytes, "Bytes that were put in sequence and scanned, each once."),
        label("overlap_bytes", Kind::Bytes, "Bytes that were sent again while the flow was scanned."),
        label("gap_bytes", Kind::Bytes, "Bytes that were missing while the flow was scanned."),
        SOURCE_END,
    ];

    fn values(&self, out: &mut Vec<Value>) {
        let (overlap, gap) = self.overlap_and_gap_bytes();
        out.extend([
            Value::Word(self.protocol().unwrap_or("-")),
            Value::Word(self.state().name()),
            Value::Word(self.confidence().map_or("-", Confidence::name)),
            Value::Number(self.packets),
            Value::Number(self.bytes),
            Value::Number(u64::from(self.inspected)),
            Value::Number(self.inspected_bytes()),
            Value::Number(overlap),
            Value::Number(gap),
            Value::Word(end_word(self.source_direction())),
        ]);
    }
}
