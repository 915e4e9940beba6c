//! The state of a record's TCP connection: sequence numbers, windows, and closing.
//!
//! Sequence numbers answer three questions:
//!
//! * Does a SYN (or SYN+ACK) begin another connection on the same addresses and ports? It does if
//!   its number differs from the initial sequence number of this connection; a retransmission has
//!   the same number. A closed connection sends no SYN again: behind a refusal or a close, a SYN
//!   with the same number begins another connection.
//! * Does an RST close the connection? It does if it lies within the window that the other side
//!   last announced [RFC 9293 §3.10.7.4].
//! * Is the connection closed? It is once both sides have sent a FIN, or an RST has closed it.
//!
//! The state keeps the numbers of the last segment of each side, not the highest numbers. The state
//! after packets *a* then *b* therefore follows from the states after each, and parts of an input
//! compose.

use flowloom_packet::{Headers, PacketView};

pub(super) const FIN: u16 = 1;
pub(super) const SYN: u16 = 2;
pub(super) const RST: u16 = 4;
pub(super) const ACK: u16 = 16;

/// Maximum distance of a late SYN below what its side has sent, or below what the other side has
/// acknowledged.
const REORDERED_BYTES: u32 = 1 << 16;
/// A SYN behind a longer silence of both sides is not late.
const REORDERED_NS: u64 = 10_000_000_000;
/// Maximum distance of an RST from what its side has sent, if the other side has acknowledged
/// nothing.
const UNACKNOWLEDGED_BYTES: u32 = 1 << 20;
/// The largest window [RFC 7323 §2.2]. A number farther ahead counts as behind.
const WINDOW_BYTES_MAX: u32 = 1 << 30;
const SCALE_MAX: u8 = 14;

// Bit `bit + d` belongs to side `d`.
const SENT: u16 = 0;
const ACKNOWLEDGED: u16 = 2;
const NUMBERED: u16 = 4;
const OPENED: u16 = 6;
const SCALES: u16 = 8;
const FINISHED: u16 = 10;
/// An RST has closed the connection.
const RESET: u16 = 1 << 12;
/// Earlier packets could have changed a decision.
const DEPENDS: u16 = 1 << 13;
/// Another initial sequence number has replaced an earlier one.
const RENUMBERED: u16 = 1 << 14;
/// An RST seems to have closed the connection, but earlier packets may invalidate it. It is the
/// first segment, or the last one without an earlier SYN or FIN. Its numbers are stored in
/// `initial`, which is otherwise unknown.
const OPEN_RESET: u16 = 1 << 15;
/// The facts that plain segments set.
const PLAIN: u16 = 0b11 << SENT | 0b11 << ACKNOWLEDGED;

/// Marks in `scale` the side of the undecided RST, whether it acknowledges, and whether it is the
/// last segment.
const RESET_SIDE: u8 = 1;
const RESET_ACK: u8 = 2;
const RESET_LAST: u8 = 4;

/// The sequence numbers of a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) sequence: u32,
    pub(super) acknowledgement: u32,
    pub(super) window: u16,
    payload_bytes: u32,
}

impl Segment {
    /// Reads the numbers of a packet's TCP header. Returns `None` if the captured bytes end before
    /// them, or if the header states a length that it cannot have: receivers drop such a segment.
    #[inline(always)]
    pub(super) fn from_packet(packet: &PacketView<'_>) -> Option<Self> {
        let headers = &packet.headers;
        let header = packet.bytes.get(headers.transport_offset as usize..)?.first_chunk::<16>()?;
        let word =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        // The decoder gives no flags then.
        if headers.tcp_flags == 0 && !has_possible_length(headers, header[12] >> 4) {
            return None;
        }
        Some(Self {
            sequence: word(4),
            acknowledgement: word(8),
            window: u16::from_be_bytes([header[14], header[15]]),
            payload_bytes: headers.payload_bytes,
        })
    }

    /// Returns the first number of the segment and the number after its last. SYN and FIN take one
    /// number each.
    #[inline(always)]
    pub(super) fn range(&self, flags: u16) -> (u32, u32) {
        let controls = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        (self.sequence, self.sequence.wrapping_add(self.payload_bytes).wrapping_add(controls))
    }

    /// Returns a SYN or SYN+ACK with these numbers and no other facts.
    pub(super) fn opening(sequence: u32, acknowledgement: u32) -> Self {
        Self { sequence, acknowledgement, window: 0, payload_bytes: 0 }
    }
}

/// Returns whether a TCP header of this many words ends within its packet.
#[cold]
fn has_possible_length(headers: &Headers, words: u8) -> bool {
    let end = headers.payload_offset.saturating_add(headers.payload_bytes);
    words >= 5 && headers.transport_offset.saturating_add(u32::from(words) * 4) <= end
}

/// Returns the shift of the window scale option among a SYN's options [RFC 7323 §2.2].
fn window_scale(packet: &PacketView<'_>) -> Option<u8> {
    let headers = &packet.headers;
    let (start, end) = (headers.transport_offset as usize + 20, headers.payload_offset as usize);
    let mut options = packet.bytes.get(start..end.min(packet.bytes.len()))?;
    loop {
        options = match *options {
            [3, 3, shift, ..] => return Some(shift.min(SCALE_MAX)),
            [1, ref rest @ ..] => rest,
            [kind, length, ..] if kind != 0 && length >= 2 => options.get(usize::from(length)..)?,
            _ => return None,
        }
    }
}

/// A decision based on sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Judgement {
    pub(super) holds: bool,
    /// Whether packets before the known ones could change it.
    pub(super) depends: bool,
}

/// The state of a TCP connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Connection {
    /// The number after the last segment of each side.
    end: [u32; 2],
    /// The last acknowledgement of each side, and the unscaled window announced with it.
    acknowledged: [u32; 2],
    /// The initial sequence numbers.
    initial: [u32; 2],
    window: [u16; 2],
    scale: [u8; 2],
    facts: u16,
}

impl Connection {
    pub(super) const BYTES: usize = 32;

    #[inline(always)]
    fn has(&self, fact: u16, side: usize) -> bool {
        self.facts >> fact >> side & 1 != 0
    }

    #[inline(always)]
    fn set(&mut self, fact: u16, side: usize) {
        self.facts |= 1 << fact << side;
    }

    fn clear(&mut self, fact: u16, side: usize) {
        self.facts &= !(1 << fact << side);
    }

    /// Returns the initial sequence number of a side, if it is known.
    pub(super) fn initial(&self, side: usize) -> Option<u32> {
        self.has(NUMBERED, side).then_some(self.initial[side])
    }

    pub(super) fn is_reset(&self) -> bool {
        self.facts & (RESET | OPEN_RESET) != 0
    }

    pub(super) fn is_finished(&self) -> bool {
        self.has(FINISHED, 0) && self.has(FINISHED, 1)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_reset() || self.is_finished()
    }

    /// Returns whether a side has sent a FIN, or an RST has closed the connection.
    pub(super) fn has_end(&self) -> bool {
        self.is_reset() || self.has(FINISHED, 0) || self.has(FINISHED, 1)
    }

    /// Returns whether a SYN or SYN+ACK was among the packets.
    pub(super) fn has_opening(&self) -> bool {
        self.has(OPENED, 0) || self.has(OPENED, 1)
    }

    /// Returns whether earlier packets could have changed a decision.
    pub(super) fn depends(&self) -> bool {
        self.facts & DEPENDS != 0
    }

    /// Returns whether the initial sequence numbers may not be those of the first packets.
    pub(super) fn is_renumbered(&self) -> bool {
        self.facts & RENUMBERED != 0
    }

    pub(super) fn note(&mut self, judgement: Judgement) {
        if judgement.depends {
            self.facts |= DEPENDS;
        }
    }

    /// Returns the first state of the connection's next record.
    pub(super) fn carried(mut self) -> Self {
        self.facts &= !(DEPENDS | RENUMBERED);
        if self.facts & OPEN_RESET != 0 {
            self.facts = self.facts & !OPEN_RESET | RESET;
        }
        self
    }

    /// Settles an undecided RST now, before later segments replace the numbers that decide it.
    #[inline(always)]
    fn settle_reset(&mut self) {
        if self.facts & OPEN_RESET != 0 && (self.scale[0] | self.scale[1]) & RESET_LAST != 0 {
            self.facts = self.facts & !OPEN_RESET | RESET | DEPENDS;
            (self.initial, self.scale) = ([0; 2], [0; 2]);
        }
    }

    /// Processes a segment of a side, without the decisions that SYN, FIN and RST need.
    #[inline(always)]
    pub(super) fn take(&mut self, side: usize, flags: u16, segment: &Segment) {
        self.settle_reset();
        self.end[side] = segment.range(flags).1;
        self.set(SENT, side);
        if flags & ACK != 0 {
            self.acknowledged[side] = segment.acknowledgement;
            self.window[side] = segment.window;
            self.set(ACKNOWLEDGED, side);
        }
    }

    /// Returns whether a SYN, or with `acknowledges` a SYN+ACK, begins another connection, so long
    /// after the packet before it. `segment` is `None` if the captured bytes end before the
    /// numbers.
    pub(super) fn is_another(
        &self,
        side: usize,
        acknowledges: bool,
        segment: Option<Segment>,
        silence_ns: u64,
    ) -> Judgement {
        let judged = |holds: bool, depends: bool| Judgement { holds, depends };
        let other = 1 - side;
        let Some(Segment { sequence, acknowledgement, .. }) = segment else {
            // An answer without a number never begins a connection.
            return if acknowledges { judged(false, false) } else { judged(self.is_closed(), true) };
        };
        let first = sequence.wrapping_add(1);
        let asked = self.initial(other);
        if acknowledges && asked.is_some_and(|asked| acknowledgement == asked.wrapping_add(1)) {
            return judged(false, false);
        }
        if let Some(initial) = self.initial(side) {
            if sequence != initial {
                return judged(true, acknowledges && asked.is_none());
            }
            let is_closed = self.is_closed() && !acknowledges;
            // With an earlier FIN, one of these packets closes the connection.
            let is_half_closed = self.has(FINISHED, 0) || self.has(FINISHED, 1);
            return judged(is_closed, !is_closed && !acknowledges && is_half_closed);
        }
        let may_be_late = silence_ns <= REORDERED_NS && !self.is_closed();
        let is_late = |to: u32| may_be_late && to.wrapping_sub(first) <= REORDERED_BYTES;
        if self.has(SENT, side) {
            judged(!is_late(self.end[side]), true)
        } else if acknowledges && asked.is_some() {
            judged(self.is_closed(), true)
        } else if self.has(ACKNOWLEDGED, other) {
            judged(!is_late(self.acknowledged[other]), true)
        } else {
            judged(self.is_closed(), true)
        }
    }

    /// Processes a SYN or SYN+ACK of this connection. `is_first` is set if the record has no packet
    /// before it.
    pub(super) fn open(
        &mut self,
        side: usize,
        flags: u16,
        packet: &PacketView<'_>,
        segment: Option<Segment>,
        is_first: bool,
    ) {
        let acknowledges = flags & ACK != 0;
        self.settle_reset();
        if !is_first {
            self.note(self.is_another(side, acknowledges, segment, 0));
        }
        let Some(mut segment) = segment else { return };
        if self.initial(side).is_some_and(|initial| initial != segment.sequence) {
            // A repeated answer to the same SYN with another number.
            self.facts |= DEPENDS | RENUMBERED;
        }
        self.initial[side] = segment.sequence;
        self.set(NUMBERED, side);
        let other = 1 - side;
        if acknowledges && !self.has(NUMBERED, other) {
            self.initial[other] = segment.acknowledgement.wrapping_sub(1);
            self.set(NUMBERED, other);
        }
        let scale = window_scale(packet);
        self.scale[side] = scale.unwrap_or(0);
        self.set(OPENED, side);
        match scale {
            Some(_) => self.set(SCALES, side),
            None => self.clear(SCALES, side),
        }
        // The window of a SYN is not scaled; the stored windows are.
        segment.window = segment.window.div_ceil(1 << self.scale[side]);
        self.take(side, flags, &segment);
    }

    /// Processes a FIN.
    pub(super) fn finish(&mut self, side: usize, flags: u16, segment: Option<Segment>) {
        self.settle_reset();
        self.set(FINISHED, side);
        if let Some(segment) = segment {
            self.take(side, flags, &segment);
        }
    }

    /// Returns whether a side has sent a FIN that the other side has not acknowledged.
    pub(super) fn has_open_fin(&self, side: usize) -> bool {
        let other = 1 - side;
        let behind = self.end[side].wrapping_sub(self.acknowledged[other]);
        let is_acknowledged = self.has(ACKNOWLEDGED, other) && behind.wrapping_sub(1) >= 1 << 31;
        // A FIN whose numbers were not captured is not known to be open.
        self.has(FINISHED, side) && self.has(SENT, side) && !is_acknowledged
    }

    /// Processes an RST, which closes the connection unless it lies outside the window.
    pub(super) fn reset(&mut self, side: usize, flags: u16, segment: Option<Segment>) {
        self.settle_reset();
        let judgement = self.is_acceptable(side, flags, segment);
        let is_open = judgement.holds && judgement.depends && self.facts & !PLAIN == 0;
        if let Some(segment) = segment.filter(|_| is_open) {
            // The packets before decide. Keep what they need for that.
            let last = if self.facts == 0 { 0 } else { RESET_LAST };
            self.facts |= OPEN_RESET;
            self.initial[side] = segment.sequence;
            self.initial[1 - side] = segment.acknowledgement;
            self.scale[side] = RESET_SIDE | last | if flags & ACK != 0 { RESET_ACK } else { 0 };
            return;
        }
        self.note(judgement);
        if judgement.holds {
            self.facts |= RESET;
        }
    }

    /// Processes the undecided RST of `later` if it is its first segment, or with `RESET_LAST` if
    /// it is its last.
    fn reset_with(&mut self, later: &Self, last: u8) {
        if later.facts & OPEN_RESET == 0 {
            return;
        }
        let side = usize::from(later.scale[0] & RESET_SIDE == 0);
        if later.scale[side] & RESET_LAST == last {
            let flags = if later.scale[side] & RESET_ACK != 0 { ACK } else { 0 };
            let segment = Segment::opening(later.initial[side], later.initial[1 - side]);
            self.reset(side, flags, Some(segment));
        }
    }

    /// Returns the window shift of a side, if both SYNs have the option.
    fn scale_of(&self, side: usize) -> Option<u8> {
        let both = |fact: u16| self.has(fact, 0) && self.has(fact, 1);
        both(OPENED).then_some(if both(SCALES) { self.scale[side] } else { 0 })
    }

    fn is_acceptable(&self, side: usize, flags: u16, segment: Option<Segment>) -> Judgement {
        let judged = |holds: bool, depends: bool| Judgement { holds, depends };
        let other = 1 - side;
        let Some(segment) = segment else { return judged(true, false) };
        if self.has(ACKNOWLEDGED, other) {
            let expected = self.acknowledged[other];
            let offset = segment.sequence.wrapping_sub(expected);
            let scale = self.scale_of(other);
            // A closed window admits the next expected number.
            let is_within = |shift: u8| offset == 0 || offset < u32::from(self.window[other]) << shift;
            if is_within(scale.unwrap_or(0)) {
                return judged(true, false);
            }
            let in_flight = self.end[side].wrapping_sub(expected);
            if self.has(SENT, side) && in_flight < WINDOW_BYTES_MAX && offset <= in_flight {
                return judged(true, false);
            }
            let may_be_scaled = scale.is_none() && is_within(SCALE_MAX);
            return judged(false, !self.has(SENT, side) || may_be_scaled);
        }
        let distance = segment.sequence.wrapping_sub(self.end[side]);
        let is_near = distance.wrapping_add(UNACKNOWLEDGED_BYTES) <= 2 * UNACKNOWLEDGED_BYTES;
        // A refused connection: the RST acknowledges the SYN, or the data that came with it.
        let refuses = flags & ACK != 0 && self.has(SENT, other) && {
            let begin = self.initial(other).map_or(self.end[other], |initial| initial.wrapping_add(1));
            let sent = self.end[other].wrapping_sub(begin);
            segment.acknowledgement.wrapping_sub(begin) <= sent
        };
        let is_unknown = !self.has(SENT, side) && !self.has(SENT, other);
        judged(is_unknown || refuses || (self.has(SENT, side) && is_near), true)
    }

    /// Returns whether the numbers of later packets, which belong to one connection, continue this
    /// connection. `is_judged` is set if the first of their SYNs is their first packet, and was
    /// found to belong to this connection.
    pub(super) fn agrees(&self, later: &Self, is_judged: bool) -> bool {
        (0..2).all(|side| match (self.initial(side), later.initial(side)) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => is_judged || !later.has(OPENED, side),
        })
    }

    /// Adds the state of the packets directly after these.
    pub(super) fn add(&mut self, later: &Self) {
        self.reset_with(later, 0);
        if later.facts & !OPEN_RESET != 0 {
            self.settle_reset();
        }
        for side in 0..2 {
            if later.has(SENT, side) {
                self.end[side] = later.end[side];
            }
            if later.has(ACKNOWLEDGED, side) {
                (self.acknowledged[side], self.window[side]) =
                    (later.acknowledged[side], later.window[side]);
            }
            if !self.has(NUMBERED, side) && later.has(NUMBERED, side) {
                self.initial[side] = later.initial[side];
            }
            if later.has(OPENED, side) {
                self.scale[side] = later.scale[side];
                self.clear(SCALES, side);
            }
        }
        self.facts |= later.facts & !OPEN_RESET;
        self.reset_with(later, RESET_LAST);
    }

    pub(super) fn save(&self, out: &mut Vec<u8>) {
        let Self { end, acknowledged, initial, window, scale, facts } = self;
        for word in [end, acknowledged, initial].into_iter().flatten() {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for word in window {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(scale);
        out.extend_from_slice(&facts.to_le_bytes());
    }

    pub(super) fn load(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let scale = [bytes[28], bytes[29]];
        let facts = half(30);
        let is_known = scale.iter().all(|&shift| shift <= SCALE_MAX);
        is_known.then(|| Self {
            end: [word(0), word(4)],
            acknowledged: [word(8), word(12)],
            initial: [word(16), word(20)],
            window: [half(24), half(26)],
            scale,
            facts,
        })
    }
}
