//! Accounting with any modules beside it: additional fields, protocol labels and verdicts of rules,
//! in one record.
//!
//! ```text
//!  packet ─┬─ rules ────────▶ verdict             ┐
//!          ├─ first payloads ▶ protocol           ├─ one record: core, and the groups of a run
//!          ├─ fields ───────▶ sizes … ssh         │
//!          └─ accounting ───▶ times, counts, ends ┘
//! ```
//!
//! The modules are chosen when the run starts. A flow takes memory for those that the run has, and
//! [`Meter::bytes_per_flow`] says how much; the parts of a flow lie outside of the flow table, and
//! begin with its first packet.
//!
//! When accounting [begins another record](flowloom_engine::App::next_record) of a connection, the
//! verdict goes on, because rules judge connections. The protocol goes on after an active timeout,
//! and begins anew with another connection. Fields begin anew with every record.

mod flow;

use flowloom_engine::{App, Verdict};
use flowloom_flow_key::protocol::TCP;
use flowloom_packet::PacketView;
use flowloom_record::{Group, GroupSet};

pub use flow::MeterFlow;

use crate::accounting::fields::{Conn, FieldMemory, FieldStore, Fields as _};
use crate::accounting::{Accounting, SplitReason};
use crate::firewall::{Firewall, FirewallFlow};
use crate::l7_filter::{L7Filter, L7Flow};

use flow::{Part, Payload, Statistics, Transport};

/// Bytes that an allocator takes in addition to those of a block.
const ALLOCATION_BYTES: usize = 16;

/// [`Accounting`] with modules beside it.
///
/// # Examples
///
/// ```
/// use flowloom_apps::record::{Group, GroupSet};
/// use flowloom_apps::{Accounting, L7Options, L7Plan, Meter, dpi};
///
/// let plan = L7Plan::new(&dpi::builtin(), L7Options::default())?;
/// let groups: GroupSet = [Group::Tls, Group::Rtt].into_iter().collect();
/// // One for each worker: `engine::run` takes a closure like this.
/// let app = |_worker: usize| {
///     Meter::new(Accounting::new(None)).with_fields(groups).with_labels(plan.app())
/// };
/// # let _ = app(0);
/// # Ok::<(), flowloom_apps::L7Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Meter {
    accounting: Accounting,
    fields: GroupSet,
    store: FieldStore,
    labels: Option<L7Filter>,
    rules: Option<Firewall>,
}

impl Meter {
    /// Returns the application without modules.
    #[must_use]
    pub fn new(accounting: Accounting) -> Self {
        Self { accounting, ..Self::default() }
    }

    /// Keeps the additional fields of these groups.
    #[must_use]
    pub fn with_fields(self, groups: GroupSet) -> Self {
        Self { fields: groups.intersection(GroupSet::FIELDS), ..self }
    }

    /// Takes the memory for text and collected bytes from a limit. By default there is none. Call
    /// it once per worker.
    #[must_use]
    pub fn with_memory(self, memory: &FieldMemory) -> Self {
        Self { store: memory.store(), ..self }
    }

    /// Labels flows with their protocol.
    #[must_use]
    pub fn with_labels(self, filter: L7Filter) -> Self {
        Self { labels: Some(filter), ..self }
    }

    /// Judges packets by rules. The verdict of a packet is that of the rules.
    #[must_use]
    pub fn with_rules(self, firewall: Firewall) -> Self {
        Self { rules: Some(firewall), ..self }
    }

    /// Returns the groups of columns that the records have beside those of accounting.
    #[must_use]
    pub fn groups(&self) -> GroupSet {
        let modules = [(Group::Label, self.labels.is_some()), (Group::Verdict, self.rules.is_some())];
        let present = modules.into_iter().filter(|(_, is_present)| *is_present);
        self.fields.union(present.map(|(group, _)| group).collect())
    }

    /// Returns the maximum number of bytes that a flow with these groups takes in addition to its
    /// slot in the flow table, without text and collected payload.
    #[must_use]
    pub fn bytes_per_flow(groups: GroupSet) -> usize {
        let parts = [
            (Statistics::GROUPS, size_of::<Statistics>()),
            (Transport::GROUPS, size_of::<Transport>()),
            (Conn::GROUPS, size_of::<Conn>()),
            (Payload::GROUPS, size_of::<Payload>()),
            ([Group::Label].into_iter().collect(), size_of::<L7Flow>()),
            ([Group::Verdict].into_iter().collect(), size_of::<FirewallFlow>()),
        ];
        let present = parts.into_iter().filter(|(of, _)| !groups.intersection(*of).is_empty());
        present.map(|(_, bytes)| bytes + ALLOCATION_BYTES).sum()
    }

    /// Adds a packet to a part of a flow, which begins with it, if the run has one of its groups.
    #[inline]
    fn add<P: Part>(&self, part: &mut Option<Box<P>>, packet: &PacketView<'_>) {
        let asked = self.fields.intersection(P::GROUPS);
        if !asked.is_empty() {
            part.get_or_insert_default().on_packet_of(packet, asked, &self.store);
        }
    }
}

impl App for Meter {
    type Flow = MeterFlow;

    #[inline]
    fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut MeterFlow) -> Verdict {
        self.add(&mut flow.statistics, packet);
        // An error about a flow has another protocol than the flow.
        if !packet.headers.is_error_of_flow {
            if packet.headers.key.protocol() == TCP {
                self.add(&mut flow.transport, packet);
            }
            self.add(&mut flow.conn, packet);
            self.add(&mut flow.payload, packet);
            if let Some(labels) = &mut self.labels {
                labels.on_packet(packet, flow.label.get_or_insert_default());
            }
        }
        self.accounting.on_packet(packet, &mut flow.record);
        match &mut self.rules {
            Some(rules) => rules.on_packet(packet, flow.verdict.get_or_insert_default()),
            None => Verdict::Accept,
        }
    }

    #[inline]
    fn next_record(&self, packet: &PacketView<'_>, flow: &mut MeterFlow) -> Option<MeterFlow> {
        let ended = self.accounting.next_record(packet, &mut flow.record);
        let is_over = || flow.conn.as_ref().is_some_and(|conn| conn.ends_before(packet));
        let record = ended.or_else(|| is_over().then(|| flow.record.end_connection()))?;
        let goes_on = flow.record.split_reason() == Some(SplitReason::Active);
        Some(MeterFlow {
            record,
            label: flow.label.as_mut().filter(|_| goes_on).map(|label| Box::new(label.carry())),
            verdict: flow.verdict.as_ref().map(|verdict| Box::new(verdict.carried())),
            ..MeterFlow::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use flowloom_flow_key::{Direction, FlowKey};
    use flowloom_packet::Headers;

    use super::*;

    #[test]
    fn icmp_error_counts_in_its_flow_but_not_as_a_segment() {
        let (key, _) = FlowKey::from_v4(1, 2, 40_000, 443, TCP);
        let mut headers = Headers::new(key, Direction::HighToLow);
        headers.payload_bytes = 36;
        headers.is_error_of_flow = true;
        let error = PacketView::new(&[3; 36], headers, 7, 56);
        let mut meter = Meter::new(Accounting::new(None)).with_fields(GroupSet::ALL);
        let mut flow = MeterFlow::default();
        meter.on_packet(&error, &mut flow);
        assert_eq!((flow.record.packets(), flow.record.bytes()), ([0, 1], [0, 56]));
        assert!(flow.statistics.is_some() && flow.transport.is_none());
        assert!(flow.conn.is_none() && flow.payload.is_none());
    }
}
