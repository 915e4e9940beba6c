//! Connections of TCP: openings, phases of data, closes.

use crate::contents;
use crate::script::{CLIENT, MILLISECOND, Role, SECOND, SERVER, Segment, Session};

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
const PUSH: u8 = 8;
pub(crate) const ACK: u8 = 16;

const WINDOW: u16 = 502;
const WINDOW_OF_SYN: u16 = 64_240;
/// Maximum segment size, no operation, window scale 7.
const SYN_OPTIONS: [u8; 8] = [2, 4, 5, 0xB4, 1, 3, 3, 7];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Opening {
    #[default]
    Plain,
    Simultaneous,
    /// The first SYN is lost behind the tap and sent again.
    Repeated,
    /// The server answers the SYN with an RST.
    Refused,
}

/// The first messages of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contents {
    /// TLS, not HTTP.
    pub(crate) is_tls: bool,
    /// Segments have a few bytes each.
    pub(crate) is_cut: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    KeepAlive,
    ZeroWindow,
    LostBeforeTap,
    LostAfterTap,
    Reordered,
    Jumbo,
    /// Segments that a network card divides later, the last longer than an IP packet can be.
    Offloaded,
    /// Both sides send every ten seconds.
    Talk,
    /// Nothing is sent for this many seconds.
    Pause(u64),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Close {
    #[default]
    Fins,
    /// One side sends an RST instead of its FIN.
    Reset,
    /// An RST follows the FINs of both sides.
    ResetAfterFins,
    Never,
}

/// A connection, as a script writes it.
#[derive(Debug)]
pub(crate) struct Connection<'a> {
    session: &'a mut Session,
    initial: [u32; 2],
    /// The next sequence number of each side, relative to its initial one.
    next: [u64; 2],
    /// What the other side has received in sequence of it.
    received: [u64; 2],
    windows: [u16; 2],
}

impl<'a> Connection<'a> {
    pub(crate) fn new(session: &'a mut Session) -> Self {
        let initial = [session.random.next() as u32, session.random.next() as u32];
        Self { session, initial, next: [0; 2], received: [0; 2], windows: [WINDOW; 2] }
    }

    /// Opens a connection. Returns whether it is open.
    pub(crate) fn open(&mut self, opening: Opening) -> bool {
        match opening {
            Opening::Refused => {
                self.initial[SERVER] = 0;
                self.put(CLIENT, SYN, 0);
                self.put(SERVER, RST | ACK, 0);
                return false;
            }
            Opening::Simultaneous => {
                self.put_at(CLIENT, SYN, 0, 0, Role::First);
                self.put_at(SERVER, SYN, 0, 0, Role::First);
                (self.next, self.received) = ([1; 2], [1; 2]);
                self.put_at(CLIENT, SYN | ACK, 0, 0, Role::Again);
                self.put_at(SERVER, SYN | ACK, 0, 0, Role::Again);
                return true;
            }
            Opening::Repeated => {
                self.put_at(CLIENT, SYN, 0, 0, Role::First);
                self.session.wait(SECOND);
                self.put_at(CLIENT, SYN, 0, 0, Role::Again);
                (self.next[CLIENT], self.received[CLIENT]) = (1, 1);
            }
            Opening::Plain => self.put(CLIENT, SYN, 0),
        }
        self.put(SERVER, SYN | ACK, 0);
        self.put(CLIENT, ACK, 0);
        true
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
    pub(crate) fn exchange(&mut self, contents: Contents) {
        let Contents { is_tls, is_cut } = contents;
        let message = if is_tls { contents::tls } else { contents::http };
        let exchange = message(&mut self.session.random);
        self.message(CLIENT, &exchange.request, is_cut);
        self.put(SERVER, ACK, 0);
        self.message(SERVER, &exchange.response, is_cut);
        self.put(CLIENT, ACK, 0);
        self.session.facts = exchange.facts;
    }

    fn message(&mut self, side: usize, mut bytes: &[u8], is_cut: bool) {
        while !bytes.is_empty() {
            let count = if is_cut { self.session.random.within(1, 9) as usize } else { bytes.len() };
            let (part, rest) = bytes.split_at(count.min(bytes.len()));
            let begin = self.next[side];
            let (header, _) = self.segment(side, PUSH | ACK, begin, 0);
            let (range, role) = ((begin, begin + part.len() as u64), Role::First);
            let segment = Segment { flags: PUSH | ACK, range, role, window: self.windows[side] };
            self.session.send(side, &header, part, Some(segment));
            self.next[side] = range.1;
            self.received[side] = range.1;
            bytes = rest;
        }
    }

    pub(crate) fn phase(&mut self, phase: Phase, side: usize) {
        match phase {
            Phase::Pause(seconds) => self.session.wait(seconds * SECOND),
            Phase::Talk => (0..8).for_each(|_| {
                self.session.wait(10 * SECOND);
                self.transfer(side, 1);
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
            Phase::LostBeforeTap => self.loss(side, false),
            Phase::LostAfterTap => self.loss(side, true),
            Phase::Reordered => {
                let [first, second] = [0; 2].map(|_| self.session.random.within(2, 1400));
                let begin = self.next[side];
                self.put_at(side, ACK, begin + first, second, Role::First);
                self.put_at(side, ACK, begin, first, Role::First);
                self.next[side] += first + second;
                self.received[side] = self.next[side];
            }
        }
        if !matches!(phase, Phase::Pause(_)) {
            self.transfer(side, 1);
        }
    }

    /// The other side closes its window; the side probes it.
    fn zero_window(&mut self, side: usize) {
        self.put(side, PUSH | ACK, 1000);
        self.windows[1 - side] = 0;
        self.put(1 - side, ACK, 0);
        for _ in 0..2 {
            self.session.wait(5 * SECOND);
            self.put_at(side, ACK, self.next[side], 1, Role::WindowProbe);
            self.put(1 - side, ACK, 0);
        }
        self.windows[1 - side] = WINDOW;
        self.put(1 - side, ACK, 0);
    }

    /// The first of three segments is lost, and sent again.
    fn loss(&mut self, side: usize, passes_tap: bool) {
        let [first, second, third] = [0; 3].map(|_| self.session.random.within(2, 1400));
        let begin = self.next[side];
        if passes_tap {
            self.put_at(side, ACK, begin, first, Role::First);
        } else {
            let (header, payload) = self.segment(side, ACK, begin, first);
            self.session.send_in_vain(side, &header, &payload);
        }
        self.put_at(side, ACK, begin + first, second, Role::First);
        self.put_at(side, ACK, begin + first + second, third, Role::First);
        self.put(1 - side, ACK, 0);
        self.put(1 - side, ACK, 0);
        self.session.wait(200 * MILLISECOND);
        self.put_at(side, ACK, begin, first, Role::Again);
        self.next[side] += first + second + third;
        self.received[side] = self.next[side];
        self.put(1 - side, ACK, 0);
    }

    pub(crate) fn close(&mut self, close: Close, side: usize) {
        match close {
            Close::Never => {}
            Close::Reset => self.put(side, RST | ACK, 0),
            Close::Fins | Close::ResetAfterFins => {
                self.put(side, FIN | ACK, 0);
                self.put(1 - side, ACK, 0);
                self.put(1 - side, FIN | ACK, 0);
                self.put(side, if close == Close::Fins { ACK } else { RST }, 0);
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
        let (header, payload) = self.segment(side, flags, begin, bytes);
        let range = (begin, begin + bytes + numbers_of(flags));
        let window = if flags & SYN != 0 { WINDOW_OF_SYN } else { self.windows[side] };
        self.session.send(side, &header, &payload, Some(Segment { flags, range, role, window }));
    }

    fn segment(&mut self, side: usize, flags: u8, begin: u64, bytes: u64) -> (Vec<u8>, Vec<u8>) {
        let number = |side: usize, offset: u64| self.initial[side].wrapping_add(offset as u32);
        let acknowledged = if flags & ACK == 0 { 0 } else { number(1 - side, self.received[1 - side]) };
        let options: &[u8] = if flags & SYN != 0 { &SYN_OPTIONS } else { &[] };
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
        (header, self.session.random.bytes(bytes as usize))
    }
}

/// Returns how many sequence numbers SYN and FIN take.
fn numbers_of(flags: u8) -> u64 {
    u64::from(flags & SYN != 0) + u64::from(flags & FIN != 0)
}
