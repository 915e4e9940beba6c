//! What the layers share: the bytes, the zone so far, and how deep the nesting is.

use super::DecodeOptions;
use super::explain::{Trace, Unknown};
use super::table;
use super::vlan::Zone;
use crate::link::LinkType;
use crate::reason::DropReason;
use crate::view::Headers;

/// Nested headers that are followed: tags, labels, link layers inside tunnels, IP inside IP.
const DEPTH_MAX: u8 = 16;

/// A walk through the layers of one packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layers<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) options: DecodeOptions,
    pub(super) zone: Zone,
    /// Where the walk is written down, for those that ask what a packet is.
    pub(super) trace: Option<&'a Trace>,
    depth: u8,
}

pub(super) type Decoded = Result<Headers, DropReason>;

impl<'a> Layers<'a> {
    pub(super) fn new(bytes: &'a [u8], options: DecodeOptions, trace: Option<&'a Trace>) -> Self {
        Self { bytes, options, zone: Zone::default(), trace, depth: 0 }
    }

    /// Decodes from the link layer on, whose header is at an offset.
    pub(super) fn link(self, link: LinkType, at: usize) -> Decoded {
        match table::of_link(link) {
            Some(entry) => self.enter(entry, at),
            None => Err(DropReason::Unsupported),
        }
    }

    /// Says that the packet carries something other than IP, and what.
    #[cold]
    pub(super) fn not_ip(self, unknown: Unknown) -> Decoded {
        if let Some(trace) = self.trace {
            trace.end(unknown);
        }
        Err(DropReason::NotIp)
    }

    /// Says that the packet is a message between the ends of a tunnel, and carries none.
    #[cold]
    pub(super) fn message(self) -> Decoded {
        if let Some(trace) = self.trace {
            trace.message();
        }
        Err(DropReason::NotIp)
    }

    /// Goes one header deeper.
    pub(super) fn deeper(mut self) -> Result<Self, DropReason> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(DropReason::Depth) } else { Ok(self) }
    }

    /// Returns `N` bytes at an offset, or the reason to give when they are not all there.
    #[inline]
    pub(super) fn take<const N: usize>(
        &self,
        at: usize,
        cut: DropReason,
    ) -> Result<&'a [u8; N], DropReason> {
        self.bytes.get(at..).and_then(<[u8]>::first_chunk).ok_or(cut)
    }

    /// Returns the big-endian 16-bit number at an offset.
    #[inline]
    pub(super) fn half(&self, at: usize, cut: DropReason) -> Result<u16, DropReason> {
        self.take::<2>(at, cut).map(|bytes| u16::from_be_bytes(*bytes))
    }

    /// Decodes an IP header that says itself which version it is.
    pub(super) fn ip_by_version(self, at: usize, cut: DropReason) -> Decoded {
        match self.take::<1>(at, cut)?[0] >> 4 {
            4 => self.ipv4(at),
            6 => self.ipv6(at),
            _ => Err(DropReason::NotIp),
        }
    }
}
