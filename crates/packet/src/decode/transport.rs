//! TCP, UDP, UDP-Lite, DCCP, SCTP and ICMP: ports, flags, and where the payload begins.

use flowloom_flow_key::{Direction, FlowKey};

use super::layers::{Decoded, Layers};
use crate::reason::DropReason;
use crate::view::Headers;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const DCCP: u8 = 33;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;
const UDPLITE: u8 = 136;

/// What an IP header says about what it carries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Network {
    /// Offset of the IP header.
    pub(super) at: usize,
    /// Offset behind its options or extensions.
    pub(super) transport_at: usize,
    /// Offset behind the IP packet, by its own length; may lie beyond what was captured.
    pub(super) end: usize,
    /// The IP packet does not state its length: `end` is that of the record, which may have been cut.
    pub(super) is_open: bool,
    pub(super) protocol: u8,
    pub(super) later_fragment: bool,
    /// The types of an echo request and its reply in this family's ICMP.
    pub(super) icmp_echo: [u8; 2],
}

/// What a transport header holds that the key or an application needs.
#[derive(Clone, Copy, Debug, Default)]
struct Transport {
    source_port: u16,
    destination_port: u16,
    tcp_flags: u8,
    header_bytes: usize,
}

impl Layers<'_> {
    /// Ends the walk: reads the transport header and makes the key, or follows a tunnel.
    pub(super) fn transport(
        self,
        network: Network,
        key: impl FnOnce(u16, u16) -> (FlowKey, Direction),
    ) -> Decoded {
        let transport =
            if network.later_fragment { Transport::default() } else { self.transport_header(network)? };
        if self.options.decap && !network.later_fragment {
            let ports = (transport.source_port, transport.destination_port);
            if let Some(inner) = self.tunnel(network, ports) {
                return inner;
            }
        }
        let (key, direction) = key(transport.source_port, transport.destination_port);
        // A transport header that claims more than its packet holds ends with it.
        let payload_at =
            (network.transport_at + transport.header_bytes).min(network.end.max(network.transport_at));
        let clamp = |offset: usize| u32::try_from(offset.min(self.bytes.len())).unwrap_or(u32::MAX);
        Ok(Headers {
            key: key.with_zone(self.zone.value()),
            direction,
            tcp_flags: transport.tcp_flags,
            later_fragment: network.later_fragment,
            network_offset: clamp(network.at),
            transport_offset: clamp(network.transport_at),
            payload_offset: clamp(payload_at),
            payload_bytes: u32::try_from(network.end.saturating_sub(payload_at)).unwrap_or(u32::MAX),
        })
    }

    fn transport_header(&self, network: Network) -> Result<Transport, DropReason> {
        let at = network.transport_at;
        match network.protocol {
            TCP => {
                let (source_port, destination_port) = self.ports(network)?;
                // Behind the ports everything may be cut: what is not there is not needed for the key.
                let tcp_flags = self.bytes.get(at + 13).copied().unwrap_or(0);
                let words = self.bytes.get(at + 12).map_or(5, |byte| usize::from(byte >> 4));
                Ok(Transport { source_port, destination_port, tcp_flags, header_bytes: words.max(5) * 4 })
            }
            UDP | UDPLITE => {
                let (source_port, destination_port) = self.ports(network)?;
                Ok(Transport { source_port, destination_port, tcp_flags: 0, header_bytes: 8 })
            }
            DCCP => {
                let (source_port, destination_port) = self.ports(network)?;
                // The data offset counts words of the generic header and the options [RFC 4340 §5.1].
                let words = self.bytes.get(at + 4).map_or(3, |&byte| usize::from(byte));
                Ok(Transport {
                    source_port,
                    destination_port,
                    tcp_flags: 0,
                    header_bytes: words.max(3) * 4,
                })
            }
            SCTP => {
                let (source_port, destination_port) = self.ports(network)?;
                Ok(Transport { source_port, destination_port, tcp_flags: 0, header_bytes: 12 })
            }
            ICMP | ICMPV6 => {
                let kind = self.within(network, 1)?[0];
                if !network.icmp_echo.contains(&kind) {
                    return Ok(Transport { header_bytes: 8, ..Transport::default() });
                }
                // The identifier stands for both ports, so a request and its reply are one flow.
                let header = self.within(network, 6)?;
                let identifier = u16::from_be_bytes([header[4], header[5]]);
                Ok(Transport {
                    source_port: identifier,
                    destination_port: identifier,
                    tcp_flags: 0,
                    header_bytes: 8,
                })
            }
            _ => Ok(Transport::default()),
        }
    }

    fn ports(&self, network: Network) -> Result<(u16, u16), DropReason> {
        let ports = self.within(network, 4)?;
        Ok((u16::from_be_bytes([ports[0], ports[1]]), u16::from_be_bytes([ports[2], ports[3]])))
    }

    /// Returns the first bytes of the transport header, which the IP packet must promise, if it states its length, and the record hold.
    fn within(&self, network: Network, count: usize) -> Result<&[u8], DropReason> {
        let at = network.transport_at;
        if at + count > network.end && !network.is_open {
            return Err(DropReason::MalformedTransport);
        }
        self.bytes.get(at..at + count).ok_or(DropReason::TruncatedTransport)
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{ipv4, ipv6, on, plain, ports};
    use super::*;
    use crate::link::LinkType;

    fn read(protocol: u8, header: &[u8]) -> Decoded {
        plain(LinkType::RAW, &ipv4(protocol, header))
    }

    #[test]
    fn tcp_gives_ports_flags_and_the_end_of_its_options() {
        let segment = on(
            &[3, 0xE8, 0, 53, 0, 0, 0, 0, 0, 0, 0, 0, 0x60, 0x12, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1],
            b"data",
        );
        let headers = read(TCP, &segment).unwrap();
        assert_eq!((ports(Ok(headers)), headers.tcp_flags), (Ok((1000, 53)), 0x12));
        assert_eq!((headers.payload_offset, headers.payload_bytes), (44, 4));
        let cut = plain(LinkType::RAW, &ipv4(TCP, &segment)[..33]).unwrap();
        assert_eq!((cut.tcp_flags, cut.payload_offset), (0, 33), "cut before its flags");
        assert_eq!(plain(LinkType::RAW, &ipv4(TCP, &segment)[..23]), Err(DropReason::TruncatedTransport));
        assert_eq!(read(TCP, &segment[..3]), Err(DropReason::MalformedTransport));
        assert_eq!(ports(read(TCP, &segment[..4])), Ok((1000, 53)), "the packet ends behind its ports");
    }

    #[test]
    fn sctp_has_ports_and_unknown_protocols_have_none() {
        assert_eq!(ports(read(SCTP, &[3, 0xE8, 0, 53, 0, 0, 0, 0, 0, 0, 0, 0])), Ok((1000, 53)));
        let headers = read(89, &[1; 24]).unwrap();
        assert_eq!((ports(Ok(headers)), headers.payload_bytes), (Ok((0, 0)), 24));
    }

    #[test]
    fn udp_lite_and_dccp_have_ports() {
        let headers = read(UDPLITE, &[3, 0xE8, 0, 53, 0, 8, 0, 0, 7]).unwrap();
        assert_eq!((ports(Ok(headers)), headers.payload_bytes), (Ok((1000, 53)), 1));
        let request = on(&[3, 0xE8, 0, 53, 5, 0, 0, 0], &[0; 13]);
        let headers = read(DCCP, &request).unwrap();
        assert_eq!((ports(Ok(headers)), headers.payload_bytes), (Ok((1000, 53)), 1));
        assert_eq!(read(DCCP, &request[..3]), Err(DropReason::MalformedTransport));
    }

    #[test]
    fn an_echo_and_its_reply_are_one_flow_by_their_identifier() {
        let key = |kind, identifier| read(ICMP, &[kind, 0, 0, 0, 0, identifier, 0, 1]).unwrap().key;
        assert_eq!(key(8, 7), key(0, 7));
        assert_ne!(key(8, 7), key(8, 9));
        let error = read(ICMP, &[3, 1, 0, 0, 0, 0, 0, 0, 1, 2]).unwrap();
        assert_eq!((error.payload_offset, error.payload_bytes), (28, 2), "behind its own header");
        assert_eq!(
            ports(read(ICMP, &[3, 1, 0, 0, 0, 7, 0, 0])),
            Ok((0, 0)),
            "an error is not a part of what it quotes"
        );
        let six = |kind| ports(plain(LinkType::RAW, &ipv6(ICMPV6, &[kind, 0, 0, 0, 0, 7, 0, 1])));
        assert_eq!((six(128), six(129), six(135)), (Ok((7, 7)), Ok((7, 7)), Ok((0, 0))));
        assert_eq!(read(ICMP, &[8, 0, 0, 0, 0]), Err(DropReason::MalformedTransport));
        assert_eq!(read(ICMP, &[]), Err(DropReason::MalformedTransport));
    }
}
