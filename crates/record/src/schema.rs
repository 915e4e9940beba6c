//! The columns of a record in order, and a record's values in the same order.

use std::fmt;

use flowloom_flow_key::FlowKey;

use crate::{Column, Derived, GroupSet, Kind, Value, Word};

/// The columns that records have, in the order of the values of a [`Row`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    columns: Vec<Column>,
}

/// A column, and the position of its value in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaColumn {
    /// The position. [Derived](Derived) values stand behind those of the columns.
    pub index: usize,
    /// The column.
    pub column: Column,
}

impl Schema {
    /// Returns the schema with these columns.
    #[must_use]
    pub fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self { columns: columns.into() }
    }

    /// Gives a column of words, whose set only the configuration knows, this set.
    #[must_use]
    pub fn with_words(mut self, name: &str, words: &'static [Word]) -> Self {
        for column in self.columns.iter_mut().filter(|column| column.name == name) {
            column.kind = Kind::Word(words);
        }
        self
    }

    /// Returns the columns.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the columns with their positions.
    pub fn iter(&self) -> impl Iterator<Item = SchemaColumn> + '_ {
        self.columns.iter().enumerate().map(|(index, &column)| SchemaColumn { index, column })
    }

    /// Returns the column of a record with a name.
    pub(crate) fn stored(&self, name: &str) -> Option<SchemaColumn> {
        self.iter().find(|found| found.column.name == name)
    }

    /// Returns the column with a name, which may be [derived](Derived).
    #[must_use]
    pub fn named(&self, name: &str) -> Option<SchemaColumn> {
        let derived = || (self.columns.len()..).zip(Derived::all(self));
        let derived =
            || derived().map(|(index, derived)| SchemaColumn { index, column: *derived.column() });
        self.stored(name).or_else(|| derived().find(|found| found.column.name == name))
    }

    /// Returns the columns of the source and of the destination that a name of either end stands
    /// for: `address` or `port`.
    #[must_use]
    pub fn ends(&self, name: &str) -> Option<[SchemaColumn; 2]> {
        let (source, destination) = match name {
            "address" => ("source", "destination"),
            "port" => ("source_port", "destination_port"),
            _ => return None,
        };
        Some([self.stored(source)?, self.stored(destination)?])
    }

    /// Returns the names of all columns, also of derived ones and of either end.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        let columns = self.columns.iter().map(|column| column.name);
        let ends = ["address", "port"].into_iter().filter(|name| self.ends(name).is_some());
        columns.chain(ends).chain(Derived::all(self).iter().map(|derived| derived.column().name)).collect()
    }

    /// Returns the column that an IPFIX element holds, in the direction from the source.
    #[must_use]
    pub fn with_element(&self, number: u16) -> Option<SchemaColumn> {
        let has =
            |column: &Column| column.elements.iter().any(|one| one.number == number && !one.is_reverse);
        self.iter().find(|found| has(&found.column))
    }

    /// Returns the columns of these groups.
    #[must_use]
    pub fn of_groups(&self, groups: GroupSet) -> Vec<SchemaColumn> {
        self.iter().filter(|found| groups.contains(found.column.group)).collect()
    }

    /// Returns the columns with these names, in the order of the names, each once. A name of either
    /// end stands for [both](Self::ends).
    ///
    /// # Errors
    ///
    /// The unknown name, with the valid ones.
    pub fn select<S: AsRef<str>>(&self, names: &[S]) -> Result<Vec<SchemaColumn>, UnknownColumn> {
        let mut found: Vec<SchemaColumn> = Vec::new();
        for name in names.iter().map(S::as_ref) {
            let columns = match (self.ends(name), self.named(name)) {
                (Some(ends), _) => ends.to_vec(),
                (_, Some(column)) => vec![column],
                _ => return Err(UnknownColumn { name: name.to_owned(), valid: self.names() }),
            };
            for column in columns {
                if !found.contains(&column) {
                    found.push(column);
                }
            }
        }
        Ok(found)
    }
}

/// A name that no column has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownColumn {
    name: String,
    valid: Vec<&'static str>,
}

impl fmt::Display for UnknownColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown column '{}'{}", self.name, advice(&self.name, &self.valid))
    }
}

impl std::error::Error for UnknownColumn {}

/// What other programs call columns: Wireshark, Zeek, Suricata, nfdump and `NFStream`; and what
/// people call them. A name may stand for several columns.
const ELSEWHERE: &[(&str, &str)] = &[
    ("ip.src", "source"),
    ("ipv6.src", "source"),
    ("src", "source"),
    ("src_ip", "source"),
    ("srcip", "source"),
    ("sa", "source"),
    ("id.orig_h", "source"),
    ("ip.dst", "destination"),
    ("ipv6.dst", "destination"),
    ("dst", "destination"),
    ("dst_ip", "destination"),
    ("dest_ip", "destination"),
    ("dstip", "destination"),
    ("da", "destination"),
    ("id.resp_h", "destination"),
    ("tcp.srcport", "source_port"),
    ("udp.srcport", "source_port"),
    ("src_port", "source_port"),
    ("id.orig_p", "source_port"),
    ("tcp.dstport", "destination_port"),
    ("udp.dstport", "destination_port"),
    ("dst_port", "destination_port"),
    ("dest_port", "destination_port"),
    ("id.resp_p", "destination_port"),
    ("proto", "protocol"),
    ("ip.proto", "protocol"),
    ("service", "l7_protocol"),
    ("app_proto", "l7_protocol"),
    ("application_name", "l7_protocol"),
    ("orig_bytes", "bytes"),
    ("resp_bytes", "reverse_bytes"),
    ("dns.qry.name", "dns_query"),
    ("tls.handshake.extensions_server_name", "tls_sni"),
    ("http.host", "http_host"),
    ("hostname", "http_host"),
    ("http.user_agent", "http_user_agent"),
    ("agent", "http_user_agent"),
    ("ua", "http_user_agent"),
    ("url", "http_target"),
    ("uri", "http_target"),
    ("path", "http_target"),
    ("status", "http_status"),
    ("method", "http_method"),
    ("sni", "tls_sni"),
    ("sni", "quic_sni"),
    ("server_name", "tls_sni"),
    ("server_name", "quic_sni"),
    ("alpn", "tls_alpn"),
    ("alpn", "quic_alpn"),
    ("ja3", "tls_ja4"),
    ("ja3", "quic_ja4"),
    ("ja4", "tls_ja4"),
    ("ja4", "quic_ja4"),
    ("fingerprint", "tls_ja4"),
    ("fingerprint", "quic_ja4"),
    ("domain", "dns_query"),
    ("domain", "tls_sni"),
    ("domain", "http_host"),
    ("dns", "dns_query"),
    ("query", "dns_query"),
    ("rcode", "dns_response_code"),
    ("answers", "dns_answers"),
    ("rtt", "handshake_rtt"),
    ("rtt", "rtt_mean"),
    ("latency", "handshake_rtt"),
    ("latency", "rtt_mean"),
    ("ping", "handshake_rtt"),
    ("delay", "handshake_rtt"),
    ("retransmits", "retransmissions"),
    ("resets", "end_reason"),
    ("reset", "end_reason"),
    ("state", "conn_state"),
    ("state", "tcp_state"),
    ("history", "conn_history"),
    ("flags", "tcp_flags"),
    ("app", "l7_protocol"),
    ("application", "l7_protocol"),
    ("label", "l7_protocol"),
    ("action", "verdict"),
    ("time", "start"),
    ("time", "end"),
    ("timestamp", "start"),
    ("first", "start"),
    ("ts", "start"),
    ("last", "end"),
    ("size", "bytes"),
    ("octets", "bytes"),
    ("volume", "bytes"),
    ("reason", "end_reason"),
    ("id", "community_id"),
    ("flow_id", "community_id"),
    ("vlan_id", "vlan"),
    ("elapsed", "duration"),
    ("length", "duration"),
    ("ip", "address"),
    ("host", "address"),
    ("addr", "address"),
    ("ip.addr", "address"),
    ("ipv6.addr", "address"),
    ("tcp.port", "port"),
    ("udp.port", "port"),
    ("total", "total_bytes"),
];

/// Returns the valid columns that an unknown name stands for elsewhere.
fn elsewhere<'a>(name: &str, valid: &[&'a str]) -> Vec<&'a str> {
    // Words of a name may be joined in several ways.
    let joined = name.replace([' ', '-', '.'], "_");
    let column = |ours: &str| valid.iter().copied().find(|name| *name == ours);
    if let Some(exact) = column(&joined) {
        return vec![exact];
    }
    let is_it = |other: &str| other == name || other.replace('.', "_") == joined;
    let named = ELSEWHERE.iter().filter(|(other, _)| is_it(other));
    named.filter_map(|(_, ours)| column(ours)).collect()
}

/// Returns the valid columns that end with a word, such as `user_agent`.
fn ending_with<'a>(name: &str, valid: &[&'a str]) -> Vec<&'a str> {
    let joined = name.replace([' ', '-', '.'], "_");
    let ends = |column: &&&str| column.ends_with(&joined) && !column.starts_with("reverse_");
    if joined.len() > 2 { valid.iter().filter(ends).copied().take(3).collect() } else { Vec::new() }
}

/// Returns the end of an error about an unknown name: the name that is probably meant, and the
/// valid ones, the nearest first.
#[must_use]
pub fn advice(name: &str, valid: &[&str]) -> String {
    let lower = name.to_lowercase();
    let mut meant = elsewhere(&lower, valid);
    if meant.is_empty() {
        meant.extend(nearest(&lower, valid));
    }
    if meant.is_empty() {
        meant = ending_with(&lower, valid);
    }
    if meant.is_empty() {
        let others: Vec<&str> = ELSEWHERE.iter().map(|(other, _)| *other).collect();
        meant = nearest(&lower, &others).map_or(meant, |other| elsewhere(other, valid));
    }
    let said = meant.join(" or ");
    let said = if meant.is_empty() { said } else { format!(": did you mean {said}?") };
    format!("{said}\n  use {}", nearest_first(name, valid))
}

/// Returns the valid name that differs least from an unknown one, if by at most two letters.
#[must_use]
pub fn nearest<'a>(name: &str, valid: &[&'a str]) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let alike = valid.iter().map(|other| (distance(&lower, &other.to_lowercase()), *other));
    alike.filter(|(letters, _)| *letters < FAR).min_by_key(|(letters, _)| *letters).map(|(_, other)| other)
}

/// The most names that an error lists of many.
const LISTED_MAX: usize = 24;

/// Names that differ by so many letters are not alike.
const FAR: usize = 3;

/// Returns by how many letters two names differ, at most [`FAR`].
fn distance(name: &str, other: &str) -> usize {
    if name.len().abs_diff(other.len()) >= FAR {
        return FAR;
    }
    let other: Vec<char> = other.chars().collect();
    let mut line: Vec<usize> = (0..=other.len()).collect();
    for (row, letter) in name.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut line[0], row + 1);
        for (at, &found) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(found != letter);
            diagonal = line[at + 1];
            line[at + 1] = replaced.min(line[at] + 1).min(diagonal + 1);
        }
    }
    line[other.len()].min(FAR)
}

/// Returns a list of the valid names; those that differ from the unknown `name` by at most two
/// letters come first.
#[must_use]
pub fn nearest_first(name: &str, valid: &[&str]) -> String {
    let mut valid = valid.to_vec();
    valid.sort_by_key(|other| distance(name, other));
    if valid.len() <= 2 * LISTED_MAX {
        return valid.join(", ");
    }
    let more = valid.len() - LISTED_MAX;
    format!("{}, or one of {more} others", valid[..LISTED_MAX].join(", "))
}

/// The values of one record, one per column of its schema, and the key of its flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The key of the flow in the flow table.
    pub key: FlowKey,
    /// The values. Those after the last are missing.
    pub values: Vec<Value>,
}

impl Row {
    /// Returns a row without values.
    #[must_use]
    pub fn new(key: FlowKey) -> Self {
        Self { key, values: Vec::new() }
    }

    /// Returns the value of a column.
    #[inline]
    #[must_use]
    pub fn value(&self, column: usize) -> &Value {
        const NONE: &Value = &Value::None;
        self.values.get(column).unwrap_or(NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Group, element};

    const COLUMNS: &[Column] = &[
        Column::new("source", Kind::Address, "").in_group(Group::Default),
        Column::new("packets", Kind::Packets, "").with_elements(element::PACKETS),
        Column::new("reverse_packets", Kind::Packets, "").with_elements(element::REVERSE_PACKETS),
        Column::new("tls_sni", Kind::Text, "").in_group(Group::Tls),
    ];

    #[test]
    fn columns_are_found_by_name_element_and_group() {
        let schema = Schema::new(COLUMNS);
        let indexes = |found: Vec<SchemaColumn>| found.iter().map(|found| found.index).collect::<Vec<_>>();
        assert_eq!(schema.select(&["tls_sni", "source"]).map(indexes), Ok(vec![3, 0]));
        assert_eq!(schema.select(&["total_packets", "packets"]).map(indexes), Ok(vec![4, 1]));
        let twice = ["packets", "source", "packets"];
        assert_eq!(schema.select(&twice).map(indexes), Ok(vec![1, 0]), "each column once");
        assert_eq!(indexes(schema.of_groups(GroupSet::SHOWN)), [0, 1, 2]);
        assert_eq!(indexes(schema.of_groups(GroupSet::FIELDS)), [3]);
        assert_eq!(schema.with_element(2).map(|found| found.index), Some(1));
        assert_eq!(schema.with_element(1), None);
    }

    #[test]
    fn unknown_name_error_lists_similar_names_first() {
        let error = Schema::new(COLUMNS).select(&["source", "tls_snl"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown column 'tls_snl': did you mean tls_sni?\n  use tls_sni, source, packets, reverse_packets, \
             total_packets"
        );
        let error = Schema::new(COLUMNS).select(&["ip.src"]).unwrap_err().to_string();
        assert!(error.starts_with("unknown column 'ip.src': did you mean source?"), "{error}");
        for (name, meant) in [
            ("SNI", "tls_sni"),
            ("server name", "tls_sni"),
            ("domain", "tls_sni"),
            ("Reverse-Packets", "reverse_packets"),
            ("ip", "address"),
            ("octets", "bytes"),
            ("volumne", "bytes"),
        ] {
            let advice = advice(name, &["address", "tls_sni", "bytes", "reverse_bytes", "reverse_packets"]);
            assert!(advice.starts_with(&format!(": did you mean {meant}?")), "{name}{advice}");
        }
        let error = Schema::new(COLUMNS).select(&["weather"]).unwrap_err().to_string();
        assert!(error.starts_with("unknown column 'weather'\n  use "), "{error}");
        assert_eq!(nearest_first("", &["abc", "b"]), "b, abc");
        assert_eq!(nearest_first("kéy", &["x", "key"]), "key, x");
    }

    #[test]
    fn values_after_the_last_are_missing() {
        let mut row = Row::new(FlowKey::from_v4(1, 2, 3, 4, 6).0);
        row.values.push(Value::Number(1));
        assert_eq!((row.value(0), row.value(1)), (&Value::Number(1), &Value::None));
    }
}
