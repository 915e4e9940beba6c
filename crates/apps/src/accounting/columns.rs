//! The columns of records in one table: names, units, IPFIX elements and values.

use std::fmt::{self, Write};
use std::iter;
use std::net::IpAddr;

use super::fields::{FieldColumn, FieldGroup};
use super::{AccountingRecord, CommunityId};

/// One value of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordValue {
    /// An address.
    Address(IpAddr),
    /// A number in the unit of its column.
    Number(u64),
    /// A set of bits.
    Bits(u64),
    /// One of a fixed set of words.
    Word(&'static str),
    /// A Community ID.
    CommunityId(CommunityId),
    /// The record has no such value: an empty field in text, `null` in JSON.
    None,
}

impl fmt::Display for RecordValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Bits(bits) => write!(f, "{bits:#x}"),
            Self::Word(word) => word.fmt(f),
            Self::CommunityId(id) => id.fmt(f),
            Self::None => Ok(()),
        }
    }
}

impl<T: Into<u64>> From<Option<T>> for RecordValue {
    fn from(number: Option<T>) -> Self {
        number.map_or(Self::None, |number| Self::Number(number.into()))
    }
}

/// When a writer includes a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ColumnGroup {
    /// The writer includes it by default.
    Default,
    /// The writer includes it on request, because computing it takes time.
    Extra,
    /// The writer includes it on request, because it shows internals of the program.
    Internal,
}

/// A column of records.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RecordColumn {
    /// The name: the heading in CSV, and the key in JSON.
    pub name: &'static str,
    /// The unit or the kind of the value.
    pub unit: &'static str,
    /// The numbers and names of the IPFIX elements that hold the value. Elements of the reverse
    /// direction have enterprise number 29305.
    pub ipfix: &'static [(u16, &'static str)],
    /// What the value means, in one sentence.
    pub description: &'static str,
    /// When a writer includes the column.
    pub group: ColumnGroup,
    value: fn(&AccountingRecord) -> RecordValue,
}

impl RecordColumn {
    /// All columns in output order.
    pub const ALL: &'static [Self] = COLUMNS;

    /// Returns the columns that a writer includes by default.
    pub fn defaults() -> impl Iterator<Item = &'static Self> {
        COLUMNS.iter().filter(|column| column.group == ColumnGroup::Default)
    }

    /// Returns the value of this column in a record.
    #[must_use]
    pub fn value(&self, record: &AccountingRecord) -> RecordValue {
        (self.value)(record)
    }

    /// Returns the column with a name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        COLUMNS.iter().find(|column| column.name == name)
    }
}

const fn column(
    name: &'static str,
    unit: &'static str,
    ipfix: &'static [(u16, &'static str)],
    description: &'static str,
    value: fn(&AccountingRecord) -> RecordValue,
) -> RecordColumn {
    RecordColumn { name, unit, ipfix, description, group: ColumnGroup::Default, value }
}

const fn internal(
    name: &'static str,
    unit: &'static str,
    description: &'static str,
    value: fn(&AccountingRecord) -> RecordValue,
) -> RecordColumn {
    RecordColumn { name, unit, ipfix: &[], description, group: ColumnGroup::Internal, value }
}

const COLUMNS: &[RecordColumn] = &[
    column(
        "source",
        "address",
        &[(8, "sourceIPv4Address"), (27, "sourceIPv6Address")],
        "The initiator of the connection; `direction` says how it is known.",
        |record| RecordValue::Address(record.source),
    ),
    column(
        "destination",
        "address",
        &[(12, "destinationIPv4Address"), (28, "destinationIPv6Address")],
        "The other end.",
        |record| RecordValue::Address(record.destination),
    ),
    column(
        "source_port",
        "number",
        &[(7, "sourceTransportPort")],
        "The port of the source; 0 if the protocol has no ports (ICMP).",
        |record| RecordValue::Number(record.source_port.into()),
    ),
    column(
        "destination_port",
        "number",
        &[(11, "destinationTransportPort")],
        "The port of the destination; 0 if the protocol has no ports (ICMP).",
        |record| RecordValue::Number(record.destination_port.into()),
    ),
    column("protocol", "number", &[(4, "protocolIdentifier")], "The IP protocol.", |record| {
        RecordValue::Number(record.protocol.into())
    }),
    column("protocol_name", "word", &[], "IANA's name of the IP protocol, in lower case.", |record| {
        record.protocol_name().map_or(RecordValue::None, RecordValue::Word)
    }),
    column(
        "start",
        "ns since 1970",
        &[(156, "flowStartNanoseconds"), (154, "flowStartMicroseconds")],
        "The time of the record's first packet.",
        |record| RecordValue::Number(record.start_ns),
    ),
    column(
        "end",
        "ns since 1970",
        &[(157, "flowEndNanoseconds"), (155, "flowEndMicroseconds")],
        "The time of the record's last packet.",
        |record| RecordValue::Number(record.end_ns),
    ),
    column("packets", "packets", &[(2, "packetDeltaCount")], "Packets from the source.", |record| {
        RecordValue::Number(record.packets)
    }),
    column(
        "bytes",
        "bytes",
        &[(352, "layer2OctetDeltaCount")],
        "The bytes of these packets on the wire, link layer included.",
        |record| RecordValue::Number(record.bytes),
    ),
    column(
        "ip_bytes",
        "bytes",
        &[(1, "octetDeltaCount")],
        "The IP bytes of these packets, headers included.",
        |record| RecordValue::Number(record.ip_bytes),
    ),
    column(
        "reverse_packets",
        "packets",
        &[(2, "reversePacketDeltaCount")],
        "Packets from the destination.",
        |record| RecordValue::Number(record.reverse_packets),
    ),
    column(
        "reverse_bytes",
        "bytes",
        &[(352, "reverseLayer2OctetDeltaCount")],
        "The bytes of these packets on the wire, link layer included.",
        |record| RecordValue::Number(record.reverse_bytes),
    ),
    column(
        "reverse_ip_bytes",
        "bytes",
        &[(1, "reverseOctetDeltaCount")],
        "The IP bytes of these packets, headers included.",
        |record| RecordValue::Number(record.reverse_ip_bytes),
    ),
    column(
        "tcp_flags",
        "bits",
        &[(6, "tcpControlBits")],
        "The union of the TCP flags from the source: FIN 1, SYN 2, RST 4, PSH 8, ACK 0x10, URG 0x20, ECE 0x40, \
         CWR 0x80, AE 0x100.",
        |record| RecordValue::Bits(record.tcp_flags.into()),
    ),
    column(
        "reverse_tcp_flags",
        "bits",
        &[(6, "reverseTcpControlBits")],
        "The union of the TCP flags from the destination.",
        |record| RecordValue::Bits(record.reverse_tcp_flags.into()),
    ),
    column(
        "icmp_type",
        "number",
        &[(32, "icmpTypeCodeIPv4"), (139, "icmpTypeCodeIPv6")],
        "The type of the record's first ICMP message; in IPFIX type × 256 + code.",
        |record| record.icmp.map(|[icmp_type, _]| icmp_type).into(),
    ),
    column(
        "icmp_code",
        "number",
        &[(32, "icmpTypeCodeIPv4"), (139, "icmpTypeCodeIPv6")],
        "The code of the record's first ICMP message.",
        |record| record.icmp.map(|[_, code]| code).into(),
    ),
    column(
        "vlan",
        "number",
        &[(58, "vlanId"), (243, "dot1qVlanId")],
        "The id of the only VLAN or of the outer of two; missing with more than two VLANs or a tunnel.",
        |record| record.vlans[0].into(),
    ),
    column(
        "customer_vlan",
        "number",
        &[(245, "dot1qCustomerVlanId")],
        "The id of the inner of two VLANs.",
        |record| record.vlans[1].into(),
    ),
    column(
        "direction",
        "word",
        &[(239, "biflowDirection")],
        "How the source is known. It sent a `syn`, it received a `syn_ack`, or it sent the `first_packet` of a flow \
         without a handshake. `arbitrary`: it sent the first captured packet of a TCP connection whose opening was \
         not captured. IPFIX has 0 for `arbitrary` and 1 otherwise.",
        |record| RecordValue::Word(record.direction.name()),
    ),
    column(
        "end_reason",
        "word",
        &[(136, "flowEndReason")],
        "Why the record ended: `idle` (1) or `active` timeout (2); `fin`, `reset`, or a `new_connection` on the same \
         ports (3); `end` of the input (4); `evicted` from a full table (5). The numbers are the values in IPFIX.",
        |record| RecordValue::Word(record.end_reason.name()),
    ),
    RecordColumn {
        name: "community_id",
        unit: "text",
        ipfix: &[],
        description: "The Community ID, version 1 with seed 0: the flow id that other tools also compute.",
        group: ColumnGroup::Extra,
        value: |record| RecordValue::CommunityId(record.community_id()),
    },
    internal(
        "icmp_identifier",
        "number",
        "The identifier that joins ICMP queries and their replies to one flow.",
        |record| record.icmp_identifier.into(),
    ),
    internal("low", "address", "The lower endpoint of the flow's key.", |record| {
        RecordValue::Address(record.key.low_address())
    }),
    internal("low_port", "number", "The port of the lower endpoint.", |record| {
        RecordValue::Number(record.key.low_port().into())
    }),
    internal("high", "address", "The higher endpoint of the flow's key.", |record| {
        RecordValue::Address(record.key.high_address())
    }),
    internal("high_port", "number", "The port of the higher endpoint.", |record| {
        RecordValue::Number(record.key.high_port().into())
    }),
    internal(
        "zone",
        "number",
        "A number that separates flows with equal addresses and ports, from VLAN ids and tunnels. In IPFIX \
         `ingressVRFID` (234).",
        |record| RecordValue::Number(record.key.zone().into()),
    ),
    internal("pass", "number", "The pass over a looped capture, from 0.", |record| {
        RecordValue::Number(record.key.pass().into())
    }),
];

/// Returns the reference of all columns, which is the page `docs/records.md`.
#[must_use]
pub fn reference() -> String {
    let mut page = String::from(INTRODUCTION);
    for (heading, group) in [
        ("Columns", ColumnGroup::Default),
        ("Optional columns", ColumnGroup::Extra),
        ("Internal columns", ColumnGroup::Internal),
    ] {
        let _ = write!(
            page,
            "\n## {heading}\n\n| Column | Unit | IPFIX | Meaning |\n| --- | --- | --- | --- |\n"
        );
        for column in COLUMNS.iter().filter(|column| column.group == group) {
            let elements: Vec<String> =
                column.ipfix.iter().map(|(number, name)| format!("`{name}` ({number})")).collect();
            let elements = if elements.is_empty() { String::from("–") } else { elements.join(", ") };
            let _ = writeln!(
                page,
                "| `{}` | {} | {elements} | {} |",
                column.name, column.unit, column.description
            );
        }
    }
    page.push_str(FIELDS);
    for group in FieldGroup::ALL {
        let columns = group.columns();
        let reverse_of =
            |name: &str| columns.iter().find(|column| column.name.strip_prefix("reverse_") == Some(name));
        for column in columns.iter().filter(|column| !column.name.starts_with("reverse_")) {
            let pair: Vec<&FieldColumn> = iter::once(column).chain(reverse_of(column.name)).collect();
            let names: Vec<String> = pair.iter().map(|column| format!("`{}`", column.name)).collect();
            let elements: Vec<String> = pair
                .iter()
                .filter_map(|column| column.ipfix)
                .map(|(number, name)| format!("`{name}` ({number})"))
                .collect();
            let elements = if elements.is_empty() { String::from("–") } else { elements.join(", ") };
            let _ = writeln!(
                page,
                "| {} | `{}` | {} | {elements} | {} |",
                names.join(", "),
                group.name(),
                column.unit,
                column.description
            );
        }
    }
    page.push_str(OTHERS);
    page
}

const FIELDS: &str = "
## Additional fields, by group

`--fields` takes a comma-separated list of groups, or `all`; `--where` reads the columns of all groups. In the library they
are the types of `flowloom_apps::accounting::fields`. A run computes only the groups that you select. The description of a pair
of columns is that of the first; the `reverse_` column is the same for the packets of the destination.

The fields from payload keep text, and up to 4 KiB of each direction while its first message is incomplete, outside of the flow
table. Where `--memory` (by default what is free) does not suffice for them, the oldest go first: their text columns are
`(no memory)`, their number columns are empty, and the report counts them (`fields_dropped`). The record itself stays.

* Fields of TCP come from the first bytes of each direction, at most 4,096, in sequence. If the first bytes were not captured,
  as in the records after an active timeout, the fields are empty. Flowloom does not read handshakes inside another protocol
  (STARTTLS, a proxy), DTLS, the encrypted ClientHello of QUIC, or HTTP/2.
* The text of `tls`, `dns`, `http`, `quic` and `ssh` is what the hosts sent: printable ASCII, at most 255 bytes. `\\xNN` stands
  for any other byte and `\\\\` for a backslash. DNS names have their presentation format: `\\DDD` for a byte, `\\.` for a dot in
  a label.
* IPFIX has no elements for the columns marked `–`, and NetFlow v9 has none for any of them. EVE nests the fields in the flow
  event under Suricata's names. Zeek's `conn.log` derives its `service` from them.

| Column | Group | Unit | IPFIX | Meaning |
| --- | --- | --- | --- | --- |
";

const OTHERS: &str = "
## Records of other applications

`--app null`, `tcp-tracker`, `firewall` and `l7` write CSV and JSON lines. Their records start with `source`, `destination`,
`source_port`, `destination_port` and `protocol`, which have the meanings above, followed by the columns of the application. A
column `x` counts the direction from the source, and `reverse_x` the other direction. If the application does not know the
source (`null`, or `l7` and `firewall` without a handshake), the source is the lower endpoint.

`--columns` selects columns of these records too. It also accepts `low_address`, `low_port`, `high_address`, `high_port`,
`zone`, `pass`, `icmp_identifier`, `x_low_to_high`, `x_high_to_low`, `source_end` and `first_sender`.
";

const INTRODUCTION: &str = "\
# Records

`replay --app accounting --flows` writes a CSV line, a JSON line or an IPFIX data record per flow record. A record describes a
connection, or a flow without connections, or an interval of either. It begins where the previous record of the flow has ended.

* The source is the same in all records of a connection, even if an active timeout splits it. It is the end that sent the SYN;
  otherwise the end that received the SYN+ACK; otherwise the end that sent the first packet.
* A SYN or SYN+ACK with a sequence number that differs from the connection's starts a new record. One with the same number is a
  retransmission.
* A connection closes with FINs of both sides, or with an RST inside the window that the other side announced. FINs carry over
  from one record to the next. With `--closed-timeout` (5 s with `--iface`) the record ends, and is written, once no packet has
  arrived for that time.
* ICMP queries and their replies (echo, timestamp, information, address mask, extended echo) form flows by identifier and kind.
  Other ICMP messages form flows by type and code. ICMP has no ports.
* With `--defrag` packets and bytes are those of the fragments on the wire, duplicates included, and a record starts with its
  first fragment. They count once the datagram is complete; `not_tracked` in the report counts the others by reason. In a tunnel,
  the IP bytes are those of the inner packet. The additional fields describe the datagram. Without `--defrag` fragments after the
  first form a flow of their own.
* Reverse elements of IPFIX have the enterprise number 29305 (RFC 5103). Missing values are empty in CSV, `null` in JSON and 0
  in IPFIX. Parquet and Arrow have no times after April 2262; there they are missing. NetFlow v9 has no start that lies more than
  seven weeks before the end; such a record starts seven weeks before its end.

## When records are written

* A record is written when it ends: by a timeout, by a close, or at the end of the input. With `--iface` and in `bridge` time passes
  by the clock, so a record is written within a second or so of its timeout although no packet arrives, or none that `--filter`
  selects. With captures time passes with their packets, so the records do not depend on the speed of the run.
* With `--iface` and in `bridge` the header of CSV and of Zeek's log, the schema of Arrow and the templates of IPFIX are written
  within a second of the start. Records reach the output within a second.
* A `bridge` goes on when its output fails ([bridge.md](bridge.md#records)). Other commands end with status 5.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_found() {
        for (i, column) in COLUMNS.iter().enumerate() {
            assert!(COLUMNS[i + 1..].iter().all(|other| other.name != column.name), "{}", column.name);
            assert_eq!(RecordColumn::named(column.name).map(|found| found.name), Some(column.name));
        }
        assert!(RecordColumn::named("first_sender").is_none());
        assert!(RecordColumn::defaults().count() < COLUMNS.len());
    }

    #[test]
    fn the_page_is_that_of_the_table() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/records.md");
        let page = std::fs::read_to_string(path).unwrap();
        assert!(page == reference(), "docs/records.md must be:\n{}", reference());
    }
}
