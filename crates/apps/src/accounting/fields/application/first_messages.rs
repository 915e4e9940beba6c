//! The first message of each direction of a TCP connection, in sequence.
//!
//! ```text
//!  Unseen ─SYN─► Open ─data─► Collecting ─► Found       the message
//!     └──────data──┴──────────────┴───────► Over        the direction begins with something else
//!     ▲                                      │
//!     └──────────earlier data, no SYN────────┘
//! ```
//!
//! A direction begins at its SYN, or at the first data of the record if the SYN is missing. In the
//! latter case it begins anew with a segment that lies before that data and arrives soon after it.
//! At most [`BYTES_MAX`] bytes are collected; out-of-order bytes wait for earlier ones. A segment
//! that lies [`REORDERED_BYTES_MAX`] or more behind the missing ones is ignored, because a single
//! one may be forged or stray; [`FAR_SEGMENTS_MAX`] of them end the wait.
//! Collected bytes are dropped when the direction is decided, or when memory is short. Nothing is
//! collected for a direction whose first segment decides.

use flowloom_dpi::stream::{Piece, Segment as Data, Sequencer, Window};
use flowloom_flow_key::Direction;
use flowloom_flow_key::protocol::TCP;
use flowloom_packet::PacketView;

use super::Reading;
use crate::accounting::connection::{SYN, Segment};
use crate::accounting::fields::memory::{Content, FieldStore, Held};

/// Maximum number of bytes collected per direction.
pub(in super::super) const BYTES_MAX: usize = 4096;

/// How far data may arrive before the data that precedes it, in bytes.
const REORDERED_BYTES_MAX: usize = 1 << 16;
/// Segments so far ahead, with no byte collected between them, after which the missing bytes are
/// lost. A window of TCP without scaling has as many segments.
const FAR_SEGMENTS_MAX: u8 = 64;
/// Segments with data after which no earlier one is expected, where the SYN is missing.
const REORDERED_SEGMENTS_MAX: u8 = 3;

/// A message with which a direction of a connection may begin.
pub(in super::super) trait Message: Content + std::fmt::Debug + Sync {
    /// Reads the message from the first bytes of a direction. With `is_all` no further bytes come,
    /// and the reader returns its partial result instead of [`Reading::More`].
    fn read(bytes: &[u8], is_all: bool) -> Reading<Self>;
}

/// Bytes in sequence, and bytes that wait for earlier ones.
#[derive(Clone, Debug)]
pub(in super::super) struct Collecting {
    order: Sequencer,
    bytes: Vec<u8>,
    window: Option<Window>,
    /// Segments too far ahead since the last byte.
    far: u8,
}

impl Content for Collecting {
    fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.window.as_ref().map_or(0, |window| window.places() * 9 / 8)
    }
}

/// How far a direction is read.
#[derive(Clone, Debug, Default)]
pub(in super::super) enum StreamState<T: Content> {
    #[default]
    Unseen,
    /// A SYN arrived; the number of the first byte.
    Open(u32),
    Collecting(Held<Collecting>),
    Found(Held<T>),
    Over,
    /// As `Over`, but the SYN is missing: the number of the first byte, and how many segments may
    /// precede one that lies before it.
    NotYet(u32, u8),
}

impl<T: Message> StreamState<T> {
    fn decided(reading: Reading<T>, to: &Destination<'_>) -> Self {
        match reading {
            Reading::Found(message) => Self::Found(to.hold(message)),
            Reading::More | Reading::Other => Self::Over,
        }
    }

    /// Processes a segment with SYN or data. `is_cut` says that its end was not captured.
    #[cold]
    #[inline(never)]
    pub(in super::super) fn push(&mut self, segment: Data<'_>, is_cut: bool, to: &Destination<'_>) {
        let mut order = Sequencer::default();
        let mut has_begin = true;
        match self {
            Self::Found(_) | Self::Over => return,
            Self::NotYet(first, left) => {
                let begin = segment.sequence.wrapping_add(segment.syn.into());
                if !(1..REORDERED_BYTES_MAX).contains(&(first.wrapping_sub(begin) as usize)) {
                    *left -= 1;
                    if *left == 0 {
                        *self = Self::Over;
                    }
                    return;
                }
                has_begin = segment.syn;
            }
            Self::Collecting(collecting) => {
                let reading = collecting.change(to.time_ns, |held| held.push(segment, is_cut));
                if let Some(reading) = reading.flatten() {
                    *self = Self::decided(reading, to);
                }
                return;
            }
            Self::Open(first) => {
                let syn = Data { sequence: first.wrapping_sub(1), syn: true, payload: &[] };
                order.push(syn, None, |_| {});
            }
            Self::Unseen => has_begin = segment.syn,
        }
        if segment.payload.is_empty() && !is_cut {
            *self = Self::Open(segment.sequence.wrapping_add(1));
            return;
        }
        if !order.is_next(&segment) {
            let mut collecting = Collecting { order, bytes: Vec::new(), window: None, far: 0 };
            *self = match collecting.push(segment, is_cut) {
                Some(reading) => Self::decided(reading, to),
                None => Self::Collecting(to.hold(collecting)),
            };
            return;
        }
        // The usual case: the first segment contains the message, which is read in place.
        let (mut reading, mut bytes) = (Reading::More, Vec::new());
        order.push(segment, None, |piece| {
            if let Piece::Data(data) = piece {
                let data = &data[..data.len().min(BYTES_MAX)];
                reading = T::read(data, is_cut || data.len() == BYTES_MAX);
                if matches!(reading, Reading::More) {
                    bytes.extend_from_slice(data);
                }
            }
        });
        let is_open = matches!(reading, Reading::More) && !is_cut && bytes.len() < BYTES_MAX;
        *self = if is_open {
            Self::Collecting(to.hold(Collecting { order, bytes, window: None, far: 0 }))
        } else {
            Self::decided(reading, to)
        };
        if matches!(self, Self::Over) && !has_begin {
            *self = Self::NotYet(segment.sequence, REORDERED_SEGMENTS_MAX);
        }
    }

    /// Returns whether further segments change nothing.
    pub(in super::super) fn is_decided(&self) -> bool {
        matches!(self, Self::Found(_) | Self::Over)
    }

    /// Returns the message. Where its end is missing, it has the parts before that.
    pub(in super::super) fn message(&self) -> Option<T> {
        match self {
            Self::Found(message) => message.get(),
            Self::Collecting(collecting) => match T::read(&collecting.get()?.bytes, true) {
                Reading::Found(message) => Some(message),
                Reading::More | Reading::Other => None,
            },
            Self::Unseen | Self::Open(_) | Self::Over | Self::NotYet(..) => None,
        }
    }

    pub(in super::super) fn is_dropped(&self) -> bool {
        match self {
            Self::Found(message) => message.is_dropped(),
            Self::Collecting(collecting) => collecting.is_dropped(),
            Self::Unseen | Self::Open(_) | Self::Over | Self::NotYet(..) => false,
        }
    }
}

/// What contents take their memory from, and the time of the packet that begins them.
pub(in super::super) struct Destination<'a> {
    pub(in super::super) store: &'a FieldStore,
    pub(in super::super) time_ns: u64,
}

impl Destination<'_> {
    pub(in super::super) fn hold<T: Content>(&self, content: T) -> Held<T> {
        Held::new(content, self.store, self.time_ns)
    }
}

impl Collecting {
    /// Processes a segment. Returns the result once the direction is decided.
    fn push<T: Message>(&mut self, mut segment: Data<'_>, is_cut: bool) -> Option<Reading<T>> {
        if !self.order.is_next(&segment) {
            let next = self.order.next_sequence().unwrap_or(segment.sequence);
            let ahead = segment.sequence.wrapping_sub(next) as usize;
            if ahead >= REORDERED_BYTES_MAX {
                self.far += 1;
                return (self.far == FAR_SEGMENTS_MAX).then(|| T::read(&self.bytes, true));
            }
            let Some(space) = (BYTES_MAX - self.bytes.len()).checked_sub(ahead).filter(|space| *space > 0)
            else {
                // It lies behind the bytes that are collected.
                return None;
            };
            segment.payload = &segment.payload[..segment.payload.len().min(space)];
            self.window.get_or_insert_with(|| Window::new(BYTES_MAX));
        }
        let bytes = &mut self.bytes;
        let before = bytes.len();
        // The window has space for whatever arrives early, so no gap is skipped.
        self.order.push(segment, self.window.as_mut(), |piece| {
            if let Piece::Data(data) = piece {
                let space = BYTES_MAX - bytes.len();
                bytes.extend_from_slice(&data[..data.len().min(space)]);
            }
        });
        let is_all = is_cut || self.bytes.len() == BYTES_MAX;
        if self.bytes.len() == before && !is_all {
            return None;
        }
        self.far = 0;
        match T::read(&self.bytes, is_all) {
            Reading::More if !is_all => None,
            reading => Some(reading),
        }
    }
}

/// The first messages of both directions.
#[derive(Clone, Debug)]
pub(in super::super) struct FirstMessages<T: Content> {
    sides: [StreamState<T>; 2],
}

impl<T: Content> Default for FirstMessages<T> {
    fn default() -> Self {
        Self { sides: [StreamState::Unseen, StreamState::Unseen] }
    }
}

impl<T: Message> FirstMessages<T> {
    /// Processes a packet. Packets other than TCP change nothing.
    #[inline(always)]
    pub(in super::super) fn add(&mut self, packet: &PacketView<'_>, store: &FieldStore) {
        let headers = &packet.headers;
        let side = &mut self.sides[headers.direction.index()];
        if side.is_decided()
            || headers.key.protocol() != TCP
            || headers.later_fragment
            || (headers.payload_bytes == 0 && headers.tcp_flags & SYN == 0)
        {
            return;
        }
        if let Some(segment) = Segment::from_packet(packet) {
            let payload = packet.payload();
            let data = Data { sequence: segment.sequence, syn: headers.tcp_flags & SYN != 0, payload };
            let to = Destination { store, time_ns: packet.time_ns };
            side.push(data, payload.len() < headers.payload_bytes as usize, &to);
        }
    }

    /// Returns the messages: from the low endpoint, and from the high one.
    pub(in super::super) fn messages(&self) -> [Option<T>; 2] {
        [0, 1].map(|side| self.sides[side].message())
    }

    /// Returns whether a message of either direction was dropped for lack of memory.
    pub(in super::super) fn is_dropped(&self) -> bool {
        self.sides.iter().any(StreamState::is_dropped)
    }

    /// Returns whether the message of a direction was dropped for lack of memory.
    pub(in super::super) fn is_dropped_from(&self, way: Direction) -> bool {
        self.sides[way.index()].is_dropped()
    }
}
