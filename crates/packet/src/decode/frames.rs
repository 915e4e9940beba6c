//! Hand-built headers for the tests of the layers, each followed by its payload.

use super::{DecodeOptions, decode, decode_layered};
use crate::drop_reason::DropReason;
use crate::link::LinkType;
use crate::view::Headers;

/// Returns a header followed by its payload.
pub(crate) fn on(header: &[u8], inner: &[u8]) -> Vec<u8> {
    [header, inner].concat()
}

/// Returns an Ethernet frame.
pub(crate) fn ethernet(ether_type: u16, inner: &[u8]) -> Vec<u8> {
    let [high, low] = ether_type.to_be_bytes();
    on(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, high, low], inner)
}

/// Returns a VLAN tag, without the type that announces it.
pub(crate) fn tag(id: u16, ether_type: u16, inner: &[u8]) -> Vec<u8> {
    on(&[id.to_be_bytes(), ether_type.to_be_bytes()].concat(), inner)
}

/// Returns a packet from 10.0.0.1 to 10.0.0.2.
pub(crate) fn ipv4(protocol: u8, inner: &[u8]) -> Vec<u8> {
    let total = u16::try_from(20 + inner.len()).unwrap().to_be_bytes();
    on(&[0x45, 0, total[0], total[1], 0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2], inner)
}

/// Returns a packet from `fd00::1` to `fd00::2`; `inner` begins with the extension headers, if any.
pub(crate) fn ipv6(next: u8, inner: &[u8]) -> Vec<u8> {
    let length = u16::try_from(inner.len()).unwrap().to_be_bytes();
    let mut header = vec![0x60, 0, 0, 0, length[0], length[1], next, 64];
    for last in [1, 2] {
        header.extend([0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    on(&header, inner)
}

/// Returns a UDP datagram.
pub(crate) fn udp(source: u16, destination: u16, inner: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + inner.len()).unwrap();
    on(&[source, destination, length, 0].map(u16::to_be_bytes).concat(), inner)
}

/// Returns the packet that most tests wrap: UDP from port 1000 to port 53 with four bytes.
pub(crate) fn query() -> Vec<u8> {
    ipv4(17, &udp(1000, 53, b"ask?"))
}

/// Decodes without tunnels, through the fast path and through the layers.
pub(super) fn plain(link: LinkType, bytes: &[u8]) -> Result<Headers, DropReason> {
    let decoded = decode(link, bytes, DecodeOptions::default());
    assert_eq!(decoded, decode_layered(link, bytes, DecodeOptions::default()));
    decoded
}

/// Decodes, following tunnels.
pub(super) fn inner(link: LinkType, bytes: &[u8]) -> Result<Headers, DropReason> {
    decode(link, bytes, DecodeOptions::new().with_decap(true))
}

/// Returns the ports of a decoded packet.
pub(super) fn ports(decoded: Result<Headers, DropReason>) -> Result<(u16, u16), DropReason> {
    decoded.map(|headers| (headers.tuple().source_port, headers.tuple().destination_port))
}

/// The result for [`query`], in any wrapping.
pub(super) const QUERY: Result<(u16, u16), DropReason> = Ok((1000, 53));
