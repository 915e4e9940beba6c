//! Columns for the records of applications without an accounting record: the flow's key from source
//! to destination, then the values of the application.
//!
//! | default | on request |
//! | --- | --- |
//! | `source`, `destination`, `source_port`, `destination_port`, `protocol` | `low_address`, `low_port`, `high_address`, `high_port`, `zone`, `pass`, `icmp_identifier` |
//! | the application's columns; of those by direction `x` and `reverse_x` | `x_low_to_high` and `x_high_to_low`, and which end is the source |
//!
//! The source is defined as in accounting. If the application does not know the source, the lower
//! endpoint takes its place.

use flowloom::apps::SourceDirection;
use flowloom::apps::accounting::{Accounted, AccountingRecord, EndedBy};
use flowloom::engine::record::{Column, Value};
use flowloom::engine::{FlowRecord, FlowState};
use flowloom::flow_key::Direction;

/// Columns of the key; the first five are default columns.
const KEY: [&str; 12] = [
    "source",
    "destination",
    "source_port",
    "destination_port",
    "protocol",
    "low_address",
    "low_port",
    "high_address",
    "high_port",
    "zone",
    "pass",
    "icmp_identifier",
];
const KEY_DEFAULTS: usize = 5;
/// Columns that identify the source; default columns already show it.
const SOURCE_ENDS: [&str; 2] = ["source_end", "first_sender"];
const FORWARD: &str = "_low_to_high";
const REVERSE: &str = "_high_to_low";

/// The origin of the value of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// A column of [`KEY`].
    Key(usize),
    /// A value of the state.
    Value(usize),
    /// The state values of the low and the high endpoint, and whether the column shows the source's
    /// or the destination's.
    Side { low: usize, high: usize, is_reverse: bool },
}

/// One value of a record.
pub(crate) enum CellValue {
    Text(String),
    Number(u64),
    State(Value),
    None,
}

impl CellValue {
    /// Returns the value in CSV form.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::State(value) => value.to_string(),
            Self::None => String::new(),
        }
    }

    /// Returns the value in JSON form.
    pub(crate) fn json(&self) -> serde_json::Value {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Number(number) => (*number).into(),
            Self::State(Value::Number(number) | Value::Bits(number)) => (*number).into(),
            Self::State(Value::Word(word)) => (*word).into(),
            Self::State(other) => other.to_string().into(),
            Self::None => serde_json::Value::Null,
        }
    }
}

/// The columns of a file of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StateColumns(Vec<(String, Origin)>);

impl StateColumns {
    /// Returns the default columns of states with these values.
    pub(crate) fn defaults(state: &[Column]) -> Self {
        let mut columns: Vec<(String, Origin)> = Vec::new();
        columns.extend(
            KEY.iter()
                .take(KEY_DEFAULTS)
                .enumerate()
                .map(|(at, name)| ((*name).to_owned(), Origin::Key(at))),
        );
        for (at, Column { name, .. }) in state.iter().enumerate() {
            let place = |suffix: &str, other: &str| {
                let base = name.strip_suffix(suffix)?;
                let other = state.iter().position(|one| one.name.strip_suffix(other) == Some(base))?;
                Some((base, other))
            };
            if SOURCE_ENDS.contains(name) {
                continue;
            }
            columns.push(if let Some((base, high)) = place(FORWARD, REVERSE) {
                (base.to_owned(), Origin::Side { low: at, high, is_reverse: false })
            } else if let Some((base, low)) = place(REVERSE, FORWARD) {
                (format!("reverse_{base}"), Origin::Side { low, high: at, is_reverse: true })
            } else {
                ((*name).to_owned(), Origin::Value(at))
            });
        }
        Self(columns)
    }

    /// Returns all columns, the default ones first.
    fn all(state: &[Column]) -> Self {
        let Self(mut columns) = Self::defaults(state);
        let values =
            state.iter().enumerate().map(|(at, column)| (column.name.to_owned(), Origin::Value(at)));
        let key = KEY.iter().enumerate().map(|(at, name)| ((*name).to_owned(), Origin::Key(at)));
        for (name, origin) in key.chain(values) {
            if columns.iter().all(|(known, _)| *known != name) {
                columns.push((name, origin));
            }
        }
        Self(columns)
    }

    /// Returns the columns with these names, or all of them.
    ///
    /// # Errors
    ///
    /// A message with the unknown name and the valid names.
    pub(crate) fn named(names: &[String], state: &[Column]) -> Result<Self, String> {
        let Self(all) = Self::all(state);
        if names == ["all"] {
            return Ok(Self(all));
        }
        let named = |name: &String| {
            all.iter().find(|(known, _)| known == name).cloned().ok_or_else(|| {
                let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
                format!("unknown column '{name}'\n  use {}, or `all`", names.join(", "))
            })
        };
        names.iter().map(named).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the values of a record. `values` are those of its state.
    pub(crate) fn values<F: FlowState + SourceDirection>(
        &self,
        record: &FlowRecord<F>,
        values: &[Value],
    ) -> impl Iterator<Item = CellValue> {
        let way = record.state.source_direction().unwrap_or(Direction::LowToHigh);
        let key = &record.key;
        // An accounting record without packets interprets the ports of the key.
        let row = AccountingRecord::of(key, &Accounted::default(), EndedBy::EndOfInput);
        let is_flipped = way == Direction::HighToLow;
        let of_key = move |at: usize| {
            let pair = |low: CellValue, high: CellValue, is_source: bool| {
                if is_source == is_flipped { high } else { low }
            };
            let text = |address: std::net::IpAddr| CellValue::Text(address.to_string());
            let number = |number: u64| CellValue::Number(number);
            match KEY[at] {
                "source" => pair(text(row.source), text(row.destination), true),
                "destination" => pair(text(row.source), text(row.destination), false),
                "source_port" => {
                    pair(number(row.source_port.into()), number(row.destination_port.into()), true)
                }
                "destination_port" => {
                    pair(number(row.source_port.into()), number(row.destination_port.into()), false)
                }
                "protocol" => number(row.protocol.into()),
                "low_address" => text(row.key.low_address()),
                "low_port" => number(row.key.low_port().into()),
                "high_address" => text(row.key.high_address()),
                "high_port" => number(row.key.high_port().into()),
                "zone" => number(row.key.zone().into()),
                "pass" => number(row.key.pass().into()),
                _ => row.icmp_identifier.map_or(CellValue::None, |identifier| number(identifier.into())),
            }
        };
        self.0.iter().map(move |(_, origin)| match *origin {
            Origin::Key(at) => of_key(at),
            Origin::Value(at) => {
                values.get(at).map_or(CellValue::None, |value| CellValue::State(value.clone()))
            }
            Origin::Side { low, high, is_reverse } => {
                let at = if is_reverse == is_flipped { low } else { high };
                values.get(at).map_or(CellValue::None, |value| CellValue::State(value.clone()))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom::apps::TcpFlow;
    use flowloom::engine::record::Kind;

    #[test]
    fn columns_by_direction_become_those_of_source_and_destination() {
        let state =
            ["packets_low_to_high", "packets_high_to_low", "tcp_state", "source_end", "alone_low_to_high"]
                .map(|name| Column::new(name, Kind::Number, ""));
        let names = |columns: &StateColumns| columns.names().map(str::to_owned).collect::<Vec<_>>();
        let defaults = StateColumns::defaults(&state);
        assert_eq!(names(&defaults)[5..], ["packets", "reverse_packets", "tcp_state", "alone_low_to_high"]);
        let all = names(&StateColumns::named(&["all".into()], &state).unwrap());
        assert!(
            ["source_end", "low_port", "packets_high_to_low", "zone"]
                .iter()
                .all(|name| all.contains(&(*name).into()))
        );
        let some = StateColumns::named(&["zone".into(), "packets".into()], &state).unwrap();
        assert_eq!(names(&some), ["zone", "packets"]);
        assert!(
            StateColumns::named(&["bytes".into()], &state).unwrap_err().contains("unknown column 'bytes'")
        );
    }

    #[test]
    fn every_application_has_distinct_columns() {
        let all = StateColumns::named(&["all".into()], TcpFlow::COLUMNS).unwrap();
        let mut names: Vec<&str> = all.names().collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }
}
