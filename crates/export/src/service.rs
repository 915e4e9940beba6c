//! The application protocol that a record's additional fields imply.

use flowloom_apps::accounting::fields::{FieldColumn, FieldValue};

/// The prefixes of the fields' names, with the protocols' names in Suricata and in Zeek.
const SERVICES: [(&str, &str, &str); 5] = [
    ("tls_", "tls", "ssl"),
    ("dns_", "dns", "dns"),
    ("http_", "http", "http"),
    ("quic_", "quic", "quic"),
    ("ssh_", "ssh", "ssh"),
];

/// An application protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) suricata: &'static str,
    pub(crate) zeek: &'static str,
}

impl Service {
    /// Returns the protocol to which the fields of a record belong.
    pub(crate) fn of(columns: &[FieldColumn], values: &[FieldValue]) -> Option<Self> {
        columns.iter().zip(values).filter(|(_, value)| **value != FieldValue::None).find_map(
            |(column, _)| {
                let service = SERVICES.into_iter().find(|(begin, ..)| column.name.starts_with(begin));
                service.map(|(_, suricata, zeek)| Self { suricata, zeek })
            },
        )
    }

    /// Returns whether the values of a column imply the protocol.
    pub(crate) fn is_shown_by(column: &FieldColumn) -> bool {
        SERVICES.into_iter().any(|(begin, ..)| column.name.starts_with(begin))
    }
}
