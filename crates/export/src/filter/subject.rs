//! The subjects of comparisons: columns, and values derived from several columns.

use std::borrow::Cow;
use std::net::IpAddr;

use flowloom_record::{Kind, Row, Schema, SchemaColumn, element};

/// The subject of a comparison.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    /// The value of a column, or of one of two: of either end.
    Column(usize, Option<usize>),
    /// The sum of the values of columns.
    Sum(usize, Option<usize>),
    /// The time from one to the other.
    Duration(usize, usize),
}

/// Names in addition to those of columns.
pub(super) const DERIVED: [&str; 5] = ["address", "port", "total_packets", "total_bytes", "duration"];

impl Subject {
    /// Returns the subject of a name, and the columns that it reads. Its values are of the kind of
    /// the first one, but for [`duration`](Self::Duration).
    pub(super) fn named(name: &str, schema: &Schema) -> Option<(Self, Kind, Vec<SchemaColumn>)> {
        if let Some(found) = schema.named(name) {
            return Some((Self::Column(found.index, None), found.column.kind, vec![found]));
        }
        let pair = |one: &str, other: &str| (schema.named(one), schema.named(other));
        let (one, other) = match name {
            "address" => pair("source", "destination"),
            "port" => pair("source_port", "destination_port"),
            "total_packets" => pair("packets", "reverse_packets"),
            "total_bytes" => pair("bytes", "reverse_bytes"),
            "duration" => {
                let time = |elements: &[element::Element]| schema.with_element(elements[0].number);
                (time(element::START), time(element::END))
            }
            _ => return None,
        };
        let first = one?;
        let (index, second) = (first.index, other.map(|found| found.index));
        let (subject, kind) = match name {
            "total_packets" | "total_bytes" => (Self::Sum(index, second), first.column.kind),
            "duration" => (Self::Duration(index, second?), Kind::Duration),
            _ => (Self::Column(index, second), first.column.kind),
        };
        Some((subject, kind, one.into_iter().chain(other).collect()))
    }

    /// Returns the numbers of a record.
    pub(super) fn numbers(&self, row: &Row) -> [Option<u64>; 2] {
        let number = |index: usize| row.value(index).number();
        match *self {
            Self::Column(one, other) => [number(one), other.and_then(number)],
            Self::Sum(one, other) => {
                [Some(number(one).unwrap_or(0).saturating_add(other.and_then(number).unwrap_or(0))), None]
            }
            Self::Duration(start, end) => {
                [number(start).zip(number(end)).map(|(start, end)| end.saturating_sub(start)), None]
            }
        }
    }

    /// Returns the addresses of a record.
    pub(super) fn addresses(&self, row: &Row) -> [Option<IpAddr>; 2] {
        match *self {
            Self::Column(one, other) => {
                [row.value(one).address(), other.and_then(|other| row.value(other).address())]
            }
            Self::Sum(..) | Self::Duration(..) => [None, None],
        }
    }

    /// Returns the text of a record.
    pub(super) fn text<'a>(&self, row: &'a Row) -> Option<Cow<'a, str>> {
        match *self {
            Self::Column(one, _) => row.value(one).text(),
            Self::Sum(..) | Self::Duration(..) => None,
        }
    }
}
