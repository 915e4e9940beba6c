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
        // A dropped text may have belonged to any protocol.
        let is_there = |value: &FieldValue| !matches!(value, FieldValue::None | FieldValue::Dropped);
        columns.iter().zip(values).filter(|(_, value)| is_there(value)).find_map(|(column, _)| {
            let service = SERVICES.into_iter().find(|(begin, ..)| column.name.starts_with(begin));
            service.map(|(_, suricata, zeek)| Self { suricata, zeek })
        })
    }

    /// Returns whether the values of a column imply the protocol.
    pub(crate) fn is_shown_by(column: &FieldColumn) -> bool {
        SERVICES.into_iter().any(|(begin, ..)| column.name.starts_with(begin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_apps::accounting::fields::FieldGroup;

    #[test]
    fn a_dropped_field_names_no_protocol() {
        let columns: Vec<FieldColumn> =
            [FieldGroup::Tls, FieldGroup::Http].into_iter().flat_map(FieldGroup::columns).collect();
        let mut values = vec![FieldValue::Dropped; columns.len()];
        assert_eq!(Service::of(&columns, &values), None);
        let status = columns.iter().position(|column| column.name == "http_status").unwrap();
        values[status] = FieldValue::Number(200);
        assert_eq!(Service::of(&columns, &values).map(|service| service.zeek), Some("http"));
    }
}
