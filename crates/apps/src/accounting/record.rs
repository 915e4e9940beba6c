//! A record with a source and a destination, as users see it.

use std::net::IpAddr;

use flowloom_flow_key::{Direction, FiveTuple, FlowKey, IpFamily};
use flowloom_packet::icmp::{ICMP, ICMPV6, has_identifier};
use flowloom_record::{Word, protocol_name};

use super::{Accounted, DirectionBasis, EndReason, EndedBy};

const ESP: u8 = 50;
const SOURCE: &str = "source";
const DESTINATION: &str = "destination";
const BOTH: &str = "both";
/// The values of [`AccountingRecord::open_fin`].
pub(super) const OPEN_FINS: [Word; 3] =
    [Word::new(SOURCE, 1), Word::new(DESTINATION, 2), Word::new(BOTH, 3)];

/// A record of accounting. Forward is from the source to the destination, and reverse is the other
/// direction.
///
/// # Examples
///
/// ```
/// use flowloom_apps::Accounting;
/// use flowloom_apps::accounting::{AccountingRecord, EndReason, EndedBy};
/// use flowloom_apps::engine::App;
/// use flowloom_apps::flow_key::FiveTuple;
/// use flowloom_packet::Headers;
///
/// let tuple = FiveTuple::v4([192, 0, 2, 9], [192, 0, 2, 1], 40_000, 53, 17);
/// let (key, direction) = tuple.canonical();
/// let mut flow = Default::default();
/// let headers = Headers::new(key, direction);
/// let packet = flowloom_packet::PacketView::new(&[], headers, 1_000_000_000, 60);
/// Accounting::default().on_packet(&packet, &mut flow);
/// let record = AccountingRecord::new(&key, &flow, EndedBy::EndOfInput);
/// assert_eq!((record.source.to_string(), record.destination_port), ("192.0.2.9".into(), 53));
/// assert_eq!((record.packets, record.reverse_packets), (1, 0));
/// assert_eq!(record.end_reason, EndReason::EndOfInput);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccountingRecord {
    /// The address of the source. [`direction`](Self::direction) describes how the source was
    /// determined.
    pub source: IpAddr,
    /// The address of the destination.
    pub destination: IpAddr,
    /// The port of the source; 0 if the protocol has no ports.
    pub source_port: u16,
    /// The port of the destination; 0 if the protocol has no ports.
    pub destination_port: u16,
    /// The number of the IP protocol.
    pub protocol: u8,
    /// The earliest time stamp of a packet, in nanoseconds since 1970.
    pub start_ns: u64,
    /// The latest time stamp of a packet, in nanoseconds since 1970.
    pub end_ns: u64,
    /// Forward packets.
    pub packets: u64,
    /// Forward bytes on the wire, link layer included.
    pub bytes: u64,
    /// Forward bytes of IP packets, their headers included.
    pub ip_bytes: u64,
    /// Reverse packets.
    pub reverse_packets: u64,
    /// Reverse bytes on the wire.
    pub reverse_bytes: u64,
    /// Reverse bytes of IP packets.
    pub reverse_ip_bytes: u64,
    /// The union of the nine TCP flags of forward packets.
    pub tcp_flags: u16,
    /// The union of the nine TCP flags of reverse packets.
    pub reverse_tcp_flags: u16,
    /// Type and code of the first ICMP message.
    pub icmp: Option<[u8; 2]>,
    /// The identifier of ICMP queries and replies.
    pub icmp_identifier: Option<u16>,
    /// The security parameters index of ESP, if it divides flows.
    pub spi: Option<u32>,
    /// The end whose FIN has no acknowledgement: `source`, `destination` or `both`.
    pub open_fin: Option<&'static str>,
    /// VLAN IDs, the outer one first. Unknown for more than two tags and for tunnels.
    pub vlans: [Option<u16>; 2],
    /// How the source was determined.
    pub direction: DirectionBasis,
    /// Packets stamped before an earlier packet of the record.
    pub times_back: u32,
    /// The reason why the record ended.
    pub end_reason: EndReason,
    /// The key of the flow in the flow table.
    pub key: FlowKey,
}

impl AccountingRecord {
    /// Returns the record of a flow. `ended` is the engine's reason.
    #[must_use]
    pub fn new(key: &FlowKey, flow: &Accounted, ended: EndedBy) -> Self {
        let way = flow.source_direction();
        let [there, back] = [way.index(), way.reversed().index()];
        let (start_ns, end_ns) = flow.times_ns();
        let Ends { source, destination, source_port, destination_port, protocol, icmp_identifier, spi } =
            Ends::from_key(key, way);
        let open_fins = flow.open_fins();
        Self {
            source,
            destination,
            source_port,
            destination_port,
            protocol,
            start_ns,
            end_ns,
            packets: flow.packets()[there],
            bytes: flow.bytes()[there],
            ip_bytes: flow.ip_bytes()[there],
            reverse_packets: flow.packets()[back],
            reverse_bytes: flow.bytes()[back],
            reverse_ip_bytes: flow.ip_bytes()[back],
            tcp_flags: flow.flags()[there],
            reverse_tcp_flags: flow.flags()[back],
            icmp: flow.icmp(),
            icmp_identifier,
            spi,
            open_fin: match [open_fins[there], open_fins[back]] {
                [true, true] => Some(BOTH),
                [true, false] => Some(SOURCE),
                [false, true] => Some(DESTINATION),
                [false, false] => None,
            },
            vlans: vlans(key.zone()),
            direction: flow.direction_basis(),
            times_back: flow.times_back(),
            end_reason: EndReason::from_record(flow, ended),
            key: *key,
        }
    }

    /// Returns the family of the record's addresses.
    #[must_use]
    pub fn family(&self) -> IpFamily {
        self.key.family()
    }

    /// Returns IANA's name of the IP protocol, in lower case.
    #[must_use]
    pub fn protocol_name(&self) -> Option<&'static str> {
        protocol_name(self.protocol)
    }
}

/// The two ends of a flow, as users see them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) protocol: u8,
    pub(crate) icmp_identifier: Option<u16>,
    pub(crate) spi: Option<u32>,
}

impl Ends {
    /// Returns the ends of a key. `way` is the direction of packets from the source.
    #[inline]
    pub(crate) fn from_key(key: &FlowKey, way: Direction) -> Self {
        let FiveTuple { source, destination, mut source_port, mut destination_port, protocol } =
            key.tuple(way);
        let (mut icmp_identifier, mut spi) = (None, None);
        if protocol == ESP {
            // The decoder stores the index in place of the ports, the upper half at the sender's.
            let index = u32::from(source_port) << 16 | u32::from(destination_port);
            spi = (index != 0).then_some(index);
            (source_port, destination_port) = (0, 0);
        }
        if matches!(protocol, ICMP | ICMPV6) {
            // The decoder stores the identifier in place of the ports.
            let identifier = std::mem::take(&mut source_port);
            let kind = key.message().to_be_bytes()[0];
            // Only later fragments have no type. An echo reply has type 0, and its request has 8.
            let has_one = key.message() != 0 && has_identifier(protocol, kind);
            icmp_identifier = has_one.then_some(identifier);
            destination_port = 0;
        }
        Self { source, destination, source_port, destination_port, protocol, icmp_identifier, spi }
    }
}

/// Returns the VLAN IDs of a zone: see the decoder's `Zone`.
fn vlans(zone: u32) -> [Option<u16>; 2] {
    let id = |value: u32| u16::try_from(value & 0xFFF).ok();
    match zone {
        1..=0xFFF => [id(zone), None],
        0x1000..=0xFF_FFFF => [id(zone >> 12), id(zone)],
        // The zone has no VLAN ID, or it mixes more than two tags or a tunnel.
        _ => [None, None],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_to_two_vlan_ids_are_recorded() {
        assert_eq!(vlans(0), [None, None]);
        assert_eq!(vlans(4095), [Some(4095), None]);
        assert_eq!(vlans(5 << 12 | 7), [Some(5), Some(7)]);
        assert_eq!(vlans(4095 << 12 | 4095), [Some(4095), Some(4095)]);
        assert_eq!(vlans(1 << 31 | 5), [None, None]);
    }
}
