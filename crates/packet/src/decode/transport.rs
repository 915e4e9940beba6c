//! TCP, UDP, UDP-Lite, DCCP, SCTP and ICMP: ports, flags, and the offset of the payload.

use flowloom_flow_key::protocol::{DCCP, ESP, SCTP, TCP, UDP, UDPLITE};
use flowloom_flow_key::{Direction, FlowKey};

use super::layers::{Decoded, Layers};
use crate::drop_reason::DropReason;
use crate::icmp::{self, ICMP, ICMPV6};
use crate::interface::InterfaceName;
use crate::view::Headers;

/// The flag AE, in the byte of the data offset [RFC 9768]. The other three bits are reserved.
const TCP_AE: u8 = 1;

/// What an IP header states about its payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Network {
    /// Offset of the IP header.
    pub(super) at: usize,
    /// Offset after its options or extensions.
    pub(super) transport_at: usize,
    /// Offset after the IP packet, by its own length. It may lie after the captured bytes.
    pub(super) end: usize,
    /// The IP packet does not state its length. `end` is the end of the record, which may be
    /// truncated.
    pub(super) is_open: bool,
    pub(super) protocol: u8,
    pub(super) later_fragment: bool,
    /// Further fragments follow, so that this packet may end inside its transport header.
    pub(super) more_fragments: bool,
}

impl Network {
    /// Returns whether the IP packet has the bytes before an offset, captured or not.
    fn reaches(&self, offset: usize) -> bool {
        self.is_open || offset <= self.end
    }

    /// Returns the length of a transport header that states it in words of four bytes, or the least
    /// length if the statement is missing. `None` means that the statement is below the least words
    /// or beyond the IP packet, so that the header cannot be trusted. A fragment may have fewer
    /// bytes than its header.
    fn header_bytes(&self, words: Option<u8>, words_min: u8) -> Option<usize> {
        let words = words.unwrap_or(words_min);
        let bytes = usize::from(words) * 4;
        let is_possible = words >= words_min
            && (self.more_fragments || words == words_min || self.reaches(self.transport_at + bytes));
        is_possible.then_some(bytes)
    }

    /// Returns the bytes from the transport header to the end of the IP packet.
    fn segment_bytes(&self) -> usize {
        self.end.saturating_sub(self.transport_at)
    }
}

/// The fields of a transport header that the key or an application needs.
#[derive(Clone, Copy, Debug, Default)]
struct Transport {
    source_port: u16,
    destination_port: u16,
    tcp_flags: u16,
    header_bytes: usize,
    /// Type and code of an ICMP message.
    icmp: Option<[u8; 2]>,
}

impl Transport {
    fn of_ports((source_port, destination_port): (u16, u16), header_bytes: usize) -> Self {
        Self { source_port, destination_port, header_bytes, ..Self::default() }
    }
}

impl Layers<'_> {
    /// Ends the walk: reads the transport header and builds the key, or follows a tunnel.
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
        let mut keyed = key(transport.source_port, transport.destination_port);
        if let Some(message) = transport.icmp {
            keyed = icmp::keyed(keyed, message);
        }
        let (key, direction) = keyed;
        // A packet that ends inside its transport header has no payload.
        let payload_at =
            (network.transport_at + transport.header_bytes).min(network.end.max(network.transport_at));
        let clamp = |offset: usize| u32::try_from(offset.min(self.bytes.len())).unwrap_or(u32::MAX);
        Ok(Headers {
            key: key.with_zone(self.zone.value()),
            direction,
            tcp_flags: transport.tcp_flags,
            later_fragment: network.later_fragment,
            is_error_of_flow: false,
            interface: InterfaceName::UNKNOWN,
            vlans: self.vlans.value(),
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
                let ports = self.ports(network)?;
                // Everything after the ports may be missing, because the key does not need it.
                let byte = |at| self.bytes.get(at).copied().filter(|_| network.reaches(at + 1));
                let (offset, flags) = (byte(at + 12), byte(at + 13));
                let tcp_flags =
                    offset.zip(flags).map_or(0, |(high, low)| u16::from_be_bytes([high & TCP_AE, low]));
                Ok(match network.header_bytes(offset.map(|offset| offset >> 4), 5) {
                    Some(bytes) => Transport { tcp_flags, ..Transport::of_ports(ports, bytes) },
                    // Receivers drop the segment: its flags and its data have no effect.
                    None => Transport::of_ports(ports, network.segment_bytes()),
                })
            }
            UDP | UDPLITE => Ok(Transport::of_ports(self.ports(network)?, 8)),
            DCCP => {
                let ports = self.ports(network)?;
                // The data offset counts words of the generic header and the options [RFC 4340
                // §5.1].
                let words = self.bytes.get(at + 4).copied().filter(|_| network.reaches(at + 5));
                let bytes = network.header_bytes(words, 3).unwrap_or(network.segment_bytes());
                Ok(Transport::of_ports(ports, bytes))
            }
            SCTP => Ok(Transport::of_ports(self.ports(network)?, 12)),
            ESP if self.options.esp_spi => Ok(Transport::of_ports(self.ports(network)?, 8)),
            ICMP | ICMPV6 => {
                let message = self.within(network, 2)?;
                let (icmp, header_bytes) = (Some([message[0], message[1]]), 8);
                if !icmp::has_identifier(network.protocol, message[0]) {
                    return Ok(Transport { header_bytes, icmp, ..Transport::default() });
                }
                // The identifier is used for both ports, so a request and its reply are one flow.
                let header = self.within(network, 6)?;
                let identifier = u16::from_be_bytes([header[4], header[5]]);
                Ok(Transport { icmp, ..Transport::of_ports((identifier, identifier), header_bytes) })
            }
            _ => Ok(Transport::default()),
        }
    }

    fn ports(&self, network: Network) -> Result<(u16, u16), DropReason> {
        let ports = self.within(network, 4)?;
        Ok((u16::from_be_bytes([ports[0], ports[1]]), u16::from_be_bytes([ports[2], ports[3]])))
    }

    /// Returns the first bytes of the transport header. The record must contain them, and so must
    /// the IP packet if it states its length.
    fn within(&self, network: Network, count: usize) -> Result<&[u8], DropReason> {
        let at = network.transport_at;
        if !network.reaches(at + count) {
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
        let mut accurate = segment.clone();
        accurate[12..14].copy_from_slice(&[0x6F, 0xC2]);
        assert_eq!(read(TCP, &accurate).unwrap().tcp_flags, 0x1C2, "reserved bits are no flags");
        assert_eq!(read(TCP, &segment[..3]), Err(DropReason::MalformedTransport));
        assert_eq!(ports(read(TCP, &segment[..4])), Ok((1000, 53)), "the packet ends behind its ports");
    }

    /// Returns a segment of 20 bytes of header and 12 bytes of data that states this data offset.
    fn stating(words: u8) -> Vec<u8> {
        on(&[3, 0xE8, 0, 53, 0, 0, 0, 1, 0, 0, 0, 2, words << 4, 0x18], &[0; 18])
    }

    #[test]
    fn segment_with_a_data_offset_that_no_header_has_gives_neither_flags_nor_payload() {
        for words in 0..16 {
            let four = ipv4(TCP, &stating(words));
            let six = ipv6(TCP, &stating(words));
            for (link, packet, header) in [(LinkType::IPV4, four, 20), (LinkType::IPV6, six, 40)] {
                let framed = super::super::frames::ethernet(
                    if header == 20 { 0x0800 } else { 0x86DD },
                    &on(&packet, &[0; 40]),
                );
                let is_right = (5..=8).contains(&words);
                for read in [plain(link, &packet), plain(LinkType::ETHERNET, &framed)] {
                    let expected = if is_right { (0x18, 32 - u32::from(words) * 4) } else { (0, 0) };
                    let read = read.unwrap();
                    assert_eq!((read.tcp_flags, read.payload_bytes), expected, "{words}");
                    assert_eq!(ports(Ok(read)), Ok((1000, 53)));
                }
                // The snapshot length ends the record behind the data offset, or before it.
                let cut = plain(link, &packet[..header + 13]).unwrap();
                assert_eq!(cut.payload_bytes > 0, is_right && words < 8, "{words}");
                let cut = plain(link, &packet[..header + 12]).unwrap();
                assert_eq!((cut.tcp_flags, cut.payload_bytes), (0, 12), "{words}");
            }
        }
    }

    #[test]
    fn data_offset_within_the_ip_packet_may_lie_beyond_the_record() {
        let packet = ipv4(TCP, &on(&stating(15), &[0; 40]));
        for end in 34..packet.len() {
            assert_eq!(plain(LinkType::IPV4, &packet[..end]).unwrap().payload_bytes, 12, "{end}");
        }
        // Offloading leaves no length, so that the record may be cut.
        let mut open = packet[..40].to_vec();
        open[2..4].fill(0);
        assert_eq!(plain(LinkType::IPV4, &open).unwrap().payload_bytes, 0);
    }

    #[test]
    fn first_fragment_may_end_inside_its_tcp_header_and_reads_no_padding_as_flags() {
        let mut four = ipv4(TCP, &stating(8)[..24]);
        four[6] = 0x20;
        let fragment = on(&[TCP, 0, 0, 1, 0, 0, 0, 7], &stating(8)[..24]);
        for (link, packet) in [(LinkType::IPV4, four), (LinkType::IPV6, ipv6(44, &fragment))] {
            let headers = plain(link, &packet).unwrap();
            assert_eq!((headers.tcp_flags, headers.payload_bytes), (0x18, 0));
        }
        let mut tiny = ipv4(TCP, &stating(8)[..8]);
        tiny[6] = 0x20;
        let headers = plain(LinkType::IPV4, &on(&tiny, &[0xFF; 18])).unwrap();
        assert_eq!((ports(Ok(headers)), headers.tcp_flags), (Ok((1000, 53)), 0));
        assert_eq!(headers.payload_bytes, 0);
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
        for words in [0, 2, 6, 255] {
            let mut stating = request.clone();
            stating[4] = words;
            assert_eq!(read(DCCP, &stating).unwrap().payload_bytes, 0, "{words}");
        }
    }

    /// Returns the packet of an ICMP message between 10.0.0.1 and 10.0.0.2, or in the other
    /// direction.
    fn message(is_back: bool, header: [u8; 8]) -> Headers {
        let mut packet = ipv4(ICMP, &header);
        let (from, to) =
            if is_back { ([10, 0, 0, 2], [10, 0, 0, 1]) } else { ([10, 0, 0, 1], [10, 0, 0, 2]) };
        packet[12..16].copy_from_slice(&from);
        packet[16..20].copy_from_slice(&to);
        plain(LinkType::RAW, &packet).unwrap()
    }

    #[test]
    fn echo_request_and_reply_share_a_flow_by_type_and_identifier() {
        let mut keys = std::collections::HashSet::new();
        for (request, reply) in [(8, 0), (13, 14), (15, 16), (17, 18), (42, 43), (10, 9)] {
            for identifier in if request == 10 { &[0][..] } else { &[7, 9] }.iter().copied() {
                for asks_from_high in [false, true] {
                    let asked = message(asks_from_high, [request, 0, 0, 0, 0, identifier, 0, 1]);
                    let answered = message(!asks_from_high, [reply, 1, 0, 0, 0, identifier, 0, 1]);
                    assert_eq!(asked.key, answered.key, "{request}");
                    assert_eq!(asked.direction, answered.direction.reversed());
                    assert_eq!(asked.tuple().source_port, u16::from(identifier));
                    assert!(keys.insert(asked.key), "{request} {identifier} {asks_from_high}");
                }
            }
        }
    }

    #[test]
    fn other_icmp_messages_have_flows_by_type_code_and_sender() {
        let key = |is_back, kind, code| message(is_back, [kind, code, 0, 0, 0, 7, 0, 1]).key;
        let (there, back) = (key(false, 3, 1), key(true, 3, 1));
        let all = [there, back, key(false, 3, 3), key(false, 11, 0), key(false, 5, 1), key(false, 8, 0)];
        for (i, one) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|other| one != other), "{one}");
        }
        assert_eq!((key(false, 3, 1).message(), key(false, 3, 1).low_port()), (0x0301, 0));
    }

    #[test]
    fn echo_of_a_host_to_itself_has_two_directions() {
        let to_itself = |kind| {
            let mut packet = ipv4(ICMP, &[kind, 0, 0, 0, 0, 7, 0, 1]);
            packet.copy_within(12..16, 16);
            plain(LinkType::RAW, &packet).unwrap()
        };
        let (asked, answered) = (to_itself(8), to_itself(0));
        assert_eq!((asked.key, asked.direction), (answered.key, answered.direction.reversed()));
    }

    #[test]
    fn icmpv6_has_types_of_its_own() {
        let six = |kind| plain(LinkType::RAW, &ipv6(ICMPV6, &[kind, 3, 0, 0, 0, 7, 0, 1])).unwrap();
        for (request, reply) in [(128, 129), (160, 161), (144, 145), (146, 147)] {
            assert_eq!((ports(Ok(six(request))), ports(Ok(six(reply)))), (Ok((7, 7)), Ok((7, 7))));
            assert_eq!(six(request).key.message() >> 8, six(reply).key.message() >> 8);
        }
        assert_eq!((ports(Ok(six(137))), six(137).key.message()), (Ok((0, 0)), 137 << 8 | 3));
        assert_eq!((ports(Ok(six(8))), six(8).key.message()), (Ok((0, 0)), 8 << 8 | 3));
    }

    #[test]
    fn an_icmp_message_that_is_cut_has_no_key() {
        let error = read(ICMP, &[3, 1, 0, 0, 0, 0, 0, 0, 1, 2]).unwrap();
        assert_eq!((error.payload_offset, error.payload_bytes), (28, 2), "behind its own header");
        assert_eq!(read(ICMP, &[8, 0, 0, 0, 0]), Err(DropReason::MalformedTransport));
        assert_eq!(read(ICMP, &[3]), Err(DropReason::MalformedTransport));
        assert_eq!(read(ICMP, &[]), Err(DropReason::MalformedTransport));
    }
}
