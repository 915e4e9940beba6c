//! Enters a header of the tables.

use super::layers::{Decoded, Layers};
use super::table::{Announced, Encapsulation, Follows, Header, Walk};
use crate::drop_reason::DropReason;

impl Layers<'_> {
    /// Decodes from a header of the table on.
    pub(super) fn enter(self, entry: &'static Encapsulation, at: usize) -> Decoded {
        if let Some(trace) = self.trace {
            trace.enter(entry);
        }
        match entry.header {
            Header::Walk(walk) => self.walk(walk, at),
            Header::Fixed { bytes, follows } => {
                let header = self.bytes.get(at..).and_then(|rest| rest.get(..bytes)).ok_or(entry.cut())?;
                let is_tag = matches!(entry.announced, Announced::EtherTypes(_));
                let layers = if is_tag { self.deeper()? } else { self };
                let at = at + bytes;
                match follows {
                    Follows::EtherTypeAt(offset) => {
                        layers.ether_type(u16::from_be_bytes([header[offset], header[offset + 1]]), at)
                    }
                    Follows::Ethernet => layers.ethernet(at),
                    Follows::AnyIp => layers.ip_by_version(at, entry.cut()),
                    Follows::Ppp => layers.ppp(at),
                    Follows::LinkControl => layers.llc(at),
                }
            }
        }
    }

    /// Decodes a header whose length or payload depends on its fields.
    fn walk(self, walk: Walk, at: usize) -> Decoded {
        match walk {
            Walk::AristaTime => self.arista_time(at),
            Walk::Atm => self.atm(at),
            Walk::Ayiya => self.ayiya(at),
            Walk::BackboneTag => self.backbone_tag(at),
            Walk::Batman => self.batman(at),
            Walk::Capwap => self.capwap(at),
            Walk::CiscoHdlc => self.cisco_hdlc(at),
            Walk::CiscoHdlcAfterByte => self.cisco_hdlc(at + 1),
            Walk::CiscoMetadata => self.cisco_metadata(at),
            Walk::Depth => Err(DropReason::Depth),
            Walk::Enc => self.enc(at),
            Walk::Encrypted => Err(DropReason::Encrypted),
            Walk::Erf => self.erf(at),
            Walk::EspInUdp => self.esp_in_udp(at),
            Walk::EtherIp => self.ether_ip(at),
            Walk::EthernetOrWireless => self.ethernet_or_wireless(at),
            Walk::Fddi => self.fddi(at),
            Walk::FrameRelay => self.frame_relay(at),
            Walk::FrameRelayAfterByte => self.frame_relay(at + 1),
            Walk::Geneve => self.geneve(at),
            Walk::Gre => self.gre(at),
            Walk::Gtpu => self.gtpu(at),
            Walk::Gue => self.gue(at),
            Walk::Ieee80211 => self.ieee80211(at, 1),
            Walk::IpByVersion => self.ip_by_version(at, DropReason::TruncatedIpv4),
            Walk::IpOverInfiniband => self.ip_over_infiniband(at),
            Walk::Ipv4 => self.ipv4(at),
            Walk::Ipv6 => self.ipv6(at),
            Walk::Juniper => self.juniper(at),
            Walk::L2tpOverIp => self.l2tp_over_ip(at),
            Walk::L2tpOverUdp => self.l2tp_over_udp(at),
            Walk::LinuxSll => self.linux_sll(at),
            Walk::LinuxSll2 => self.linux_sll2(at),
            Walk::Lisp => self.lisp(at),
            Walk::Loopback => self.loopback(at),
            Walk::Macsec => self.macsec(at),
            Walk::Marvell12 => self.marvell(at, 12),
            Walk::Marvell16 => self.marvell(at, 16),
            Walk::Mpls => self.mpls(at),
            Walk::Multilink => self.multilink(at),
            Walk::Nflog => self.nflog(at),
            Walk::Pflog => self.pflog(at),
            Walk::PimRegister => self.pim_register(at),
            Walk::Pktap => self.pktap(at),
            Walk::Ppi => self.ppi(at),
            Walk::Ppp => self.deeper()?.ppp(at),
            Walk::PppWithDirection => self.ppp_with_direction(at),
            Walk::Pppoe => self.pppoe(at),
            Walk::Prism => self.prism(at),
            Walk::Pseudowire => self.pseudowire(at),
            Walk::Radiotap => self.radiotap(at),
            Walk::Realtek => self.realtek(at),
            Walk::SerialLine16 => self.serial_line(at, 16),
            Walk::SerialLine24 => self.serial_line(at, 24),
            Walk::ServiceHeader => self.service_header(at),
            Walk::SunAtm => self.sun_atm(at),
            Walk::Teredo => self.teredo(at),
            Walk::TokenRing => self.token_ring(at),
            Walk::Trill => self.trill(at),
            Walk::Tzsp => self.tzsp(at),
            Walk::Vlan => self.vlan(at),
            Walk::Vxlan => self.vxlan(at),
            Walk::VxlanGpe => self.vxlan_gpe(at),
            Walk::Wccp => self.wccp(at),
        }
    }
}
