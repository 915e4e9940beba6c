//! The application protocol that a record's additional fields imply.

use flowloom_record::{Column, Group, Row, SchemaColumn, Value};

/// An application protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) suricata: &'static str,
    pub(crate) zeek: &'static str,
}

impl Service {
    /// Returns the protocol that the values of a column imply, by its names in Suricata and in
    /// Zeek.
    pub(crate) const fn from_column(column: &Column) -> Option<Self> {
        let (suricata, zeek) = match column.group {
            Group::Tls => ("tls", "ssl"),
            Group::Dns => ("dns", "dns"),
            Group::Http => ("http", "http"),
            Group::Quic => ("quic", "quic"),
            Group::Ssh => ("ssh", "ssh"),
            _ => return None,
        };
        Some(Self { suricata, zeek })
    }

    /// Returns the protocol of the first of these columns that has a value.
    pub(crate) fn of_row(columns: &[SchemaColumn], row: &Row) -> Option<Self> {
        // A dropped text may have belonged to any protocol.
        let is_there = |value: &Value| !matches!(value, Value::None | Value::Dropped);
        columns
            .iter()
            .find(|found| is_there(row.value(found.index)))
            .and_then(|found| Self::from_column(&found.column))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_apps::accounting::fields::all_columns;
    use flowloom_flow_key::FlowKey;
    use flowloom_record::Schema;

    #[test]
    fn dropped_field_gives_no_protocol_name() {
        let schema = Schema::new(all_columns());
        let columns = schema.of_groups([Group::Tls, Group::Http].into_iter().collect());
        let mut row = Row::new(FlowKey::from_v4(1, 2, 3, 4, 6).0);
        row.values = vec![Value::Dropped; schema.columns().len()];
        assert_eq!(Service::of_row(&columns, &row), None);
        row.values[schema.named("http_status").unwrap().index] = Value::Number(200);
        assert_eq!(Service::of_row(&columns, &row).map(|service| service.zeek), Some("http"));
    }
}
