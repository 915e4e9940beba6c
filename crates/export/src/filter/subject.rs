//! The subjects of comparisons: columns, additional fields, and values derived from several
//! columns.

use std::net::IpAddr;

use flowloom_apps::accounting::fields::{FieldColumn, FieldValue};
use flowloom_apps::accounting::{
    Accounted, AccountingRecord, DirectionBasis, EndReason, EndedBy, RecordColumn, RecordValue,
};
use flowloom_apps::flow_key::FlowKey;

/// The subject of a comparison.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    Column(&'static RecordColumn),
    /// An additional field, by its index.
    Field(usize),
    /// The address of either end.
    Address,
    /// The kind of a subject's values.
    Port,
    TotalPackets,
    TotalBytes,
    Duration,
}

/// What kind of values a subject has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueKind {
    Address,
    Number,
    Protocol,
    Bits,
    /// Nanoseconds.
    Duration,
    /// Nanoseconds since 1970.
    Time,
    Text,
}

impl ValueKind {
    fn of_unit(unit: &str) -> Self {
        match unit {
            "address" => Self::Address,
            "ns since 1970" => Self::Time,
            "ns" => Self::Duration,
            "bits" => Self::Bits,
            "word" | "text" => Self::Text,
            _ => Self::Number,
        }
    }
}

/// Names in addition to those of columns.
pub(super) const DERIVED: [(&str, Subject, ValueKind); 5] = [
    ("address", Subject::Address, ValueKind::Address),
    ("port", Subject::Port, ValueKind::Number),
    ("total_packets", Subject::TotalPackets, ValueKind::Number),
    ("total_bytes", Subject::TotalBytes, ValueKind::Number),
    ("duration", Subject::Duration, ValueKind::Duration),
];

impl Subject {
    /// Returns the subject of a name, and the kind of its values.
    pub(super) fn named(name: &str, fields: &[FieldColumn]) -> Option<(Self, ValueKind)> {
        if let Some(column) = RecordColumn::named(name) {
            let is_protocol = column.name == "protocol";
            let kind = if is_protocol { ValueKind::Protocol } else { ValueKind::of_unit(column.unit) };
            return Some((Self::Column(column), kind));
        }
        if let Some((_, subject, kind)) = DERIVED.into_iter().find(|(derived, ..)| *derived == name) {
            return Some((subject, kind));
        }
        let index = fields.iter().position(|field| field.name == name)?;
        Some((Self::Field(index), ValueKind::of_unit(fields[index].unit)))
    }

    /// Returns the possible words of the subject, if they are a fixed set.
    pub(super) fn words(&self) -> Option<Vec<&'static str>> {
        match self {
            Self::Column(column) if column.name == "direction" => {
                Some(DirectionBasis::ALL.map(DirectionBasis::name).to_vec())
            }
            Self::Column(column) if column.name == "end_reason" => {
                Some(EndReason::ALL.map(EndReason::name).to_vec())
            }
            Self::Column(column) if column.name == "protocol_name" => {
                Some((0..=u8::MAX).filter_map(protocol_name).collect())
            }
            _ => None,
        }
    }

    /// Returns the numbers of a record.
    pub(super) fn numbers(&self, record: &AccountingRecord, fields: &[FieldValue]) -> [Option<u64>; 2] {
        let one = match self {
            Self::Column(column) => match column.value(record) {
                RecordValue::Number(number) | RecordValue::Bits(number) => Some(number),
                _ => None,
            },
            Self::Field(index) => match fields.get(*index) {
                Some(FieldValue::Number(number)) => Some(*number),
                _ => None,
            },
            Self::Address => None,
            Self::Port => {
                return [record.source_port, record.destination_port].map(|port| Some(u64::from(port)));
            }
            Self::TotalPackets => Some(record.packets.saturating_add(record.reverse_packets)),
            Self::TotalBytes => Some(record.bytes.saturating_add(record.reverse_bytes)),
            Self::Duration => Some(record.end_ns.saturating_sub(record.start_ns)),
        };
        [one, None]
    }

    /// Returns the addresses of a record.
    pub(super) fn addresses(&self, record: &AccountingRecord) -> [Option<IpAddr>; 2] {
        match self {
            Self::Address => [Some(record.source), Some(record.destination)],
            Self::Column(column) => match column.value(record) {
                RecordValue::Address(address) => [Some(address), None],
                _ => [None, None],
            },
            _ => [None, None],
        }
    }

    /// Returns the result of `is` for the text of a record; `false` if there is none.
    pub(super) fn is_text(
        &self,
        record: &AccountingRecord,
        fields: &[FieldValue],
        is: impl FnOnce(&str) -> bool,
    ) -> bool {
        match self {
            Self::Column(column) => match column.value(record) {
                RecordValue::None => false,
                RecordValue::Word(word) => is(word),
                value => is(&value.to_string()),
            },
            Self::Field(index) => fields.get(*index).and_then(FieldValue::as_text).is_some_and(is),
            _ => false,
        }
    }
}

/// Returns the name of an IP protocol, as in records.
pub(super) fn protocol_name(protocol: u8) -> Option<&'static str> {
    let (key, _) = FlowKey::from_v4(1, 2, 0, 0, protocol);
    AccountingRecord::of(&key, &Accounted::default(), EndedBy::EndOfInput).protocol_name()
}
