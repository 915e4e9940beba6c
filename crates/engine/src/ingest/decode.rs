//! Numbers and counts packets, computes their keys and hashes, and counts packets without a key.
//!
//! | type | used by | because |
//! | --- | --- | --- |
//! | [`Arrivals`] | one thread | packets are numbered and times judged in the order of the source |
//! | [`Decoder`] | shared by all threads | a packet's key and hash depend on no other packet |
//! | [`Losses`] | one thread | as [`Arrivals`]; a run may have two, whose counts are added up |

use flowloom_flow_key::{FlowHash, FlowHasher, FlowKey};
use flowloom_packet::census::Census;
use flowloom_packet::clock::PacketClock;
use flowloom_packet::drop_reason::DropCounts;
use flowloom_packet::{DecodeOptions, DropReason, Headers, LinkType, RawPacket};

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
    /// The stamp of the first packet.
    first_stamp: Option<u64>,
    /// Packets that the source has yielded, without those that it withheld.
    yielded: u64,
}

impl Arrivals {
    /// Returns counters of no packets. With `timeline` they count by packet time too.
    pub(crate) fn new(timeline: bool) -> Self {
        let counters = InputCounters { timeline: timeline.then(Timeline::default), ..Default::default() };
        Self { counters, ..Self::default() }
    }

    /// Counts the next packets and sets their times. Returns the number of the first.
    #[inline]
    pub(crate) fn count(&mut self, packets: &mut [RawPacket]) -> u64 {
        let number = self.yielded;
        self.yielded += packets.len() as u64;
        let counters = &mut self.counters;
        let begins = self.first_stamp.is_none() && !packets.is_empty();
        if begins {
            self.first_stamp = packets.first().map(|first| first.time_ns);
        }
        counters.packets += packets.len() as u64;
        for raw in &mut *packets {
            counters.bytes_on_wire += u64::from(raw.wire_bytes);
            counters.bytes_captured += u64::from(raw.captured_bytes);
            counters.captured_over_wire += u64::from(raw.captured_bytes > raw.wire_bytes);
            raw.time_ns = self.clock.tick(raw.time_ns);
        }
        if let Some(timeline) = &mut counters.timeline {
            for raw in &*packets {
                timeline.add(raw.time_ns, raw.wire_bytes);
            }
        }
        if begins {
            // Times never decrease, so the first time is the earliest.
            counters.first_ns = packets[0].time_ns;
        }
        counters.last_ns = self.clock.now_ns();
        number
    }

    /// Starts with the clock as the preceding packets left it.
    pub(crate) fn begin_at(&mut self, clock: &PacketClock) {
        self.clock = clock.continued();
        self.counters.last_ns = self.clock.now_ns();
    }

    /// Returns the stamp of the first packet, or `None` before the first packet.
    pub(crate) fn first_stamp(&self) -> Option<u64> {
        self.first_stamp
    }

    /// Returns the state of the clock.
    pub(crate) fn clock(&self) -> PacketClock {
        self.clock.continued()
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
            let links = &mut self.unsupported_links;
            if let Some((_, packets)) = links.iter_mut().find(|(known, _)| *known == link) {
                *packets += 1;
            } else if links.len() < LINKS_MAX {
                links.push((link, 1));
            }
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

    /// Adds the counts of the stage that decodes. These are those of the source, which has no link
    /// types and no encapsulations.
    pub(crate) fn merge(&mut self, other: Self) {
        self.dropped.merge(&other.dropped);
        self.refused += other.refused;
        self.census = other.census;
        self.unsupported_links.extend(other.unsupported_links);
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

    /// Passes the headers, hash and place of a packet to `to`. Returns the reason if the packet has
    /// no key. The census counts what is not usual, under the packet's number counted from 1.
    ///
    /// `to` reads the headers where the decoder wrote them: a copy would wait until the single-byte
    /// stores have reached memory, after all other pending stores.
    #[inline(always)]
    pub(crate) fn admit(
        &self,
        (number, raw): (u64, &RawPacket),
        block: &[u8],
        pass: u32,
        census: &mut Census,
        to: impl FnOnce(&Headers, FlowHash, PacketPlace),
    ) -> Result<(), DropReason> {
        let bytes = raw.bytes_in(block);
        let mut headers = census.decode(number + 1, raw.link, bytes, self.options)?;
        headers.key = headers.key.with_pass(pass);
        headers.interface = raw.interface;
        let hash = self.hasher.hash(&headers.key);
        let RawPacket { position, captured_bytes: captured, wire_bytes: wire, time_ns, .. } = *raw;
        to(&headers, hash, PacketPlace { position, time_ns, captured, wire, number });
        Ok(())
    }

    /// Returns the value by which policies identify a flow.
    #[inline(always)]
    pub(crate) fn digest(&self, key: &FlowKey, hash: FlowHash) -> u32 {
        self.digest.of(key, hash.worker)
    }
}
