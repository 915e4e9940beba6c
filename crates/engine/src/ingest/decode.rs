//! What the input stage does with packets: it numbers and counts them, gives each a key and a hash, and counts those that have none.
//!
//! | part | is | because |
//! | --- | --- | --- |
//! | [`Arrivals`] | one thread's at a time | packets are numbered and times clamped in the order of the source |
//! | [`Decoder`] | everybody's | a packet's key and hash depend on nothing else |
//! | [`Losses`] | one thread's at a time | as [`Arrivals`]; there may be two of them, whose counts are added up |

use flowloom_flow_key::{FlowHash, FlowHasher, FlowKey};
use flowloom_packet::reason::DropCounts;
use flowloom_packet::{DecodeOptions, DropReason, Headers, LinkType, RawPacket, decode};

use crate::batch::packet::PacketPlace;
use crate::config::PlacementDigest;
use crate::report::counters::{InputCounters, LINKS_MAX};

/// Numbers and counts packets, and keeps their times from going back.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    counters: InputCounters,
    begun: bool,
    /// Packets that the source has yielded: all but those it withheld.
    yielded: u64,
}

impl Arrivals {
    /// Counts packets that are taken in next, and clamps their times; returns the number of the first.
    #[inline]
    pub(crate) fn count(&mut self, packets: &mut [RawPacket]) -> u64 {
        let number = self.yielded;
        self.yielded += packets.len() as u64;
        let counters = &mut self.counters;
        if let (false, Some(first)) = (self.begun, packets.first()) {
            // Times never go back: the first one is the least.
            counters.first_ns = first.time_ns;
            self.begun = true;
        }
        counters.packets += packets.len() as u64;
        let mut last_ns = counters.last_ns;
        for raw in packets {
            counters.bytes_on_wire += u64::from(raw.wire_bytes);
            counters.bytes_captured += u64::from(raw.captured_bytes);
            counters.captured_over_wire += u64::from(raw.captured_bytes > raw.wire_bytes);
            if raw.time_ns < last_ns {
                counters.time_backwards += 1;
                let back_ns = last_ns - raw.time_ns;
                counters.time_backwards_ns_max = counters.time_backwards_ns_max.max(back_ns);
                raw.time_ns = last_ns;
            } else {
                last_ns = raw.time_ns;
            }
        }
        counters.last_ns = last_ns;
        number
    }

    /// Begins with the latest time of packets that came before.
    pub(crate) fn begin_at(&mut self, last_ns: u64) {
        self.counters.last_ns = last_ns;
    }

    /// Returns the time of the first packet as the source yielded it; `None` before there was one.
    pub(crate) fn first_ns(&self) -> Option<u64> {
        self.begun.then_some(self.counters.first_ns)
    }

    /// Counts packets that the source took in and does not yield.
    pub(crate) fn withhold(&mut self, packets: u64) {
        self.counters.packets += packets;
    }

    /// Returns the number that the next packet gets.
    pub(crate) fn yielded(&self) -> u64 {
        self.yielded
    }

    pub(crate) fn packets(&self) -> u64 {
        self.counters.packets
    }

    /// Returns the counts together with what was lost; a run without packets has a first time of 0.
    pub(crate) fn finish(self, losses: Losses) -> InputCounters {
        let decoded = self.counters.packets - losses.refused;
        let Losses { dropped, unsupported_links, .. } = losses;
        InputCounters { decoded, dropped, unsupported_links, ..self.counters }
    }
}

/// Counts packets that no worker gets.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    dropped: DropCounts,
    /// Packets without a key, those included that the source withheld.
    refused: u64,
    unsupported_links: Vec<(LinkType, u64)>,
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

    /// Counts packets that the source took in and does not yield; returns how many.
    pub(crate) fn withhold(&mut self, withheld: &DropCounts) -> u64 {
        let packets = withheld.total();
        self.refused += packets;
        self.dropped.merge(withheld);
        packets
    }

    /// Counts packets that a worker should have had and will not get.
    pub(crate) fn lose(&mut self, reason: DropReason, packets: u64) {
        self.dropped.add(reason, packets);
    }

    pub(crate) fn dropped(&self) -> &DropCounts {
        &self.dropped
    }

    /// Adds other counts; only one of the two has link types.
    pub(crate) fn merge(&mut self, other: Self) {
        self.dropped.merge(&other.dropped);
        self.refused += other.refused;
        self.unsupported_links.extend(other.unsupported_links);
    }
}

/// Gives packets their keys and hashes.
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

    /// Hands on a packet with its headers, hash and place, unless it has no key, for which it says why.
    ///
    /// The headers are read where they were made: a copy would wait for their single bytes to reach memory, behind whatever else
    /// is being written.
    #[inline(always)]
    pub(crate) fn admit(
        &self,
        (number, raw): (u64, &RawPacket),
        block: &[u8],
        pass: u32,
        to: impl FnOnce(&Headers, FlowHash, PacketPlace),
    ) -> Result<(), DropReason> {
        let bytes = raw.bytes_in(block);
        let mut headers = decode(raw.link, bytes, self.options)?;
        headers.key = headers.key.with_pass(pass);
        let hash = self.hasher.hash(&headers.key);
        let RawPacket { position, captured_bytes: captured, wire_bytes: wire, time_ns, .. } = *raw;
        to(&headers, hash, PacketPlace { position, time_ns, captured, wire, number });
        Ok(())
    }

    /// Returns what policies know a flow by.
    #[inline(always)]
    pub(crate) fn digest(&self, key: &FlowKey, hash: FlowHash) -> u32 {
        self.digest.of(key, hash.worker)
    }
}
