//! IPv4: validates the header and recognises fragments.

use flowloom_flow_key::FlowKey;

use super::layers::{Decoded, Layers};
use super::transport::Network;
use crate::drop_reason::DropReason;

const HEADER_BYTES: usize = 20;
/// The flag, in the first byte of the offset.
const MORE_FRAGMENTS: u8 = 0x20;
const OFFSET_MASK: u16 = 0x1FFF;

impl Layers<'_> {
    /// Decodes from an IPv4 header on.
    ///
    /// Offloading leaves a total length of 0 in packets above 64 KiB; such a packet ends with its
    /// record. The decoder accepts wrong header checksums: see [`checksum`](crate::checksum).
    pub(super) fn ipv4(self, at: usize) -> Decoded {
        let header = self.take::<HEADER_BYTES>(at, DropReason::TruncatedIpv4)?;
        let header_bytes = usize::from(header[0] & 0xF) * 4;
        if header[0] >> 4 != 4 || header_bytes < HEADER_BYTES {
            return Err(DropReason::MalformedIpv4);
        }
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let end = match total {
            0 => self.bytes.len(),
            _ if total < header_bytes => return Err(DropReason::MalformedIpv4),
            _ => at + total,
        };
        let fragment_offset = u16::from_be_bytes([header[6], header[7]]) & OFFSET_MASK;
        let source = u32::from_be_bytes([header[12], header[13], header[14], header[15]]);
        let destination = u32::from_be_bytes([header[16], header[17], header[18], header[19]]);
        if at + header_bytes > self.bytes.len() {
            return Err(DropReason::TruncatedIpv4);
        }
        let network = Network {
            at,
            transport_at: at + header_bytes,
            end,
            is_open: total == 0,
            protocol: header[9],
            later_fragment: fragment_offset != 0,
            more_fragments: header[6] & MORE_FRAGMENTS != 0,
        };
        let network = self.unprotected(network, DropReason::TruncatedIpv4)?;
        self.transport(network, |source_port, destination_port| {
            FlowKey::from_v4(source, destination, source_port, destination_port, network.protocol)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{QUERY, ipv4, plain, ports, query, udp};
    use super::*;
    use crate::link::LinkType;

    /// Returns the query with one byte of its header changed.
    fn with(at: usize, value: u8) -> Vec<u8> {
        let mut packet = query();
        packet[at] = value;
        packet
    }

    fn read(packet: &[u8]) -> Decoded {
        plain(LinkType::IPV4, packet)
    }

    #[test]
    fn options_are_skipped() {
        let mut packet = ipv4(17, &[&[1; 4][..], &udp(1000, 53, b"ask?")].concat());
        packet[0] = 0x46;
        let headers = read(&packet).unwrap();
        assert_eq!(ports(Ok(headers)), QUERY);
        assert_eq!((headers.transport_offset, headers.payload_offset, headers.payload_bytes), (24, 32, 4));
        assert_eq!(read(&packet[..22]), Err(DropReason::TruncatedIpv4));
    }

    #[test]
    fn fragments_but_the_first_have_no_ports() {
        let first = read(&with(6, 0x20)).unwrap();
        assert_eq!((ports(Ok(first)), first.later_fragment), (QUERY, false));
        let later = read(&with(7, 1)).unwrap();
        assert_eq!((ports(Ok(later)), later.later_fragment), (Ok((0, 0)), true));
        assert_eq!(later.payload_offset, 20);
        assert!(read(&with(7, 1)[..20]).is_ok(), "its header is all a later fragment has");
    }

    #[test]
    fn total_length_of_zero_means_the_length_of_the_record() {
        let mut packet = query();
        packet[2..4].fill(0);
        assert_eq!(read(&packet).unwrap().payload_bytes, 4);
        for length in 20..24 {
            assert_eq!(read(&packet[..length]), Err(DropReason::TruncatedTransport), "{length} bytes");
        }
        assert_eq!(
            read(&[query(), vec![0; 18]].concat()).unwrap().payload_bytes,
            4,
            "padding is no payload"
        );
    }

    #[test]
    fn a_header_that_contradicts_itself_is_malformed() {
        assert_eq!(read(&with(0, 0x44)), Err(DropReason::MalformedIpv4));
        assert_eq!(read(&with(3, 19)), Err(DropReason::MalformedIpv4));
        assert_eq!(read(&with(0, 0x75)), Err(DropReason::NotIp), "the version chose the decoder");
        assert_eq!(read(&with(3, 23)), Err(DropReason::MalformedTransport), "it ends before the ports");
        assert_eq!(read(&query()[..19]), Err(DropReason::TruncatedIpv4));
        assert_eq!(read(&query()[..23]), Err(DropReason::TruncatedTransport));
        assert_eq!(read(&[]), Err(DropReason::TruncatedIpv4));
    }
}
