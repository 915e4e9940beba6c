//! Answers to denied packets: a TCP reset, or an ICMP error that says "prohibited".
//!
//! An answer goes back to the sender of the packet, with the packet's addresses exchanged and its
//! VLAN tags. It appears to come from the packet's destination, because an appliance on the wire
//! has no address.
#![expect(clippy::cast_possible_truncation, reason = "flags of a reset, and lengths of one packet")]

use flowloom_flow_key::IpFamily;
use flowloom_flow_key::protocol::TCP;

use crate::checksum::internet_checksum;
use crate::icmp::{ICMP, ICMPV6};
use crate::view::Headers;

const SYN_FIN: [(u16, u32); 2] = [(2, 1), (1, 1)];
const RST: u16 = 4;
const ACK: u16 = 16;
const ETHERNET_BYTES: usize = 14;
const VLAN_BYTES: usize = 4;
/// Tag types of VLANs.
const VLAN_TAGS: [[u8; 2]; 3] = [[0x81, 0x00], [0x88, 0xA8], [0x91, 0x00]];
/// Bytes of the packet that an ICMP error quotes, so that the error fits any link [RFC 1812
/// §4.3.2.3, RFC 4443 §2.4].
const QUOTED_V4: usize = 548;
const QUOTED_V6: usize = 1232;
const HOPS: u8 = 64;

/// How to answer the sender of a denied packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refusal {
    /// No answer: the sender waits and tries again.
    #[default]
    Silent,
    /// A reset if the packet is TCP, and otherwise an ICMP error.
    Reset,
    /// An ICMP error.
    Icmp,
}

impl Refusal {
    /// Writes the answer to `out`, replacing its contents. Returns whether there is an answer.
    /// Resets, ICMP errors, later fragments, frames to groups, and packets that are not directly in
    /// an Ethernet frame get none.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_packet::refusal::Refusal;
    /// use flowloom_packet::{DecodeOptions, LinkType, decode};
    ///
    /// let mut frame = vec![2; 12];
    /// frame.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    /// frame.extend([4, 0, 0, 80, 0, 0, 0, 9, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0]);
    /// let headers = decode(LinkType::ETHERNET, &frame, DecodeOptions::default()).unwrap();
    /// let mut answer = Vec::new();
    /// assert!(Refusal::Reset.answer(&frame, &headers, &mut answer));
    /// let headers = decode(LinkType::ETHERNET, &answer, DecodeOptions::default()).unwrap();
    /// assert_eq!(headers.tuple().to_string(), "10.0.0.2:80 > 10.0.0.1:1024 proto 6");
    /// assert_eq!(headers.tcp_flags, 4 | 16);
    /// ```
    pub fn answer(self, frame: &[u8], headers: &Headers, out: &mut Vec<u8>) -> bool {
        out.clear();
        let is_direct = is_directly_in(frame, headers.network_offset as usize);
        if self == Self::Silent || headers.later_fragment || headers.is_error_of_flow || !is_direct {
            return false;
        }
        let answered = match (self, headers.key.protocol()) {
            (Self::Reset, TCP) => reset(frame, headers, out),
            _ => error(frame, headers, out),
        };
        answered.is_some()
    }
}

/// Returns whether the IP header directly follows the Ethernet header and VLAN tags, in a frame to
/// a single station.
fn is_directly_in(frame: &[u8], network: usize) -> bool {
    frame.first().is_some_and(|first| first & 1 == 0) && follows_ethernet(frame, network)
}

/// Returns whether the IP header directly follows the Ethernet header and VLAN tags.
pub(crate) fn follows_ethernet(frame: &[u8], network: usize) -> bool {
    let mut at = ETHERNET_BYTES;
    while at < network && frame.get(at - 2..at).is_some_and(|tag| VLAN_TAGS.iter().any(|vlan| vlan == tag))
    {
        at += VLAN_BYTES;
    }
    at == network
}

/// Writes the link header and the IP header of an answer with this many bytes of payload. Returns
/// the offset of the IP header.
fn begin(
    frame: &[u8],
    headers: &Headers,
    protocol: u8,
    payload: usize,
    out: &mut Vec<u8>,
) -> Option<usize> {
    let network = headers.network_offset as usize;
    out.extend(frame.get(6..12)?);
    out.extend(frame.get(..6)?);
    out.extend(frame.get(12..network)?);
    let ip = frame.get(network..)?;
    match headers.key.family() {
        IpFamily::V4 => {
            let total = u16::try_from(20 + payload).ok()?.to_be_bytes();
            out.extend([0x45, 0, total[0], total[1], 0, 0, 0x40, 0, HOPS, protocol, 0, 0]);
            out.extend(ip.get(16..20)?);
            out.extend(ip.get(12..16)?);
            let sum = internet_checksum(&[&out[network..]]).to_be_bytes();
            out[network + 10..network + 12].copy_from_slice(&sum);
        }
        IpFamily::V6 => {
            let length = u16::try_from(payload).ok()?.to_be_bytes();
            out.extend([0x60, 0, 0, 0, length[0], length[1], protocol, HOPS]);
            out.extend(ip.get(24..40)?);
            out.extend(ip.get(8..24)?);
        }
    }
    Some(network)
}

/// Sets the checksum of the payload that begins at `start`, computed with the pseudo-header.
fn seal(out: &mut [u8], (network, start): (usize, usize), protocol: u8, at: usize) {
    let (header, payload) = out.split_at(start);
    let addresses = if start - network == 20 { &header[network + 12..] } else { &header[network + 8..] };
    let length = (payload.len() as u32).to_be_bytes();
    let sum = internet_checksum(&[addresses, &length, &[0, protocol], payload]).to_be_bytes();
    out[start + at..start + at + 2].copy_from_slice(&sum);
}

fn reset(frame: &[u8], headers: &Headers, out: &mut Vec<u8>) -> Option<()> {
    let flags = headers.tcp_flags;
    if flags & RST != 0 {
        return None;
    }
    let segment = frame.get(headers.transport_offset as usize..)?.get(..20)?;
    let network = begin(frame, headers, TCP, 20, out)?;
    let start = out.len();
    let number =
        |at: usize| -> Option<u32> { Some(u32::from_be_bytes(segment.get(at..at + 4)?.try_into().ok()?)) };
    // The reset must lie in the sender's window [RFC 9293 §3.10.7.1].
    let counted: u32 = SYN_FIN.iter().filter(|(flag, _)| flags & flag != 0).map(|(_, counts)| counts).sum();
    let (sequence, acknowledged, flags) = if flags & ACK == 0 {
        (0, number(4)?.wrapping_add(headers.payload_bytes).wrapping_add(counted), RST | ACK)
    } else {
        (number(8)?, 0, RST)
    };
    out.extend(&segment[2..4]);
    out.extend(&segment[..2]);
    out.extend(sequence.to_be_bytes());
    out.extend(acknowledged.to_be_bytes());
    out.extend([0x50, flags as u8, 0, 0, 0, 0, 0, 0]);
    seal(out, (network, start), TCP, 16);
    Some(())
}

fn error(frame: &[u8], headers: &Headers, out: &mut Vec<u8>) -> Option<()> {
    let network = headers.network_offset as usize;
    let packet = frame.get(network..)?;
    let is_v4 = headers.key.family() == IpFamily::V4;
    let protocol = headers.key.protocol();
    // Only requests are answered, because errors about errors could continue forever.
    let kind = frame.get(headers.transport_offset as usize).copied();
    match (protocol, kind) {
        (ICMP, Some(8)) | (ICMPV6, Some(128)) => {}
        (ICMP | ICMPV6, _) => return None,
        _ => {}
    }
    // Padding of the frame does not belong to the packet.
    let stated = packet.get(if is_v4 { 2..4 } else { 4..6 })?;
    let stated = usize::from(u16::from_be_bytes([stated[0], stated[1]])) + if is_v4 { 0 } else { 40 };
    let quoted = packet.get(..packet.len().min(stated).min(if is_v4 { QUOTED_V4 } else { QUOTED_V6 }))?;
    let answers_with = if is_v4 { ICMP } else { ICMPV6 };
    let start_of = begin(frame, headers, answers_with, 8 + quoted.len(), out)?;
    let start = out.len();
    // Communication is administratively prohibited.
    out.extend(if is_v4 { [3, 13, 0, 0, 0, 0, 0, 0] } else { [1, 1, 0, 0, 0, 0, 0, 0] });
    out.extend(quoted);
    if is_v4 {
        let sum = internet_checksum(&[&out[start..]]).to_be_bytes();
        out[start + 2..start + 4].copy_from_slice(&sum);
    } else {
        seal(out, (start_of, start), ICMPV6, 2);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::DecodeOptions;
    use crate::{LinkType, decode};
    use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};

    fn answer(how: Refusal, frame: &[u8]) -> Option<Vec<u8>> {
        let headers = decode(LinkType::ETHERNET, frame, DecodeOptions::default()).ok()?;
        let mut out = vec![7; 3];
        how.answer(frame, &headers, &mut out).then_some(out)
    }

    fn tcp(v6: bool, tagged: bool, shape: impl Fn(&mut etherparse::TcpHeader), payload: &[u8]) -> Vec<u8> {
        let link = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let mut header = etherparse::TcpHeader::new(1024, 80, 1_000_000, 512);
        shape(&mut header);
        let ip = match (v6, tagged) {
            (false, false) => link.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9),
            (true, false) => link.ipv6([1; 16], [3; 16], 9),
            (false, true) => link.single_vlan(5.try_into().unwrap()).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9),
            (true, true) => link.single_vlan(5.try_into().unwrap()).ipv6([1; 16], [3; 16], 9),
        };
        let mut out = Vec::new();
        ip.tcp_header(header).write(&mut out, payload).unwrap();
        out
    }

    /// Verifies checksums with another implementation and returns the TCP header.
    fn checked(frame: &[u8]) -> etherparse::TcpHeader {
        let sliced = SlicedPacket::from_ethernet(frame).unwrap();
        let Some(TransportSlice::Tcp(tcp)) = &sliced.transport else { panic!("{sliced:?}") };
        let header = tcp.to_header();
        let sum = match sliced.net.as_ref().unwrap() {
            etherparse::NetSlice::Ipv4(ip) => {
                assert_eq!(ip.header().header_checksum(), ip.header().to_header().calc_header_checksum());
                header.calc_checksum_ipv4(&ip.header().to_header(), tcp.payload()).unwrap()
            }
            etherparse::NetSlice::Ipv6(ip) => {
                header.calc_checksum_ipv6(&ip.header().to_header(), tcp.payload()).unwrap()
            }
            other @ etherparse::NetSlice::Arp(_) => panic!("{other:?}"),
        };
        assert_eq!(header.checksum, sum);
        header
    }

    #[test]
    fn generated_rst_lies_in_the_window_of_the_sender() {
        for (v6, tagged) in [(false, false), (true, false), (false, true), (true, true)] {
            let opening = tcp(v6, tagged, |tcp| tcp.syn = true, b"");
            let reset = checked(&answer(Refusal::Reset, &opening).unwrap());
            assert_eq!((reset.source_port, reset.destination_port), (80, 1024));
            assert_eq!((reset.rst, reset.ack), (true, true));
            assert_eq!((reset.sequence_number, reset.acknowledgment_number), (0, 1_000_001));
            let data = |tcp: &mut etherparse::TcpHeader| {
                tcp.ack = true;
                tcp.acknowledgment_number = 77;
            };
            let reset = checked(&answer(Refusal::Reset, &tcp(v6, tagged, data, b"abc")).unwrap());
            assert_eq!((reset.rst, reset.ack, reset.sequence_number), (true, false, 77));
            assert_eq!(answer(Refusal::Reset, &tcp(v6, tagged, |tcp| tcp.rst = true, b"")), None);
            assert_eq!(answer(Refusal::Silent, &opening), None);
        }
    }

    #[test]
    fn icmp_error_quotes_the_packet_and_errors_get_no_answer() {
        for v6 in [false, true] {
            let opening = tcp(v6, true, |tcp| tcp.syn = true, &[1; 1400]);
            let error = answer(Refusal::Icmp, &opening).unwrap();
            let sliced = SlicedPacket::from_ethernet(&error).unwrap();
            let (kind, sum, expected) = match (&sliced.transport, sliced.net.as_ref().unwrap()) {
                (Some(TransportSlice::Icmpv4(icmp)), _) => {
                    let header = icmp.header();
                    (icmp.type_u8(), header.checksum, header.icmp_type.calc_checksum(icmp.payload()))
                }
                (Some(TransportSlice::Icmpv6(icmp)), etherparse::NetSlice::Ipv6(ip)) => {
                    let (from, to) = (ip.header().source(), ip.header().destination());
                    let header = icmp.header();
                    let sum = header.icmp_type.calc_checksum(from, to, icmp.payload()).unwrap();
                    (icmp.type_u8(), header.checksum, sum)
                }
                other => panic!("{other:?}"),
            };
            assert_eq!((kind, sum), (if v6 { 1 } else { 3 }, expected));
            assert!(error.len() < 1300, "it fits any link");
            assert_eq!(answer(Refusal::Icmp, &error), None);
        }
        let mut group = tcp(false, false, |tcp| tcp.syn = true, b"");
        group[0] |= 1;
        assert_eq!(answer(Refusal::Reset, &group), None);
    }

    proptest::proptest! {
        #[test]
        fn cut_and_random_frames_cause_no_panic(
            at in 0_usize..100, value: u8, cut in 0_usize..100, how in 0_usize..3,
        ) {
            let mut frame = tcp(how == 1, true, |tcp| tcp.syn = true, b"abc");
            let place = at % frame.len();
            frame[place] = value;
            frame.truncate(frame.len().saturating_sub(cut));
            let how = [Refusal::Silent, Refusal::Reset, Refusal::Icmp][how];
            if let Some(answer) = answer(how, &frame) {
                proptest::prop_assert!(answer.len() >= 54);
            }
        }
    }
}
