//! The state of a flow, and its record.

use flowloom_engine::{EndedBy, FlowState};
use flowloom_flow_key::{Direction, FlowKey};
use flowloom_record::{Column, Group, GroupSet, Schema, Value};

use crate::RecordState;
use crate::accounting::fields::{
    ApplicationFields, Conn, Features, Fields, FileName, FirstPackets, Handshake, PacketGaps, PacketSizes,
    PayloadRtt, TcpTrouble, VlanTags, digest,
};
use crate::accounting::{Accounted, AccountingRecord};
use crate::firewall::FirewallFlow;
use crate::l7_filter::L7Flow;

/// Additional fields that are allocated together.
pub(super) trait Part: Fields {
    const GROUPS: GroupSet;
}

/// Fields of all packets.
pub(super) type Statistics = (PacketSizes, (PacketGaps, (FirstPackets, (VlanTags, (FileName, Features)))));
/// Fields of the packets of TCP.
pub(super) type Transport = (Handshake, (TcpTrouble, PayloadRtt));
/// Fields from payload.
pub(super) type Payload = ApplicationFields;

impl Part for Statistics {
    const GROUPS: GroupSet =
        set(&[Group::Sizes, Group::Gaps, Group::Splt, Group::Vlan, Group::File, Group::Features]);
}

impl Part for Transport {
    const GROUPS: GroupSet = set(&[Group::Handshake, Group::Tcp, Group::Rtt]);
}

impl Part for Conn {
    const GROUPS: GroupSet = set(&[Group::Conn]);
}

impl Part for Payload {
    const GROUPS: GroupSet = set(&[Group::Tls, Group::Dns, Group::Http, Group::Quic, Group::Ssh]);
}

const fn set(groups: &[Group]) -> GroupSet {
    let mut all = GroupSet::NONE;
    let mut at = 0;
    while at < groups.len() {
        all.insert(groups[at]);
        at += 1;
    }
    all
}

/// The state of a flow: its record, and what the modules of the run know.
#[derive(Clone, Debug, Default)]
pub struct MeterFlow {
    pub(super) record: Accounted,
    pub(super) statistics: Option<Box<Statistics>>,
    pub(super) transport: Option<Box<Transport>>,
    pub(super) conn: Option<Box<Conn>>,
    pub(super) payload: Option<Box<Payload>>,
    pub(super) label: Option<Box<L7Flow>>,
    pub(super) verdict: Option<Box<FirewallFlow>>,
}

impl MeterFlow {
    /// Returns the accounting of the record.
    #[must_use]
    pub fn record(&self) -> &Accounted {
        &self.record
    }

    /// Returns the label of the protocol, if the run labels flows.
    #[must_use]
    pub fn label(&self) -> Option<&L7Flow> {
        self.label.as_deref()
    }

    /// Returns the verdict, if the run has rules.
    #[must_use]
    pub fn verdict(&self) -> Option<&FirewallFlow> {
        self.verdict.as_deref()
    }

    /// Appends the values of the additional fields in these groups, and that others are missing.
    fn field_values(&self, groups: GroupSet, out: &mut Vec<Value>) {
        let way = self.record.source_direction();
        part_values(self.statistics.as_deref(), way, groups, out);
        part_values(self.transport.as_deref(), way, groups, out);
        part_values(self.conn.as_deref(), way, groups, out);
        part_values(self.payload.as_deref(), way, groups, out);
    }
}

/// A flow without a part had no packet for it.
fn part_values<P: Part>(part: Option<&P>, way: Direction, groups: GroupSet, out: &mut Vec<Value>) {
    match part {
        Some(part) => part.values_of(way, groups, out),
        None => P::default().values_of(way, groups, out),
    }
}

impl FlowState for MeterFlow {
    const COLUMNS: &'static [Column] = Accounted::COLUMNS_OF_METER;

    fn is_closed(&self) -> bool {
        self.record.is_closed()
    }

    /// A digest represents the fields here.
    fn values(&self, out: &mut Vec<Value>) {
        self.record.values(out);
        let begin = out.len();
        let parts = [self.statistics.is_some(), self.transport.is_some(), self.conn.is_some()];
        if parts.contains(&true) || self.payload.is_some() {
            self.field_values(GroupSet::ALL, out);
        }
        let fields = digest(&out[begin..]);
        out.truncate(begin);
        out.push(fields);
        out.push(Value::Word(self.label().and_then(L7Flow::protocol).unwrap_or("-")));
        out.push(Value::Word(self.verdict().map_or("-", FirewallFlow::word)));
        out.push(Value::Number(self.verdict().map_or(0, |verdict| verdict.rule().into())));
    }
}

/// The columns of a module's state that a combined record has, with their positions in the state:
/// those whose names accounting does not use.
fn of_module(columns: &'static [Column], group: Group) -> impl Iterator<Item = (usize, Column)> {
    let core = AccountingRecord::COLUMNS;
    let is_free =
        |column: &Column| column.group != Group::Internal && core.iter().all(|one| one.name != column.name);
    let columns = columns.iter().copied().enumerate().filter(move |(_, column)| is_free(column));
    columns.map(move |(at, column)| {
        debug_assert!(column.group == group, "the columns of a module are one group");
        let is_taken = |element| core.iter().any(|one| one.elements.contains(element));
        // In IPFIX such an element holds what accounting counts.
        (at, if column.elements.iter().any(is_taken) { column.with_elements(&[]) } else { column })
    })
}

/// Appends the values of a module's state for those columns.
fn module_values<F: FlowState>(state: Option<&F>, group: Group, out: &mut Vec<Value>) {
    let mut values = Vec::new();
    if let Some(state) = state {
        state.values(&mut values);
    }
    let taken = of_module(F::COLUMNS, group);
    out.extend(taken.map(|(at, _)| values.get_mut(at).map(std::mem::take).unwrap_or_default()));
}

/// The columns of accounting records, and behind them those of the modules.
impl RecordState for MeterFlow {
    fn account(&self) -> Option<&Accounted> {
        Some(&self.record)
    }

    fn label(&self) -> Option<&L7Flow> {
        self.label.as_deref()
    }

    fn source_direction(&self) -> Option<Direction> {
        Some(self.record.source_direction())
    }

    fn schema() -> Schema {
        let mut columns = AccountingRecord::COLUMNS.to_vec();
        columns.extend(of_module(L7Flow::COLUMNS, Group::Label).map(|(_, column)| column));
        columns.extend(of_module(FirewallFlow::COLUMNS, Group::Verdict).map(|(_, column)| column));
        Statistics::columns(&mut columns);
        Transport::columns(&mut columns);
        Conn::columns(&mut columns);
        Payload::columns(&mut columns);
        Schema::new(columns)
    }

    fn record_values(&self, key: &FlowKey, ended: EndedBy, groups: GroupSet, out: &mut Vec<Value>) {
        self.record.record_values(key, ended, groups, out);
        module_values(self.label(), Group::Label, out);
        module_values(self.verdict(), Group::Verdict, out);
        if !groups.intersection(GroupSet::FIELDS).is_empty() {
            self.field_values(groups, out);
        }
    }
}
