//! Turns the state of a flow into the record that users read: its columns, its additional fields,
//! and whether `--where` selects it.

use std::str::FromStr;

use flowloom::apps::accounting::fields::{FieldColumn, FieldGroup, FieldSet, FieldValue, all_columns};
use flowloom::apps::accounting::{Accounted, AccountingRecord, RecordColumn};
use flowloom::engine::FlowRecord;
use flowloom::engine::record::Column;
use flowloom_export::RecordFilter;

use crate::state_columns::StateColumns;

/// Returns the accounting record in the state of a flow, for applications that keep one.
pub(crate) type AccountOf<F> = fn(&F) -> Option<&Accounted>;

/// Returns the protocol label of a flow, for applications that label flows.
pub(crate) type LabelOf<F> = fn(&F) -> Option<&'static str>;

/// Appends the values of all additional fields in the state of a flow, for applications that keep
/// them.
pub(crate) type FieldsOf<F> = fn(&F, &mut Vec<FieldValue>);

/// Names of columns as typed. The application determines which names are valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Columns(Vec<String>);

impl FromStr for Columns {
    type Err = String;

    /// Parses a list of names, or `all`.
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(text.split(',').map(|name| name.trim().to_owned()).collect()))
    }
}

/// The columns that a run writes.
#[derive(Clone, Debug)]
pub(crate) enum WrittenColumns {
    /// Columns of accounting records.
    Records(Vec<&'static RecordColumn>),
    /// Columns of records of other applications.
    States(StateColumns),
}

impl WrittenColumns {
    /// Returns the columns with these names, or the default ones. `state` has the state columns of
    /// an application without accounting records.
    ///
    /// # Errors
    ///
    /// A message with the unknown name and the valid names.
    pub(crate) fn of(columns: Option<&Columns>, state: Option<&[Column]>) -> Result<Self, String> {
        let names = match (columns, state) {
            (None, None) => return Ok(Self::Records(RecordColumn::defaults().collect())),
            (None, Some(state)) => return Ok(Self::States(StateColumns::defaults(state))),
            (Some(Columns(names)), Some(state)) => {
                return StateColumns::named(names, state).map(Self::States);
            }
            (Some(Columns(names)), None) => names,
        };
        if *names == ["all"] {
            return Ok(Self::Records(RecordColumn::ALL.iter().collect()));
        }
        let named = |name: &String| {
            RecordColumn::named(name).ok_or_else(|| {
                let names: Vec<&str> = RecordColumn::ALL.iter().map(|column| column.name).collect();
                format!("unknown column '{name}'\n  use {}, or `all`", names.join(", "))
            })
        };
        names.iter().map(named).collect::<Result<_, _>>().map(Self::Records)
    }
}

/// Groups of additional fields, in the order of their columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldGroups {
    groups: Vec<FieldGroup>,
    /// The user did not name groups one by one, so a format may omit some.
    is_all: bool,
}

impl FromStr for FieldGroups {
    type Err = String;

    /// Parses a list of names, or `all`.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self { groups: FieldGroup::ALL.to_vec(), is_all: true });
        }
        let named = |name: &str| {
            FieldGroup::named(name.trim()).ok_or_else(|| {
                let names = FieldGroup::ALL.map(FieldGroup::name).join(", ");
                format!("unknown group of fields '{}'\n  use {names}, or `all`", name.trim())
            })
        };
        let asked: Vec<FieldGroup> = text.split(',').map(named).collect::<Result<_, _>>()?;
        let groups = FieldGroup::ALL.into_iter().filter(|group| asked.contains(group)).collect();
        Ok(Self { groups, is_all: false })
    }
}

impl FieldGroups {
    /// Returns the columns of the groups.
    pub(crate) fn columns(&self) -> Vec<FieldColumn> {
        self.groups.iter().flat_map(|group| group.columns()).collect()
    }

    /// Returns the groups.
    pub(crate) fn groups(&self) -> &[FieldGroup] {
        &self.groups
    }

    /// Returns whether the user typed `all`.
    pub(crate) fn is_all(&self) -> bool {
        self.is_all
    }

    /// Returns the groups that a run keeps: these groups, and those that a filter reads.
    pub(crate) fn with_those_of(&self, filter: Option<&Where>) -> FieldSet {
        let read = filter.map(|Where(filter)| filter.field_indexes()).unwrap_or_default();
        let groups =
            FieldGroup::ALL.into_iter().flat_map(|group| group.columns().into_iter().map(move |_| group));
        let read = groups.enumerate().filter(|(index, _)| read.contains(index)).map(|(_, group)| group);
        self.groups.iter().copied().chain(read).collect()
    }

    /// Returns the positions of the groups' values among the values of all fields.
    fn indexes(&self) -> Vec<usize> {
        let groups =
            FieldGroup::ALL.into_iter().flat_map(|group| group.columns().into_iter().map(move |_| group));
        groups
            .enumerate()
            .filter(|(_, group)| self.groups.contains(group))
            .map(|(index, _)| index)
            .collect()
    }
}

/// An expression that selects records by their columns and all additional fields.
#[derive(Clone, Debug)]
pub(crate) struct Where(pub(crate) RecordFilter);

impl FromStr for Where {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        RecordFilter::parse(text, &all_columns()).map(Self).map_err(|error| error.to_string())
    }
}

/// The number of records that a filter has selected and rejected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FilterCounts {
    pub(crate) matched: u64,
    pub(crate) passed_over: u64,
}

/// Turns the states of flows into records.
#[derive(Debug)]
pub(crate) struct RecordView<F> {
    account: AccountOf<F>,
    fields: Option<FieldsOf<F>>,
    filter: Option<RecordFilter>,
    shown: Vec<usize>,
    /// The values of all fields of the current record, and of the visible ones.
    values: Vec<FieldValue>,
    row: Vec<FieldValue>,
    counts: FilterCounts,
}

impl<F> RecordView<F> {
    /// Returns a view of states that contain these accounting records. `fields` is required if the
    /// view shows fields or the filter reads them.
    pub(crate) fn new(
        account: AccountOf<F>,
        fields: Option<FieldsOf<F>>,
        filter: Option<Where>,
        shown: &FieldGroups,
    ) -> Self {
        let filter = filter.map(|Where(filter)| filter);
        debug_assert!(
            fields.is_some()
                || (shown.groups.is_empty() && !filter.as_ref().is_some_and(RecordFilter::reads_fields)),
            "an application without fields shows none"
        );
        Self {
            account,
            fields,
            filter,
            shown: shown.indexes(),
            values: Vec::new(),
            row: Vec::new(),
            counts: FilterCounts::default(),
        }
    }

    /// Returns the record of a flow with its visible fields, or `None` if the filter rejects it.
    pub(crate) fn of(&mut self, record: &FlowRecord<F>) -> Option<(AccountingRecord, &[FieldValue])> {
        let row = AccountingRecord::of(&record.key, (self.account)(&record.state)?, record.ended);
        self.values.clear();
        let reads_fields = self.filter.as_ref().is_some_and(RecordFilter::reads_fields);
        if let (Some(fields), true) = (self.fields, reads_fields || !self.shown.is_empty()) {
            fields(&record.state, &mut self.values);
        }
        if self.filter.as_ref().is_some_and(|filter| !filter.matches(&row, &self.values)) {
            self.counts.passed_over += 1;
            return None;
        }
        self.counts.matched += 1;
        self.row.clear();
        self.row.extend(self.shown.iter().filter_map(|&index| self.values.get(index)).cloned());
        Some((row, &self.row))
    }

    /// Returns the counts of the filter, if there is one.
    pub(crate) fn counts(&self) -> Option<FilterCounts> {
        self.filter.as_ref().map(|_| self.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_named() {
        let columns = |text: &str| match WrittenColumns::of(Some(&text.parse().unwrap()), None)? {
            WrittenColumns::Records(columns) => Ok(columns.len()),
            WrittenColumns::States(_) => Err(String::from("columns of states")),
        };
        assert_eq!(columns("source, end_reason"), Ok(2));
        assert_eq!(columns("all"), Ok(RecordColumn::ALL.len()));
        assert!(columns("source,lowest").unwrap_err().contains("unknown column 'lowest'"));
    }

    #[test]
    fn groups_of_fields_stand_in_one_order() {
        let groups = |text: &str| text.parse::<FieldGroups>().unwrap();
        let names = |groups: &FieldGroups| -> Vec<&str> {
            groups.columns().iter().map(|column| column.name).collect()
        };
        assert_eq!(names(&groups("handshake,splt")), names(&groups("splt, handshake,splt")));
        assert_eq!(
            names(&groups("splt,handshake")),
            ["first_sizes", "handshake_rtt", "handshake_answer", "handshake_ack"]
        );
        assert_eq!(groups("all").columns(), all_columns());
        assert_eq!(groups("all").indexes().len(), all_columns().len());
        let all = all_columns();
        for group in ["sizes", "gaps,tcp", "splt,handshake"] {
            let groups = groups(group);
            let found: Vec<FieldColumn> = groups.indexes().into_iter().map(|index| all[index]).collect();
            assert_eq!(found, groups.columns(), "{group}");
        }
        assert!(
            "sizes,jitter".parse::<FieldGroups>().unwrap_err().contains("unknown group of fields 'jitter'")
        );
    }
}
