//! Counts by name of the encapsulations that were followed, of those that were not, with reasons,
//! and of unknown numbers.

mod saved;

use std::collections::BTreeMap;

use crate::decode::{
    DecodeOptions, Steps, Trace, Unknown, decode_traced, decode_usual, has_ports, key_errors,
};
use crate::drop_reason::DropReason;
use crate::link::LinkType;
use crate::view::{Headers, TRAILER_BYTES_MAX, possible_wire_bytes};

/// Number of first packet numbers that each count keeps.
pub const FIRST_PACKETS_MAX: usize = 4;
/// Maximum number of unknown numbers that are counted separately. Packets with further numbers
/// share one count.
const UNKNOWN_MAX: usize = 256;

/// The reason why a tunnel was not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum NotFollowed {
    /// [`decap`](DecodeOptions::decap) is off.
    NotAsked,
    /// The contents give no key.
    Inner(DropReason),
}

impl NotFollowed {
    /// Returns the name in reports and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotAsked => "not_asked",
            Self::Inner(reason) => reason.name(),
        }
    }
}

/// The reason in words, after the name of the tunnel.
impl std::fmt::Display for NotFollowed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotAsked => "not followed, --decap was not given",
            Self::Inner(DropReason::NotIp) => "carries no IP packet",
            Self::Inner(DropReason::Encrypted) => "encrypted",
            Self::Inner(DropReason::Depth) => "too many nested headers",
            Self::Inner(DropReason::Unsupported) => "carries a link type that is not decoded",
            Self::Inner(reason) if reason.is_truncated() => "the record ends inside its headers",
            Self::Inner(DropReason::MalformedTunnel) => "its header contradicts itself",
            Self::Inner(_) => "a header inside contradicts itself",
        })
    }
}

/// A number of packets, and the first packet numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// Number of packets.
    pub packets: u64,
    /// The numbers of the first packets, at most [`FIRST_PACKETS_MAX`].
    pub first_packets: Vec<u64>,
}

impl Tally {
    fn count(&mut self, number: u64) {
        self.packets += 1;
        if self.first_packets.len() < FIRST_PACKETS_MAX {
            self.first_packets.push(number);
        }
    }

    fn append(&mut self, later: &Self, before: u64) {
        self.packets += later.packets;
        self.first_packets.extend(later.first_packets.iter().map(|number| number + before));
        self.first_packets.sort_unstable();
        self.first_packets.truncate(FIRST_PACKETS_MAX);
    }
}

/// Counts of the encapsulations in a run, by name.
///
/// [`look`](Self::look) is cheap for the usual packet: it returns before it looks up anything.
/// [`merge`](Self::merge) adds up the counts of several threads.
///
/// # Examples
///
/// ```
/// use flowloom_packet::census::EncapsulationCounts;
/// use flowloom_packet::{DecodeOptions, LinkType, decode};
///
/// let mut frame = vec![0; 12];
/// frame.extend([0x08, 0x06]); // ARP
/// let options = DecodeOptions::new();
/// let decoded = decode(LinkType::ETHERNET, &frame, options);
/// let mut counts = EncapsulationCounts::default();
/// counts.look(1, LinkType::ETHERNET, &frame, options, decoded.as_ref());
/// let (unknown, tally) = counts.unknown().next().unwrap();
/// assert_eq!((unknown.to_string().as_str(), tally.packets), ("Ethertype 0x0806 (ARP)", 1));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncapsulationCounts {
    followed: BTreeMap<&'static str, Tally>,
    not_followed: BTreeMap<(&'static str, NotFollowed), Tally>,
    /// Tunnels directly within another one, the outer name first.
    nested: BTreeMap<(&'static str, &'static str), Tally>,
    unknown: BTreeMap<Unknown, Tally>,
    other_unknown: u64,
    no_key: BTreeMap<DropReason, Tally>,
    ip_beyond_frame: Tally,
    wire_impossible: Tally,
    /// The bytes that count for these packets.
    wire_replaced: u64,
}

impl EncapsulationCounts {
    /// Counts packet `number` with the decoder's result.
    #[inline]
    pub fn look(
        &mut self,
        number: u64,
        link: LinkType,
        bytes: &[u8],
        options: DecodeOptions,
        decoded: Result<&Headers, &DropReason>,
    ) {
        const ETHERNET_BYTES: u32 = 14;
        use flowloom_flow_key::protocol::TCP;
        if let Err(reason) = decoded {
            self.no_key.entry(*reason).or_default().count(number);
        }
        if let Ok(headers) = decoded
            && link == LinkType::ETHERNET
            && headers.network_offset == ETHERNET_BYTES
            && headers.key.protocol() == TCP
            && (bytes.get(14) == Some(&0x45) || bytes.get(20) == Some(&TCP))
        {
            return;
        }
        self.explain(number, link, bytes, options);
    }

    /// Counts packet `number` if its IP packet states more bytes than its frame has, or its record
    /// more than a frame of the packet can have. Returns the bytes on the wire, which in the second
    /// case are those up to the end of the IP packet.
    #[inline(always)]
    pub fn look_at_length(&mut self, number: u64, headers: &Headers, bytes: &[u8], wire: u32) -> u32 {
        let end = headers.end();
        // One comparison for the usual packet: the frame ends with the IP packet or soon after it.
        if wire.wrapping_sub(end) <= TRAILER_BYTES_MAX {
            return wire;
        }
        // Without the headers' address: if a call took it, the compiler would keep them in memory,
        // and the next reads of all packets would wait for the decoder's stores.
        self.look_at_odd_length(number, bytes, [wire, end], headers.length_at())
    }

    /// Counts packet `number`, which has no flow key, if its record states more bytes than its
    /// frame can have. Returns the bytes on the wire, which then are the captured ones.
    pub fn look_at_length_without_key(&mut self, number: u64, bytes: &[u8], wire: u32) -> u32 {
        let captured = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        if wire.saturating_sub(captured) <= TRAILER_BYTES_MAX {
            return wire;
        }
        self.wire_impossible.count(number);
        self.wire_replaced += u64::from(captured);
        captured
    }

    #[cold]
    #[inline(never)]
    fn look_at_odd_length(
        &mut self,
        number: u64,
        bytes: &[u8],
        [wire, end]: [u32; 2],
        length_at: usize,
    ) -> u32 {
        if end as usize > bytes.len().max(wire as usize) {
            self.ip_beyond_frame.count(number);
            return wire;
        }
        let possible = possible_wire_bytes(bytes, wire, end, length_at);
        if possible != wire {
            self.wire_impossible.count(number);
            self.wire_replaced += u64::from(possible);
        }
        possible
    }

    #[cold]
    fn explain(&mut self, number: u64, link: LinkType, bytes: &[u8], options: DecodeOptions) {
        let mut trace = Trace::default();
        // The census also looks into tunnels without `decap`, so that a report can show the effect
        // of `decap`.
        let decoded = decode_traced(link, bytes, options.with_decap(true), &trace);
        let usual = &["link_ethernet"];
        self.count((number, link), &decoded, trace.steps(), usual, options.decap);
    }

    /// Counts a packet by the steps that the decoder took with `decap`, or without if no tunnel is
    /// in sight. Encapsulations of the names in `usual` are not counted.
    fn count(
        &mut self,
        (number, link): (u64, LinkType),
        decoded: &Result<Headers, DropReason>,
        steps: &Steps,
        usual: &[&str],
        decap: bool,
    ) {
        for (i, entry) in steps.path.iter().enumerate() {
            if usual.contains(&entry.name) || steps.path[..i].iter().any(|outer| outer.name == entry.name) {
                continue;
            }
            if entry.is_tunnel() && !decap {
                self.not_followed.entry((entry.name, NotFollowed::NotAsked)).or_default().count(number);
            } else {
                self.followed.entry(entry.name).or_default().count(number);
            }
        }
        let tunnels = || steps.path.iter().filter(|entry| entry.is_tunnel()).map(|entry| entry.name);
        let pairs = || tunnels().zip(tunnels().skip(1));
        for (i, pair) in pairs().enumerate() {
            if pairs().take(i).all(|outer| outer != pair) {
                self.nested.entry(pair).or_default().count(number);
            }
        }
        for (entry, reason) in &steps.left {
            let key = (entry.name, NotFollowed::Inner(*reason));
            self.not_followed.entry(key).or_default().count(number);
        }
        // A record that ends inside a tunnel's header counts for that tunnel.
        if let (Err(reason), Some(entry)) = (decoded, steps.path.last())
            && decap
            && entry.is_tunnel()
        {
            self.not_followed.entry((entry.name, NotFollowed::Inner(*reason))).or_default().count(number);
        }
        if let Some(unknown) = steps.unknown(link, decoded) {
            if self.unknown.len() < UNKNOWN_MAX || self.unknown.contains_key(&unknown) {
                self.unknown.entry(unknown).or_default().count(number);
            } else {
                self.other_unknown += 1;
            }
        }
    }

    /// Adds other counts to these. Numbers that are unknown to both count together, as long as
    /// neither side has reached its limit.
    pub fn merge(&mut self, other: &Self) {
        self.append(other, 0);
    }

    /// Adds the counts of packets that follow the first `before` packets, and whose numbers begin
    /// again with 1.
    pub fn append(&mut self, later: &Self, before: u64) {
        for (name, tally) in &later.followed {
            self.followed.entry(name).or_default().append(tally, before);
        }
        for (pair, tally) in &later.nested {
            self.nested.entry(*pair).or_default().append(tally, before);
        }
        for (key, tally) in &later.not_followed {
            self.not_followed.entry(*key).or_default().append(tally, before);
        }
        let mut unknown: Vec<(&Unknown, &Tally)> = later.unknown.iter().collect();
        // The first numbers to be seen are the ones that are counted separately.
        unknown.sort_by_key(|(_, tally)| tally.first_packets.first());
        for (unknown, tally) in unknown {
            if self.unknown.len() < UNKNOWN_MAX || self.unknown.contains_key(unknown) {
                self.unknown.entry(*unknown).or_default().append(tally, before);
            } else {
                self.other_unknown += tally.packets;
            }
        }
        self.other_unknown += later.other_unknown;
        self.ip_beyond_frame.append(&later.ip_beyond_frame, before);
        self.wire_impossible.append(&later.wire_impossible, before);
        self.wire_replaced += later.wire_replaced;
        for (reason, tally) in &later.no_key {
            self.no_key.entry(*reason).or_default().append(tally, before);
        }
    }

    /// Returns the packets whose IP length exceeds their frame.
    pub fn ip_beyond_frame(&self) -> &Tally {
        &self.ip_beyond_frame
    }

    /// Returns the packets whose record states more bytes on the wire than a frame of theirs can
    /// have.
    pub fn wire_impossible(&self) -> &Tally {
        &self.wire_impossible
    }

    /// Returns the bytes that count for those packets in place of what their records state.
    pub fn wire_replaced_bytes(&self) -> u64 {
        self.wire_replaced
    }

    /// Returns the packets without a flow key, by reason.
    pub fn no_key(&self) -> impl Iterator<Item = (DropReason, &Tally)> {
        self.no_key.iter().map(|(&reason, tally)| (reason, tally))
    }

    /// Returns the encapsulations that were followed, by name. A packet counts once for each.
    pub fn followed(&self) -> impl Iterator<Item = (&'static str, &Tally)> {
        self.followed.iter().map(|(&name, tally)| (name, tally))
    }

    /// Returns the tunnels that lie directly within another one, followed or not: the names of the
    /// outer and the inner one.
    pub fn nested(&self) -> impl Iterator<Item = ([&'static str; 2], &Tally)> {
        self.nested.iter().map(|(&(outer, inner), tally)| ([outer, inner], tally))
    }

    /// Returns the tunnels that were not followed, by name and reason.
    pub fn tunnel_not_followed(&self) -> impl Iterator<Item = (&'static str, NotFollowed, &Tally)> {
        self.not_followed.iter().map(|(&(name, reason), tally)| (name, reason, tally))
    }

    /// Returns the numbers that the decoder does not know.
    pub fn unknown(&self) -> impl Iterator<Item = (Unknown, &Tally)> {
        self.unknown.iter().map(|(&unknown, tally)| (unknown, tally))
    }

    /// Returns how many packets have an unknown number that is not counted separately.
    pub fn other_unknown(&self) -> u64 {
        self.other_unknown
    }
}

/// A decoder that counts the encapsulations of the packets that it decodes.
///
/// A usual packet costs no more than with [`decode`](crate::decode::decode): the census counts only
/// packets that go through the layers. It therefore counts neither VLAN tags of IEEE 802.1Q nor,
/// without [`decap`](DecodeOptions::decap), tunnels behind UDP ports. [`EncapsulationCounts::look`]
/// counts both.
///
/// # Examples
///
/// ```
/// use flowloom_packet::census::Census;
/// use flowloom_packet::{DecodeOptions, DropReason, LinkType};
///
/// let mut frame = vec![0; 12];
/// frame.extend([0x08, 0x06]); // ARP
/// let mut census = Census::default();
/// let decoded = census.decode(1, LinkType::ETHERNET, &frame, &DecodeOptions::new());
/// assert_eq!(decoded, Err(DropReason::NotIp));
/// assert_eq!(census.into_counts().unknown().count(), 1);
/// ```
#[derive(Debug, Default)]
pub struct Census {
    counts: EncapsulationCounts,
    trace: Trace,
}

impl Census {
    /// The encapsulations that usual packets have.
    const USUAL: [&str; 2] = ["link_ethernet", "vlan"];

    /// Decodes packet `number` as [`decode`](crate::decode::decode) does, and counts it.
    ///
    /// # Errors
    ///
    /// Same as [`decode`](crate::decode::decode).
    #[inline(always)]
    pub fn decode(
        &mut self,
        number: u64,
        link: LinkType,
        bytes: &[u8],
        options: &DecodeOptions,
    ) -> Result<Headers, DropReason> {
        // By reference: a copy of the options per packet would wait for its own store.
        match decode_usual(link, bytes, options) {
            Some(headers) => Ok(headers),
            None => self.decode_layered(number, link, bytes, options),
        }
    }

    #[inline(never)]
    fn decode_layered(
        &mut self,
        number: u64,
        link: LinkType,
        bytes: &[u8],
        &options: &DecodeOptions,
    ) -> Result<Headers, DropReason> {
        let Self { counts, trace } = self;
        trace.clear();
        let mut decoded = decode_traced(link, bytes, options, trace);
        if let Err(reason) = decoded {
            counts.no_key.entry(reason).or_default().count(number);
        }
        let may_be_tunnel = match &decoded {
            Ok(headers) => !has_ports(headers.key.protocol()),
            Err(_) => true,
        };
        if may_be_tunnel && !options.decap {
            trace.clear();
            let inside = decode_traced(link, bytes, options.with_decap(true), trace);
            counts.count((number, link), &inside, trace.steps(), &Self::USUAL, false);
        } else {
            counts.count((number, link), &decoded, trace.steps(), &Self::USUAL, options.decap);
        }
        key_errors(bytes, options, &mut decoded);
        decoded
    }

    /// Works as [`EncapsulationCounts::look_at_length_without_key`] does.
    pub fn look_at_length_without_key(&mut self, number: u64, bytes: &[u8], wire: u32) -> u32 {
        self.counts.look_at_length_without_key(number, bytes, wire)
    }

    /// Works as [`EncapsulationCounts::look_at_length`] does.
    #[inline(always)]
    pub fn look_at_length(&mut self, number: u64, headers: &Headers, bytes: &[u8], wire: u32) -> u32 {
        self.counts.look_at_length(number, headers, bytes, wire)
    }

    /// Adds the counts of packets that follow the first `before` packets, and whose numbers begin
    /// again with 1.
    pub fn append(&mut self, later: &Self, before: u64) {
        self.counts.append(&later.counts, before);
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> &EncapsulationCounts {
        &self.counts
    }

    /// Returns the counts.
    pub fn into_counts(self) -> EncapsulationCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::decode;
    use crate::decode::frames::{ethernet, ipv4, on, query, tag, udp};

    fn counted(packets: &[Vec<u8>], decap: bool) -> EncapsulationCounts {
        let mut counts = EncapsulationCounts::default();
        let options = DecodeOptions::new().with_decap(decap);
        for (number, packet) in (1..).zip(packets) {
            let decoded = decode(LinkType::ETHERNET, packet, options);
            counts.look(number, LinkType::ETHERNET, packet, options, decoded.as_ref());
        }
        counts
    }

    fn vxlan(inner: &[u8]) -> Vec<u8> {
        ethernet(0x0800, &ipv4(17, &udp(40_000, 4789, &on(&[8, 0, 0, 0, 0, 0, 1, 0], inner))))
    }

    fn packets() -> Vec<Vec<u8>> {
        vec![
            ethernet(0x0800, &query()),
            vxlan(&ethernet(0x0800, &query())),
            vxlan(&ethernet(0x0806, &[0; 28])),
            ethernet(0x8100, &tag(5, 0x0806, &[0; 28])),
            ethernet(0x0800, &ipv4(50, &[7; 40])),
            ethernet(0x0800, &ipv4(6, &[7; 40])),
        ]
    }

    #[test]
    fn a_tunnel_within_a_tunnel_is_counted_once_for_each_packet() {
        let two = vxlan(&vxlan(&ethernet(0x0800, &query())));
        let three = vxlan(&two);
        for decap in [true, false] {
            let counts = counted(&[two.clone(), three.clone()], decap);
            let nested: Vec<_> = counts.nested().map(|(pair, tally)| (pair, tally.packets)).collect();
            assert_eq!(nested, [(["vxlan", "vxlan"], 2)], "{decap}");
        }
    }

    #[test]
    fn tunnels_are_counted_by_name_with_or_without_decapsulation() {
        let figures = |counts: &EncapsulationCounts| {
            counts
                .tunnel_not_followed()
                .map(|(name, why, tally)| (name, why.name(), tally.packets, tally.first_packets.clone()))
                .collect::<Vec<_>>()
        };
        let plain = counted(&packets(), false);
        assert_eq!(
            figures(&plain),
            [
                ("esp", "encrypted", 1, vec![5]),
                ("vxlan", "not_asked", 1, vec![2]),
                ("vxlan", "not_ip", 1, vec![3])
            ]
        );
        let inside = counted(&packets(), true);
        assert_eq!(figures(&inside), [("esp", "encrypted", 1, vec![5]), ("vxlan", "not_ip", 1, vec![3])]);
        let followed: Vec<_> = inside.followed().map(|(name, tally)| (name, tally.packets)).collect();
        assert_eq!(followed, [("vlan", 1), ("vxlan", 1)]);
        let unknown: Vec<String> = inside.unknown().map(|(unknown, _)| unknown.to_string()).collect();
        assert_eq!(unknown, ["Ethertype 0x0806 (ARP)", "IP protocol 50 (ESP)"]);
    }

    #[test]
    fn counts_of_two_threads_add_up() {
        let all = packets();
        let mut one = counted(&all, true);
        one.merge(&counted(&all, true));
        let tally = one.unknown().next().map(|(_, tally)| (tally.packets, tally.first_packets.clone()));
        assert_eq!(tally, Some((2, vec![4, 4])));
    }

    #[test]
    fn counting_decoder_gives_equal_results_and_counts_slow_path_packets() {
        let mut packets = packets();
        packets.push(ethernet(0x0800, &ipv4(4, &query())));
        packets.push(ethernet(0x0800, &ipv4(4, &[7; 40])));
        for decap in [false, true] {
            let options = DecodeOptions::new().with_decap(decap).with_errors_by_flow(true);
            let mut census = Census::default();
            for (number, packet) in (1..).zip(&packets) {
                let counted = census.decode(number, LinkType::ETHERNET, packet, &options);
                assert_eq!(counted, decode(LinkType::ETHERNET, packet, options));
            }
            let looked = counted(&packets, decap);
            let without_tags = looked.followed().filter(|(name, _)| *name != "vlan");
            assert!(census.counts().followed().eq(without_tags), "tags are usual");
            let others = |counts: &EncapsulationCounts| -> Vec<(&str, NotFollowed, Tally)> {
                let all = counts.tunnel_not_followed();
                all.filter(|(name, ..)| *name != "vxlan").map(|(a, b, c)| (a, b, c.clone())).collect()
            };
            let counts = census.into_counts();
            assert_eq!(others(&counts), others(&looked), "VXLAN is behind a port");
            assert_eq!(counts.tunnel_not_followed().any(|(name, ..)| name == "vxlan"), decap);
            assert!(counts.unknown().eq(looked.unknown()));
        }
    }

    #[test]
    fn counts_of_later_packets_are_appended_with_their_numbers() {
        let all = packets();
        let whole = counted(&all, true);
        for cut in 0..=all.len() {
            let mut composed = counted(&all[..cut], true);
            composed.append(&counted(&all[cut..], true), cut as u64);
            assert_eq!(composed, whole, "cut behind {cut}");
        }
    }

    #[test]
    fn the_list_of_unknown_numbers_is_bounded() {
        let all: Vec<Vec<u8>> = (0..300).map(|number| ethernet(0xA000 + number, &[0; 46])).collect();
        let counts = counted(&all, false);
        assert_eq!(counts.unknown().count(), UNKNOWN_MAX);
        assert_eq!(counts.other_unknown(), 44);
    }
}
