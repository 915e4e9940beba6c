//! The columns of accounting records in one table, and their values.

use flowloom_record::{Column, Group, GroupSet, Kind, PROTOCOL_NAMES, Row, Schema, Value, element};

use super::record::OPEN_FINS;
use super::{AccountingRecord, DirectionBasis, EndReason};

const fn default(name: &'static str, kind: Kind, description: &'static str) -> Column {
    Column::new(name, kind, description).in_group(Group::Default)
}

const fn internal(name: &'static str, kind: Kind, description: &'static str) -> Column {
    Column::new(name, kind, description).in_group(Group::Internal)
}

const COLUMNS: &[Column] = &[
    default("source", Kind::Address, "The initiator of the connection; `direction` says how it is known.").with_elements(element::SOURCE),
    default("destination", Kind::Address, "The other end.").with_elements(element::DESTINATION),
    default("source_port", Kind::Port, "The port of the source; 0 if the protocol has no ports (ICMP).").with_elements(element::SOURCE_PORT),
    default("destination_port", Kind::Port, "The port of the destination; 0 if the protocol has no ports (ICMP).").with_elements(element::DESTINATION_PORT),
    default("protocol", Kind::Protocol, "The IP protocol.").with_elements(element::PROTOCOL),
    default("protocol_name", Kind::Word(PROTOCOL_NAMES), "IANA's name of the IP protocol, in lower case; empty for rare ones."),
    default("start", Kind::Time, "The earliest time stamp of the record's packets.").with_elements(element::START),
    default("end", Kind::Time, "The latest time stamp of the record's packets.").with_elements(element::END),
    default("packets", Kind::Packets, "Packets from the source.").with_elements(element::PACKETS),
    default("bytes", Kind::Bytes, "The bytes of these packets on the wire, link layer included.").with_elements(element::BYTES),
    default("ip_bytes", Kind::Bytes, "The IP bytes of these packets, headers included.").with_elements(element::IP_BYTES),
    default("reverse_packets", Kind::Packets, "Packets from the destination.").with_elements(element::REVERSE_PACKETS),
    default("reverse_bytes", Kind::Bytes, "The bytes of these packets on the wire, link layer included.").with_elements(element::REVERSE_BYTES),
    default("reverse_ip_bytes", Kind::Bytes, "The IP bytes of these packets, headers included.").with_elements(element::REVERSE_IP_BYTES),
    default("tcp_flags", Kind::Bits, "The union of the TCP flags from the source: FIN 1, SYN 2, RST 4, PSH 8, ACK 0x10, URG 0x20, ECE 0x40, \
         CWR 0x80, AE 0x100.").with_elements(element::TCP_FLAGS),
    default("reverse_tcp_flags", Kind::Bits, "The union of the TCP flags from the destination.").with_elements(element::REVERSE_TCP_FLAGS),
    default("icmp_type", Kind::Number, "The type of the record's first ICMP message; in IPFIX type × 256 + code.").with_elements(element::ICMP),
    default("icmp_code", Kind::Number, "The code of the record's first ICMP message.").with_elements(element::ICMP),
    default("vlan", Kind::Number, "The id of the only VLAN or of the outer of two; missing with more than two VLANs or a tunnel.").with_elements(element::VLAN),
    default("customer_vlan", Kind::Number, "The id of the inner of two VLANs.").with_elements(element::CUSTOMER_VLAN),
    default("direction", Kind::Word(&DirectionBasis::WORDS), "How the source is known. It sent a `syn`, it received a `syn_ack`, or it sent the `first_packet` of a flow \
         without a handshake. `arbitrary`: it sent the first captured packet of a TCP connection whose opening was \
         not captured. IPFIX has 0 for `arbitrary` and 1 otherwise.").with_elements(element::DIRECTION),
    default("end_reason", Kind::Word(&EndReason::WORDS), "Why the record ended: `idle` (1) or `active` timeout (2); `fin`, `reset`, or a `new_connection` on the same \
         ports (3); `end` of the input (4); `evicted` from a full table (5). The numbers are the values in IPFIX.").with_elements(element::END_REASON),
    default("times_back", Kind::Number, "Packets whose time stamp is before that of an earlier packet of the record; 0 if the packets stand in the order of \
         their time stamps."),
    Column::new(
        "community_id",
        Kind::Text,
        "The Community ID, version 1 with seed 0: the flow id that other tools also compute. For later fragments it has \
         the ports 0, where tshark has none.",
    )
    .in_group(Group::Extra),
    Column::new(
        "spi",
        Kind::Number,
        "The security parameters index of ESP, if `--esp-spi` divides flows by it.",
    )
    .with_elements(element::SPI)
    .in_group(Group::Extra),
    internal("icmp_identifier", Kind::Number, "The identifier that joins ICMP queries and their replies to one flow."),
    internal("open_fin", Kind::Word(&OPEN_FINS), "The end whose FIN has no acknowledgement: `source`, `destination` or `both`."),
    internal("low", Kind::Address, "The lower endpoint of the flow's key."),
    internal("low_port", Kind::Port, "The port of the lower endpoint."),
    internal("high", Kind::Address, "The higher endpoint of the flow's key."),
    internal("high_port", Kind::Port, "The port of the higher endpoint."),
    internal("zone", Kind::Number, "A number that separates flows with equal addresses and ports, from VLAN ids and tunnels.").with_elements(element::ZONE),
    internal("pass", Kind::Number, "The pass over a looped capture, from 0."),
];

impl AccountingRecord {
    /// The columns of records without additional fields, in the order of their values.
    pub const COLUMNS: &'static [Column] = COLUMNS;

    /// Returns the schema of records without additional fields.
    #[must_use]
    pub fn schema() -> Schema {
        Schema::new(COLUMNS)
    }

    /// Appends one value per column. Values of groups outside of `groups` may be missing; the zone,
    /// which IPFIX has, is not.
    #[inline]
    pub fn values(&self, groups: GroupSet, out: &mut Vec<Value>) {
        let number = |number: u16| Value::Number(number.into());
        let [kind, code] = self.icmp.map_or([None; 2], |message| message.map(Some));
        out.extend([
            Value::Address(self.source),
            Value::Address(self.destination),
            number(self.source_port),
            number(self.destination_port),
            number(self.protocol.into()),
            self.protocol_name().map_or(Value::None, Value::Word),
            Value::Number(self.start_ns),
            Value::Number(self.end_ns),
            Value::Number(self.packets),
            Value::Number(self.bytes),
            Value::Number(self.ip_bytes),
            Value::Number(self.reverse_packets),
            Value::Number(self.reverse_bytes),
            Value::Number(self.reverse_ip_bytes),
            Value::Bits(self.tcp_flags.into()),
            Value::Bits(self.reverse_tcp_flags.into()),
            kind.into(),
            code.into(),
            self.vlans[0].into(),
            self.vlans[1].into(),
            Value::Word(self.direction.name()),
            Value::Word(self.end_reason.name()),
            Value::Number(self.times_back.into()),
            if groups.contains(Group::Extra) {
                Value::CommunityId(self.community_id())
            } else {
                Value::None
            },
            self.spi.into(),
        ]);
        let open_fin = self.open_fin.map_or(Value::None, Value::Word);
        let zone = Value::Number(self.key.zone().into());
        if groups.contains(Group::Internal) {
            out.extend([
                self.icmp_identifier.into(),
                open_fin,
                Value::Address(self.key.low_address()),
                number(self.key.low_port()),
                Value::Address(self.key.high_address()),
                number(self.key.high_port()),
                zone,
                Value::Number(self.key.pass().into()),
            ]);
        } else {
            const NONE: Value = Value::None;
            out.extend([NONE, open_fin, NONE, NONE, NONE, NONE, zone, NONE]);
        }
    }

    /// Returns the values of all columns.
    #[must_use]
    pub fn row(&self) -> Row {
        let mut row = Row::new(self.key);
        self.values(GroupSet::ALL, &mut row.values);
        row
    }
}

#[cfg(test)]
mod tests {
    use flowloom_flow_key::FlowKey;

    use super::*;
    use crate::accounting::{Accounted, EndedBy};

    #[test]
    fn every_column_has_its_value() {
        let (key, _) = FlowKey::from_v4(0x0A00_0002, 0x0A00_0001, 40_000, 443, 6);
        let row = AccountingRecord::new(&key, &Accounted::default(), EndedBy::EndOfInput).row();
        assert_eq!(row.values.len(), COLUMNS.len());
        let value = |name| row.value(AccountingRecord::schema().named(name).unwrap().index).to_string();
        assert_eq!((value("source_port"), value("low_port")), ("443".into(), "443".into()));
        assert_eq!((value("high"), value("end_reason")), ("10.0.0.2".into(), "end".into()));
        assert!(value("community_id").starts_with("1:"));
    }
}
