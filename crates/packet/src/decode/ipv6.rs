//! IPv6 with its chain of extension headers.

use flowloom_flow_key::FlowKey;
use flowloom_flow_key::protocol::{FRAGMENT, NO_NEXT_HEADER};

use super::layers::{Decoded, Layers};
use super::table::AUTHENTICATION;
use super::transport::Network;
use crate::drop_reason::DropReason;

const HEADER_BYTES: usize = 40;
const CUT: DropReason = DropReason::TruncatedIpv6;

impl Layers<'_> {
    /// Decodes from an IPv6 header on.
    ///
    /// A payload length of 0 announces a jumbo payload, or remains after offloading; such a packet
    /// ends with its record.
    pub(super) fn ipv6(self, at: usize) -> Decoded {
        let header = self.take::<HEADER_BYTES>(at, CUT)?;
        if header[0] >> 4 != 6 {
            return Err(DropReason::MalformedIpv6);
        }
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let is_open = length == 0;
        let end = if is_open { self.bytes.len() } else { at + HEADER_BYTES + length };
        let address = |from: usize| {
            let mut octets = [0; 16];
            octets.copy_from_slice(&header[from..from + 16]);
            u128::from_be_bytes(octets)
        };
        let (source, destination) = (address(8), address(24));
        let mut protocol = header[6];
        let mut next_at = at + HEADER_BYTES;
        let (mut later_fragment, mut more_fragments) = (false, false);
        // Each header has at least eight bytes, so that the record limits their number.
        loop {
            let length = match protocol {
                // Mobility and host identity headers are messages, not extensions, if nothing
                // follows them.
                135 | 139 if self.take::<1>(next_at, CUT)?[0] == NO_NEXT_HEADER => break,
                // Hop by hop, routing, destination, mobility, host identity, shim.
                0 | 43 | 60 | 135 | 139 | 140 => {
                    let extension = self.take::<2>(next_at, CUT)?;
                    protocol = extension[0];
                    (usize::from(extension[1]) + 1) * 8
                }
                AUTHENTICATION => {
                    self.note(AUTHENTICATION);
                    let extension = self.take::<2>(next_at, CUT)?;
                    protocol = extension[0];
                    (usize::from(extension[1]) + 2) * 4
                }
                FRAGMENT => {
                    let extension = self.take::<8>(next_at, CUT)?;
                    protocol = extension[0];
                    later_fragment = u16::from_be_bytes([extension[2], extension[3]]) & 0xFFF8 != 0;
                    more_fragments = extension[3] & 1 != 0;
                    8
                }
                _ => break,
            };
            next_at += length;
            if later_fragment {
                break; // The payload is the middle of a datagram.
            }
        }
        if next_at > self.bytes.len() {
            return Err(CUT);
        }
        let network =
            Network { at, transport_at: next_at, end, is_open, protocol, later_fragment, more_fragments };
        let network = self.unprotected(network, CUT)?;
        self.transport(network, |source_port, destination_port| {
            FlowKey::from_v6(source, destination, source_port, destination_port, network.protocol)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{QUERY, ipv6, on, plain, ports, udp};
    use super::*;
    use crate::link::LinkType;

    fn read(packet: &[u8]) -> Decoded {
        plain(LinkType::IPV6, packet)
    }

    fn datagram() -> Vec<u8> {
        udp(1000, 53, b"ask?")
    }

    #[test]
    fn the_chain_of_extensions_is_followed() {
        let routing = on(&[17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &datagram());
        let options = on(&[43, 0, 0, 0, 0, 0, 0, 0], &routing);
        let signed =
            on(&[0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &options);
        let headers = read(&ipv6(AUTHENTICATION, &signed)).unwrap();
        assert_eq!(ports(Ok(headers)), QUERY);
        assert_eq!((headers.transport_offset, headers.payload_bytes), (88, 4));
        assert_eq!(read(&ipv6(0, &options)[..41]), Err(CUT));
        assert_eq!(read(&ipv6(43, &routing)[..50]), Err(CUT), "inside the extension");
        assert_eq!(read(&ipv6(17, &datagram())[..39]), Err(CUT));
        assert_eq!(read(&[0x60]), Err(CUT));
    }

    #[test]
    fn any_number_of_extensions_is_followed() {
        let chain = |count: usize| {
            let mut inner = datagram();
            for level in 0..count {
                inner = on(&[if level == 0 { 17 } else { 60 }, 0, 0, 0, 0, 0, 0, 0], &inner);
            }
            ports(read(&ipv6(60, &inner)))
        };
        for count in [8, 9, 17, 255, 8000] {
            assert_eq!(chain(count), QUERY, "{count}");
        }
    }

    #[test]
    fn fragments_but_the_first_have_no_ports() {
        let piece =
            |offset| read(&ipv6(FRAGMENT, &on(&[17, 0, 0, offset, 0, 0, 0, 1], &datagram()))).unwrap();
        assert_eq!((ports(Ok(piece(1))), piece(1).later_fragment), (QUERY, false));
        assert_eq!((ports(Ok(piece(9))), piece(9).later_fragment), (Ok((0, 0)), true));
        assert_eq!(piece(9).tuple().protocol, 17);
    }

    #[test]
    fn jumbogram_has_the_length_of_its_record() {
        let jumbo = on(&[17, 0, 0xC2, 4, 0, 1, 0, 0], &datagram());
        let mut packet = ipv6(0, &jumbo);
        packet[4..6].fill(0);
        let headers = read(&packet).unwrap();
        assert_eq!((ports(Ok(headers)), headers.payload_bytes), (QUERY, 4));
        for length in 48..52 {
            assert_eq!(read(&packet[..length]), Err(DropReason::TruncatedTransport), "{length} bytes");
        }
    }

    #[test]
    fn a_mobility_message_is_its_own_protocol() {
        let headers = read(&ipv6(135, &[NO_NEXT_HEADER, 0, 0, 0, 0, 0, 0, 0])).unwrap();
        assert_eq!((headers.tuple().protocol, headers.transport_offset), (135, 40));
        assert_eq!(ports(read(&ipv6(135, &on(&[17, 0, 0, 0, 0, 0, 0, 0], &datagram())))), QUERY);
    }
}
