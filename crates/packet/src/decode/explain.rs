//! Explains the headers of a packet and where the decoder stopped. It serves reports, not the
//! packet path.

use super::layers::Layers;
use super::options::DecodeOptions;
use super::table::Encapsulation;
use super::trace::{Steps, Trace, Unknown};
use crate::drop_reason::DropReason;
use crate::link::LinkType;
use crate::view::Headers;

/// The headers of a packet.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The result of [`decode`](super::decode).
    pub decoded: Result<Headers, DropReason>,
    /// The encapsulations that were followed, outermost first. Ethernet, IP and transport headers
    /// are not listed.
    pub path: Vec<&'static Encapsulation>,
    /// Tunnels that the packet may be but that could not be followed, each with the reason.
    pub not_followed: Vec<(&'static Encapsulation, DropReason)>,
    /// The unknown number at which the decoder stopped.
    pub unknown: Option<Unknown>,
}

/// Explains the headers of a packet. It decodes like [`decode`](super::decode) and records each
/// step, which allocates.
///
/// # Examples
///
/// ```
/// use flowloom_packet::decode::{Unknown, explain};
/// use flowloom_packet::{DecodeOptions, LinkType};
///
/// // A VLAN tag, then a type that is not followed.
/// let frame = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x81, 0x00, 0, 5, 0x88, 0xCC];
/// let explained = explain(LinkType::ETHERNET, &frame, DecodeOptions::new());
/// assert_eq!(explained.path.last().map(|entry| entry.name), Some("vlan"));
/// assert_eq!(explained.unknown, Some(Unknown::EtherType(0x88CC)));
/// assert_eq!(Unknown::EtherType(0x88CC).to_string(), "Ethertype 0x88cc (LLDP)");
/// ```
pub fn explain(link: LinkType, bytes: &[u8], options: DecodeOptions) -> Explanation {
    let trace = Trace::default();
    let decoded = Layers::new(bytes, options, Some(&trace)).link(link, 0);
    let steps = trace.into_steps();
    let unknown = steps.unknown(link, &decoded);
    let Steps { path, left, .. } = steps;
    Explanation { decoded, path, not_followed: left, unknown }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{ethernet, ipv4, on, query, tag, udp};
    use super::*;

    fn names(
        packet: &[u8],
        decap: bool,
    ) -> (Vec<&'static str>, Vec<(&'static str, DropReason)>, Option<Unknown>) {
        let explained = explain(LinkType::ETHERNET, packet, DecodeOptions::new().with_decap(decap));
        assert_eq!(
            explained.decoded,
            crate::decode(LinkType::ETHERNET, packet, DecodeOptions::new().with_decap(decap))
        );
        (
            explained.path.iter().map(|entry| entry.name).collect(),
            explained.not_followed.iter().map(|(entry, reason)| (entry.name, *reason)).collect(),
            explained.unknown,
        )
    }

    #[test]
    fn the_path_names_what_was_followed_and_what_was_not() {
        let vxlan = |inner: &[u8]| {
            let carried = on(&[8, 0, 0, 0, 0, 0, 1, 0], inner);
            ethernet(0x8100, &tag(5, 0x0800, &ipv4(17, &udp(40_000, 4789, &carried))))
        };
        let followed = vxlan(&ethernet(0x0800, &query()));
        assert_eq!(names(&followed, true), (vec!["link_ethernet", "vlan", "vxlan"], vec![], None));
        assert_eq!(names(&followed, false).0, ["link_ethernet", "vlan"]);
        let discovery = vxlan(&ethernet(0x88CC, &[0; 40]));
        let (path, left, unknown) = names(&discovery, true);
        assert_eq!(path, ["link_ethernet", "vlan"]);
        assert_eq!((left, unknown), (vec![("vxlan", DropReason::NotIp)], None));
        let hello = ethernet(0x0800, &ipv4(103, &[0x20; 20]));
        assert_eq!(names(&hello, true).1, [], "a message between routers is no tunnel");
        let encrypted = ethernet(0x0800, &ipv4(50, &[7; 40]));
        let (_, left, unknown) = names(&encrypted, true);
        assert_eq!(left, [("esp", DropReason::Encrypted)]);
        assert_eq!(unknown, Some(Unknown::IpProtocol(50)));
    }

    #[test]
    fn unknown_protocol_has_its_number_and_any_name() {
        let unknown = |packet: &[u8]| names(packet, false).2.map(|unknown| unknown.to_string());
        let is = |text: &str| Some(text.to_owned());
        assert_eq!(unknown(&ethernet(0x0806, &[0; 28])), is("Ethertype 0x0806 (ARP)"));
        assert_eq!(unknown(&ethernet(0xABCD, &[0; 28])), is("Ethertype 0xabcd"));
        assert_eq!(unknown(&ethernet(38, &[0x42, 0x42, 3])), is("LLC 0x4242 (spanning tree)"));
        let snap = [0xAA, 0xAA, 3, 0, 0, 0x0C, 0x20, 0];
        assert_eq!(unknown(&ethernet(38, &snap)), is("SNAP 00-00-0c 0x2000 (CDP)"));
        let session = [0x11, 0, 0, 1, 0, 4, 0xC0, 0x21, 0, 0];
        assert_eq!(unknown(&ethernet(0x8864, &session)), is("PPP 0xc021 (LCP)"));
        assert_eq!(unknown(&ethernet(0x8847, &[0, 1, 1, 64, 0, 0, 0, 0])), is("MPLS payload 0x0"));
        assert_eq!(unknown(&ethernet(0x0800, &ipv4(89, &[0; 24]))), is("IP protocol 89 (OSPF)"));
        assert_eq!(unknown(&ethernet(0x0800, &query())), None);
        let link = explain(LinkType::CAN20B, &[0; 8], DecodeOptions::new());
        assert_eq!(link.unknown.map(|unknown| unknown.to_string()), is("link type 190 (CAN)"));
    }
}
