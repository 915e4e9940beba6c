//! The first message of each direction of a TCP connection, in sequence.
//!
//! ```text
//!  Unseen ─SYN─► Open ─data─► Collecting ─► Found       the message
//!     └──────data──┴──────────────┴───────► Over        the direction begins with something else
//! ```
//!
//! A direction begins at its SYN, or at the first data of the record if the SYN is missing. At most
//! [`BYTES_MAX`] bytes are collected, and as many out-of-order bytes wait for earlier ones.
//! Collected bytes are dropped when the direction is decided, or when memory is short. Nothing is
//! collected for a direction whose first segment decides.

use flowloom_dpi::stream::{Piece, Segment as Data, Sequencer, Window};
use flowloom_flow_key::Direction;
use flowloom_packet::PacketView;

use super::Reading;
use crate::accounting::connection::{SYN, Segment};
use crate::accounting::fields::memory::{Content, FieldStore, Held};

const TCP: u8 = 6;

/// Maximum number of bytes collected per direction.
pub(in super::super) const BYTES_MAX: usize = 4096;

/// A message with which a direction of a connection may begin.
pub(in super::super) trait Message: Content + std::fmt::Debug + Sync {
    /// Reads the message from the first bytes of a direction. With `is_all` no further bytes come,
    /// and the reader returns its partial result instead of [`Reading::More`].
    fn read(bytes: &[u8], is_all: bool) -> Reading<Self>;
}

/// Bytes in sequence, and bytes that wait for earlier ones.
#[derive(Clone, Debug)]
struct Collecting {
    order: Sequencer,
    bytes: Vec<u8>,
    window: Option<Window>,
}

impl Content for Collecting {
    fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.window.as_ref().map_or(0, |window| window.places() * 9 / 8)
    }
}

#[derive(Clone, Debug, Default)]
enum Side<T: Content> {
    #[default]
    Unseen,
    /// A SYN arrived; the number of the first byte.
    Open(u32),
    Collecting(Held<Collecting>),
    Found(Held<T>),
    Over,
}

impl<T: Message> Side<T> {
    fn decided(reading: Reading<T>, to: &Destination<'_>) -> Self {
        match reading {
            Reading::Found(message) => Self::Found(to.hold(message)),
            Reading::More | Reading::Other => Self::Over,
        }
    }

    /// Processes a segment with SYN or data. `is_cut` says that its end was not captured.
    #[cold]
    #[inline(never)]
    fn push(&mut self, segment: Data<'_>, is_cut: bool, to: &Destination<'_>) {
        let mut order = Sequencer::default();
        match self {
            Self::Found(_) | Self::Over => return,
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
            Self::Unseen => {}
        }
        if segment.payload.is_empty() && !is_cut {
            *self = Self::Open(segment.sequence.wrapping_add(1));
            return;
        }
        if !order.is_next(&segment) {
            let mut collecting = Collecting { order, bytes: Vec::new(), window: None };
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
            Self::Collecting(to.hold(Collecting { order, bytes, window: None }))
        } else {
            Self::decided(reading, to)
        };
    }

    fn message(&self) -> Option<T> {
        match self {
            Self::Found(message) => message.get(),
            Self::Collecting(collecting) => match T::read(&collecting.get()?.bytes, true) {
                Reading::Found(message) => Some(message),
                Reading::More | Reading::Other => None,
            },
            Self::Unseen | Self::Open(_) | Self::Over => None,
        }
    }

    fn is_dropped(&self) -> bool {
        match self {
            Self::Found(message) => message.is_dropped(),
            Self::Collecting(collecting) => collecting.is_dropped(),
            Self::Unseen | Self::Open(_) | Self::Over => false,
        }
    }
}

/// What contents take their memory from, and the time of the packet that begins them.
struct Destination<'a> {
    store: &'a FieldStore,
    time_ns: u64,
}

impl Destination<'_> {
    fn hold<T: Content>(&self, content: T) -> Held<T> {
        Held::new(content, self.store, self.time_ns)
    }
}

impl Collecting {
    /// Processes a segment. Returns the result once the direction is decided.
    fn push<T: Message>(&mut self, segment: Data<'_>, is_cut: bool) -> Option<Reading<T>> {
        if self.window.is_none() && !self.order.is_next(&segment) {
            self.window = Some(Window::new(BYTES_MAX));
        }
        let (bytes, mut has_gap) = (&mut self.bytes, false);
        let before = bytes.len();
        self.order.push(segment, self.window.as_mut(), |piece| match piece {
            Piece::Data(data) if !has_gap => {
                let space = BYTES_MAX - bytes.len();
                bytes.extend_from_slice(&data[..data.len().min(space)]);
            }
            Piece::Data(_) => {}
            Piece::Gap(_) => has_gap = true,
        });
        let is_all = is_cut || has_gap || self.bytes.len() == BYTES_MAX;
        if self.bytes.len() == before && !is_all {
            return None;
        }
        match T::read(&self.bytes, is_all) {
            Reading::More if !is_all => None,
            reading => Some(reading),
        }
    }
}

/// The first messages of both directions.
#[derive(Clone, Debug)]
pub(in super::super) struct FirstMessages<T: Content> {
    sides: [Side<T>; 2],
}

impl<T: Content> Default for FirstMessages<T> {
    fn default() -> Self {
        Self { sides: [Side::Unseen, Side::Unseen] }
    }
}

impl<T: Message> FirstMessages<T> {
    /// Processes a packet. Packets other than TCP change nothing.
    #[inline(always)]
    pub(in super::super) fn add(&mut self, packet: &PacketView<'_>, store: &FieldStore) {
        let headers = &packet.headers;
        let side = &mut self.sides[headers.direction.index()];
        if matches!(side, Side::Found(_) | Side::Over)
            || headers.key.protocol() != TCP
            || headers.later_fragment
            || (headers.payload_bytes == 0 && headers.tcp_flags & SYN == 0)
        {
            return;
        }
        if let Some(segment) = Segment::of(packet) {
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
        self.sides.iter().any(Side::is_dropped)
    }

    /// Returns whether the message of a direction was dropped for lack of memory.
    pub(in super::super) fn is_dropped_from(&self, way: Direction) -> bool {
        self.sides[way.index()].is_dropped()
    }
}
