//! The accounting state of a flow: its open record.

use flowloom_engine::{Composed, FlowState};
use flowloom_flow_key::Direction::{self, HighToLow, LowToHigh};
use flowloom_packet::icmp::{ICMP, ICMPV6};
use flowloom_packet::{Fragments, PacketView};
use flowloom_record::{Column, Kind, Value};

use super::EndReason;
use super::connection::{Connection, FIN, Judgement, RST, SYN, Segment};
use super::direction::{DirectionBasis, Initiator, has_tcp_header, opening};
use crate::record_columns::{LABEL, SOURCE_END, end_word};
use crate::save_state::{SaveState, put, words};

/// Bits of [`Accounted::seen`] that count packets: enough for a thousand million packets per second
/// over three days.
const PACKETS: u64 = (1 << FLAGS_SHIFT) - 1;
const FLAGS_SHIFT: u32 = 48;
/// The nine TCP flags in `seen`.
const FLAGS: u64 = 0x1FF << FLAGS_SHIFT;
/// Set in the first word of `seen` once the time of the run differs from the stamp of a packet.
const IS_STAMPED: u64 = 1 << 63;

// Bits of `Accounted::marks`.
/// The first packet of the record is a SYN or, with the next bit, a SYN+ACK.
const BEGAN_OPENING: u8 = 1;
const BEGAN_ANSWERING: u8 = 2;
/// That packet came from the high endpoint.
const BEGAN_HIGH: u8 = 4;
const CUT_ACTIVE: u8 = 8;
const CUT_NEW_CONNECTION: u8 = 16;
/// The record has the type and code of an ICMP message.
const HAS_MESSAGE: u8 = 32;
const MARKS: u8 = 63;

/// The reason why the application ended a record and began another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitReason {
    /// The record had reached the active timeout.
    Active,
    /// The next packet begins a new connection.
    NewConnection,
}

/// One record of a flow. Flows other than TCP need only its first cache line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Accounted {
    /// Per direction: the packet count, with the TCP flags above it.
    seen: [u64; 2],
    bytes: [u64; 2],
    ip_bytes: [u64; 2],
    /// The earliest and the latest stamp.
    first_ns: u64,
    last_ns: u64,
    connection: Connection,
    /// The time of the run at the first packet, if the record [is stamped](IS_STAMPED).
    begun_ns: u64,
    /// Packets whose stamp is before that of an earlier packet.
    times_back: u32,
    /// Type and code of the first ICMP message.
    message: [u8; 2],
    initiator: Initiator,
    marks: u8,
}

const _: () = assert!(size_of::<Accounted>() <= 112, "a record has two lines, of which UDP needs one");

impl Accounted {
    /// Returns the packet counts: from the low endpoint to the high one, and back.
    pub fn packets(&self) -> [u64; 2] {
        self.seen.map(|seen| seen & PACKETS)
    }

    /// Returns the bytes on the wire per direction, including the link layer.
    pub fn bytes(&self) -> [u64; 2] {
        self.bytes
    }

    /// Returns the bytes of the IP packets per direction, including their headers.
    pub fn ip_bytes(&self) -> [u64; 2] {
        self.ip_bytes
    }

    /// Returns the union of the nine TCP flags, per direction.
    pub fn flags(&self) -> [u16; 2] {
        self.seen.map(|seen| (seen >> FLAGS_SHIFT & 0x1FF) as u16)
    }

    /// Returns the earliest and the latest time stamp of the packets, in nanoseconds since 1970.
    pub fn times_ns(&self) -> (u64, u64) {
        (self.first_ns, self.last_ns)
    }

    /// Returns how many packets were stamped before an earlier packet of the record.
    pub fn times_back(&self) -> u32 {
        self.times_back
    }

    /// Returns the time of the run at the first packet. Unlike the stamps it never goes back.
    #[inline(always)]
    pub(super) fn begun_ns(&self) -> u64 {
        if self.is_stamped() { self.begun_ns } else { self.first_ns }
    }

    #[inline(always)]
    fn is_stamped(&self) -> bool {
        self.seen[0] & IS_STAMPED != 0
    }

    /// Returns the direction of packets from the source, which is the same in all records of a
    /// connection.
    pub fn source_direction(&self) -> Direction {
        self.initiator.source_direction()
    }

    /// Returns how the source is known.
    pub fn direction_basis(&self) -> DirectionBasis {
        self.initiator.basis()
    }

    /// Returns the type and code of the flow's first ICMP message.
    pub fn icmp(&self) -> Option<[u8; 2]> {
        (self.marks & HAS_MESSAGE != 0).then_some(self.message)
    }

    /// Returns how the connection was closed in this record or before it, or `None` if it was not.
    pub fn closed(&self) -> Option<EndReason> {
        if self.connection.is_finished() {
            Some(EndReason::Fin)
        } else if self.connection.is_reset() {
            Some(EndReason::Reset)
        } else {
            None
        }
    }

    /// Returns whether each side has sent a FIN that the other has not acknowledged.
    pub fn open_fins(&self) -> [bool; 2] {
        [0, 1].map(|side| self.connection.has_open_fin(side))
    }

    /// Returns why the application ended the record, or `None` if it did not.
    pub fn split_reason(&self) -> Option<SplitReason> {
        if self.marks & CUT_ACTIVE != 0 {
            Some(SplitReason::Active)
        } else if self.marks & CUT_NEW_CONNECTION != 0 {
            Some(SplitReason::NewConnection)
        } else {
            None
        }
    }

    pub(super) fn mark(&mut self, cut: SplitReason) {
        self.marks |= match cut {
            SplitReason::Active => CUT_ACTIVE,
            SplitReason::NewConnection => CUT_NEW_CONNECTION,
        };
    }

    /// The columns of the state, followed by those of additional fields and by the protocol name.
    pub(crate) const COLUMNS_OF_METER: &'static [Column] = &[
        Column::new("start_ns", Kind::Time, "The earliest time stamp of a packet."),
        Column::new("end_ns", Kind::Time, "The latest time stamp of a packet."),
        Column::new("packets_low_to_high", Kind::Packets, "Packets from the source.")
            .of_direction(LowToHigh, "packets"),
        Column::new("packets_high_to_low", Kind::Packets, "Packets from the destination.")
            .of_direction(HighToLow, "reverse_packets"),
        Column::new("bytes_low_to_high", Kind::Bytes, "Bytes on the wire of packets from the source.")
            .of_direction(LowToHigh, "bytes"),
        Column::new("bytes_high_to_low", Kind::Bytes, "Bytes on the wire of packets from the destination.")
            .of_direction(HighToLow, "reverse_bytes"),
        Column::new("ip_bytes_low_to_high", Kind::Bytes, "IP bytes of packets from the source.")
            .of_direction(LowToHigh, "ip_bytes"),
        Column::new("ip_bytes_high_to_low", Kind::Bytes, "IP bytes of packets from the destination.")
            .of_direction(HighToLow, "reverse_ip_bytes"),
        Column::new("tcp_flags_low_to_high", Kind::Bits, "TCP flags of packets from the source.")
            .of_direction(LowToHigh, "tcp_flags"),
        Column::new("tcp_flags_high_to_low", Kind::Bits, "TCP flags of packets from the destination.")
            .of_direction(HighToLow, "reverse_tcp_flags"),
        SOURCE_END,
        Column::new("direction", Kind::Word(&DirectionBasis::WORDS), "How the source is known."),
        Column::new("closed", Kind::Word(&[]), "How the connection was closed, or `-`."),
        Column::new("icmp_type_code", Kind::Bits, "Type × 256 + code of the first ICMP message."),
        Column::new("times_back", Kind::Number, "Packets stamped before an earlier packet."),
        Column::new("fields_digest", Kind::Digest, "A digest of the additional fields."),
        LABEL,
        Column::new("verdict", Kind::Word(&[]), "The verdict of rules, or `-`."),
        Column::new("rule", Kind::Number, "The number of the rule that gave the last verdict."),
    ];

    /// The columns of the record, followed by that of further fields.
    pub(super) const COLUMNS_AND_FIELDS: &'static [Column] =
        Self::COLUMNS_OF_METER.split_at(Self::COLUMN_COUNT + 1).0;
    const COLUMN_COUNT: usize = Self::COLUMNS_OF_METER.len() - 4;

    fn is_empty(&self) -> bool {
        self.seen == [0, 0]
    }

    /// Ends the record and its connection. Returns the first state of the next.
    pub(crate) fn end_connection(&mut self) -> Self {
        self.mark(SplitReason::NewConnection);
        Self::default()
    }

    /// Returns the first state of the flow's next record: the connection and its direction, without
    /// packets.
    pub(super) fn carried(&self) -> Self {
        Self {
            connection: self.connection.carried(),
            message: self.message,
            initiator: self.initiator,
            marks: self.marks & HAS_MESSAGE,
            ..Self::default()
        }
    }

    /// Adds a packet of this record.
    #[inline(always)]
    pub(super) fn add_packet(&mut self, packet: &PacketView<'_>) {
        let headers = &packet.headers;
        let (way, flags) = (headers.direction.index(), headers.tcp_flags);
        if self.is_empty() {
            self.begin(packet);
        }
        self.seen[way] = (self.seen[way] + 1) | u64::from(flags) << FLAGS_SHIFT;
        self.bytes[way] += u64::from(packet.wire_bytes);
        self.ip_bytes[way] += u64::from(packet.ip_bytes());
        if packet.stamped_ns < self.last_ns || packet.stamped_ns != packet.time_ns {
            self.add_stamp(packet);
        } else {
            self.last_ns = packet.stamped_ns;
        }
        if let Some(fragments) = packet.fragments {
            self.add_fragments(way, fragments);
        }
        if has_tcp_header(packet) {
            if flags & (SYN | FIN | RST) != 0 {
                self.control(packet);
            } else if let Some(segment) = Segment::from_packet(packet) {
                self.connection.take(way, flags, &segment);
            }
        }
    }

    /// Adds the stamp of a packet that goes back or differs from the time of the run.
    #[cold]
    #[inline(never)]
    fn add_stamp(&mut self, packet: &PacketView<'_>) {
        let stamped_ns = packet.stamped_ns;
        if stamped_ns != packet.time_ns && !self.is_stamped() {
            let is_first = self.packets() == [1, 0] || self.packets() == [0, 1];
            self.begun_ns = if is_first { packet.time_ns } else { self.first_ns };
            self.seen[0] |= IS_STAMPED;
        }
        self.times_back = self.times_back.saturating_add(u32::from(stamped_ns < self.last_ns));
        self.first_ns = self.first_ns.min(stamped_ns);
        self.last_ns = self.last_ns.max(stamped_ns);
    }

    /// Counts the fragments of a datagram in place of the datagram.
    #[cold]
    #[inline(never)]
    fn add_fragments(&mut self, way: usize, fragments: &Fragments) {
        self.seen[way] += u64::from(fragments.packets.max(1)) - 1;
        self.ip_bytes[way] += u64::from(fragments.more_ip_bytes);
        self.first_ns = self.first_ns.min(fragments.first_ns);
        self.last_ns = self.last_ns.max(fragments.last_ns);
    }

    /// Stores the data that only the first packet of a record contains.
    #[inline(never)]
    fn begin(&mut self, packet: &PacketView<'_>) {
        let headers = &packet.headers;
        (self.first_ns, self.last_ns) = (packet.stamped_ns, packet.stamped_ns);
        let protocol = headers.key.protocol();
        if matches!(protocol, ICMP | ICMPV6) && !headers.later_fragment && self.marks & HAS_MESSAGE == 0 {
            let message =
                packet.bytes.get(headers.transport_offset as usize..).and_then(<[u8]>::first_chunk);
            if let Some(message) = message {
                (self.message, self.marks) = (*message, self.marks | HAS_MESSAGE);
            }
        }
        self.initiator.improve(Initiator::of_packet(packet));
        if let Some(acknowledges) = opening(packet) {
            self.marks |= if acknowledges { BEGAN_ANSWERING } else { BEGAN_OPENING };
            self.marks |= if headers.direction == HighToLow { BEGAN_HIGH } else { 0 };
        }
    }

    /// Processes a SYN, FIN or RST.
    #[cold]
    #[inline(never)]
    fn control(&mut self, packet: &PacketView<'_>) {
        let headers = &packet.headers;
        let (way, flags) = (headers.direction.index(), headers.tcp_flags);
        let segment = Segment::from_packet(packet);
        if opening(packet).is_some() {
            let is_first = self.packets() == [1, 0] || self.packets() == [0, 1];
            self.connection.open(way, flags, packet, segment, is_first);
            self.initiator.improve(Initiator::of_packet(packet));
        } else if flags & RST != 0 {
            self.connection.reset(way, flags, segment);
        } else if flags & FIN != 0 {
            self.connection.finish(way, flags, segment);
        }
    }

    /// Returns whether a SYN or SYN+ACK begins another connection, and therefore another record.
    #[cold]
    #[inline(never)]
    pub(super) fn ends_before_opening(&mut self, packet: &PacketView<'_>) -> bool {
        let Some(acknowledges) = opening(packet) else { return false };
        let way = packet.headers.direction.index();
        let silence_ns = if self.is_empty() { 0 } else { packet.time_ns.saturating_sub(self.last_ns) };
        let segment = Segment::from_packet(packet);
        let another = self.connection.is_another(way, acknowledges, segment, silence_ns);
        if another.holds {
            self.connection.note(another);
            self.mark(SplitReason::NewConnection);
        }
        another.holds
    }

    /// Returns whether the first of these packets, which were counted without knowledge of earlier
    /// packets, begins another connection than that of `before`. Returns `None` if it opens none.
    fn opens_another(&self, before: &Self) -> Option<Judgement> {
        let acknowledges = self.marks & BEGAN_ANSWERING != 0;
        if !acknowledges && self.marks & BEGAN_OPENING == 0 {
            return None;
        }
        let side = usize::from(self.marks & BEGAN_HIGH != 0);
        let segment = self.connection.initial(side).map(|sequence| {
            let asked = self.connection.initial(1 - side).unwrap_or_default();
            Segment::opening(sequence, asked.wrapping_add(1))
        });
        let silence_ns = if before.is_empty() { 0 } else { self.begun_ns().saturating_sub(before.last_ns) };
        Some(before.connection.is_another(side, acknowledges, segment, silence_ns))
    }

    /// Adds later packets of the same record.
    fn add(&mut self, later: &Self) {
        if self.is_empty() {
            (self.first_ns, self.begun_ns) = (later.first_ns, later.begun_ns());
            self.marks |= later.marks & (BEGAN_OPENING | BEGAN_ANSWERING | BEGAN_HIGH);
        }
        self.begun_ns = self.begun_ns();
        self.seen[0] |= later.seen[0] & IS_STAMPED;
        self.first_ns = self.first_ns.min(later.first_ns);
        self.last_ns = self.last_ns.max(later.last_ns);
        self.times_back = self.times_back.saturating_add(later.times_back);
        for way in 0..2 {
            self.seen[way] += later.seen[way] & PACKETS;
            self.seen[way] |= later.seen[way] & FLAGS;
            self.bytes[way] += later.bytes[way];
            self.ip_bytes[way] += later.ip_bytes[way];
        }
        self.connection.add(&later.connection);
        if self.marks & HAS_MESSAGE == 0 {
            self.message = later.message;
        }
        self.marks |= later.marks & (HAS_MESSAGE | CUT_ACTIVE | CUT_NEW_CONNECTION);
        self.initiator.improve(later.initiator);
    }

    /// Composes with later packets, unless the active timeout would separate the two.
    fn join(&mut self, later: &mut Self) -> Composed {
        if later.connection.is_renumbered() {
            return Composed::NeedsPackets;
        }
        let another = later.opens_another(self);
        if let Some(judgement) = another.filter(|judgement| judgement.holds) {
            self.connection.note(judgement);
            self.mark(SplitReason::NewConnection);
            return Composed::Apart;
        }
        let is_back = later.first_ns < self.last_ns;
        // Behind a FIN or RST, a SYN that repeats another one may begin a connection.
        let may_repeat = later.packets().iter().sum::<u64>() > 1 && later.connection.has_opening();
        if is_back
            || self.connection.has_end() && may_repeat
            || later.connection.depends()
            || !self.connection.agrees(&later.connection, another.is_some())
        {
            return Composed::NeedsPackets;
        }
        let mut joined = self.clone();
        joined.add(later);
        if let Some(judgement) = another {
            joined.connection.note(judgement);
        }
        if later.split_reason() == Some(SplitReason::Active) && joined.carried() != later.carried() {
            // The later records began with the knowledge of this one.
            return Composed::NeedsPackets;
        }
        *self = joined;
        Composed::Joined
    }

    /// Composes records that last at most `active_ns`.
    pub(super) fn compose_within(&mut self, later: &mut Self, active_ns: u64) -> Composed {
        if self.is_stamped() || later.is_stamped() {
            // The stamps of the later packets do not say when the record would have been cut.
            return Composed::NeedsPackets;
        }
        let lasts = |until_ns: u64| until_ns.saturating_sub(self.first_ns) >= active_ns;
        let is_another = !later.connection.is_renumbered()
            && later.opens_another(self).is_some_and(|judgement| judgement.holds);
        if is_another || !lasts(later.last_ns) {
            return self.join(later);
        }
        if !lasts(later.first_ns) {
            return Composed::NeedsPackets;
        }
        let mut next = self.carried();
        match next.join(later) {
            Composed::Joined => {
                self.mark(SplitReason::Active);
                *later = next;
                Composed::Apart
            }
            _ => Composed::NeedsPackets,
        }
    }
}

impl FlowState for Accounted {
    const COLUMNS: &'static [Column] = Self::COLUMNS_OF_METER.split_at(Self::COLUMN_COUNT).0;

    fn is_closed(&self) -> bool {
        self.connection.is_closed()
    }

    fn values(&self, out: &mut Vec<Value>) {
        let (packets, flags) = (self.packets(), self.flags());
        out.extend([
            Value::Number(self.first_ns),
            Value::Number(self.last_ns),
            Value::Number(packets[0]),
            Value::Number(packets[1]),
            Value::Number(self.bytes[0]),
            Value::Number(self.bytes[1]),
            Value::Number(self.ip_bytes[0]),
            Value::Number(self.ip_bytes[1]),
            Value::Bits(u64::from(flags[0])),
            Value::Bits(u64::from(flags[1])),
            Value::Word(end_word(Some(self.source_direction()))),
            Value::Word(self.direction_basis().name()),
            Value::Word(self.closed().map_or("-", EndReason::name)),
            Value::Bits(self.icmp().map_or(0, |message| u64::from(u16::from_be_bytes(message)))),
            Value::Number(self.times_back.into()),
        ]);
    }

    /// [`Accounting`](super::Accounting) composes records under an active timeout, because it knows
    /// the timeout.
    fn compose(&mut self, later: &mut Self) -> Composed {
        self.join(later)
    }
}

impl SaveState for Accounted {
    const BYTES: usize = 64 + Connection::BYTES + 16;

    fn save(&self, out: &mut Vec<u8>) {
        let Self { seen, bytes, ip_bytes, first_ns, last_ns, connection, begun_ns, times_back, .. } = self;
        let Self { message, initiator, marks, .. } = self;
        let [seen, bytes, ip_bytes] = [seen, bytes, ip_bytes].map(|[there, back]| (*there, *back));
        put(
            out,
            &[seen.0, seen.1, bytes.0, bytes.1, ip_bytes.0, ip_bytes.1, *first_ns, *last_ns, *begun_ns],
        );
        connection.save(out);
        out.extend_from_slice(&times_back.to_le_bytes());
        out.extend_from_slice(&[message[0], message[1], initiator.to_byte(), *marks]);
    }

    fn load(bytes: &[u8]) -> Option<Self> {
        let (words, rest) = words::<9>(bytes)?;
        let (connection, rest) = rest.split_first_chunk::<{ Connection::BYTES }>()?;
        let (times_back, rest) = rest.split_first_chunk()?;
        let &[kind, code, initiator, marks] = rest else { return None };
        if marks & !MARKS != 0 {
            return None;
        }
        let pair = |at: usize| [words[at], words[at + 1]];
        Some(Self {
            seen: pair(0),
            bytes: pair(2),
            ip_bytes: pair(4),
            first_ns: words[6],
            last_ns: words[7],
            connection: Connection::load(connection)?,
            begun_ns: words[8],
            times_back: u32::from_le_bytes(*times_back),
            message: [kind, code],
            initiator: Initiator::from_byte(initiator)?,
            marks,
        })
    }
}
