//! The state that all layers share: the bytes, the zone so far, and the nesting depth.

use super::options::DecodeOptions;
use super::trace::{Trace, Unknown};
use super::zone::Zone;
use crate::drop_reason::DropReason;
use crate::view::Headers;

/// Maximum number of nested headers that the decoder follows: tags, labels, link layers inside
/// tunnels, IP inside IP.
const DEPTH_MAX: u8 = 16;

/// A walk through the layers of one packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layers<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) options: DecodeOptions,
    pub(super) zone: Zone,
    /// The VLAN tags so far, whether the zone has them or not.
    pub(super) vlans: Zone,
    /// Records the steps, if the caller wants an explanation.
    pub(super) trace: Option<&'a Trace>,
    depth: u8,
}

pub(super) type Decoded = Result<Headers, DropReason>;

impl<'a> Layers<'a> {
    pub(super) fn new(bytes: &'a [u8], options: DecodeOptions, trace: Option<&'a Trace>) -> Self {
        Self { bytes, options, zone: Zone::default(), vlans: Zone::default(), trace, depth: 0 }
    }

    /// Returns the result for a packet that carries another protocol than IP, and records the
    /// protocol.
    #[cold]
    pub(super) fn not_ip(self, unknown: Unknown) -> Decoded {
        if let Some(trace) = self.trace {
            trace.end(unknown);
        }
        Err(DropReason::NotIp)
    }

    /// Returns the result for a message between the endpoints of a tunnel, which carries no packet.
    #[cold]
    pub(super) fn message(self) -> Decoded {
        if let Some(trace) = self.trace {
            trace.message();
        }
        Err(DropReason::NotIp)
    }

    /// Enters one more header.
    pub(super) fn deeper(mut self) -> Result<Self, DropReason> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(DropReason::Depth) } else { Ok(self) }
    }

    /// Enters a tunnel.
    pub(super) fn deeper_by_tunnel(self) -> Result<Self, DropReason> {
        let layers = self.deeper()?;
        Ok(Self { options: layers.options.within_tunnel(), ..layers })
    }

    /// Returns `N` bytes at an offset, or the drop reason if not all of them exist.
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

    /// Decodes an IP header of either version.
    pub(super) fn ip_by_version(self, at: usize, cut: DropReason) -> Decoded {
        match self.take::<1>(at, cut)?[0] >> 4 {
            4 => self.ipv4(at),
            6 => self.ipv6(at),
            _ => Err(DropReason::NotIp),
        }
    }
}
