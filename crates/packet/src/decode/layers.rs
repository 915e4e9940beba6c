//! What the layers share: the bytes, the zone so far, and how deep the nesting is.

use super::DecodeOptions;
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
    depth: u8,
}

pub(super) type Decoded = Result<Headers, DropReason>;

impl<'a> Layers<'a> {
    pub(super) fn new(bytes: &'a [u8], options: DecodeOptions) -> Self {
        Self { bytes, options, zone: Zone::default(), depth: 0 }
    }

    /// Decodes from the link layer on.
    pub(super) fn link(self, link: LinkType) -> Decoded {
        match link {
            LinkType::ETHERNET => self.ethernet(0),
            LinkType::RAW | LinkType::RAW_BSD | LinkType::RAW_OPENBSD | LinkType::IPV4 | LinkType::IPV6 => {
                self.ip_by_version(0, DropReason::TruncatedIpv4)
            }
            LinkType::LINUX_SLL => self.linux_sll(),
            LinkType::LINUX_SLL2 => self.linux_sll2(),
            LinkType::NULL | LinkType::LOOP => self.loopback(),
            LinkType::PPP | LinkType::PPP_HDLC => self.ppp(0),
            LinkType::PPP_ETHER => self.pppoe(0),
            LinkType::IEEE802_11 => self.ieee80211(0, 1),
            LinkType::IEEE802_11_RADIOTAP => self.radiotap(),
            LinkType::PPI => self.ppi(),
            LinkType::IEEE802_11_PRISM | LinkType::IEEE802_11_AVS => self.prism(),
            LinkType::PFLOG => self.pflog(),
            LinkType::NFLOG => self.nflog(),
            LinkType::ENC => self.enc(),
            LinkType::C_HDLC => self.cisco_hdlc(),
            LinkType::FRELAY => self.frame_relay(),
            LinkType::ATM_RFC1483 => self.atm(),
            LinkType::FDDI => self.fddi(),
            LinkType::TOKEN_RING => self.token_ring(),
            _ => Err(DropReason::Unsupported),
        }
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
