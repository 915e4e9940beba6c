//! Flow states of which records are made: their columns by source and destination.

use flowloom_engine::{EndedBy, FlowRecord, FlowState};
use flowloom_flow_key::{Direction, FlowKey};
use flowloom_record::{Column, Group, GroupSet, Schema, Value};

#[cfg(feature = "l7-filter")]
use crate::L7Flow;
#[cfg(feature = "cache-probe")]
use crate::Probed;
use crate::accounting::fields::{Detailed, Fields};
use crate::accounting::{Accounted, AccountingRecord, Ends};
#[cfg(feature = "firewall")]
use crate::firewall::FirewallFlow;
use crate::{NoState, SaveState as _, TcpFlow};

/// A flow state of which records are made.
///
/// By default a record has the key of the flow, from the source to the destination, and the columns
/// of the state. Columns [of a direction](Column::of_direction) are shown by source; on request as
/// they are in the state. If the state does not know the source, the lower endpoint takes its
/// place.
///
/// # Examples
///
/// ```
/// use flowloom_apps::{RecordState, TcpFlow};
/// let names = TcpFlow::schema().columns().iter().map(|column| column.name).collect::<Vec<_>>();
/// assert_eq!(names[4..8], ["protocol", "packets", "reverse_packets", "bytes"]);
/// assert!(names.contains(&"packets_low_to_high"));
/// ```
pub trait RecordState: FlowState {
    /// Returns the direction of packets from the source to the destination, or `None` if the state
    /// does not know it, or makes its own records.
    fn source_direction(&self) -> Option<Direction> {
        None
    }

    /// Returns the accounting record, if the application keeps one.
    fn account(&self) -> Option<&Accounted> {
        None
    }

    /// Returns the label of the protocol, if the application labels flows.
    #[cfg(feature = "l7-filter")]
    fn label(&self) -> Option<&L7Flow> {
        None
    }

    /// Appends the [encoding](crate::SaveState) of the state for parts of an input. Returns whether
    /// it has one.
    fn save_in_part(&self, _out: &mut Vec<u8>) -> bool {
        false
    }

    /// Returns the columns of the records.
    fn schema() -> Schema {
        let (defaults, on_request) = KEY.split_at(KEY_DEFAULTS);
        let mut columns = defaults.to_vec();
        let is_shown = |column: &&Column| column.group != Group::Internal;
        columns.extend(Self::COLUMNS.iter().filter(is_shown).map(|column| column.by_source()));
        columns.extend(on_request);
        let rest = |column: &&Column| !is_shown(column) || column.direction.is_some();
        columns.extend(Self::COLUMNS.iter().filter(rest).map(|column| column.on_request()));
        Schema::new(columns)
    }

    /// Appends the values of a record of this state, one per column. Values of groups outside of
    /// `groups` may be missing. `ended` is the engine's reason.
    fn record_values(&self, key: &FlowKey, _ended: EndedBy, _groups: GroupSet, out: &mut Vec<Value>) {
        let way = self.source_direction().unwrap_or(Direction::LowToHigh);
        let ends = Ends::from_key(key, way);
        let number = |number: u16| Value::Number(number.into());
        out.extend([
            Value::Address(ends.source),
            Value::Address(ends.destination),
            number(ends.source_port),
            number(ends.destination_port),
            number(ends.protocol.into()),
        ]);
        let mut at = out.len();
        self.values(out);
        out.extend([
            Value::Address(key.low_address()),
            number(key.low_port()),
            Value::Address(key.high_address()),
            number(key.high_port()),
            Value::Number(key.zone().into()),
            Value::Number(key.pass().into()),
            ends.icmp_identifier.into(),
        ]);
        let first = at;
        for column in Self::COLUMNS {
            if column.group == Group::Internal {
                let value = out.remove(at);
                out.push(value);
                continue;
            }
            if column.direction.is_some() {
                out.push(out[at].clone());
            }
            at += 1;
        }
        if way == Direction::HighToLow {
            let shown = Self::COLUMNS.iter().filter(|column| column.group != Group::Internal);
            for (at, column) in shown.enumerate() {
                if matches!(column.direction, Some((Direction::LowToHigh, _))) {
                    out.swap(first + at, first + at + 1);
                }
            }
        }
    }
}

/// Columns of the key; the first five are default columns.
const KEY: [Column; 12] = {
    let all = AccountingRecord::COLUMNS;
    let [.., icmp_identifier, _open_fin, low, low_port, high, high_port, zone, pass] = *all else {
        unreachable!()
    };
    let (low, high) = (low.renamed("low_address"), high.renamed("high_address"));
    [all[0], all[1], all[2], all[3], all[4], low, low_port, high, high_port, zone, pass, icmp_identifier]
};
const KEY_DEFAULTS: usize = 5;

/// The record of a flow with any state.
///
/// What writes records takes it, so that it is compiled once for all applications.
pub trait EndedFlow {
    /// Returns the key of the flow.
    fn key(&self) -> &FlowKey;

    /// Returns the engine's reason for the end.
    fn ended(&self) -> EndedBy;

    /// Returns the columns of the state.
    fn state_columns(&self) -> &'static [Column];

    /// Appends the values of the state.
    fn state_values(&self, out: &mut Vec<Value>);

    /// Appends the values of the record. See [`RecordState::record_values`].
    fn record_values(&self, groups: GroupSet, out: &mut Vec<Value>);

    /// See [`RecordState::account`].
    fn account(&self) -> Option<&Accounted>;

    /// See [`RecordState::label`].
    #[cfg(feature = "l7-filter")]
    fn label(&self) -> Option<&L7Flow>;

    /// See [`RecordState::save_in_part`].
    fn save_in_part(&self, out: &mut Vec<u8>) -> bool;
}

impl<F: RecordState> EndedFlow for FlowRecord<F> {
    fn key(&self) -> &FlowKey {
        &self.key
    }

    fn ended(&self) -> EndedBy {
        self.ended
    }

    fn state_columns(&self) -> &'static [Column] {
        F::COLUMNS
    }

    fn state_values(&self, out: &mut Vec<Value>) {
        self.state.values(out);
    }

    fn record_values(&self, groups: GroupSet, out: &mut Vec<Value>) {
        self.state.record_values(&self.key, self.ended, groups, out);
    }

    fn account(&self) -> Option<&Accounted> {
        self.state.account()
    }

    #[cfg(feature = "l7-filter")]
    fn label(&self) -> Option<&L7Flow> {
        self.state.label()
    }

    fn save_in_part(&self, out: &mut Vec<u8>) -> bool {
        self.state.save_in_part(out)
    }
}

impl RecordState for NoState {
    fn save_in_part(&self, out: &mut Vec<u8>) -> bool {
        self.save(out);
        true
    }
}

impl RecordState for TcpFlow {
    fn save_in_part(&self, out: &mut Vec<u8>) -> bool {
        self.save(out);
        true
    }

    fn source_direction(&self) -> Option<Direction> {
        Some(self.source().0)
    }
}

impl RecordState for Accounted {
    fn account(&self) -> Option<&Accounted> {
        Some(self)
    }

    fn save_in_part(&self, out: &mut Vec<u8>) -> bool {
        self.save(out);
        true
    }

    fn schema() -> Schema {
        AccountingRecord::schema()
    }

    #[inline]
    fn record_values(&self, key: &FlowKey, ended: EndedBy, groups: GroupSet, out: &mut Vec<Value>) {
        AccountingRecord::new(key, self, ended).values(groups, out);
    }
}

/// The columns of accounting records, and behind them those of the fields.
impl<F: Fields> RecordState for Detailed<F> {
    fn schema() -> Schema {
        let mut columns = AccountingRecord::COLUMNS.to_vec();
        F::columns(&mut columns);
        Schema::new(columns)
    }

    fn record_values(&self, key: &FlowKey, ended: EndedBy, groups: GroupSet, out: &mut Vec<Value>) {
        self.record().record_values(key, ended, groups, out);
        self.fields().values_of(self.record().source_direction(), groups, out);
    }
}

/// The direction for which the flow was judged.
#[cfg(feature = "firewall")]
impl RecordState for FirewallFlow {
    fn source_direction(&self) -> Option<Direction> {
        self.source_direction()
    }
}

/// The direction of the first packet.
#[cfg(feature = "l7-filter")]
impl RecordState for L7Flow {
    fn label(&self) -> Option<&L7Flow> {
        Some(self)
    }

    fn source_direction(&self) -> Option<Direction> {
        self.source_direction()
    }
}

#[cfg(feature = "cache-probe")]
impl<F: RecordState> RecordState for Probed<F> {
    fn account(&self) -> Option<&Accounted> {
        self.inner().account()
    }

    #[cfg(feature = "l7-filter")]
    fn label(&self) -> Option<&L7Flow> {
        self.inner().label()
    }

    fn schema() -> Schema {
        F::schema()
    }

    fn record_values(&self, key: &FlowKey, ended: EndedBy, groups: GroupSet, out: &mut Vec<Value>) {
        self.inner().record_values(key, ended, groups, out);
    }
}

#[cfg(test)]
mod tests {
    use flowloom_record::Kind;

    use super::*;
    use crate::record_columns::{SOURCE_END, end_word};

    const COLUMNS: &[Column] = &[
        Column::new("word", Kind::Word(&[]), ""),
        SOURCE_END,
        Column::new("packets_low_to_high", Kind::Packets, "").of_direction(Direction::LowToHigh, "packets"),
        Column::new("packets_high_to_low", Kind::Packets, "")
            .of_direction(Direction::HighToLow, "reverse_packets"),
        Column::new("last", Kind::Number, ""),
    ];

    #[derive(Default)]
    struct Given(Option<Direction>);

    impl FlowState for Given {
        const COLUMNS: &'static [Column] = COLUMNS;

        fn values(&self, out: &mut Vec<Value>) {
            out.extend([Value::Word("w"), Value::Word(end_word(self.0)), Value::Number(3)]);
            out.extend([Value::Number(4), Value::Number(5)]);
        }
    }

    impl RecordState for Given {
        fn source_direction(&self) -> Option<Direction> {
            self.0
        }
    }

    #[test]
    fn values_by_direction_become_values_of_source_and_destination() {
        let (key, way) = FlowKey::from_v4(0x0A00_0002, 0x0A00_0001, 7, 443, 17);
        assert_eq!(way, Direction::HighToLow);
        let schema = Given::schema();
        for (source, shown) in [
            (None, "10.0.0.1 10.0.0.2 443 7 17 w 3 4 5"),
            (Some(Direction::LowToHigh), "10.0.0.1 10.0.0.2 443 7 17 w 3 4 5"),
            (Some(Direction::HighToLow), "10.0.0.2 10.0.0.1 7 443 17 w 4 3 5"),
        ] {
            let mut values = Vec::new();
            Given(source).record_values(&key, EndedBy::EndOfInput, GroupSet::ALL, &mut values);
            assert_eq!(values.len(), schema.columns().len());
            let text = |columns: Vec<flowloom_record::SchemaColumn>| {
                columns.iter().map(|found| values[found.index].to_string()).collect::<Vec<_>>().join(" ")
            };
            assert_eq!(text(schema.of_groups(GroupSet::SHOWN)), shown);
            let names =
                ["packets_low_to_high", "reverse_packets", "source_end", "low_port", "high_address"];
            let forward = source != Some(Direction::HighToLow);
            let expected = format!("3 {} {} 443 10.0.0.2", if forward { 4 } else { 3 }, end_word(source));
            assert_eq!(text(schema.select(&names).unwrap()), expected);
        }
    }

    #[test]
    fn every_state_has_distinct_columns_and_a_value_for_each() {
        fn check<F: RecordState>() {
            let schema = F::schema();
            let mut names: Vec<&str> = schema.columns().iter().map(|column| column.name).collect();
            let mut values = Vec::new();
            let key = FlowKey::from_v4(1, 2, 3, 4, 1).0;
            F::default().record_values(&key, EndedBy::EndOfInput, GroupSet::ALL, &mut values);
            assert_eq!(values.len(), names.len());
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
            for (at, column) in F::COLUMNS.iter().enumerate() {
                if let Some((Direction::LowToHigh, shown)) = column.direction {
                    let (way, reverse) = F::COLUMNS[at + 1].direction.unwrap();
                    assert_eq!((way, reverse), (Direction::HighToLow, &*format!("reverse_{shown}")));
                }
            }
        }
        check::<NoState>();
        check::<TcpFlow>();
        check::<Accounted>();
        check::<Detailed<crate::accounting::fields::AllFields>>();
        #[cfg(feature = "l7-filter")]
        check::<L7Flow>();
        #[cfg(all(feature = "firewall", feature = "l7-filter"))]
        check::<crate::MeterFlow>();
        #[cfg(feature = "firewall")]
        check::<FirewallFlow>();
    }
}
