//! The input stage: one thread, as light as it can be. It takes batches from the source, gives each packet a key and
//! a hash, and hands it on.

use std::ops::Range;
use std::sync::Arc;

use flowloom_flow_key::{FlowHash, FlowHasher};
use flowloom_packet::reason::DropCounts;
use flowloom_packet::{
    DecodeOptions, DropReason, Headers, LinkType, PacketBatch, RawPacket, SharedBlock, decode,
};
use flowloom_scheduler::WorkItem;

use crate::config::PlacementDigest;
use crate::counters::InputCounters;
use crate::descriptor::{Descriptor, Place};
use crate::egress::GivenOut;

/// The most link types that are counted by name; further ones are only in the total.
const LINKS_MAX: usize = 64;

/// Gives packets their keys, hashes and times, and counts them.
#[derive(Debug)]
pub(crate) struct Admission {
    options: DecodeOptions,
    hasher: FlowHasher,
    digest: PlacementDigest,
    counters: InputCounters,
    /// Packets without a key.
    refused: u64,
    begun: bool,
    /// Packets that the source has yielded: all but those it withheld.
    yielded: u64,
}

impl Admission {
    pub(crate) fn new(options: DecodeOptions, hasher: FlowHasher, digest: PlacementDigest) -> Self {
        Self {
            options,
            hasher,
            digest,
            counters: InputCounters::default(),
            refused: 0,
            begun: false,
            yielded: 0,
        }
    }

    /// Counts packets that are admitted next; returns the number of the first.
    #[inline]
    pub(crate) fn count(&mut self, packets: &[RawPacket]) -> u64 {
        let number = self.yielded;
        self.yielded += packets.len() as u64;
        let counters = &mut self.counters;
        if let (false, Some(first)) = (self.begun, packets.first()) {
            // Times are clamped to never go back: the first one is the least.
            counters.first_ns = first.time_ns;
            self.begun = true;
        }
        counters.packets += packets.len() as u64;
        for raw in packets {
            counters.bytes_on_wire += u64::from(raw.wire);
            counters.bytes_captured += u64::from(raw.captured);
            counters.captured_over_wire += u64::from(raw.captured > raw.wire);
        }
        number
    }

    /// Hands on a packet with its headers, hash and place, unless it has no key.
    ///
    /// The headers are read where they were made: a copy would wait for their single bytes to reach memory, behind whatever else
    /// is being written.
    #[inline(always)]
    pub(crate) fn admit(
        &mut self,
        (number, raw): (u64, &RawPacket),
        block: &[u8],
        pass: u32,
        to: impl FnOnce(&Headers, FlowHash, Place),
    ) {
        let counters = &mut self.counters;
        let time_ns = raw.time_ns.max(counters.last_ns);
        counters.time_backwards += u64::from(raw.time_ns < counters.last_ns);
        counters.last_ns = time_ns;
        let start = raw.position as usize;
        let bytes = block.get(start..start.wrapping_add(raw.captured as usize)).unwrap_or_default();
        match decode(raw.link, bytes, self.options) {
            Ok(mut headers) => {
                if pass != 0 {
                    headers.key = headers.key.with_pass(pass);
                }
                let hash = self.hasher.hash(&headers.key);
                let RawPacket { position, captured, wire, .. } = *raw;
                to(&headers, hash, Place { position, time_ns, captured, wire, number });
            }
            Err(reason) => self.refuse(reason, raw.link),
        }
    }

    /// Makes work of these packets of a batch, which lie in `block`: gives a work item, a descriptor and the headers of each that has a key,
    /// and tells the egress stage which have; `is_new` says that the block is another one than before.
    #[inline]
    pub(crate) fn describe(
        &mut self,
        (batch, block): (&PacketBatch, &SharedBlock),
        range: Range<usize>,
        (given_out, is_new): (&mut Option<GivenOut>, bool),
        mut to: impl FnMut(WorkItem, Descriptor, &Headers),
    ) {
        let bytes = block.bytes();
        let mut ahead = batch.lookahead();
        let packets = &batch.packets[range];
        let first = self.count(packets);
        let mut mask = 0_u32;
        for (number, raw) in (first..).zip(packets) {
            ahead.request(bytes);
            let digest = self.digest;
            self.admit((number, raw), bytes, batch.pass, |headers, hash, place| {
                mask |= 1 << (number - first);
                let digest = digest.of(&headers.key, hash.worker);
                to(
                    WorkItem { digest, bytes: raw.wire },
                    Descriptor::packet(hash.table, place, raw.link),
                    headers,
                );
            });
        }
        if let Some(given_out) = given_out {
            given_out.batch(first, packets.len(), mask, is_new.then(|| Arc::clone(block)));
        }
    }

    #[cold]
    fn refuse(&mut self, reason: DropReason, link: LinkType) {
        self.refused += 1;
        self.counters.dropped.count(reason);
        if reason == DropReason::Unsupported {
            let links = &mut self.counters.unsupported_links;
            if let Some((_, packets)) = links.iter_mut().find(|(known, _)| *known == link) {
                *packets += 1;
            } else if links.len() < LINKS_MAX {
                links.push((link, 1));
            }
        }
    }

    /// Counts packets that the source took in and does not yield.
    pub(crate) fn withhold(&mut self, withheld: &DropCounts) {
        let packets = withheld.total();
        self.counters.packets += packets;
        self.refused += packets;
        self.counters.dropped.merge(withheld);
    }

    /// Counts a packet that a worker should have had and will not get.
    pub(crate) fn lose(&mut self, reason: DropReason, packets: u64) {
        self.counters.dropped.add(reason, packets);
    }

    /// Returns how many packets were counted that are neither dropped nor among the `sent` ones.
    pub(crate) fn unaccounted(&self, sent: u64) -> u64 {
        self.counters.packets - self.counters.dropped.total() - sent
    }

    /// Returns the number that the next packet gets.
    pub(crate) fn yielded(&self) -> u64 {
        self.yielded
    }

    pub(crate) fn dropped(&self) -> &DropCounts {
        &self.counters.dropped
    }

    /// Returns the latest time of a packet.
    pub(crate) fn latest_ns(&self) -> u64 {
        self.counters.last_ns
    }

    pub(crate) fn packets(&self) -> u64 {
        self.counters.packets
    }

    /// Returns the counts; a run without packets has a first time of 0.
    pub(crate) fn finish(mut self) -> InputCounters {
        self.counters.decoded = self.counters.packets - self.refused;
        self.counters
    }
}
