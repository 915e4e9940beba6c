//! Turns the state of a flow into the record that users read: its columns, and whether `--where`
//! selects it.

use std::str::FromStr;
use std::time::{Duration, UNIX_EPOCH};

use flowloom::apps::EndedFlow;
use flowloom::apps::accounting::fields::{DIALECTS, dialect};
use flowloom::flow_key::FlowKey;
use flowloom::record::{Column, Derived, Group, GroupSet, Kind, Row, Schema, SchemaColumn, Value, advice};
use flowloom::traffic::sample::Sampling;
use flowloom_export::RecordFilter;

use crate::record_format::Format;

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

/// Groups of additional fields as typed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FieldGroups {
    groups: GroupSet,
    /// The user did not name groups one by one, so a format may omit some.
    is_all: bool,
    /// The user asked for no group that a format has by default.
    is_none: bool,
}

impl FromStr for FieldGroups {
    type Err = String;

    /// Parses a list of names, of which one may be `all`.
    fn from_str(text: &str) -> Result<Self, String> {
        let named = |name: &str| match name.trim() {
            "all" => {
                // What only Zeek's log or other meters have is asked for by name, and so is the
                // file, for which captures are read otherwise.
                let others: GroupSet = [Group::Features, Group::Conn, Group::File].into_iter().collect();
                Ok(GroupSet::FIELDS.intersection(others.complement()))
            }
            "file" => Err(String::from("the column `file` is added by --by-file")),
            "none" => Ok(GroupSet::NONE),
            "l7" => Ok([Group::Label].into_iter().collect()),
            name => Group::field(name).map(|group| [group].into_iter().collect()).ok_or_else(|| {
                let names = Group::FIELDS.into_iter().filter(|group| *group != Group::File);
                let names: Vec<&str> = names.map(Group::name).chain(["l7", "all", "none"]).collect();
                format!("unknown group of fields '{name}'{}", advice(name, &names))
            }),
        };
        let all: Result<Vec<GroupSet>, String> = text.split(',').map(named).collect();
        let groups = all?.into_iter().fold(GroupSet::NONE, GroupSet::union);
        let names = |word| text.split(',').any(|name| name.trim() == word);
        Ok(Self { groups, is_all: names("all"), is_none: names("none") })
    }
}

impl FieldGroups {
    /// Returns the groups.
    pub(crate) fn groups(self) -> GroupSet {
        self.groups
    }

    /// Adds labels, unless the user asked for no group.
    pub(crate) fn with_labels(mut self) -> Self {
        if !self.is_none {
            self.groups.insert(Group::Label);
        }
        self
    }

    /// Adds the file of the first packet, if requested.
    pub(crate) fn with_file(mut self, is_asked: bool) -> Self {
        if is_asked {
            self.groups.insert(Group::File);
        }
        self
    }

    /// Returns whether the user typed `all`.
    pub(crate) fn is_all(self) -> bool {
        self.is_all
    }
}

/// An expression that selects records, as typed. The application determines which names are valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Where(String);

impl FromStr for Where {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(text.to_owned()))
    }
}

impl Where {
    /// Returns a name in the expression that counts one direction only, where a reader may expect
    /// both.
    pub(crate) fn name_of_one_direction(&self) -> Option<&'static str> {
        // Every second part lies within quotes.
        let parts = self.0.split(['"', '\'']).step_by(2);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let mut words = parts.flat_map(|part| part.split(move |c: char| !is_name(c)));
        words.find_map(|word| ["packets", "bytes"].into_iter().find(|name| *name == word))
    }

    /// Parses the expression.
    ///
    /// # Errors
    ///
    /// A message that names the option, the place, what is wrong, and what is valid.
    pub(crate) fn parse(&self, schema: &Schema) -> Result<RecordFilter, String> {
        RecordFilter::parse(&self.0, schema).map_err(|error| format!("--where: {error}"))
    }
}

/// What a run selects and writes of its records.
#[derive(Clone, Debug)]
pub(crate) struct RecordPlan {
    pub(crate) schema: Schema,
    /// The columns to write, for formats that have those of a user.
    pub(crate) columns: Vec<SchemaColumn>,
    /// The groups of additional fields to write.
    asked: GroupSet,
    /// The groups of modules that the run does not have.
    absent: GroupSet,
    filter: Option<RecordFilter>,
    /// The columns to write as dates.
    dates: Vec<usize>,
    /// Which packets the records count.
    pub(crate) sampling: Option<Sampling>,
}

impl RecordPlan {
    /// Returns the plan for records with a schema, with the options `--columns`, `--fields` and
    /// `--where`, in a format if they are written. Columns in `absent` groups are written only if
    /// they are named.
    ///
    /// # Errors
    ///
    /// A message that names the option, what is wrong, and what is valid.
    pub(crate) fn new(
        schema: Schema,
        columns: Option<&Columns>,
        fields: FieldGroups,
        filter: Option<&Where>,
        format: Option<Format>,
        absent: GroupSet,
    ) -> Result<Self, String> {
        let absent = absent.intersection(fields.groups.complement());
        let present = absent.complement();
        let implied = format.map_or(GroupSet::NONE, Format::implied_groups);
        let asked = fields.groups.union(implied);
        if let Some(format) = format {
            format.check(&schema)?;
        }
        let columns = match columns {
            None => {
                let shown = GroupSet::SHOWN.union(asked).intersection(present);
                // Formats with columns of their own have all columns for which they have a place.
                let fixed = format.filter(|format| !format.has_columns());
                let is_fixed = |column: &Column| {
                    column.group == Group::Extra && fixed.is_some_and(|format| format.takes(column))
                };
                let is_written = |column: &Column| shown.contains(column.group) || is_fixed(column);
                schema.iter().filter(|found| is_written(&found.column)).collect()
            }
            Some(Columns(names)) if *names == ["all"] => {
                schema.of_groups(GroupSet::FIELDS.complement().union(asked).intersection(present))
            }
            Some(Columns(names))
                if names.len() == 1 && DIALECTS.iter().any(|name| name.eq_ignore_ascii_case(&names[0])) =>
            {
                let found = dialect(&names[0].to_lowercase(), &schema);
                found.ok_or_else(|| format!("--columns {} is for --app accounting", names[0]))?
            }
            Some(Columns(names)) => {
                let named = schema.select(names);
                let mut columns = named.map_err(|error| format!("--columns: {error}, or `all`"))?;
                let asked = schema.of_groups(asked).into_iter();
                let others: Vec<_> = asked.filter(|found| !columns.contains(found)).collect();
                columns.extend(others);
                columns
            }
        };
        let filter = filter.map(|filter| filter.parse(&schema)).transpose()?;
        Ok(Self { schema, columns, asked, absent, filter, dates: Vec::new(), sampling: None })
    }

    /// Writes times as dates: text that only formats of text have.
    pub(crate) fn with_dates(mut self) -> Self {
        let times = self.columns.iter().filter(|found| found.column.kind == Kind::Time);
        self.dates = times.map(|found| found.index).collect();
        self
    }

    /// Returns the columns of a format that has all columns for which it has a place.
    pub(crate) fn all_columns(&self) -> Vec<SchemaColumn> {
        let present = self.absent.complement();
        self.schema.of_groups(GroupSet::FIELDS.complement().union(self.asked).intersection(present))
    }

    /// Returns the groups of columns that are written or read by the filter.
    pub(crate) fn groups(&self) -> GroupSet {
        let written: GroupSet = self.columns.iter().map(|found| found.column.group).collect();
        written.union(self.filter.as_ref().map(RecordFilter::groups).unwrap_or_default())
    }

    /// Returns the names of the groups that are read from contents.
    pub(crate) fn content_groups(&self) -> Vec<&'static str> {
        let groups = self.groups();
        let of_contents = |group: &Group| group.is_payload() || *group == Group::Label;
        let all = Group::FIELDS.into_iter().chain([Group::Label]);
        let named = |group: Group| if group == Group::Label { "l7" } else { group.name() };
        all.filter(|group| groups.contains(*group)).filter(of_contents).map(named).collect()
    }

    /// Returns the names of the columns for which a format has no place, other than those of every
    /// accounting record.
    pub(crate) fn left_by(&self, format: Format) -> Vec<&'static str> {
        let is_left = |found: &&SchemaColumn| {
            let group = found.column.group;
            // A log of Zeek or Suricata has a service, and nothing about how a label was found.
            let is_beside = group == Group::Label && matches!(format, Format::Zeek | Format::Eve);
            !matches!(group, Group::Default | Group::Extra | Group::Internal)
                && !is_beside
                && !format.takes(&found.column)
        };
        self.columns.iter().filter(is_left).map(|found| found.column.name).collect()
    }

    /// Returns the view of the records.
    pub(crate) fn view(&self) -> RecordView {
        let columns = self.schema.columns().len();
        let is_derived = self.columns.iter().any(|found| found.index >= columns);
        RecordView {
            columns,
            derived: if is_derived { Derived::all(&self.schema) } else { Vec::new() },
            filter: self.filter.clone(),
            groups: self.groups(),
            row: Row::new(FlowKey::from_words([0; 6])),
            dates: self.dates.clone(),
            counts: FilterCounts::default(),
        }
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
pub(crate) struct RecordView {
    filter: Option<RecordFilter>,
    groups: GroupSet,
    /// The values of the current record.
    row: Row,
    /// The number of columns that records have, and what is derived from them.
    columns: usize,
    derived: Vec<Derived>,
    dates: Vec<usize>,
    counts: FilterCounts,
}

impl RecordView {
    /// Returns the record of a flow, or `None` if the filter rejects it.
    pub(crate) fn row(&mut self, record: &dyn EndedFlow) -> Option<&Row> {
        self.row.key = *record.key();
        self.row.values.clear();
        record.record_values(self.groups, &mut self.row.values);
        if self.filter.as_ref().is_some_and(|filter| !filter.matches(&self.row)) {
            self.counts.passed_over += 1;
            return None;
        }
        self.counts.matched += 1;
        if !self.derived.is_empty() {
            self.row.values.resize(self.columns, Value::None);
        }
        for derived in &self.derived {
            let value = derived.value(&self.row);
            self.row.values.push(value);
        }
        for &index in &self.dates {
            if let Some(value) = self.row.values.get_mut(index)
                && let Value::Number(time_ns) = *value
            {
                let time = UNIX_EPOCH + Duration::from_nanos(time_ns);
                *value = Value::Text(humantime::format_rfc3339_nanos(time).to_string().into());
            }
        }
        Some(&self.row)
    }

    /// Returns whether the filter selects the record of a flow.
    pub(crate) fn selects(&mut self, record: &dyn EndedFlow) -> bool {
        self.filter.is_none() || self.row(record).is_some()
    }

    /// Returns a view of the same records, which has counted none.
    pub(crate) fn another(&self) -> Self {
        Self {
            filter: self.filter.clone(),
            groups: self.groups,
            row: Row::new(FlowKey::from_words([0; 6])),
            columns: self.columns,
            derived: self.derived.clone(),
            dates: self.dates.clone(),
            counts: FilterCounts::default(),
        }
    }

    /// Takes the counts out, which begin from zero again.
    pub(crate) fn take_counts(&mut self) -> FilterCounts {
        std::mem::take(&mut self.counts)
    }

    /// Adds what another view has counted.
    pub(crate) fn add_counts(&mut self, FilterCounts { matched, passed_over }: FilterCounts) {
        self.counts.matched += matched;
        self.counts.passed_over += passed_over;
    }

    /// Returns the counts of the filter, if there is one.
    pub(crate) fn counts(&self) -> Option<FilterCounts> {
        self.filter.as_ref().map(|_| self.counts)
    }
}

#[cfg(test)]
mod tests {
    use flowloom::apps::accounting::Accounted;
    use flowloom::apps::{L7Flow, MeterFlow, RecordState, TcpFlow};

    use super::*;

    type All = MeterFlow;

    #[test]
    fn names_of_one_direction_are_found_outside_of_quotes() {
        let found = |text: &str| Where(text.to_owned()).name_of_one_direction();
        assert_eq!(found("protocol == tcp and packets>100"), Some("packets"));
        assert_eq!(found("bytes > 1k or packets > 2"), Some("bytes"));
        assert_eq!(found("total_bytes > 1k and reverse_packets > 0 and ip_bytes > 0"), None);
        assert_eq!(found("dns_query == \"bytes\" and tls_sni != 'packets'"), None);
    }

    fn plan<F: RecordState>(
        columns: Option<&str>,
        fields: &str,
        filter: Option<&str>,
        format: Option<Format>,
    ) -> Result<RecordPlan, String> {
        let columns = columns.map(|text| text.parse::<Columns>().unwrap());
        let fields = if fields.is_empty() { FieldGroups::default() } else { fields.parse()? };
        let filter = filter.map(|text| text.parse::<Where>().unwrap());
        RecordPlan::new(F::schema(), columns.as_ref(), fields, filter.as_ref(), format, GroupSet::NONE)
    }

    fn names(plan: Result<RecordPlan, String>) -> Vec<&'static str> {
        plan.unwrap().columns.iter().map(|found| found.column.name).collect()
    }

    #[test]
    fn fields_follow_the_columns_in_a_fixed_order() {
        assert_eq!(names(plan::<Accounted>(Some("source, end_reason"), "", None, None)).len(), 2);
        let all = names(plan::<Accounted>(Some("all"), "", None, None));
        assert_eq!(all.len(), Accounted::schema().columns().len());
        let expected = ["packets", "first_sizes", "handshake_rtt", "handshake_answer", "handshake_ack"];
        for fields in ["handshake,splt", "splt, handshake,splt"] {
            assert_eq!(names(plan::<All>(Some("packets"), fields, None, None)), expected);
        }
        let groups = |text: &str| text.parse::<FieldGroups>().unwrap();
        assert_eq!(groups("all,sizes").groups(), groups("all").groups());
        let more = groups("conn, all");
        assert!(more.is_all() && more.groups() == groups("all").groups().union(groups("conn").groups()));
        let named = names(plan::<All>(Some("handshake_ack,source"), "handshake", None, None));
        assert_eq!(named, ["handshake_ack", "source", "handshake_rtt", "handshake_answer"]);
        let named = plan::<All>(Some("tls_sni,source"), "", Some("dns_query == a"), None).unwrap();
        assert!(named.groups().contains(Group::Tls) && named.groups().contains(Group::Dns));
        assert!(!named.groups().contains(Group::Http) && !named.groups().contains(Group::Extra));
    }

    #[test]
    fn columns_that_the_format_lacks_are_left_out() {
        assert!(plan::<L7Flow>(None, "", Some("l7_protocol == dns"), Some(Format::Ipfix)).is_ok());
        let left = plan::<TcpFlow>(None, "", None, None).unwrap().left_by(Format::Ipfix);
        assert_eq!(left, ["tcp_state", "order_digest"]);
    }
}
