//! A decoded packet: the offsets of its headers, and its flow's key.

use flowloom_flow_key::protocol::UDP;
use flowloom_flow_key::{Direction, FiveTuple, FlowKey, IpFamily};

use crate::arena::Fragments;
use crate::frame::Frame;
use crate::interface::InterfaceName;

/// Maximum number of bytes between the ends of an IP packet and of its frame, or of the fragments
/// that a source joined.
pub(crate) const TRAILER_BYTES_MAX: u32 = 128 << 10;
/// Maximum length of a frame that was not captured whole: twice what offloading builds.
pub(crate) const FRAME_BYTES_MAX: u32 = 1 << 20;

const UDP_HEADER_BYTES: u32 = 8;

/// The decoder's result for a packet. Offsets count from the first captured byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Headers {
    /// The flow: canonical five-tuple and zone. The engine sets the pass.
    pub key: FlowKey,
    /// The direction of the packet in its flow.
    pub direction: Direction,
    /// The nine TCP flags (FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128, AE 256). 0
    /// without a TCP header, if the header is cut before its flags, or if it states an impossible
    /// data offset.
    pub tcp_flags: u16,
    /// Whether the packet is a fragment other than the first. Its key has no ports.
    pub later_fragment: bool,
    /// Whether the packet is an ICMP error with the key of the flow that it concerns. See
    /// [`DecodeOptions::errors_by_flow`](crate::DecodeOptions::errors_by_flow).
    pub is_error_of_flow: bool,
    /// The interface that captured the packet. The engine sets it.
    pub interface: InterfaceName,
    /// The IDs of the VLAN tags, outermost first, in twelve bits each; 0 without tags. Of more than
    /// two tags, a digest with the top bit set.
    pub vlans: u32,
    /// Offset of the IP header that gave the key. For an
    /// [error about a flow](Self::is_error_of_flow), it is that of the error itself, not that of
    /// the packet that it quotes.
    pub network_offset: u32,
    /// Offset of the transport header (after options and extension headers).
    pub transport_offset: u32,
    /// Offset of the transport payload, at most the number of captured bytes.
    pub payload_offset: u32,
    /// Bytes of transport payload by the IP length, whether captured or not. Padding is not
    /// payload. [`PacketView::payload_bytes`] leaves out what follows a UDP datagram.
    pub payload_bytes: u32,
}

impl Headers {
    /// Returns headers with only the flow set. TCP flags, offsets and lengths are zero.
    ///
    /// It serves other decoders and tests, which then set the other fields.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_packet::{FiveTuple, Headers, PacketView};
    /// let tuple = FiveTuple::v4([10, 0, 0, 1], [192, 0, 2, 1], 1024, 443, 6);
    /// let (key, direction) = tuple.canonical();
    /// let mut headers = Headers::new(key, direction);
    /// headers.tcp_flags = 2;
    /// let view = PacketView::new(&[], headers, 1_000_000_000, 60);
    /// assert_eq!((view.headers.tuple().source_port, view.payload()), (1024, &[][..]));
    /// ```
    #[inline]
    #[must_use]
    pub const fn new(key: FlowKey, direction: Direction) -> Self {
        Self {
            key,
            direction,
            tcp_flags: 0,
            later_fragment: false,
            is_error_of_flow: false,
            interface: InterfaceName::UNKNOWN,
            vlans: 0,
            network_offset: 0,
            transport_offset: 0,
            payload_offset: 0,
            payload_bytes: 0,
        }
    }

    /// Returns the length on the wire of the packet with these captured bytes: what its record
    /// states, unless no frame of its IP packet can be that long. Then the frame ends with the IP
    /// packet, or with the captured bytes if they are more. The payload of a packet that states no
    /// length ends with the frame then.
    #[inline]
    #[must_use]
    pub fn fit_to_wire(&mut self, bytes: &[u8], wire: u32) -> u32 {
        let wire = possible_wire_bytes(bytes, wire, self.end(), self.length_at());
        self.extend_to(bytes, wire);
        wire
    }

    /// Extends the payload of a packet that states no length, and of which only these bytes were
    /// captured, to the end of a frame of `wire` bytes.
    #[inline(always)]
    pub fn extend_to(&mut self, bytes: &[u8], wire: u32) {
        let captured = self.end();
        if wire > captured && captured as usize == bytes.len() && states_no_length(bytes, self.length_at())
        {
            self.payload_bytes += wire - captured;
        }
    }

    /// Returns the offset of the end of the IP packet.
    #[inline(always)]
    pub(crate) fn end(&self) -> u32 {
        self.payload_offset.saturating_add(self.payload_bytes)
    }

    /// Returns the offset of the IP header's two bytes of length.
    #[inline(always)]
    pub(crate) fn length_at(&self) -> usize {
        self.network_offset as usize + if self.key.family() == IpFamily::V4 { 2 } else { 4 }
    }

    /// Returns the five-tuple as on the wire. That of an
    /// [error about a flow](Self::is_error_of_flow) is the flow's, in the direction of the error.
    pub fn tuple(&self) -> FiveTuple {
        self.key.tuple(self.direction)
    }
}

/// Works as [`Headers::possible_wire_bytes`] does, for headers with this
/// [`end`](Headers::end) and [`length_at`](Headers::length_at).
pub(crate) fn possible_wire_bytes(bytes: &[u8], wire: u32, end: u32, length_at: usize) -> u32 {
    let captured = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let end = end.max(captured);
    if wire <= end.saturating_add(TRAILER_BYTES_MAX) {
        return wire;
    }
    // A packet built by offloading may state no length, so that its end is that of the record.
    if states_no_length(bytes, length_at) && wire <= FRAME_BYTES_MAX { wire } else { end }
}

/// Returns whether the IP length is 0, as offloading leaves it, or is not captured.
#[cold]
fn states_no_length(bytes: &[u8], length_at: usize) -> bool {
    bytes.get(length_at..length_at + 2).is_none_or(|length| length == [0; 2])
}

/// A decoded packet with its bytes.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PacketView<'a> {
    /// The captured bytes, from the link layer on.
    pub bytes: &'a [u8],
    /// The decoder's result.
    pub headers: Headers,
    /// Nanoseconds since 1970. A run gives each packet the time of its record, or the latest time
    /// before it. Times therefore never decrease in arrival order, nor within a flow whose order is
    /// kept. If workers share flows, times may decrease from one flow to another.
    pub time_ns: u64,
    /// Nanoseconds since 1970 as the packet's record states them. They may go backwards, by
    /// decades.
    pub stamped_ns: u64,
    /// Bytes the packet had on the wire, or its fragments together.
    pub wire_bytes: u32,
    /// The fragments that a source joined to this packet.
    pub fragments: Option<&'a Fragments>,
    /// The port of the wire that received it, counted from 0; 0 for packets of other sources.
    pub port: u16,
    /// The queue of that port.
    pub queue: u16,
    /// The number that the wire assigned to its frame; 0 if it assigns none.
    pub tag: u64,
}

impl<'a> PacketView<'a> {
    /// Returns the view of a packet from its captured bytes, the decoder's result, its time in
    /// nanoseconds since 1970, and its length on the wire in bytes. It is stamped with that time.
    #[inline(always)]
    #[must_use]
    pub const fn new(bytes: &'a [u8], headers: Headers, time_ns: u64, wire_bytes: u32) -> Self {
        let (fragments, stamped_ns) = (None, time_ns);
        Self { bytes, headers, time_ns, stamped_ns, wire_bytes, fragments, port: 0, queue: 0, tag: 0 }
    }

    /// Returns the view with the time that the packet's record states.
    #[inline(always)]
    #[must_use]
    pub const fn with_stamp(mut self, stamped_ns: u64) -> Self {
        self.stamped_ns = stamped_ns;
        self
    }

    /// Returns the view of a packet in a frame that a wire has received. The time is that of the
    /// run, in nanoseconds since 1970.
    #[inline(always)]
    #[must_use]
    pub const fn of_frame(frame: &Frame<'a>, headers: Headers, time_ns: u64) -> Self {
        let Frame { bytes, wire_bytes, time_ns: stamped_ns, port, queue, tag, .. } = *frame;
        Self { bytes, headers, time_ns, stamped_ns, wire_bytes, fragments: None, port, queue, tag }
    }

    /// Returns the view of a packet that a source joined from these fragments, if any.
    #[inline(always)]
    #[must_use]
    pub const fn with_fragments(mut self, fragments: Option<&'a Fragments>) -> Self {
        self.fragments = fragments;
        self
    }

    /// Returns the captured part of the transport payload, without link-layer padding.
    pub fn payload(&self) -> &'a [u8] {
        let start = (self.headers.payload_offset as usize).min(self.bytes.len());
        let end = start.saturating_add(self.payload_bytes() as usize).min(self.bytes.len());
        &self.bytes[start..end]
    }

    /// Returns the bytes of transport payload, whether captured or not:
    /// [`Headers::payload_bytes`], but of UDP at most those that its own length states. Bytes of
    /// the IP packet behind them are options or a surplus, but no data [RFC 9868 §4]. A UDP length
    /// below 8 states nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_packet::{DecodeOptions, LinkType, PacketView, decode};
    /// let mut packet = vec![0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    /// packet.extend([3, 0xE8, 0, 53, 0, 10, 0, 0]); // eight bytes of header and two of data
    /// packet.extend(b"ok??");
    /// let headers = decode(LinkType::RAW, &packet, DecodeOptions::new()).unwrap();
    /// let view = PacketView::new(&packet, headers, 0, 32);
    /// assert_eq!((view.payload_bytes(), view.payload()), (2, &b"ok"[..]));
    /// assert_eq!((view.headers.payload_bytes, view.ip_bytes()), (4, 32));
    /// ```
    #[inline]
    #[must_use]
    pub fn payload_bytes(&self) -> u32 {
        let headers = &self.headers;
        if headers.key.protocol() == UDP { self.datagram_bytes() } else { headers.payload_bytes }
    }

    #[inline]
    fn datagram_bytes(&self) -> u32 {
        let headers = &self.headers;
        // A header of another protocol, or none, or a part of one.
        if headers.payload_offset.wrapping_sub(headers.transport_offset) != UDP_HEADER_BYTES
            || headers.is_error_of_flow
            || headers.later_fragment
        {
            return headers.payload_bytes;
        }
        let length_at = headers.transport_offset as usize + 4;
        let stated = match self.bytes.get(length_at..length_at + 2) {
            Some(&[high, low]) => u32::from(u16::from_be_bytes([high, low])),
            _ => 0,
        };
        let data = stated.checked_sub(UDP_HEADER_BYTES).unwrap_or(headers.payload_bytes);
        data.min(headers.payload_bytes)
    }

    /// Returns whether the frame contains all bytes that the IP header states. On a wire, whose
    /// frames are not cut, any other packet is malformed.
    pub fn is_whole(&self) -> bool {
        let end = u64::from(self.headers.network_offset) + u64::from(self.ip_bytes_of_cut());
        end <= self.bytes.len() as u64
    }

    /// Returns the length of the IP packet that gave the key, by its own length field: header
    /// included, link-layer padding excluded, whether captured or not. If the packet states none
    /// (see the decoder), it ends with the record. A packet that states more bytes than its frame
    /// has, ends with the frame.
    #[inline(always)]
    pub fn ip_bytes(&self) -> u32 {
        let (stated, begin) = (self.stated_ip_bytes(), self.headers.network_offset);
        if stated.saturating_add(begin) <= self.wire_bytes {
            return stated;
        }
        stated.min(
            self.wire_bytes.max(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX)).saturating_sub(begin),
        )
    }

    #[inline(always)]
    fn stated_ip_bytes(&self) -> u32 {
        let headers = &self.headers;
        // Do not read the bytes here: a caller that only counts need not load them.
        if headers.payload_offset as usize == self.bytes.len() && self.wire_bytes > headers.payload_offset {
            return self.ip_bytes_of_cut();
        }
        (headers.payload_offset - headers.network_offset).saturating_add(headers.payload_bytes)
    }

    /// Handles records that may end inside the headers, so that the payload offset is not its true
    /// one.
    #[cold]
    fn ip_bytes_of_cut(&self) -> u32 {
        let start = self.headers.network_offset;
        let header = self.bytes.get(start as usize..).unwrap_or_default();
        let word = |at: usize| {
            header.get(at..at + 2).map_or(0, |word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        };
        let (stated, fixed) =
            if self.headers.key.family() == IpFamily::V4 { (word(2), 0) } else { (word(4), 40) };
        if stated == 0 { self.headers.end() - start } else { fixed + stated }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::frames;
    use crate::{DecodeOptions, LinkType, decode};

    #[test]
    fn payload_ends_with_the_ip_packet_or_the_record() {
        let mut bytes = vec![0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        bytes.extend([3, 0xE8, 0, 53, 0, 12, 0, 0]);
        bytes.extend(b"ask?padding");
        let payload = |bytes: &[u8]| {
            let headers = decode(LinkType::RAW, bytes, DecodeOptions::default()).unwrap();
            PacketView::new(bytes, headers, 0, 32).payload().to_vec()
        };
        assert_eq!(payload(&bytes), b"ask?");
        assert_eq!(payload(&bytes[..30]), b"as");
        assert_eq!(payload(&bytes[..28]), b"");
        assert_eq!(payload(&bytes[..24]), b"", "behind the ports all may be cut");
    }

    #[test]
    fn payload_of_udp_ends_with_the_datagram_and_the_ip_packet_does_not() {
        let read = |link, bytes: &[u8], options| {
            let headers = decode(link, bytes, options).unwrap();
            let wire = u32::try_from(bytes.len()).unwrap();
            let view = PacketView::new(bytes, headers, 0, wire);
            (view.payload_bytes(), view.payload().len(), view.ip_bytes() + headers.network_offset == wire)
        };
        let mut datagram = frames::udp(1000, 53, &[7; 16]);
        for (stated, payload) in [(8, 0), (10, 2), (24, 16), (25, 16), (0, 16), (7, 16), (65_535, 16)] {
            datagram[4..6].copy_from_slice(&u16::to_be_bytes(stated));
            let payload = (payload, payload as usize, true);
            let (four, six) = (frames::ipv4(17, &datagram), frames::ipv6(17, &datagram));
            let framed = [(0x0800, &four), (0x86DD, &six)].map(|(kind, ip)| frames::ethernet(kind, ip));
            for (link, bytes) in [
                (LinkType::RAW, &four),
                (LinkType::RAW, &six),
                (LinkType::ETHERNET, &framed[0]),
                (LinkType::ETHERNET, &framed[1]),
            ] {
                assert_eq!(read(link, bytes, DecodeOptions::new()), payload, "{stated}");
            }
            let tunnel = frames::ipv4(4, &four);
            let decap = DecodeOptions::new().with_decap(true);
            assert_eq!(read(LinkType::RAW, &tunnel, decap), payload, "{stated}");
        }
        // The quoted datagram gives only the key of an error.
        datagram[4..6].copy_from_slice(&[0, 8]);
        let quoted = frames::ipv4(17, &datagram);
        let error = frames::ipv4(1, &[&[3, 3, 0, 0, 0, 9, 0, 0], &quoted[..]].concat());
        let by_flow = DecodeOptions::new().with_errors_by_flow(true);
        assert_eq!(read(LinkType::RAW, &error, by_flow), (44, 44, true));
        // A later fragment has no header; its first bytes are data.
        let mut later = quoted;
        later[7] = 1;
        assert_eq!(read(LinkType::RAW, &later, DecodeOptions::new()), (24, 24, true));
    }

    #[test]
    fn ip_length_does_not_depend_on_where_the_record_is_cut() {
        let ip_bytes = |link, bytes: &[u8], wire_bytes| {
            let headers = decode(link, bytes, DecodeOptions::default()).unwrap();
            PacketView::new(bytes, headers, 0, wire_bytes).ip_bytes()
        };
        let udp = frames::ipv4(17, &frames::udp(1000, 53, b"ask?"));
        let mut tcp = frames::on(&[3, 0xE8, 0, 53, 0, 0, 0, 1, 0, 0, 0, 2, 0x80, 0x18], &[0; 18]);
        tcp.extend(b"data");
        let (v4, v6) = (frames::ipv4(6, &tcp), frames::ipv6(6, &tcp));
        for (link, packet, ports_end) in
            [(LinkType::IPV4, udp, 24), (LinkType::IPV4, v4, 24), (LinkType::IPV6, v6, 44)]
        {
            let whole = u32::try_from(packet.len()).unwrap();
            for end in ports_end..=packet.len() {
                assert_eq!(ip_bytes(link, &packet[..end], whole), whole, "{end} of {whole} bytes");
            }
            let padded = [&packet[..], &[0; 9]].concat();
            assert_eq!(ip_bytes(link, &padded, whole + 9), whole, "padding is not of the packet");
        }
    }

    #[test]
    fn ip_length_is_at_most_the_frame_length() {
        let query = frames::ipv4(17, &frames::udp(1000, 53, b"ask?"));
        let six = frames::ipv6(17, &frames::udp(1000, 53, b"ask?"));
        for (ether_type, mut packet, at) in [(0x0800, query, 2), (0x86DD, six, 4)] {
            let whole = u32::try_from(packet.len()).unwrap();
            packet[at..at + 2].copy_from_slice(&1400_u16.to_be_bytes());
            let frame = frames::ethernet(ether_type, &packet);
            for end in frame.len() - 8..=frame.len() {
                let bytes = &frame[..end];
                let headers = decode(LinkType::ETHERNET, bytes, DecodeOptions::default()).unwrap();
                let ip_bytes = |wire| PacketView::new(bytes, headers, 0, wire).ip_bytes();
                assert_eq!((ip_bytes(whole + 14), ip_bytes(200), ip_bytes(1400)), (whole, 186, 1386));
                // A record that states fewer bytes than it has.
                assert_eq!(ip_bytes(20), u32::try_from(end).unwrap() - 14);
                let mut counts = crate::EncapsulationCounts::default();
                let bounded = [whole + 14, 200, 4000].map(|wire| {
                    let number = u64::from(wire);
                    counts.look_at_length(number, &headers, bytes, wire)
                });
                assert_eq!(bounded, [whole + 14, 200, 4000]);
                assert_eq!(counts.ip_beyond_frame().first_packets, [u64::from(whole) + 14, 200]);
                assert_eq!(crate::EncapsulationCounts::from_lines(&counts.to_lines()), Some(counts));
            }
        }
    }

    #[test]
    fn frame_is_at_most_slightly_longer_than_its_ip_packet() {
        let query = frames::ipv4(17, &frames::udp(1000, 53, &[7; 1000]));
        let six = frames::ipv6(17, &frames::udp(1000, 53, &[7; 1000]));
        for (ether_type, mut packet, at) in [(0x0800, query, 2), (0x86DD, six, 4)] {
            let end = u32::try_from(packet.len() + 14).unwrap();
            for is_open in [false, true] {
                if is_open {
                    packet[at..at + 2].fill(0);
                }
                let frame = frames::ethernet(ether_type, &packet);
                for captured in [80, frame.len()] {
                    let bytes = &frame[..captured];
                    let headers = decode(LinkType::ETHERNET, bytes, DecodeOptions::default()).unwrap();
                    let mut counts = crate::EncapsulationCounts::default();
                    let wires = [end, end + 60, 100_000, 600_000, 5_000_000, 4_000_000_000];
                    let bounded =
                        wires.map(|wire| counts.look_at_length(u64::from(wire), &headers, bytes, wire));
                    let possible = if is_open { u32::try_from(captured).unwrap() } else { end };
                    let impossible = if is_open { 4 } else { 3 };
                    let mut expected = wires;
                    expected[impossible..].fill(possible);
                    assert_eq!(bounded, expected, "{is_open} {captured}");
                    let first = wires[impossible..].iter().map(|&wire| wire.into()).collect::<Vec<u64>>();
                    assert_eq!(counts.wire_impossible().first_packets, first);
                    assert_eq!(crate::EncapsulationCounts::from_lines(&counts.to_lines()), Some(counts));
                }
            }
        }
    }

    #[test]
    fn packet_without_a_length_field_ends_with_its_frame() {
        let query = frames::ipv4(17, &frames::udp(1000, 53, &[7; 1000]));
        let six = frames::ipv6(17, &frames::udp(1000, 53, &[7; 1000]));
        for (ether_type, mut packet, at) in [(0x0800, query, 2), (0x86DD, six, 4)] {
            let ip_bytes = u32::try_from(packet.len()).unwrap();
            packet[at..at + 2].fill(0);
            let frame = frames::ethernet(ether_type, &packet);
            let wire = u32::try_from(frame.len()).unwrap();
            for captured in frame.len() - 1000..=frame.len() {
                let bytes = &frame[..captured];
                let mut headers = decode(LinkType::ETHERNET, bytes, DecodeOptions::default()).unwrap();
                assert_eq!(headers.fit_to_wire(bytes, wire), wire);
                let view = PacketView::new(bytes, headers, 0, wire);
                assert_eq!((view.ip_bytes(), headers.payload_bytes), (ip_bytes, 1000), "{captured}");
                assert_eq!(view.payload().len(), captured - (frame.len() - 1000));
            }
        }
    }

    #[test]
    fn a_transport_header_that_is_longer_than_its_packet_adds_nothing() {
        let mut segment = frames::on(&[3, 0xE8, 0, 53, 0, 0, 0, 1, 0, 0, 0, 2, 0xF0, 0x18], &[0; 6]);
        segment.extend([0; 60]);
        let mut packet = frames::ipv4(6, &segment);
        packet[2..4].copy_from_slice(&44_u16.to_be_bytes());
        let headers = decode(LinkType::IPV4, &packet, DecodeOptions::default()).unwrap();
        let view = PacketView::new(&packet, headers, 0, 100);
        assert_eq!((view.ip_bytes(), view.payload().len()), (44, 0));
    }
}
