//! What switches put in front of a frame inside their own fabric: tags that are no VLAN, and whole Ethernet headers.

use super::layers::{Decoded, Layers};
use crate::reason::DropReason;

const CUT: DropReason = DropReason::TruncatedLink;

impl Layers<'_> {
    /// Skips Cisco's FabricPath: a forwarding tag and time to live, then the host's whole frame.
    pub(super) fn fabric_path(self, at: usize) -> Decoded {
        self.take::<2>(at, CUT)?;
        self.deeper()?.ethernet(at + 2)
    }

    /// Skips a VN tag (802.1BR's ancestor): the ports of a virtual switch, then another type.
    pub(super) fn vn_tag(self, at: usize) -> Decoded {
        let tag = self.take::<6>(at, CUT)?;
        self.deeper()?.ether_type(u16::from_be_bytes([tag[4], tag[5]]), at + 6)
    }

    /// Skips a provider's backbone tag (802.1ah): a service's number, which parts customers as a VLAN does, then the
    /// customer's whole frame.
    pub(super) fn backbone_tag(mut self, at: usize) -> Decoded {
        let tag = self.take::<4>(at, CUT)?;
        self.zone = self.zone.mixed(u32::from_be_bytes([0, tag[1], tag[2], tag[3]]));
        self.deeper()?.ethernet(at + 4)
    }
}
