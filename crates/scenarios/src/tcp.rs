//! Connections of TCP: openings, phases of data, closes.

use crate::contents::{self, Exchange};
use crate::dns;
use crate::hello::{self, Handshake};
use crate::random::Random;
use crate::script::{CLIENT, MILLISECOND, Role, SECOND, SERVER, Segment, Session};

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
const PUSH: u8 = 8;
pub(crate) const ACK: u8 = 16;
const URG: u8 = 32;
const ECE: u8 = 64;
const CWR: u8 = 128;

/// What a malformed header states as its length.
pub(crate) const MALFORMED_BYTES: usize = 60;
const WINDOW_OF_SYN: u16 = 64_240;
/// The largest shift of windows [RFC 7323 §2.3].
const SHIFT_MAX: u8 = 14;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Opening {
    #[default]
    Plain,
    Simultaneous,
    /// The first SYN is lost behind the tap and sent again.
    Repeated,
    /// The server answers the SYN with an RST.
    Refused,
    /// The SYN has data.
    Fast,
    /// RSTs that acknowledge something else than the SYN come before the answer.
    BlindReset,
    /// The client answers the SYN+ACK with an RST, as scanners do. The RST may be lost behind the
    /// tap, so that the SYN+ACK is sent again.
    Scan,
    /// The server has lost its state when it answers the repeated SYN with another number.
    AnsweredAnew,
    /// The server acknowledges the SYN before it answers it.
    EarlyAck,
    /// The tap captures the SYN+ACK before the SYN.
    Swapped,
}

/// What the first messages of a connection are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Http,
    HttpLong,
    Tls(Handshake),
    Ssh,
    Dns,
    Lookalike,
}

/// How messages become segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// One has all.
    No,
    /// They have a few bytes each.
    Small,
    /// The second of three comes first, and the first once more at the end.
    Shuffled,
}

/// The first messages of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) message: Message,
    pub(crate) cut: Cut,
}

impl Contents {
    pub(crate) fn exchange(self, random: &mut Random) -> Exchange {
        match self.message {
            Message::Http => contents::http(random),
            Message::HttpLong => contents::http_long(random),
            Message::Tls(handshake) => hello::tls(random, handshake),
            Message::Ssh => contents::ssh(random),
            Message::Lookalike => contents::lookalike(random),
            Message::Dns => {
                let (messages, facts) = dns::messages(random, dns::Kind::Few);
                let stream = |of: usize| {
                    let of_side = messages.iter().filter(|(side, _)| *side == of);
                    // Its length precedes a message.
                    of_side
                        .flat_map(|(_, bytes)| [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat())
                        .collect()
                };
                Exchange { request: stream(CLIENT), response: stream(SERVER), facts }
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    KeepAlive,
    ZeroWindow,
    /// A lost segment is sent again, by a timer or after duplicate acknowledgements.
    LostBeforeTap,
    LostAfterTap,
    LostFast,
    /// A segment is sent again though it was acknowledged.
    Spurious,
    Reordered,
    /// The late segment comes milliseconds later, within the time of a round trip.
    ReorderedLate,
    Jumbo,
    /// Segments that a network card divides later, the last longer than an IP packet can be.
    Offloaded,
    /// A side sends every ten seconds, or both in turn.
    Talk,
    Dialogue,
    /// Nothing is sent for this many seconds.
    Pause(u64),
    /// One side acknowledges what the other has never sent.
    AckUnsent,
    /// A segment without data has a header that is longer than its packet.
    BadOffset,
    /// Segments have URG, ECE and CWR.
    Flags,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Close {
    #[default]
    Fins,
    /// One side sends an RST instead of its FIN, perhaps directly behind data.
    Reset,
    /// Data of the other side, which is on its way, passes behind an RST.
    ResetThenData,
    /// An RST follows the FINs of both sides.
    ResetAfterFins,
    Never,
    /// Both FINs are sent twice.
    FinsAgain,
    /// The other side sends data behind the first FIN.
    Half,
    /// Both sides send their FINs at the same time.
    Crossed,
    /// The other side answers the FIN with an RST.
    ResetOfFin,
    /// RSTs beside the window come before the FINs.
    ResetOutside,
    /// An RST has the last number in the window.
    ResetAtEdge,
    /// An RST follows data that is still on its way, into a window that closes.
    ResetInFlight,
    /// The FIN of the other side, which is on its way, passes behind an RST, and that perhaps
    /// behind another FIN.
    ResetThenFin,
    /// A segment has FIN and RST.
    FinAndReset,
    /// The RST is lost behind the tap, and the other side goes on to send.
    ResetUnheard,
}

/// Where sequence numbers begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Numbers {
    #[default]
    Anywhere,
    /// So far before this number that the connection passes it.
    Before(u32),
}

/// A connection, as a script writes it.
#[derive(Debug)]
pub(crate) struct Connection<'a> {
    session: &'a mut Session,
    opener: usize,
    pub(crate) initial: [u32; 2],
    /// The next sequence number of each side, relative to its initial one.
    pub(crate) next: [u64; 2],
    /// What the other side has received in sequence of it.
    received: [u64; 2],
    windows: [u16; 2],
    /// The options of SYNs, and what the windows of segments are shifted by.
    options: [Vec<u8>; 2],
    shifts: [u8; 2],
}

impl<'a> Connection<'a> {
    pub(crate) fn new(session: &'a mut Session, opener: usize, numbers: Numbers) -> Self {
        let random = &mut session.random;
        let initial = [0; 2].map(|_| match numbers {
            Numbers::Anywhere => random.next() as u32,
            Numbers::Before(number) => number.wrapping_sub(random.within(1, 2000) as u32),
        });
        let mut drawn = [0; 2].map(|_| options(random));
        // Only who was offered a shift answers with one [RFC 7323 §2.2].
        while drawn[opener].1.is_none() && drawn[1 - opener].1.is_some() {
            drawn[1 - opener] = options(random);
        }
        let has_shifts = drawn.iter().all(|(_, shift)| shift.is_some());
        let shifts = [0, 1].map(|side| drawn[side].1.filter(|_| has_shifts).unwrap_or(0));
        let windows = shifts.map(|shift| (64_240_u16 >> shift).max(502));
        session.opener = Some(opener);
        Self {
            session,
            opener,
            initial,
            next: [0; 2],
            received: [0; 2],
            windows,
            options: drawn.map(|(options, _)| options),
            shifts,
        }
    }

    /// Opens a connection. The SYN may carry some bytes of `first`. Returns how many it carried, or
    /// `None` if the connection is not open.
    pub(crate) fn open(&mut self, opening: Opening, first: &[u8]) -> Option<usize> {
        let (client, server) = (self.opener, 1 - self.opener);
        let mut early = 0;
        match opening {
            Opening::Refused => {
                let bytes = self.session.random.pick(&[0, 100]);
                self.initial[server] = 0;
                self.put(client, SYN, bytes);
                // The data that came with the SYN may be refused too.
                self.received[client] -= if self.session.random.chance(50) { bytes } else { 0 };
                self.put(server, RST | ACK, 0);
                return None;
            }
            Opening::Simultaneous => {
                self.put_at(client, SYN, 0, 0, Role::First);
                self.put_at(server, SYN, 0, 0, Role::First);
                (self.next, self.received) = ([1; 2], [1; 2]);
                self.put_at(client, SYN | ACK, 0, 0, Role::Again);
                self.put_at(server, SYN | ACK, 0, 0, Role::Again);
                return Some(0);
            }
            Opening::Repeated => {
                self.put_at(client, SYN, 0, 0, Role::First);
                self.session.wait(SECOND);
                self.put_at(client, SYN, 0, 0, Role::Again);
                (self.next[client], self.received[client]) = (1, 1);
            }
            Opening::Fast => {
                early = first.len().min(self.session.random.within(1, 100) as usize);
                let data =
                    if first.is_empty() { self.session.random.bytes(100) } else { first[..early].to_vec() };
                self.put_data(client, SYN, 0, &data, Role::First);
                self.next[client] = 1 + data.len() as u64;
                self.received[client] = self.next[client];
            }
            Opening::AnsweredAnew => {
                self.put_at(client, SYN, 0, 0, Role::First);
                (self.next[client], self.received[client]) = (1, 1);
                // Initial numbers grow with time [RFC 9293 §3.4.1].
                self.stray(server, SYN | ACK, 0_u64.wrapping_sub(250_000), 1);
                self.session.wait(SECOND);
                self.put_at(client, SYN, 0, 0, Role::Again);
            }
            Opening::Swapped => {
                (self.next[client], self.received[client]) = (1, 1);
                self.put(server, SYN | ACK, 0);
                self.put_at(client, SYN, 0, 0, Role::First);
                self.put(client, ACK, 0);
                return Some(0);
            }
            Opening::Plain | Opening::BlindReset | Opening::Scan | Opening::EarlyAck => {
                self.put(client, SYN, 0);
            }
        }
        if opening == Opening::BlindReset {
            for acknowledged in [0, 2, 5_000_000] {
                let begin = self.session.random.within(0, 1 << 31);
                self.stray(server, RST | ACK, begin, acknowledged);
            }
            self.stray(server, RST, 0, 0);
        }
        if opening == Opening::EarlyAck {
            self.stray(server, ACK, 0, 1);
        }
        self.put(server, SYN | ACK, 0);
        if opening == Opening::Scan {
            // The window of a SYN is not shifted.
            let ahead = self.session.random.pick(&[0, u64::from(WINDOW_OF_SYN) - 1]);
            self.put_at(client, RST, self.next[client] + ahead, 0, Role::First);
            if self.session.random.chance(50) {
                self.session.wait(SECOND);
                self.put_at(server, SYN | ACK, 0, 0, Role::Again);
            }
            return None;
        }
        self.put(client, ACK, 0);
        Some(early)
    }

    /// Sends segments of a side, which the other acknowledges.
    pub(crate) fn transfer(&mut self, side: usize, segments: u64) {
        for _ in 0..segments {
            let bytes = self.session.random.within(2, 1400);
            self.put(side, PUSH | ACK, bytes);
        }
        self.put(1 - side, ACK, 0);
    }

    /// The client asks, and the server answers.
    pub(crate) fn exchange(&mut self, request: &[u8], response: &[u8], cut: Cut) {
        for (side, bytes) in [(CLIENT, request), (SERVER, response)] {
            let first = self.next[side];
            let third = (bytes.len() / 3) as u64;
            if cut == Cut::Shuffled && third > 0 {
                let [one, rest] = [0, third as usize].map(|at| &bytes[at..]);
                let (two, three) = rest.split_at(third as usize);
                self.put_data(side, PUSH | ACK, first + third, two, Role::First);
                self.put_data(side, PUSH | ACK, first, &one[..third as usize], Role::First);
                self.put_data(side, PUSH | ACK, first + 2 * third, three, Role::First);
            } else {
                let count =
                    if cut == Cut::Small { self.session.random.within(1, 9) as usize } else { bytes.len() };
                for part in bytes.chunks(count.max(1)) {
                    self.put_data(side, PUSH | ACK, self.next[side], part, Role::First);
                    self.next[side] += part.len() as u64;
                    self.received[side] = self.next[side];
                }
            }
            self.next[side] = first + bytes.len() as u64;
            self.received[side] = self.next[side];
            self.put(1 - side, ACK, 0);
            if cut == Cut::Shuffled && third > 0 {
                self.put_data(side, PUSH | ACK, first, &bytes[..third as usize], Role::Again);
            }
        }
    }

    pub(crate) fn phase(&mut self, phase: Phase, side: usize) {
        match phase {
            Phase::Pause(seconds) => self.session.wait(seconds * SECOND),
            Phase::Talk => (0..8).for_each(|_| {
                self.session.wait(10 * SECOND);
                self.transfer(side, 1);
            }),
            Phase::Dialogue => (0..8).for_each(|nth| {
                self.session.wait(10 * SECOND);
                self.transfer(nth % 2, 1);
            }),
            Phase::Jumbo => (0..3).for_each(|_| self.put(side, PUSH | ACK, 8948)),
            Phase::Offloaded => {
                let bytes = self.session.random.within(20_000, 60_000);
                for bytes in [bytes, 70_000] {
                    self.put(side, PUSH | ACK, bytes);
                }
            }
            Phase::KeepAlive => {
                let bytes = self.session.random.within(0, 1);
                for _ in 0..2 {
                    self.session.wait(10 * SECOND);
                    self.put_at(side, ACK, self.next[side] - 1, bytes, Role::KeepAlive);
                    self.put(1 - side, ACK, 0);
                }
            }
            Phase::ZeroWindow => self.zero_window(side),
            Phase::LostBeforeTap => self.loss(side, false, 200 * MILLISECOND),
            Phase::LostAfterTap => self.loss(side, true, 200 * MILLISECOND),
            Phase::LostFast => {
                let passes_tap = self.session.random.chance(50);
                self.loss(side, passes_tap, 0);
            }
            Phase::Spurious => {
                let begin = self.next[side];
                self.put(side, PUSH | ACK, 700);
                self.put(1 - side, ACK, 0);
                self.put_at(side, PUSH | ACK, begin, 700, Role::Again);
                self.put(1 - side, ACK, 0);
            }
            Phase::Reordered | Phase::ReorderedLate => {
                let [first, second] = [0; 2].map(|_| self.session.random.within(2, 1400));
                let begin = self.next[side];
                self.put_at(side, ACK, begin + first, second, Role::First);
                if phase == Phase::ReorderedLate {
                    self.session.wait(self.session.delays_ns.iter().sum());
                }
                self.put_at(side, ACK, begin, first, Role::First);
                self.next[side] += first + second;
                self.received[side] = self.next[side];
            }
            Phase::AckUnsent => self.stray(1 - side, ACK, self.next[1 - side], self.next[side] + 10_000),
            Phase::BadOffset => self.put_at(side, ACK, self.next[side], 0, Role::Malformed),
            Phase::Flags => {
                for more in [URG, ECE, CWR, URG | ECE, CWR] {
                    self.put(side, PUSH | ACK | more, 100);
                }
            }
        }
        if !matches!(phase, Phase::Pause(_)) {
            self.transfer(side, 1);
        }
    }

    /// The other side closes its window; the side probes it.
    fn zero_window(&mut self, side: usize) {
        let window = self.windows[1 - side];
        self.put(side, PUSH | ACK, 1000);
        self.windows[1 - side] = 0;
        self.put(1 - side, ACK, 0);
        for _ in 0..2 {
            self.session.wait(5 * SECOND);
            self.put_at(side, ACK, self.next[side], 1, Role::WindowProbe);
            self.put(1 - side, ACK, 0);
        }
        self.windows[1 - side] = window;
        self.put(1 - side, ACK, 0);
    }

    /// The first of three segments is lost, and sent again after a time.
    fn loss(&mut self, side: usize, passes_tap: bool, time_ns: u64) {
        let [first, second, third] = [0; 3].map(|_| self.session.random.within(2, 1400));
        let begin = self.next[side];
        if passes_tap {
            self.put_at(side, ACK, begin, first, Role::First);
        } else {
            let (header, payload) = self.segment(side, ACK, begin, self.received[1 - side], first);
            self.session.send_in_vain(side, &header, &payload);
        }
        self.put_at(side, ACK, begin + first, second, Role::First);
        self.put_at(side, ACK, begin + first + second, third, Role::First);
        (0..if time_ns == 0 { 4 } else { 2 }).for_each(|_| self.put(1 - side, ACK, 0));
        self.session.wait(time_ns);
        self.put_at(side, ACK, begin, first, Role::Again);
        self.next[side] += first + second + third;
        self.received[side] = self.next[side];
        self.put(1 - side, ACK, 0);
    }

    pub(crate) fn close(&mut self, close: Close, side: usize) {
        let other = 1 - side;
        // The last number in the other side's window, and the first behind it.
        let window = u64::from(self.windows[other]) << self.shifts[other];
        match close {
            Close::Never => {}
            Close::Reset => {
                if self.session.random.chance(50) {
                    self.put(side, PUSH | ACK, 100);
                }
                self.put(side, RST | ACK, 0);
            }
            Close::ResetThenData => {
                self.put(side, RST | ACK, 0);
                self.put(other, PUSH | ACK, 100);
                self.put(other, PUSH | ACK, 100);
            }
            Close::ResetAtEdge => self.put_at(side, RST, self.next[side] + window - 1, 0, Role::First),
            Close::ResetInFlight => {
                let seen = self.received[side];
                self.put(side, PUSH | ACK, 1000);
                let window = std::mem::replace(&mut self.windows[other], 0);
                let received = std::mem::replace(&mut self.received[side], seen);
                self.put(other, ACK, 0);
                (self.windows[other], self.received[side]) = (window, received);
                self.put(side, RST | ACK, 0);
            }
            Close::ResetThenFin => {
                let seen = self.received[side];
                if self.session.random.chance(50) {
                    self.put(side, FIN | ACK, 0);
                }
                self.put(side, RST | ACK, 0);
                self.received[side] = seen;
                self.put(other, FIN | ACK, 0);
            }
            Close::FinAndReset => {
                let more = self.session.random.pick(&[0, ACK]);
                self.put(side, FIN | RST | more, 0);
            }
            Close::ResetUnheard => {
                self.put(side, RST | ACK, 0);
                for _ in 0..6 {
                    self.session.wait(10 * SECOND);
                    self.put(other, PUSH | ACK, 100);
                }
            }
            Close::ResetOfFin => {
                self.put(side, FIN | ACK, 0);
                self.put(other, RST | ACK, 0);
            }
            Close::FinsAgain => {
                for side in [side, other] {
                    self.put(side, FIN | ACK, 0);
                    self.session.wait(300 * MILLISECOND);
                    self.put_at(side, FIN | ACK, self.next[side] - 1, 0, Role::Again);
                    self.put(1 - side, ACK, 0);
                }
            }
            Close::Crossed => {
                let seen = self.received[side];
                self.put(side, FIN | ACK, 0);
                let received = std::mem::replace(&mut self.received[side], seen);
                self.put(other, FIN | ACK, 0);
                self.received[side] = received;
                self.put(side, ACK, 0);
                self.put(other, ACK, 0);
            }
            Close::Fins | Close::ResetAfterFins | Close::Half | Close::ResetOutside => {
                if close == Close::ResetOutside {
                    let next = self.next[side];
                    let far = next + window + self.session.random.within(1, 1 << 30);
                    // A flood of them, or one of each kind.
                    let flood = if self.session.random.chance(30) { 40 } else { 0 };
                    let outside = [next + window, next.wrapping_sub(1), far, next + (1 << 31)];
                    for begin in outside.into_iter().chain((0..flood).map(|nth| far + nth)) {
                        let flags = RST | self.session.random.pick(&[0, ACK]);
                        self.stray(side, flags, begin, self.received[other]);
                    }
                }
                self.put(side, FIN | ACK, 0);
                self.put(other, ACK, 0);
                if close == Close::Half {
                    self.transfer(other, 2);
                }
                self.put(other, FIN | ACK, 0);
                self.put(side, if close == Close::ResetAfterFins { RST } else { ACK }, 0);
            }
        }
    }

    /// Sends the next segment of a side, which arrives.
    fn put(&mut self, side: usize, flags: u8, bytes: u64) {
        let begin = self.next[side];
        self.put_at(side, flags, begin, bytes, Role::First);
        self.next[side] += bytes + numbers_of(flags);
        self.received[side] = self.next[side];
    }

    fn put_at(&mut self, side: usize, flags: u8, begin: u64, bytes: u64, role: Role) {
        let (header, payload) = self.segment(side, flags, begin, self.received[1 - side], bytes);
        self.emit(side, header, &payload, (flags, begin, self.received[1 - side]), role);
    }

    fn put_data(&mut self, side: usize, flags: u8, begin: u64, data: &[u8], role: Role) {
        let (header, _) = self.segment(side, flags, begin, self.received[1 - side], 0);
        self.emit(side, header, data, (flags, begin, self.received[1 - side]), role);
    }

    /// Sends a segment without data that the connection does not expect.
    fn stray(&mut self, side: usize, flags: u8, begin: u64, acknowledged: u64) {
        let (header, _) = self.segment(side, flags, begin, acknowledged, 0);
        self.emit(side, header, &[], (flags, begin, acknowledged), Role::Stray);
    }

    fn emit(
        &mut self,
        side: usize,
        mut header: Vec<u8>,
        data: &[u8],
        (flags, begin, acknowledged): (u8, u64, u64),
        role: Role,
    ) {
        if role == Role::Malformed {
            header[12] = ((MALFORMED_BYTES / 4) << 4) as u8;
        }
        let range = (begin, begin.wrapping_add(data.len() as u64 + numbers_of(flags)));
        let window = u16::from_be_bytes([header[14], header[15]]);
        let segment = Segment { flags, range, acknowledged, role, window };
        self.session.send(side, &header, data, Some(segment));
    }

    /// Returns a header, and random data.
    fn segment(
        &mut self,
        side: usize,
        flags: u8,
        begin: u64,
        acknowledged: u64,
        bytes: u64,
    ) -> (Vec<u8>, Vec<u8>) {
        let number = |side: usize, offset: u64| self.initial[side].wrapping_add(offset as u32);
        let acknowledged = if flags & ACK == 0 { 0 } else { number(1 - side, acknowledged) };
        let options: &[u8] = if flags & SYN != 0 { &self.options[side] } else { &[] };
        let window = match flags {
            _ if flags & SYN != 0 => WINDOW_OF_SYN,
            _ if flags & RST != 0 => 0,
            _ => self.windows[side],
        };
        let mut header = [self.session.ports[side], self.session.ports[1 - side]]
            .into_iter()
            .flat_map(u16::to_be_bytes)
            .collect::<Vec<u8>>();
        header.extend(number(side, begin).to_be_bytes());
        header.extend(acknowledged.to_be_bytes());
        header.extend([(5 + options.len() as u8 / 4) << 4, flags]);
        header.extend(window.to_be_bytes());
        header.extend([0; 4]);
        header.extend(options);
        let mut payload = self.session.random.bytes(bytes as usize);
        // No protocol begins so.
        if let Some(first) = payload.first_mut() {
            *first |= 0x80;
        }
        (header, payload)
    }
}

/// Draws the options of a SYN: a maximum segment size, and mostly a shift of windows.
fn options(random: &mut Random) -> (Vec<u8>, Option<u8>) {
    let size = [2, 4, 5, 0xB4];
    let shift = random.pick(&[7, 7, 7, 7, 0, 2, 14, 15]);
    let known = Some(shift.min(SHIFT_MAX));
    match random.within(0, 7) {
        0..=3 => ([&size[..], &[1, 3, 3, shift]].concat(), known),
        4 => ([&[3, 3, shift, 1], &size[..]].concat(), known),
        // Selective acknowledgements and time stamps.
        5 => ([&size[..], &[4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, shift]].concat(), known),
        6 => (size.to_vec(), None),
        // Nothing counts behind the end of the list.
        _ => ([&size[..], &[0, 3, 3, shift]].concat(), None),
    }
}

/// Returns how many sequence numbers SYN and FIN take.
fn numbers_of(flags: u8) -> u64 {
    u64::from(flags & SYN != 0) + u64::from(flags & FIN != 0)
}
