//! Flow accounting in the manner of NetFlow: records with a beginning, an end, and the reason for it.
//!
//! ```text
//!  packets of one key   a a a . a a a . . . . . . . b b F F . S
//!  records              ├─────┤├───┤               ├──────┤  ├┤
//!  ended by             active  idle                 fin     end of input
//! ```
//!
//! All times are those of packets. A record ends
//!
//! * *idle*: no packet came for longer than the engine's idle timeout;
//! * *active*: a packet came so long after the record's first that another record begins with it;
//! * *fin*, *reset*: both sides had sent FIN, or one RST; packets behind that still belong to the record, until a SYN
//!   without ACK begins another;
//! * *end*: the input ended.
//!
//! The records of one key stay apart, in their order; where they are cut is judged by the key's own packets, so that
//! they do not depend on the number of workers. Which reason a record has can be said only when its neighbours and the
//! end of the input are known: [`end_reasons`] does.

mod end;
pub mod ipfix;

use flowloom_engine::{App, Composed, FlowState, FlowValue, Verdict};
use flowloom_flow_key::Direction;
use flowloom_packet::PacketView;

use crate::save_state::{SaveState, put, words};

pub use end::{EndReason, end_reasons};

const FIN: u16 = 1;
const SYN: u16 = 2;
const RST: u16 = 4;
const ACK: u16 = 16;
const TCP: u8 = 6;

/// Bits of [`Accounted::seen`] that count packets: a thousand million of them a second for three days.
const PACKETS: u64 = (1 << FLAGS_SHIFT) - 1;
const FLAGS_SHIFT: u32 = 48;
/// The side that the word is of sent the first packet.
const BEGAN: u64 = 1 << 57;
/// In the word of the side that sent the first packet: that packet opens a TCP connection.
const OPENS: u64 = 1 << 58;
/// In either word: a later packet opens a TCP connection.
const REOPENS: u64 = 1 << 59;

/// One record: what was seen of a flow between two cuts. One cache line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Accounted {
    /// Of each direction: packets, the TCP flags above them, and above these whether it began. Only so there is room for all.
    seen: [u64; 2],
    bytes: [u64; 2],
    ip_bytes: [u64; 2],
    first_ns: u64,
    last_ns: u64,
}

const _: () = assert!(size_of::<Accounted>() <= 64, "a record fits the line behind its key");

impl Accounted {
    /// Returns the packets from the low endpoint to the high one, and back.
    pub fn packets(&self) -> [u64; 2] {
        self.seen.map(|seen| seen & PACKETS)
    }

    /// Returns the bytes on the wire, link layer included, per direction.
    pub fn bytes(&self) -> [u64; 2] {
        self.bytes
    }

    /// Returns the bytes of the IP packets, their headers included, per direction.
    pub fn ip_bytes(&self) -> [u64; 2] {
        self.ip_bytes
    }

    /// Returns the union of the TCP flags, per direction.
    pub fn flags(&self) -> [u16; 2] {
        self.seen.map(|seen| (seen >> FLAGS_SHIFT & 0x1FF) as u16)
    }

    /// Returns the times of the first and the last packet, nanoseconds since 1970.
    pub fn times_ns(&self) -> (u64, u64) {
        (self.first_ns, self.last_ns)
    }

    /// Returns the way that the first packet went.
    pub fn way(&self) -> Direction {
        if self.seen[1] & BEGAN == 0 { Direction::LowToHigh } else { Direction::HighToLow }
    }

    /// Returns how its connection was closed, if it was within this record.
    pub fn closed(&self) -> Option<EndReason> {
        Self::closed_by(self.flags())
    }

    fn closed_by([there, back]: [u16; 2]) -> Option<EndReason> {
        if (there | back) & RST != 0 {
            Some(EndReason::Reset)
        } else if there & back & FIN != 0 {
            Some(EndReason::Fin)
        } else {
            None
        }
    }
}

impl FlowState for Accounted {
    const COLUMNS: &'static [&'static str] = &[
        "start_ns",
        "end_ns",
        "packets_low_to_high",
        "packets_high_to_low",
        "bytes_low_to_high",
        "bytes_high_to_low",
        "ip_bytes_low_to_high",
        "ip_bytes_high_to_low",
        "tcp_flags_low_to_high",
        "tcp_flags_high_to_low",
        "first_sender",
    ];
    const SEPARATE: bool = true;

    fn values(&self, out: &mut Vec<FlowValue>) {
        let (packets, flags) = (self.packets(), self.flags());
        out.extend([
            FlowValue::TimeNs(self.first_ns),
            FlowValue::TimeNs(self.last_ns),
            FlowValue::Count(packets[0]),
            FlowValue::Count(packets[1]),
            FlowValue::Count(self.bytes[0]),
            FlowValue::Count(self.bytes[1]),
            FlowValue::Count(self.ip_bytes[0]),
            FlowValue::Count(self.ip_bytes[1]),
            FlowValue::Bits(u64::from(flags[0])),
            FlowValue::Bits(u64::from(flags[1])),
            FlowValue::Word(if self.way() == Direction::HighToLow { "high" } else { "low" }),
        ]);
    }

    /// Adds a later record, for whoever wants one a key after all.
    fn merge(&mut self, later: Self) {
        for way in 0..2 {
            self.seen[way] += later.seen[way] & PACKETS;
            self.seen[way] |= later.seen[way] & (0x1FF << FLAGS_SHIFT);
            self.bytes[way] += later.bytes[way];
            self.ip_bytes[way] += later.ip_bytes[way];
        }
        self.last_ns = later.last_ns;
    }

    /// A record that an active timeout may end is composed by [`Accounting`], which knows it.
    fn compose(&mut self, later: &mut Self) -> Composed {
        let has = |flow: &Self, bit: u64| (flow.seen[0] | flow.seen[1]) & bit != 0;
        if has(later, OPENS) && self.closed().is_some() {
            return Composed::Apart;
        }
        let ([a, b], [c, d]) = (self.flags(), later.flags());
        if has(later, REOPENS) && Self::closed_by([a | c, b | d]).is_some() {
            // The summaries do not say whether the connection was closed before that packet.
            return Composed::NeedsPackets;
        }
        if has(later, OPENS | REOPENS) {
            self.seen[0] |= REOPENS;
        }
        self.merge(std::mem::take(later));
        Composed::Joined
    }
}

impl SaveState for Accounted {
    const BYTES: usize = 64;

    fn save(&self, out: &mut Vec<u8>) {
        let Self { seen, bytes, ip_bytes, first_ns, last_ns } = self;
        let [seen, bytes, ip_bytes] = [seen, bytes, ip_bytes].map(|[there, back]| (*there, *back));
        put(out, &[seen.0, seen.1, bytes.0, bytes.1, ip_bytes.0, ip_bytes.1, *first_ns, *last_ns]);
    }

    fn load(bytes: &[u8]) -> Option<Self> {
        let (words, rest) = words::<8>(bytes)?;
        let pair = |at: usize| [words[at], words[at + 1]];
        let (seen, bytes, ip_bytes, [first_ns, last_ns]) = (pair(0), pair(2), pair(4), pair(6));
        rest.is_empty().then_some(Self { seen, bytes, ip_bytes, first_ns, last_ns })
    }
}

/// Returns whether a packet opens a TCP connection: a SYN without ACK, RST and FIN.
#[inline(always)]
fn opens(packet: &PacketView<'_>) -> bool {
    let headers = &packet.headers;
    headers.tcp_flags & (SYN | ACK | RST | FIN) == SYN && headers.key.protocol() == TCP
}

/// Accounts for packets and bytes in records that end by timeouts and by TCP's own signs.
///
/// The idle timeout is the engine's. It judges by flags alone: sequence numbers are not checked, so a forged RST ends a
/// record here.
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
    /// Returns the application. A packet that comes `active_ns` or more after its record's first begins another record;
    /// with `None` records go on for as long as packets come.
    #[must_use]
    pub fn new(active_ns: Option<u64>) -> Self {
        Self { active_ns }
    }
}

impl App for Accounting {
    type Flow = Accounted;

    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut Accounted) -> Verdict {
        let headers = &packet.headers;
        let way = headers.direction.index();
        if flow.seen == [0, 0] {
            flow.first_ns = packet.time_ns;
            flow.seen[way] = if opens(packet) { BEGAN | OPENS } else { BEGAN };
        } else if opens(packet) {
            flow.seen[way] |= REOPENS;
        }
        flow.seen[way] = (flow.seen[way] + 1) | u64::from(headers.tcp_flags) << FLAGS_SHIFT;
        flow.bytes[way] += u64::from(packet.wire_bytes);
        flow.ip_bytes[way] += u64::from(packet.ip_bytes());
        flow.last_ns = packet.time_ns;
        Verdict::Accept
    }

    #[inline(always)]
    fn next_record(&self, packet: &PacketView<'_>, flow: &mut Accounted) -> Option<Accounted> {
        let is_old =
            self.active_ns.is_some_and(|active| packet.time_ns.saturating_sub(flow.first_ns) >= active);
        (is_old || (opens(packet) && flow.closed().is_some())).then(Accounted::default)
    }

    fn compose(&mut self, flow: &mut Accounted, later: &mut Accounted) -> Composed {
        if let Some(active) = self.active_ns {
            let lasts = |until_ns: u64| until_ns.saturating_sub(flow.first_ns) >= active;
            if lasts(later.first_ns) {
                return Composed::Apart;
            }
            if lasts(later.last_ns) {
                return Composed::NeedsPackets;
            }
        }
        flow.compose(later)
    }
}
