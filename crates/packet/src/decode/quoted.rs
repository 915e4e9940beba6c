//! ICMP errors, which quote the packet that they concern.

use flowloom_flow_key::IpFamily;

use super::layers::Layers;
use super::options::DecodeOptions;
use crate::icmp::{ICMP, ICMPV6};
use crate::link::LinkType;
use crate::view::Headers;

/// Bytes of an error's header, before the quoted packet.
const ERROR_BYTES: usize = 8;

/// Gives an ICMP error the key of the flow that it concerns, with the direction towards the sender
/// of the quoted packet. All other headers stay unchanged, and so does an error whose quoted packet
/// has no key.
#[cold]
pub(super) fn key_by_flow(bytes: &[u8], headers: &mut Headers) {
    let Some(quoted) = quoted_packet(bytes, headers) else { return };
    let link = match headers.key.family() {
        IpFamily::V4 => LinkType::IPV4,
        IpFamily::V6 => LinkType::IPV6,
    };
    let Ok(of_flow) = Layers::new(quoted, DecodeOptions::new(), None).link(link, 0) else { return };
    headers.key = of_flow.key.with_zone(headers.key.zone());
    headers.direction = of_flow.direction.reversed();
    headers.is_error_of_flow = true;
}

/// Returns the captured bytes of the packet that an error quotes; `None` if the packet is not an
/// error.
fn quoted_packet<'a>(bytes: &'a [u8], headers: &Headers) -> Option<&'a [u8]> {
    if headers.later_fragment || !matches!(headers.key.protocol(), ICMP | ICMPV6) {
        return None;
    }
    let start = headers.transport_offset as usize;
    let is_error = match (headers.key.family(), *bytes.get(start)?) {
        (IpFamily::V4, kind) => matches!(kind, 3 | 4 | 5 | 11 | 12),
        (IpFamily::V6, kind) => (1..128).contains(&kind),
    };
    let end = (headers.payload_offset as usize).saturating_add(headers.payload_bytes as usize);
    if is_error { bytes.get(start + ERROR_BYTES..end.min(bytes.len())) } else { None }
}

#[cfg(test)]
mod tests {
    use super::super::frames;
    use super::*;
    use crate::decode;

    fn read(link: LinkType, bytes: &[u8], errors_by_flow: bool) -> Headers {
        decode(link, bytes, DecodeOptions::new().with_errors_by_flow(errors_by_flow)).unwrap()
    }

    #[test]
    fn icmp_error_has_the_key_of_its_flow_in_reverse_direction() {
        let udp = frames::ipv4(17, &frames::udp(1000, 53, b"ask?"));
        let of_flow = read(LinkType::IPV4, &udp, true);
        assert!(!of_flow.is_error_of_flow);
        // Every error quotes at least the first eight bytes after the IP header.
        for quoted in [&udp[..], &udp[..28]] {
            let error = frames::ipv4(1, &[&[3, 3, 0, 0, 0, 0, 0, 0], quoted].concat());
            let own = read(LinkType::IPV4, &error, false);
            assert_eq!((own.key.protocol(), own.is_error_of_flow), (1, false));
            let found = read(LinkType::IPV4, &error, true);
            assert_eq!((found.key, found.direction), (of_flow.key, of_flow.direction.reversed()));
            assert!(found.is_error_of_flow);
            assert_eq!(found.transport_offset, own.transport_offset);
        }
        let tcp = frames::ipv6(17, &frames::udp(1000, 53, b"ask?"));
        let error = frames::ipv6(58, &[&[1, 4, 0, 0, 0, 0, 0, 0], &tcp[..]].concat());
        assert_eq!(read(LinkType::IPV6, &error, true).key, read(LinkType::IPV6, &tcp, true).key);
    }

    #[test]
    fn message_without_a_quote_keeps_its_key() {
        let udp = frames::ipv4(17, &frames::udp(1000, 53, b"ask?"));
        let echo = frames::ipv4(1, &[&[8, 0, 0, 0, 0, 7, 0, 1], &udp[..]].concat());
        let cut = frames::ipv4(1, &[&[3, 3, 0, 0, 0, 0, 0, 0], &udp[..9]].concat());
        let bare = frames::ipv4(1, &[11, 0, 0, 0]);
        for packet in [echo, cut, bare] {
            assert_eq!(read(LinkType::IPV4, &packet, true), read(LinkType::IPV4, &packet, false));
        }
    }
}
