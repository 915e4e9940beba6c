//! The pool of incomplete datagrams. It limits their number, size and age, and counts the outcome
//! of each fragment.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use etherparse::IpFragOffset;
use etherparse::defrag::{IpDefragBuf, IpFragRange};
use flowloom_packet::{DropCounts, DropReason, Fragments, InterfaceName, LinkType, RawPacket};

use super::fragment::{DatagramId, Fragment, Shape};

/// Number of bytes that an open datagram takes in addition to its buffers: its entries in two
/// trees, with their slack.
const ENTRY_BYTES: usize = 768;

/// The limits for incomplete datagrams.
///
/// Any version may add fields, so end a literal with `..DefragLimits::default()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefragLimits {
    /// Maximum number of datagrams at a time. When it is exceeded, the oldest datagram is
    /// abandoned.
    pub datagrams_max: usize,
    /// Maximum number of bytes held at a time, including bookkeeping. When it is exceeded, the
    /// oldest datagram is abandoned. A single datagram may exceed it.
    pub bytes_max: usize,
    /// Maximum number of fragments of one datagram. When it is exceeded, the datagram is abandoned.
    pub fragments_max: u32,
    /// Time in nanoseconds, by packet time, from a datagram's first fragment until it is abandoned.
    pub age_max_ns: u64,
}

impl Default for DefragLimits {
    /// 4096 datagrams, 16 MiB, 1500 fragments each (64 KiB at IPv4's minimum MTU), 30 seconds.
    fn default() -> Self {
        Self { datagrams_max: 4096, bytes_max: 16 << 20, fragments_max: 1500, age_max_ns: 30_000_000_000 }
    }
}

/// What packets were on the wire, together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WireSum {
    packets: u32,
    bytes: u32,
    /// The bytes of the IP packets that are fragments.
    ip_bytes: u32,
    /// The part of the IP bytes that the joined datagram does not have.
    pub(super) more_ip_bytes: u32,
    /// The earliest and the latest stamp, and that of the last packet.
    first_ns: u64,
    latest_ns: u64,
    pub(super) last_ns: u64,
}

impl WireSum {
    pub(super) fn of_packet(raw: &RawPacket, ip_bytes: u32) -> Self {
        let (bytes, time) = (raw.wire_bytes, raw.time_ns);
        Self {
            packets: 1,
            bytes,
            ip_bytes,
            more_ip_bytes: 0,
            first_ns: time,
            latest_ns: time,
            last_ns: time,
        }
    }

    /// Returns the sum of the same packets for a fragment that they carry together.
    pub(super) fn inside(self, ip_bytes: u32) -> Self {
        Self { ip_bytes, more_ip_bytes: 0, ..self }
    }

    /// Adds later packets. Saturates: a counter that is too large for a datagram comes from lengths
    /// that a capture states wrongly.
    fn add(&mut self, later: &Self) {
        if self.packets == 0 {
            *self = *later;
            return;
        }
        self.packets = self.packets.saturating_add(later.packets);
        self.bytes = self.bytes.saturating_add(later.bytes);
        self.ip_bytes = self.ip_bytes.saturating_add(later.ip_bytes);
        self.first_ns = self.first_ns.min(later.first_ns);
        self.latest_ns = self.latest_ns.max(later.latest_ns);
        self.last_ns = later.last_ns;
    }

    pub(super) fn wire_bytes(&self) -> u32 {
        self.bytes
    }

    pub(super) fn fragments(&self) -> Fragments {
        let mut fragments = Fragments::default();
        fragments.packets = self.packets;
        fragments.more_ip_bytes = self.more_ip_bytes;
        (fragments.first_ns, fragments.last_ns) = (self.first_ns, self.latest_ns);
        fragments
    }

    fn span_ns(&self) -> u64 {
        self.latest_ns - self.first_ns
    }
}

/// A complete datagram.
#[derive(Debug)]
pub(super) struct Datagram {
    /// Its bytes, from the link layer on.
    pub(super) bytes: Vec<u8>,
    /// Its fragments.
    pub(super) sum: WireSum,
    /// Offset of the IP header that was joined.
    pub(super) network_offset: usize,
    pub(super) link: LinkType,
    pub(super) interface: InterfaceName,
}

#[derive(Debug)]
struct Open {
    /// `None` after the datagram was abandoned: its later fragments are dropped for the same
    /// reason.
    buffer: Result<IpDefragBuf, DropReason>,
    /// The headers before the payload, from the fragment at offset 0.
    head: Option<(Shape, (LinkType, InterfaceName), Vec<u8>)>,
    /// Fragments held.
    fragments: u32,
    /// Fragments held, and duplicates of these.
    sum: WireSum,
    begun: u64,
    begun_ns: u64,
    /// Number of bytes that count as held.
    bytes: usize,
}

impl Open {
    fn bytes_now(&self) -> usize {
        let buffer = self.buffer.as_ref().map_or(0, |buffer| {
            buffer.data().capacity() + buffer.sections().capacity() * size_of::<IpFragRange>()
        });
        ENTRY_BYTES + buffer + self.head.as_ref().map_or(0, |(_, _, head)| head.capacity())
    }
}

/// Open datagrams by their ID, and by the time they began.
#[derive(Debug)]
pub(super) struct Pool {
    limits: DefragLimits,
    open: BTreeMap<DatagramId, Open>,
    oldest: BTreeMap<u64, DatagramId>,
    begun: u64,
    now_ns: u64,
    bytes: usize,
    /// Fragments that were dropped since the last call of `withheld`.
    pub(super) ended: DropCounts,
}

impl Pool {
    pub(super) fn new(limits: DefragLimits) -> Self {
        Self {
            limits,
            open: BTreeMap::new(),
            oldest: BTreeMap::new(),
            begun: 0,
            now_ns: 0,
            bytes: 0,
            ended: DropCounts::default(),
        }
    }

    /// Returns the bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of datagrams held.
    pub(super) fn datagrams(&self) -> usize {
        self.open.len()
    }

    /// Adds a fragment, and returns the datagram that it completes. `bytes` is the packet that
    /// carries it.
    pub(super) fn add(
        &mut self,
        fragment: &Fragment<'_>,
        origin: (LinkType, InterfaceName),
        bytes: &[u8],
        sum: WireSum,
    ) -> Option<Datagram> {
        self.now_ns = self.now_ns.max(sum.last_ns);
        self.expire();
        if fragment.cut {
            self.ended.count(DropReason::FragmentTruncated);
            return None;
        }
        let open = match self.open.entry(fragment.id) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                self.begun += 1;
                self.oldest.insert(self.begun, fragment.id);
                let buffer = IpDefragBuf::new(etherparse::IpNumber(0), Vec::new(), Vec::new());
                entry.insert(Open {
                    buffer: Ok(buffer),
                    head: None,
                    fragments: 0,
                    sum: WireSum::default(),
                    begun: self.begun,
                    begun_ns: self.now_ns,
                    bytes: 0,
                })
            }
        };
        let whole = match take(open, fragment, (origin, bytes), self.limits.fragments_max) {
            Taken::Held => {
                open.sum.add(&sum);
                false
            }
            Taken::Whole => {
                open.sum.add(&sum);
                true
            }
            Taken::Dropped(reason) => {
                if reason == DropReason::FragmentDuplicate {
                    open.sum.add(&sum);
                }
                self.ended.count(reason);
                false
            }
            Taken::Abandoned(reason) => {
                self.ended.add(reason, u64::from(open.fragments) + 1);
                open.fragments = 0;
                open.buffer = Err(reason);
                open.head = None;
                false
            }
        };
        self.bytes = self.bytes - open.bytes + open.bytes_now();
        open.bytes = open.bytes_now();
        if whole {
            return self.remove(fragment.id).and_then(|open| self.join(open));
        }
        while self.open.len() > self.limits.datagrams_max || self.bytes > self.limits.bytes_max {
            self.drop_oldest(DropReason::FragmentPoolFull);
        }
        None
    }

    /// Abandons all open datagrams.
    pub(super) fn finish(&mut self) {
        while !self.oldest.is_empty() {
            self.drop_oldest(DropReason::FragmentIncomplete);
        }
    }

    fn expire(&mut self) {
        while let Some(open) = self.oldest.first_key_value().and_then(|(_, id)| self.open.get(id)) {
            if self.now_ns - open.begun_ns <= self.limits.age_max_ns {
                break;
            }
            self.drop_oldest(DropReason::FragmentTimeout);
        }
    }

    fn drop_oldest(&mut self, reason: DropReason) {
        let Some((_, id)) = self.oldest.pop_first() else { return };
        if let Some(open) = self.remove(id) {
            self.ended.add(reason, u64::from(open.fragments));
        }
    }

    fn remove(&mut self, id: DatagramId) -> Option<Open> {
        let open = self.open.remove(&id)?;
        self.oldest.remove(&open.begun);
        self.bytes -= open.bytes;
        Some(open)
    }

    fn join(&mut self, open: Open) -> Option<Datagram> {
        let fragments = u64::from(open.fragments);
        let joined = match (open.buffer, open.head) {
            (Ok(buffer), Some((shape, (link, interface), mut head))) => {
                let (payload, _) = buffer.take_bufs();
                shape.finish(&mut head, payload.len()).map(|()| {
                    head.extend_from_slice(&payload);
                    let network_offset = shape.network_offset();
                    let ip_bytes = u32::try_from(head.len() - network_offset).unwrap_or(u32::MAX);
                    let mut sum = open.sum;
                    sum.more_ip_bytes = sum.ip_bytes.saturating_sub(ip_bytes);
                    if sum.span_ns() > self.limits.age_max_ns {
                        (sum.first_ns, sum.latest_ns) = (sum.last_ns, sum.last_ns); // One is wrong.
                    }
                    Datagram { bytes: head, sum, network_offset, link, interface }
                })
            }
            _ => None,
        };
        // The datagram replaces one of its packets, so that one does not count as withheld.
        match joined {
            Some(_) => self.ended.add(DropReason::Reassembled, fragments - 1),
            None => self.ended.add(DropReason::FragmentMalformed, fragments),
        }
        joined
    }
}

enum Taken {
    Held,
    Whole,
    /// This fragment is dropped; the others remain.
    Dropped(DropReason),
    /// The datagram is abandoned, with this fragment.
    Abandoned(DropReason),
}

fn take(
    open: &mut Open,
    fragment: &Fragment<'_>,
    (origin, bytes): ((LinkType, InterfaceName), &[u8]),
    fragments_max: u32,
) -> Taken {
    let buffer = match &mut open.buffer {
        Ok(buffer) => buffer,
        Err(reason) => return Taken::Dropped(*reason),
    };
    let start = usize::from(fragment.offset) * 8;
    let range = start..start + fragment.payload.len();
    let overlaps =
        |held: &IpFragRange| usize::from(held.start) < range.end && range.start < usize::from(held.end);
    let holds =
        |held: &IpFragRange| usize::from(held.start) <= range.start && range.end <= usize::from(held.end);
    let is_odd =
        fragment.more && (fragment.payload.is_empty() || !fragment.payload.len().is_multiple_of(8));
    if is_odd || range.end > usize::from(u16::MAX) {
        // Only the fragment is dropped [RFC 8200 §4.5].
        return Taken::Dropped(DropReason::FragmentMalformed);
    }
    if buffer.sections().iter().any(overlaps) {
        // The comparison reads only held bytes that were written; the rest of the buffer never was.
        let again = buffer.sections().iter().any(holds)
            && buffer.data().get(range.clone()) == Some(fragment.payload)
            && (fragment.more || buffer.end().is_some_and(|end| usize::from(end) == range.end));
        return if again {
            Taken::Dropped(DropReason::FragmentDuplicate)
        } else {
            Taken::Abandoned(DropReason::FragmentOverlap)
        };
    }
    if open.fragments >= fragments_max {
        return Taken::Abandoned(DropReason::FragmentPoolFull);
    }
    // A last fragment that ends before another begins would truncate the held bytes.
    let ends_inside =
        !fragment.more && buffer.sections().iter().any(|held| usize::from(held.end) > range.end);
    let Ok(offset) = IpFragOffset::try_new(fragment.offset) else {
        return Taken::Abandoned(DropReason::FragmentMalformed);
    };
    if ends_inside || buffer.add(offset, fragment.more, fragment.payload).is_err() {
        return Taken::Abandoned(DropReason::FragmentMalformed);
    }
    open.fragments += 1;
    if fragment.offset == 0 {
        open.head = Some((fragment.shape, origin, fragment.shape.head(bytes)));
    }
    if buffer.is_complete() { Taken::Whole } else { Taken::Held }
}
