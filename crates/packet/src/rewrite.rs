//! Changes addresses and ports of a packet in its frame, as address translation does. Checksums are
//! adjusted by the changed words [RFC 1624], so the payload is not read.
//!
//! ```text
//!  packet of a flow   Ethernet  IP  TCP, UDP, echo                ports and addresses
//!  error about it     Ethernet  IP  ICMP  quoted IP  quoted TCP   addresses, and the reverse
//!                                                                 of both in what is quoted
//! ```

use flowloom_flow_key::protocol::{DCCP, ROUTING, TCP, UDP, UDPLITE};
use std::net::IpAddr;

use flowloom_flow_key::IpFamily;

use crate::checksum::adjusted;
use crate::icmp::{ICMP, ICMPV6};
use crate::refusal::follows_ethernet;
use crate::view::Headers;

/// Bytes of an ICMP error before the quoted packet.
const ERROR_BYTES: usize = 8;

/// New addresses and ports of a packet, in its own direction, and new stations of its frame.
///
/// # Examples
///
/// ```
/// use std::net::IpAddr;
/// use flowloom_packet::rewrite::Rewrite;
/// use flowloom_packet::{DecodeOptions, LinkType, decode};
///
/// let mut frame = vec![2; 12];
/// frame.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 192, 0, 2, 9]);
/// frame.extend([4, 0, 0, 53, 0, 8, 0, 0]);
/// let headers = decode(LinkType::ETHERNET, &frame, DecodeOptions::default()).unwrap();
/// let translate = Rewrite::new().source(IpAddr::from([198, 51, 100, 7])).source_port(40_000);
/// assert!(translate.apply(&mut frame, &headers, None));
/// let headers = decode(LinkType::ETHERNET, &frame, DecodeOptions::default()).unwrap();
/// assert_eq!(headers.tuple().to_string(), "198.51.100.7:40000 > 192.0.2.9:53 proto 17");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// The source's, and the destination's.
    addresses: [Option<IpAddr>; 2],
    ports: [Option<u16>; 2],
    stations: [Option<[u8; 6]>; 2],
    /// The source of an error that a router sends.
    router: Option<IpAddr>,
}

const SOURCE: usize = 0;
const DESTINATION: usize = 1;

impl Rewrite {
    /// Returns a rewrite that changes nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { addresses: [None; 2], ports: [None; 2], stations: [None; 2], router: None }
    }

    /// Sets the new source address.
    #[must_use]
    pub const fn source(mut self, address: IpAddr) -> Self {
        self.addresses[SOURCE] = Some(address);
        self
    }

    /// Sets the new destination address.
    #[must_use]
    pub const fn destination(mut self, address: IpAddr) -> Self {
        self.addresses[DESTINATION] = Some(address);
        self
    }

    /// Sets the new source port; of an echo request, its identifier.
    #[must_use]
    pub const fn source_port(mut self, port: u16) -> Self {
        self.ports[SOURCE] = Some(port);
        self
    }

    /// Sets the new destination port; of an echo reply, its identifier.
    #[must_use]
    pub const fn destination_port(mut self, port: u16) -> Self {
        self.ports[DESTINATION] = Some(port);
        self
    }

    /// Sets the new source address of ICMP errors about the flow that a router between its ends
    /// sends, so that a translator does not show the addresses behind it.
    #[must_use]
    pub const fn router(mut self, address: IpAddr) -> Self {
        self.router = Some(address);
        self
    }

    /// Sets the new source station in the Ethernet header.
    #[must_use]
    pub const fn source_station(mut self, station: [u8; 6]) -> Self {
        self.stations[SOURCE] = Some(station);
        self
    }

    /// Sets the new destination station in the Ethernet header.
    #[must_use]
    pub const fn destination_station(mut self, station: [u8; 6]) -> Self {
        self.stations[DESTINATION] = Some(station);
        self
    }

    /// Changes a frame, and adjusts its checksums. Returns whether it did; otherwise the frame is
    /// unchanged.
    ///
    /// It refuses frames that are cut within their headers, packets in tunnels and with IPv6
    /// routing headers, addresses of the other family, ports of protocols that have none, and
    /// stations of packets without a link header. A later fragment has no ports: only its addresses
    /// change.
    ///
    /// In an ICMP error [about a flow](Headers::is_error_of_flow) the quoted packet gets the
    /// reverse of the changes. If the end of the flow sends the error, its source changes as that
    /// of the flow's packets; if a router in between does, to [`router`](Self::router), if set.
    ///
    /// `unfinished` is the offset of the transport header whose checksum the network card
    /// completes, if there is one.
    ///
    /// Takes constant time.
    pub fn apply(&self, frame: &mut [u8], headers: &Headers, unfinished: Option<usize>) -> bool {
        let network = headers.network_offset as usize;
        let is_v4 = headers.key.family() == IpFamily::V4;
        let is_in_place = match network {
            // A packet without a link header has no stations.
            0 => self.stations == [None; 2],
            _ => follows_ethernet(frame, network),
        };
        if !is_in_place
            || self.addresses.iter().chain([&self.router]).flatten().any(|a| a.is_ipv4() != is_v4)
        {
            return false;
        }
        let Some(edits) = self.edits(frame, headers, unfinished) else { return false };
        edits.list[..edits.count].iter().for_each(|edit| edit.make(frame));
        for (station, at) in self.stations.iter().zip([6, 0]) {
            if let Some(station) = station {
                frame[at..at + 6].copy_from_slice(station);
            }
        }
        true
    }

    fn edits(&self, frame: &[u8], headers: &Headers, unfinished: Option<usize>) -> Option<Edits> {
        let outer = Packet::at(frame, headers.network_offset as usize)?;
        let transport = headers.transport_offset as usize;
        let mut edits = Edits::default();
        if headers.is_error_of_flow {
            let quoted = Packet::at(frame, transport + ERROR_BYTES)?;
            let sum = Sum { at: transport + 2, kind: SumKind::Complete };
            let [source, destination] = self.addresses;
            let is_from_end = frame.get(outer.source())? == frame.get(quoted.destination())?;
            let is_to_end = frame.get(outer.destination())? == frame.get(quoted.source())?;
            if destination.is_some() && !is_to_end {
                return None;
            }
            let of_outer = [if is_from_end { source } else { self.router }, destination];
            let over_addresses = (!outer.is_v4).then_some(sum);
            edits.addresses(frame, outer, of_outer, over_addresses)?;
            let (place, inner_sum) = ports_and_sum(frame, quoted.protocol, quoted.transport?)?;
            // Errors quote as little as eight bytes, which need not include the checksum.
            let inner_sum = inner_sum.filter(|sum| sum.at + 2 <= frame.len());
            let is_over_addresses = quoted.protocol != ICMP;
            edits.around = Some(sum);
            edits.addresses(
                frame,
                quoted,
                [destination, source],
                inner_sum.filter(|_| is_over_addresses),
            )?;
            edits.ports(frame, place, [self.ports[DESTINATION], self.ports[SOURCE]], inner_sum)?;
            return Some(edits);
        }
        if headers.later_fragment {
            edits.addresses(frame, outer, self.addresses, None)?;
            return Some(edits);
        }
        let (place, sum) = ports_and_sum(frame, headers.key.protocol(), transport)?;
        let sum = sum.map(|sum| match unfinished {
            Some(start) if start == transport => Sum { kind: SumKind::Unfinished, ..sum },
            _ => sum,
        });
        if transport + header_bytes(frame, headers.key.protocol(), transport)? > frame.len() {
            return None;
        }
        let is_over_addresses = headers.key.protocol() != ICMP;
        edits.addresses(frame, outer, self.addresses, sum.filter(|_| is_over_addresses))?;
        let over_ports = sum.filter(|sum| sum.kind != SumKind::Unfinished);
        edits.ports(frame, place, self.ports, over_ports)?;
        Some(edits)
    }
}

/// An IP header within a frame, which is whole.
#[derive(Clone, Copy)]
struct Packet {
    at: usize,
    is_v4: bool,
    protocol: u8,
    /// The offset of the transport header; `None` in a later fragment and behind extension headers.
    transport: Option<usize>,
}

impl Packet {
    fn at(frame: &[u8], at: usize) -> Option<Self> {
        let header = frame.get(at..)?;
        match header.first()? >> 4 {
            4 if header.len() >= 20 => {
                let bytes = usize::from(header[0] & 15) * 4;
                // The low thirteen bits are the offset of the fragment.
                let is_first = u16::from_be_bytes([header[6], header[7]]) << 3 == 0;
                (bytes >= 20).then_some(Self {
                    at,
                    is_v4: true,
                    protocol: header[9],
                    transport: is_first.then_some(at + bytes),
                })
            }
            6 if header.len() >= 40 => {
                let next = header[6];
                // The checksum covers the last destination of a route, which is not this one.
                let is_routed = next == ROUTING || next == 0 && header.get(40) == Some(&ROUTING);
                let is_direct = matches!(next, TCP | UDP | ICMPV6 | UDPLITE | DCCP);
                let transport = is_direct.then_some(at + 40);
                (!is_routed).then_some(Self { at, is_v4: false, protocol: next, transport })
            }
            _ => None,
        }
    }

    fn address_bytes(self) -> usize {
        if self.is_v4 { 4 } else { 16 }
    }

    fn source(self) -> std::ops::Range<usize> {
        let start = self.at + if self.is_v4 { 12 } else { 8 };
        start..start + self.address_bytes()
    }

    fn destination(self) -> std::ops::Range<usize> {
        let source = self.source();
        source.end..source.end + self.address_bytes()
    }
}

/// The offsets of the source and the destination port.
type PortPlaces = Option<[Option<usize>; 2]>;

/// Returns the places of the ports and the checksum of a transport header.
fn ports_and_sum(frame: &[u8], protocol: u8, at: usize) -> Option<(PortPlaces, Option<Sum>)> {
    let sum = |offset: usize, kind| Some(Sum { at: at + offset, kind });
    let both = Some([Some(at), Some(at + 2)]);
    Some(match protocol {
        TCP => (both, sum(16, SumKind::Complete)),
        UDP => (both, sum(6, SumKind::Udp)),
        UDPLITE | DCCP => (both, sum(6, SumKind::Complete)),
        ICMP | ICMPV6 => {
            let identifier = Some(at + 4);
            let places = match (protocol, *frame.get(at)?) {
                (ICMP, 8) | (ICMPV6, 128) => Some([identifier, None]),
                (ICMP, 0) | (ICMPV6, 129) => Some([None, identifier]),
                _ => None,
            };
            (places, sum(2, SumKind::Complete))
        }
        _ => (None, None),
    })
}

/// Returns the length of a transport header; 0 for a protocol without ports.
fn header_bytes(frame: &[u8], protocol: u8, at: usize) -> Option<usize> {
    Some(match protocol {
        TCP => usize::from(frame.get(at + 12)? >> 4).max(5) * 4,
        DCCP => 12,
        UDP | UDPLITE | ICMP | ICMPV6 => 8,
        _ => 0,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SumKind {
    Complete,
    /// Zero means that there is none.
    Udp,
    /// Only the sum over the addresses, which the card completes.
    Unfinished,
}

/// A checksum within the frame.
#[derive(Clone, Copy, Debug)]
struct Sum {
    at: usize,
    kind: SumKind,
}

impl Sum {
    fn read(self, frame: &[u8]) -> u16 {
        u16::from_be_bytes([frame[self.at], frame[self.at + 1]])
    }

    /// Adjusts the checksum to a changed word. Returns the checksum before and after.
    fn adjust(self, frame: &mut [u8], before: u16, now: u16) -> [u16; 2] {
        let sum = self.read(frame);
        let new = match self.kind {
            SumKind::Udp if sum == 0 => 0,
            SumKind::Udp => match adjusted(sum, before, now) {
                0 => 0xFFFF,
                new => new,
            },
            SumKind::Complete => adjusted(sum, before, now),
            SumKind::Unfinished => !adjusted(!sum, before, now),
        };
        frame[self.at..self.at + 2].copy_from_slice(&new.to_be_bytes());
        [sum, new]
    }
}

/// New bytes at an offset, and the checksums over them.
#[derive(Clone, Copy, Debug, Default)]
struct Edit {
    at: usize,
    bytes: [u8; 16],
    length: usize,
    /// The checksums of the IP header and of the transport.
    sums: [Option<Sum>; 2],
    /// The checksum of an error, which covers the other two.
    around: Option<Sum>,
}

impl Edit {
    fn make(&self, frame: &mut [u8]) {
        for offset in (0..self.length).step_by(2) {
            let at = self.at + offset;
            let before = u16::from_be_bytes([frame[at], frame[at + 1]]);
            let now = u16::from_be_bytes([self.bytes[offset], self.bytes[offset + 1]]);
            frame[at..at + 2].copy_from_slice(&now.to_be_bytes());
            let mut changes = [[before, now]; 3];
            for (sum, change) in self.sums.iter().zip(&mut changes[1..]) {
                *change = sum.map_or([0, 0], |sum| sum.adjust(frame, before, now));
            }
            if let Some(around) = self.around {
                for [before, now] in changes {
                    around.adjust(frame, before, now);
                }
            }
        }
    }
}

/// The changes of a frame: two addresses and two ports, also of a quoted packet.
#[derive(Debug, Default)]
struct Edits {
    list: [Edit; 8],
    count: usize,
    /// The checksum over the quoted packet, once it is being changed.
    around: Option<Sum>,
}

impl Edits {
    fn add(&mut self, at: usize, bytes: &[u8], sums: [Option<Sum>; 2]) {
        let edit = &mut self.list[self.count];
        edit.bytes[..bytes.len()].copy_from_slice(bytes);
        (edit.at, edit.length, edit.sums, edit.around) = (at, bytes.len(), sums, self.around);
        self.count += 1;
    }

    /// Changes addresses, which `transport` covers.
    fn addresses(
        &mut self,
        frame: &[u8],
        packet: Packet,
        addresses: [Option<IpAddr>; 2],
        transport: Option<Sum>,
    ) -> Option<()> {
        let of_header = packet.is_v4.then_some(Sum { at: packet.at + 10, kind: SumKind::Complete });
        for (place, address) in [packet.source(), packet.destination()].into_iter().zip(addresses) {
            frame.get(place.clone())?;
            match address {
                Some(IpAddr::V4(address)) => {
                    self.add(place.start, &address.octets(), [of_header, transport]);
                }
                Some(IpAddr::V6(address)) => self.add(place.start, &address.octets(), [None, transport]),
                None => {}
            }
        }
        Some(())
    }

    /// Changes ports, which `transport` covers.
    fn ports(
        &mut self,
        frame: &[u8],
        places: PortPlaces,
        ports: [Option<u16>; 2],
        transport: Option<Sum>,
    ) -> Option<()> {
        if ports == [None; 2] {
            return Some(());
        }
        for (place, port) in places?.into_iter().zip(ports) {
            if let (Some(place), Some(port)) = (place, port) {
                frame.get(place..place + 2)?;
                self.add(place, &port.to_be_bytes(), [None, transport]);
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::DecodeOptions;
    use crate::{LinkType, decode};
    use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
    use proptest::prelude::*;

    fn headers(frame: &[u8]) -> Headers {
        decode(LinkType::ETHERNET, frame, DecodeOptions::default().with_errors_by_flow(true)).unwrap()
    }

    /// A frame of a kind: TCP, UDP, UDP without a checksum, or an echo.
    fn frame(v6: bool, tagged: bool, kind: u8, payload: &[u8]) -> Vec<u8> {
        let link = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let tag = 5.try_into().unwrap();
        let ip = match (v6, tagged) {
            (false, false) => link.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9),
            (true, false) => link.ipv6([1; 16], [3; 16], 9),
            (false, true) => link.single_vlan(tag).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9),
            (true, true) => link.single_vlan(tag).ipv6([1; 16], [3; 16], 9),
        };
        let mut out = Vec::new();
        match kind {
            0 => ip.tcp(1024, 80, 7, 9).write(&mut out, payload).unwrap(),
            1 | 2 => ip.udp(1024, 80).write(&mut out, payload).unwrap(),
            _ if v6 => ip.icmpv6_echo_request(1024, 3).write(&mut out, payload).unwrap(),
            _ => ip.icmpv4_echo_request(1024, 3).write(&mut out, payload).unwrap(),
        }
        if kind == 2 && !v6 {
            let at = headers(&out).transport_offset as usize + 6;
            out[at..at + 2].fill(0);
        }
        out
    }

    /// Verifies the checksums with another implementation.
    fn check(frame: &[u8]) {
        let sliced = SlicedPacket::from_ethernet(frame).unwrap();
        match sliced.net.as_ref().unwrap() {
            NetSlice::Ipv4(ip) => {
                let header = ip.header().to_header();
                assert_eq!(header.header_checksum, header.calc_header_checksum());
                match sliced.transport.as_ref().unwrap() {
                    TransportSlice::Tcp(tcp) => {
                        let sum = tcp.to_header().calc_checksum_ipv4(&header, tcp.payload()).unwrap();
                        assert_eq!(tcp.checksum(), sum);
                    }
                    TransportSlice::Udp(udp) if udp.checksum() == 0 => {}
                    TransportSlice::Udp(udp) => {
                        let sum = udp.to_header().calc_checksum_ipv4(&header, udp.payload()).unwrap();
                        assert_eq!(udp.checksum(), sum);
                    }
                    TransportSlice::Icmpv4(icmp) => {
                        let header = icmp.header();
                        assert_eq!(header.checksum, header.icmp_type.calc_checksum(icmp.payload()));
                    }
                    other => panic!("{other:?}"),
                }
            }
            NetSlice::Ipv6(ip) => {
                let header = ip.header().to_header();
                match sliced.transport.as_ref().unwrap() {
                    TransportSlice::Tcp(tcp) => {
                        let sum = tcp.to_header().calc_checksum_ipv6(&header, tcp.payload()).unwrap();
                        assert_eq!(tcp.checksum(), sum);
                    }
                    TransportSlice::Udp(udp) => {
                        let sum = udp.to_header().calc_checksum_ipv6(&header, udp.payload()).unwrap();
                        assert_eq!(udp.checksum(), sum);
                    }
                    TransportSlice::Icmpv6(icmp) => {
                        assert!(icmp.is_checksum_valid(header.source, header.destination));
                    }
                    other => panic!("{other:?}"),
                }
            }
            other @ NetSlice::Arp(_) => panic!("{other:?}"),
        }
    }

    fn rewrite(v6: bool, addresses: [Option<u128>; 2], ports: [Option<u16>; 2]) -> Rewrite {
        let address = |bits: u128| {
            let bytes = bits.to_be_bytes();
            if v6 {
                IpAddr::from(bytes)
            } else {
                IpAddr::from([bytes[12], bytes[13], bytes[14], bytes[15]])
            }
        };
        Rewrite { addresses: addresses.map(|bits| bits.map(address)), ports, ..Rewrite::new() }
    }

    /// An ICMP error of the destination, or of a router, about a frame.
    fn error_about(frame: &[u8], by_router: bool) -> Vec<u8> {
        let about = headers(frame);
        let mut error = Vec::new();
        assert!(crate::refusal::Refusal::Icmp.answer(frame, &about, &mut error));
        if by_router {
            let of_error = decode(LinkType::ETHERNET, &error, DecodeOptions::default()).unwrap();
            let is_v6 = of_error.key.family() == IpFamily::V6;
            let router = rewrite(is_v6, [Some((77 << 64) + 99), None], [None; 2]);
            assert!(router.apply(&mut error, &of_error, None));
        }
        error
    }

    proptest! {
        #[test]
        fn checksums_are_right_and_the_reverse_restores_the_frame(
            v6: bool, tagged: bool, kind in 0_u8..4, payload in prop::collection::vec(any::<u8>(), 0..50),
            addresses: [Option<u128>; 2], ports: [Option<u16>; 2],
        ) {
            let given = frame(v6, tagged, kind, &payload);
            let mut changed = given.clone();
            prop_assert!(rewrite(v6, addresses, ports).apply(&mut changed, &headers(&given), None));
            check(&changed);
            let (before, now) = (headers(&given).tuple(), headers(&changed).tuple());
            let expected = rewrite(v6, addresses, ports).addresses;
            prop_assert_eq!(now.source, expected[0].unwrap_or(before.source));
            prop_assert_eq!(now.destination, expected[1].unwrap_or(before.destination));
            if kind < 3 {
                prop_assert_eq!(now.source_port, ports[0].unwrap_or(before.source_port));
                prop_assert_eq!(now.destination_port, ports[1].unwrap_or(before.destination_port));
            }
            let back = Rewrite {
                addresses: [Some(before.source), Some(before.destination)],
                ports: [Some(1024), Some(80)],
                ..Rewrite::new()
            };
            let decoded = headers(&changed);
            prop_assert!(back.apply(&mut changed, &decoded, None));
            prop_assert_eq!(changed, given);
        }

        #[test]
        fn icmp_error_is_rewritten_in_reverse(
            v6: bool, tagged: bool, kind in 0_u8..4, by_router: bool, source: u128, port: u16,
        ) {
            // A translator changes the source on the way out. The error about the packet reverses
            // this.
            let inside = frame(v6, tagged, kind, b"abc");
            let mut outside = inside.clone();
            let out = rewrite(v6, [Some(source), None], [Some(port), None]);
            prop_assert!(out.apply(&mut outside, &headers(&inside), None));
            let mut error = error_about(&outside, by_router);
            let before = headers(&inside).tuple();
            let back = Rewrite::new().destination(before.source).destination_port(1024);
            let of_error = headers(&error);
            prop_assert!(of_error.is_error_of_flow);
            prop_assert!(back.apply(&mut error, &of_error, None));
            check(&error);
            prop_assert_eq!(&error, &error_about(&inside, by_router));
            // The sender's own address shows only if neither end's nor a router's is set.
            let of_error = headers(&error);
            let (end, router) = if v6 { ("::7", "::8") } else { ("10.9.9.7", "10.9.9.8") };
            let [end, router] = [end, router].map(|text| text.parse::<IpAddr>().unwrap());
            prop_assert!(Rewrite::new().source(end).router(router).apply(&mut error, &of_error, None));
            check(&error);
            let without = DecodeOptions::default();
            let sender = decode(LinkType::ETHERNET, &error, without).unwrap().tuple().source;
            prop_assert_eq!(sender, if by_router { router } else { end });
        }

        #[test]
        fn any_frame_is_rewritten_or_left_unchanged_without_a_panic(
            v6: bool, kind in 0_u8..5, at in 0_usize..140, value: u8, cut in 0_usize..100,
            addresses: [Option<u128>; 2], ports: [Option<u16>; 2], of_v6: bool,
        ) {
            let mut given = frame(v6, true, kind.min(3), b"abc");
            if kind == 4 {
                given = error_about(&given, false);
            }
            let decoded = headers(&given);
            let place = at % given.len();
            given[place] = value;
            given.truncate(given.len().saturating_sub(cut));
            let own = decode(LinkType::ETHERNET, &given, DecodeOptions::default().with_errors_by_flow(true));
            for headers in [Ok(decoded), own].into_iter().flatten() {
                let mut changed = given.clone();
                if !rewrite(of_v6, addresses, ports).apply(&mut changed, &headers, Some(38)) {
                    prop_assert_eq!(&changed, &given);
                }
            }
        }
    }

    #[test]
    fn offloaded_checksum_covers_only_the_addresses() {
        let whole = frame(false, false, 0, b"abc");
        let decoded = headers(&whole);
        let at = decoded.transport_offset as usize;
        // What the sender leaves: the sum over addresses, protocol and length.
        let left = |frame: &[u8]| {
            let length = u32::try_from(frame.len() - at).unwrap();
            !crate::checksum::internet_checksum(&[&frame[26..34], &length.to_be_bytes(), &[0, TCP]])
        };
        let mut unfinished = whole.clone();
        unfinished[at + 16..at + 18].copy_from_slice(&left(&whole).to_be_bytes());
        let change = rewrite(false, [Some(0x0102_0304), Some(0x0506_0708)], [Some(9), Some(8)]);
        assert!(change.apply(&mut unfinished, &decoded, Some(at)));
        assert_eq!(unfinished[at + 16..at + 18], left(&unfinished).to_be_bytes());
    }

    #[test]
    fn frames_that_end_within_their_headers_are_refused() {
        for (kind, header) in [(0, 20), (1, 8), (2, 8)] {
            let whole = frame(false, false, kind, b"abc");
            let at = headers(&whole).transport_offset as usize;
            for end in at..=at + header {
                let mut cut = whole[..end].to_vec();
                let is_rewritten = Rewrite::new().source_port(5).apply(&mut cut, &headers(&whole), None);
                assert_eq!(is_rewritten, end == at + header, "{kind}, {end} bytes");
            }
        }
    }

    #[test]
    fn mac_addresses_are_rewritten_and_mismatched_families_refused() {
        let mut given = frame(true, true, 1, b"abc");
        let decoded = headers(&given);
        let stations = Rewrite::new().source_station([8; 6]).destination_station([6; 6]);
        assert!(stations.apply(&mut given, &decoded, None));
        assert_eq!((&given[..6], &given[6..12]), (&[6; 6][..], &[8; 6][..]));
        let other = Rewrite::new().source(IpAddr::from([1, 2, 3, 4]));
        assert!(!other.apply(&mut given, &decoded, None), "the other family");
        let mut bare = given.split_off(18);
        let decoded = decode(LinkType::RAW, &bare, DecodeOptions::default()).unwrap();
        assert!(!stations.apply(&mut bare, &decoded, None), "there are none");
        assert!(Rewrite::new().source_port(5).apply(&mut bare, &decoded, None));
        assert_eq!(bare[40..42], [0, 5]);
    }
}
