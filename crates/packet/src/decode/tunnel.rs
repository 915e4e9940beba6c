//! Follows tunnels on request. Reads the common tunnels over UDP.
//!
//! A port number does not prove a tunnel. If the bytes after it do not fit the tunnel, or carry no
//! IP, the result is `None` and the packet keeps its outer key.

use super::ethernet::TRANSPARENT_ETHERNET;
use super::layers::{Decoded, Layers};
use super::table::{self, Encapsulation};
use super::transport::Network;
use crate::drop_reason::DropReason;
use flowloom_flow_key::protocol::UDP;

const UDP_BYTES: usize = 8;
const CUT: DropReason = DropReason::TruncatedTunnel;

impl Layers<'_> {
    /// Decodes the contents of a tunnel. Returns `None` if there is no valid tunnel.
    pub(super) fn tunnel(self, network: Network, ports: (u16, u16)) -> Option<Decoded> {
        let (entry, at) = if network.protocol == UDP {
            (self.udp_tunnel(ports)?, network.transport_at + UDP_BYTES)
        } else {
            (table::of_protocol(network.protocol)?, network.transport_at)
        };
        let inner = self.deeper_by_tunnel().and_then(|layers| layers.enter(entry, at));
        match inner {
            Ok(headers) => Some(Ok(headers)),
            Err(DropReason::Depth) => Some(Err(DropReason::Depth)),
            // Only a record shorter than its packet is truncated; in a whole record nothing more
            // follows. A packet that does not state its length has more than 64 KiB.
            Err(reason) if reason.is_truncated() && (network.is_open || network.end > self.bytes.len()) => {
                Some(Err(CUT))
            }
            Err(reason) => {
                if let Some(trace) = self.trace {
                    trace.leave(entry, reason);
                }
                None
            }
        }
    }

    /// Returns the tunnel of a pair of ports. Entries of the options precede those of the table.
    fn udp_tunnel(&self, (source, destination): (u16, u16)) -> Option<&'static Encapsulation> {
        let custom = self.options.custom.and_then(|custom| custom.tunnel_of(source, destination));
        custom.or_else(|| table::of_udp(source, destination))
    }

    pub(super) fn vxlan(mut self, at: usize) -> Decoded {
        let header = self.take::<8>(at, CUT)?;
        if header[0] & 0x08 == 0 {
            return Err(DropReason::MalformedTunnel);
        }
        self.zone = self.zone.mixed(u32::from_be_bytes([0, header[4], header[5], header[6]]));
        self.ethernet(at + 8)
    }

    pub(super) fn geneve(mut self, at: usize) -> Decoded {
        let header = self.take::<8>(at, CUT)?;
        if header[0] >> 6 != 0 {
            return Err(DropReason::MalformedTunnel);
        }
        let options = usize::from(header[0] & 0x3F) * 4;
        self.zone = self.zone.mixed(u32::from_be_bytes([0, header[4], header[5], header[6]]));
        match u16::from_be_bytes([header[2], header[3]]) {
            TRANSPARENT_ETHERNET => self.ethernet(at + 8 + options),
            ether_type => self.ether_type(ether_type, at + 8 + options),
        }
    }

    pub(super) fn gtpu(self, at: usize) -> Decoded {
        let header = self.take::<8>(at, CUT)?;
        // Version 1, protocol type GTP.
        if header[0] >> 4 != 3 {
            return Err(DropReason::MalformedTunnel);
        }
        // Only the message "G-PDU" carries a packet.
        if header[1] != 255 {
            return self.message();
        }
        let mut inner = at + 8;
        if header[0] & 7 != 0 {
            let mut next = self.take::<4>(inner, CUT)?[3];
            inner += 4;
            let mut layers = self;
            while header[0] & 4 != 0 && next != 0 {
                layers = layers.deeper()?;
                let words = usize::from(layers.take::<1>(inner, CUT)?[0]);
                if words == 0 {
                    return Err(DropReason::MalformedTunnel);
                }
                inner += words * 4;
                next = layers.take::<1>(inner - 1, CUT)?[0];
            }
        }
        // An Ethernet session looks like any other session, so the frame itself decides.
        if self.is_ip(inner).is_none() && self.is_ethernet(inner) {
            return self.ethernet(inner);
        }
        self.ip_by_version(inner, CUT)
    }

    pub(super) fn teredo(self, at: usize) -> Decoded {
        let mut at = at;
        // An authentication header, then the origin's address. Both are optional.
        if *self.take::<2>(at, CUT)? == [0, 1] {
            let lengths = self.take::<4>(at, CUT)?;
            at += 13 + usize::from(lengths[2]) + usize::from(lengths[3]);
        }
        if *self.take::<2>(at, CUT)? == [0, 0] {
            at += 8;
        }
        match self.take::<1>(at, CUT)?[0] >> 4 {
            6 => self.ipv6(at),
            _ => Err(DropReason::MalformedTunnel),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{QUERY, ethernet, inner, ipv4, ipv6, on, plain, ports, query, tag, udp};
    use super::*;
    use crate::decode::{DecodeOptions, decode};
    use crate::link::LinkType;
    use std::num::NonZeroU8;

    const IPV4_IN_IP: u8 = 4;
    use flowloom_flow_key::protocol::GRE;
    use flowloom_flow_key::protocol::IPV6_IN_IP;

    fn read(packet: &[u8]) -> Result<(u16, u16), DropReason> {
        ports(inner(LinkType::RAW, packet))
    }

    fn gre(header: &[u8], carried: &[u8]) -> Vec<u8> {
        ipv4(GRE, &on(header, carried))
    }

    fn over_udp(port: u16, carried: &[u8]) -> Vec<u8> {
        ipv4(UDP, &udp(40_000, port, carried))
    }

    fn query6() -> Vec<u8> {
        ipv6(UDP, &udp(1000, 53, b"ask?"))
    }

    #[test]
    fn tunnels_beyond_the_depth_are_not_followed() {
        let addressed = |last: u8, protocol, carried: &[u8]| {
            let mut packet = ipv4(protocol, carried);
            packet[19] = last;
            packet
        };
        let three = addressed(
            1,
            IPV4_IN_IP,
            &addressed(2, IPV4_IN_IP, &addressed(3, UDP, &udp(1000, 53, b"ask?"))),
        );
        let last = |options| {
            let headers = decode(LinkType::RAW, &three, options).unwrap();
            (
                headers.tuple().destination.to_string().rsplit('.').next().unwrap().to_owned(),
                headers.network_offset,
            )
        };
        let deep = |depth| DecodeOptions::new().with_decap(true).with_decap_depth(NonZeroU8::new(depth));
        let expected = [(0, "3", 40), (1, "2", 20), (2, "3", 40), (9, "3", 40)];
        for (depth, address, offset) in expected {
            assert_eq!(last(deep(depth)), (address.to_owned(), offset), "{depth}");
        }
        assert_eq!(last(DecodeOptions::new()).0, "1");
    }

    #[test]
    fn tunnels_are_followed_only_with_decapsulation() {
        let packet = ipv4(IPV4_IN_IP, &query());
        assert_eq!(ports(plain(LinkType::RAW, &packet)), Ok((0, 0)));
        assert_eq!(read(&packet), QUERY);
        assert_eq!(read(&ipv4(IPV6_IN_IP, &query6())), QUERY);
        assert_eq!(read(&ipv6(IPV4_IN_IP, &query())), QUERY);
    }

    #[test]
    fn gre_fields_are_skipped_and_payloads_distinguished() {
        assert_eq!(read(&gre(&[0, 0, 8, 0], &query())), QUERY);
        assert_eq!(read(&gre(&[0xB0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1], &query())), QUERY);
        let routed = [0x40, 0, 8, 0, 0, 0, 0, 0, 8, 0, 0, 4, 1, 2, 3, 4, 0, 0, 0, 0];
        assert_eq!(read(&gre(&routed, &query())), QUERY, "source routes");
        let endless = on(&[0x40, 0, 8, 0, 0, 0, 0, 0], &[8, 0, 0, 0].repeat(40));
        assert_eq!(read(&gre(&endless, &query())), Err(DropReason::Depth), "source routes without end");
        assert_eq!(read(&gre(&[0, 0, 0x65, 0x58], &ethernet(0x0800, &query()))), QUERY, "bridged");
        assert_eq!(
            read(&gre(&[0x30, 0x81, 0x88, 0x0B, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0x21], &query())),
            QUERY,
            "PPTP"
        );
        assert_eq!(
            read(&gre(&[0x30, 0x01, 0x88, 0x0B, 0, 0, 0, 1, 0, 0, 0, 1, 0x21], &query())),
            QUERY,
            "PPTP that acknowledges nothing"
        );
        let mirrored = ethernet(0x0800, &query());
        assert_eq!(read(&gre(&[0, 0, 0x88, 0xBE], &mirrored)), QUERY, "ERSPAN I");
        assert_eq!(
            read(&gre(&on(&[0x10, 0, 0x88, 0xBE, 0, 0, 0, 1], &[0x10; 8]), &mirrored)),
            QUERY,
            "ERSPAN II"
        );
        let third = [&[0x10, 0, 0x22, 0xEB, 0, 0, 0, 1][..], &[0x20; 11], &[1], &[0; 8]].concat();
        assert_eq!(read(&gre(&third, &mirrored)), QUERY, "ERSPAN III with its subheader");
        let without = [&[0x10, 0, 0x22, 0xEB, 0, 0, 0, 1][..], &[0x20; 11], &[0xFE]].concat();
        assert_eq!(read(&gre(&without, &mirrored)), QUERY, "ERSPAN III without");
        assert_eq!(read(&gre(&[0, 0, 8, 6], &[0; 28])), Ok((0, 0)), "ARP leaves the outer key");
        assert_eq!(read(&gre(&[0, 5, 8, 0], &query())), Ok((0, 0)), "an unknown version");
    }

    #[test]
    fn vxlan_and_geneve_networks_form_zones() {
        let bridged = ethernet(0x8100, &tag(5, 0x0800, &query()));
        let vxlan = |network| over_udp(4789, &on(&[8, 0, 0, 0, 0, 0, network, 0], &bridged));
        assert_eq!(read(&vxlan(1)), QUERY);
        let zone = |packet: &[u8]| inner(LinkType::RAW, packet).unwrap().key.zone();
        assert_ne!(zone(&vxlan(1)), zone(&vxlan(2)));
        assert_eq!(
            read(&over_udp(6081, &on(&[2, 0, 0x65, 0x58, 0, 0, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1], &bridged))),
            QUERY
        );
        assert_eq!(read(&over_udp(6081, &on(&[0, 0, 8, 0, 0, 0, 1, 0], &query()))), QUERY);
        assert_eq!(read(&over_udp(6081, &on(&[0x40, 0, 8, 0, 0, 0, 1, 0], &query()))), Ok((40_000, 6081)));
        assert_eq!(read(&over_udp(4789, b"not VXLAN at all")), Ok((40_000, 4789)));
        let unnumbered = over_udp(4789, &on(&[0xF7, 0, 0, 0, 0, 0, 1, 0], &bridged));
        assert_eq!(read(&unnumbered), Ok((40_000, 4789)), "VXLAN says that its network's number is there");
    }

    #[test]
    fn gtp_extension_headers_are_skipped() {
        let gtp = |header: &[u8]| read(&over_udp(2152, &on(header, &query())));
        assert_eq!(gtp(&[0x30, 255, 0, 32, 0, 0, 0, 1]), QUERY);
        assert_eq!(gtp(&[0x32, 255, 0, 36, 0, 0, 0, 1, 0, 1, 0, 0]), QUERY, "a sequence number");
        assert_eq!(gtp(&[0x34, 255, 0, 40, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 0, 0]), QUERY, "one extension");
        assert_eq!(gtp(&[0x34, 255, 0, 40, 0, 0, 0, 1, 0, 0, 0, 0x85, 0, 0, 0, 0]), Ok((40_000, 2152)));
        assert_eq!(gtp(&[0x30, 1, 0, 4, 0, 0, 0, 1]), Ok((40_000, 2152)), "an echo request");
    }

    #[test]
    fn teredo_may_begin_with_authentication_and_origin() {
        let teredo = |header: &[u8]| read(&over_udp(3544, &on(header, &query6())));
        let authentication = [0, 1, 1, 2, 7, 7, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let origin = [0, 0, 1, 2, 3, 4, 5, 6];
        assert_eq!(teredo(&[]), QUERY);
        assert_eq!(teredo(&origin), QUERY);
        assert_eq!(teredo(&on(&authentication, &origin)), QUERY);
        assert_eq!(teredo(b"\x45noise"), Ok((40_000, 3544)));
    }

    #[test]
    fn nested_tunnels_are_followed_up_to_the_limit() {
        let nested = |count: usize| (0..count).fold(query(), |packet, _| ipv4(IPV4_IN_IP, &packet));
        assert_eq!(read(&nested(16)), QUERY);
        assert_eq!(read(&nested(17)), Err(DropReason::Depth));
        assert_eq!(ports(plain(LinkType::RAW, &nested(17))), Ok((0, 0)));
    }

    #[test]
    fn a_cut_inner_packet_differs_from_an_invalid_tunnel() {
        let packet = over_udp(4789, &on(&[8, 0, 0, 0, 0, 0, 1, 0], &ethernet(0x0800, &query())));
        for length in 28..72 {
            assert_eq!(read(&packet[..length]), Err(CUT), "{length} bytes");
        }
        assert_eq!(read(&packet[..74]), QUERY, "behind the ports nothing is needed");
        let mut longer_than_stated = packet;
        longer_than_stated[2..4].fill(0);
        for length in 28..72 {
            assert_eq!(read(&longer_than_stated[..length]), Err(CUT), "{length} bytes of more than 64 KiB");
        }
        assert_eq!(read(&longer_than_stated[..74]), QUERY);
    }
}
