//! Numbers and counts packets, computes their keys and hashes, and counts packets without a key.
//!
//! | type | used by | because |
//! | --- | --- | --- |
//! | [`Arrivals`] | one thread | packets are numbered and times judged in the order of the source |
//! | [`Decoder`] | shared by all threads | a packet's key and hash depend on no other packet |
//! | [`Losses`] | one thread | as [`Arrivals`]; a run may have two, whose counts are added up |

use flowloom_flow_key::protocol::{TCP, UDP};
use flowloom_flow_key::{FlowHash, FlowHasher, FlowKey};
use flowloom_packet::census::Census;
use flowloom_packet::clock::PacketClock;
use flowloom_packet::drop_reason::DropCounts;
use flowloom_packet::{DecodeOptions, DropReason, Headers, LinkType, RawPacket, decode};

use crate::batch::packet::PacketPlace;
use crate::config::PlacementDigest;
use crate::report::counters::{InputCounters, LINKS_MAX};
use crate::report::timeline::Timeline;

/// Numbers and counts packets, and sets their times by a monotonic clock that single wrong stamps
/// do not move.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    counters: InputCounters,
    clock: PacketClock,
    has_begun: bool,
    /// Packets that the source has yielded, without those that it withheld.
    yielded: u64,
    options: DecodeOptions,
}

impl Arrivals {
    /// Returns counters of no packets. With `timeline` they count by packet time too.
    pub(crate) fn new(timeline: bool, options: DecodeOptions) -> Self {
        let counters = InputCounters { timeline: timeline.then(Timeline::default), ..Default::default() };
        Self { counters, options, ..Self::default() }
    }

    /// Counts the next packets, whose bytes `bytes_of` returns by index, and sets their times.
    /// Replaces `stamps` by the times that they had before. Returns the number of the first.
    #[inline]
    pub(crate) fn count<'b>(
        &mut self,
        packets: &mut [RawPacket],
        stamps: &mut Vec<u64>,
        bytes_of: impl Fn(usize, &RawPacket) -> &'b [u8],
    ) -> u64 {
        let options = self.options;
        let number = self.yielded;
        self.yielded += packets.len() as u64;
        let counters = &mut self.counters;
        let begins = !self.has_begun && !packets.is_empty();
        self.has_begun |= begins;
        counters.packets += packets.len() as u64;
        stamps.clear();
        stamps.extend(packets.iter().map(|raw| raw.time_ns));
        for (i, raw) in packets.iter_mut().enumerate() {
            counters.bytes_on_wire += u64::from(raw.counted_bytes(|| bytes_of(i, raw), options));
            counters.bytes_captured += u64::from(raw.captured_bytes);
            counters.captured_over_wire += u64::from(raw.captured_bytes > raw.wire_bytes);
            raw.time_ns = self.clock.tick(raw.time_ns);
        }
        if let Some(timeline) = &mut counters.timeline {
            for (i, raw) in packets.iter().enumerate() {
                let bytes = bytes_of(i, raw);
                let protocol = protocol_of(raw.link, bytes, options);
                timeline.add(raw.time_ns, raw.counted_bytes(|| bytes, options), protocol);
            }
        }
        if begins {
            // Times never decrease, so the first time is the earliest.
            counters.first_ns = packets[0].time_ns;
        }
        counters.last_ns = self.clock.now_ns();
        number
    }

    pub(crate) fn has_timeline(&self) -> bool {
        self.counters.timeline.is_some()
    }

    /// Counts packets that another thread has read, and sets their times from their stamps. Returns
    /// the number of the first, and whether a time differs from its stamp.
    pub(crate) fn count_read(&mut self, arrived: Arrived, stamps: &mut [u64]) -> (u64, bool) {
        let number = self.yielded;
        let counters = &mut self.counters;
        self.yielded += arrived.packets;
        counters.packets += arrived.packets;
        counters.bytes_on_wire += arrived.bytes_on_wire;
        counters.bytes_captured += arrived.bytes_captured;
        counters.captured_over_wire += arrived.captured_over_wire;
        let (Some(&first), Some(&last)) = (stamps.first(), stamps.last()) else { return (number, false) };
        let is_usual = arrived.is_sorted && self.clock.tick_all(first, last);
        if !is_usual {
            for stamp in &mut *stamps {
                *stamp = self.clock.tick(*stamp);
            }
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            counters.first_ns = stamps[0];
        }
        counters.last_ns = self.clock.now_ns();
        (number, !is_usual)
    }

    /// Returns the time of the latest packet.
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Returns the time of a moment at which no packet arrives.
    pub(crate) fn without_packet(&self, stamped_ns: u64) -> u64 {
        self.clock.without_packet(stamped_ns)
    }

    /// Counts packets that the source read and will not yield.
    pub(crate) fn withhold(&mut self, packets: u64) {
        self.counters.packets += packets;
    }

    /// Returns the number of the next packet.
    pub(crate) fn yielded(&self) -> u64 {
        self.yielded
    }

    pub(crate) fn packets(&self) -> u64 {
        self.counters.packets
    }

    /// Returns the counts together with the losses. The first time of a run without packets is 0.
    pub(crate) fn finish(self, losses: Losses) -> InputCounters {
        let decoded = self.counters.packets - losses.refused;
        let Losses { dropped, unsupported_links, census, .. } = losses;
        let clock = self.clock.counts();
        InputCounters {
            decoded,
            dropped,
            unsupported_links,
            encapsulations: census.into_counts(),
            time_backwards: clock.late,
            time_backwards_ns_max: clock.late_ns_max,
            time_outliers: clock.outliers_ahead + clock.outliers_behind,
            time_steps: clock.steps_forward + clock.steps_back,
            ..self.counters
        }
    }
}

/// The counts of packets that a thread has read before the packets before them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    packets: u64,
    bytes_on_wire: u64,
    bytes_captured: u64,
    captured_over_wire: u64,
    /// Whether no stamp is before an earlier one.
    is_sorted: bool,
    last_stamp: u64,
}

impl Default for Arrived {
    fn default() -> Self {
        Self {
            packets: 0,
            bytes_on_wire: 0,
            bytes_captured: 0,
            captured_over_wire: 0,
            is_sorted: true,
            last_stamp: 0,
        }
    }
}

impl Arrived {
    /// Counts the packets that follow, which lie in `block`.
    #[inline]
    pub(crate) fn add(&mut self, packets: &[RawPacket], block: &[u8], options: DecodeOptions) {
        self.packets += packets.len() as u64;
        for raw in packets {
            self.bytes_on_wire += u64::from(raw.counted_bytes(|| raw.bytes_in(block), options));
            self.bytes_captured += u64::from(raw.captured_bytes);
            self.captured_over_wire += u64::from(raw.captured_bytes > raw.wire_bytes);
            self.is_sorted &= raw.time_ns >= self.last_stamp;
            self.last_stamp = raw.time_ns;
        }
    }
}

/// Counts packets that no worker gets.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    dropped: DropCounts,
    /// Packets without a key, including those that the source withheld.
    refused: u64,
    unsupported_links: Vec<(LinkType, u64)>,
    /// Counts the encapsulations of packets with and without a key.
    pub(crate) census: Census,
}

impl Losses {
    /// Counts a packet that has no key.
    #[cold]
    pub(crate) fn refuse(&mut self, reason: DropReason, link: LinkType) {
        self.refused += 1;
        self.dropped.count(reason);
        if reason == DropReason::Unsupported {
            self.count_link(link, 1);
        }
    }

    /// Counts packets that the source read and will not yield. Returns their number.
    pub(crate) fn withhold(&mut self, withheld: &DropCounts) -> u64 {
        let packets = withheld.total();
        self.refused += packets;
        self.dropped.merge(withheld);
        packets
    }

    /// Counts packets that were lost on their way to a worker.
    pub(crate) fn lose(&mut self, reason: DropReason, packets: u64) {
        self.dropped.add(reason, packets);
    }

    pub(crate) fn dropped(&self) -> &DropCounts {
        &self.dropped
    }

    /// Adds the counts of packets that follow. Their numbers count from the packet after the first
    /// `before` packets of the run.
    pub(crate) fn merge(&mut self, later: &Self, before: u64) {
        self.dropped.merge(&later.dropped);
        self.refused += later.refused;
        self.census.append(&later.census, before);
        for &(link, packets) in &later.unsupported_links {
            self.count_link(link, packets);
        }
    }

    fn count_link(&mut self, link: LinkType, packets: u64) {
        let links = &mut self.unsupported_links;
        if let Some((_, all)) = links.iter_mut().find(|(known, _)| *known == link) {
            *all += packets;
        } else if links.len() < LINKS_MAX {
            links.push((link, packets));
        }
    }
}

/// Computes keys and hashes of packets.
#[derive(Clone, Debug)]
pub(crate) struct Decoder {
    options: DecodeOptions,
    hasher: FlowHasher,
    digest: PlacementDigest,
}

impl Decoder {
    pub(crate) fn new(options: DecodeOptions, hasher: FlowHasher, digest: PlacementDigest) -> Self {
        Self { options, hasher, digest }
    }

    /// Passes the headers, hash and place of a packet, given with its number and its stamp, to
    /// `to`. Returns the reason if the packet has no key. The census counts unusual headers under
    /// the packet's number, counted from 1.
    ///
    /// `to` reads the headers where the decoder wrote them: a copy would wait until the single-byte
    /// stores have reached memory, after all other pending stores.
    #[inline(always)]
    pub(crate) fn admit(
        &self,
        (number, raw, stamped_ns): (u64, &RawPacket, u64),
        block: &[u8],
        pass: u32,
        census: &mut Census,
        to: impl FnOnce(&Headers, FlowHash, PacketPlace),
    ) -> Result<(), DropReason> {
        let bytes = raw.bytes_in(block);
        let mut headers = match census.decode(number + 1, raw.link, bytes, &self.options) {
            Ok(headers) => headers,
            Err(reason) => {
                census.look_at_length_without_key(number + 1, bytes, raw.wire_bytes);
                return Err(reason);
            }
        };
        headers.key = headers.key.with_pass(pass);
        headers.interface = raw.interface;
        let hash = self.hasher.hash(&headers.key);
        let RawPacket { position, captured_bytes: captured, wire_bytes, time_ns, .. } = *raw;
        let wire = census.look_at_length(number + 1, &headers, bytes, wire_bytes);
        headers.extend_to(bytes, wire);
        to(&headers, hash, PacketPlace { position, time_ns, stamped_ns, captured, wire, number });
        Ok(())
    }

    pub(crate) fn options(&self) -> DecodeOptions {
        self.options
    }

    /// Returns the value by which policies identify a flow.
    #[inline(always)]
    pub(crate) fn digest(&self, key: &FlowKey, hash: FlowHash) -> u32 {
        self.digest.compute(key, hash.worker)
    }
}

/// Returns the IP protocol of a packet's flow, if it has a flow. One look at the bytes suffices for
/// the usual frames, which workers decode again.
fn protocol_of(link: LinkType, bytes: &[u8], options: DecodeOptions) -> Option<u8> {
    if link == LinkType::ETHERNET && options == DecodeOptions::default() {
        let usual = match bytes.get(12..24) {
            Some([8, 0, 0x45, .., protocol] | [0x86, 0xDD, _, _, _, _, _, _, protocol, ..]) => {
                Some(*protocol)
            }
            _ => None,
        };
        if matches!(usual, Some(TCP | UDP)) {
            return usual;
        }
    }
    Some(decode(link, bytes, options).ok()?.key.protocol())
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocol_is_the_decoders_for_usual_frames_and_others() {
        let ports = [3, 0xE8, 0, 53, 0, 8, 0, 0, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0];
        for protocol in [TCP, UDP, 1, 132] {
            let v4 =
                [&[0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2][..], &ports];
            let v6 = [&[0x60, 0, 0, 0, 0, 20, protocol, 64][..], &[1; 32], &ports];
            for (kind, packet) in [([8, 0], v4.concat()), ([0x86, 0xDD], v6.concat())] {
                let plain = [&[2; 12][..], &kind, &packet].concat();
                let tagged = [&[2; 12][..], &[0x81, 0, 0, 7], &kind, &packet].concat();
                for frame in [&plain[..], &tagged, &plain[..20], &[]] {
                    let options = DecodeOptions::default();
                    let decoded = decode(LinkType::ETHERNET, frame, options).ok();
                    let expected = decoded.map(|headers| headers.key.protocol());
                    assert_eq!(protocol_of(LinkType::ETHERNET, frame, options), expected, "{frame:?}");
                }
            }
        }
    }
}
