//! A firewall with accounting and protocol labels: the application of a bridge.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use flowloom_engine::{App, EndedBy, FlowState, Verdict};
use flowloom_flow_key::{FlowKey, IpFamily};
use flowloom_packet::PacketView;
use flowloom_record::{Column, GroupSet, Schema, Value};

use crate::accounting::{Accounted, Accounting};
use crate::firewall::{Firewall, FirewallFlow, FirewallOptions, LiveRules};
use crate::record_state::RecordState;
use crate::{L7Filter, L7Flow, L7Plan};

const TCP_SYN: u16 = 2;
const TCP_ACK: u16 = 16;

/// Labels of flows, and the protocols whose flows are denied. All workers share it.
#[derive(Clone, Debug)]
pub struct GuardedProtocols {
    plan: Arc<L7Plan>,
    denied: Arc<[String]>,
    counts: Arc<Mutex<BTreeMap<&'static str, ProtocolCounts>>>,
}

impl GuardedProtocols {
    /// Labels flows by a plan, and denies flows of these protocols from the packet on that
    /// identifies them.
    ///
    /// # Errors
    ///
    /// Returns the first of the names that the plan does not have.
    pub fn new(plan: L7Plan, denied: Vec<String>) -> Result<Self, String> {
        if let Some(unknown) =
            denied.iter().find(|denied| !plan.scanner().names().any(|name| name == **denied))
        {
            return Err(unknown.clone());
        }
        Ok(Self { plan: Arc::new(plan), denied: denied.into(), counts: Arc::default() })
    }

    /// Returns the counts of each protocol, once the workers have ended.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&'static str, ProtocolCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Counts of a protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProtocolCounts {
    /// Flows that first got this label.
    pub flows: u64,
    /// Packets denied because their flow has this label.
    pub denied: u64,
}

/// The label of a connection.
#[derive(Clone, Debug, Default, PartialEq)]
struct Label {
    scan: L7Flow,
    is_denied: bool,
}

/// The accounting record of a flow, and its verdict.
///
/// A full table evicts flows that are not established: TCP connections whose handshake is not
/// complete, and other flows without packets in both directions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GuardedFlow {
    account: Accounted,
    firewall: FirewallFlow,
    /// Only if flows are labelled.
    label: Option<Box<Label>>,
}

impl GuardedFlow {
    /// Returns the accounting record, which includes denied packets.
    pub fn account(&self) -> &Accounted {
        &self.account
    }

    /// Returns the verdict and the counts of accepted and denied packets. They belong to the
    /// connection, even if accounting splits it into several records.
    pub fn firewall(&self) -> &FirewallFlow {
        &self.firewall
    }

    /// Returns the protocol's name if flows are labelled and a pattern has matched.
    pub fn protocol(&self) -> Option<&'static str> {
        self.label.as_ref()?.scan.protocol()
    }
}

impl FlowState for GuardedFlow {
    const COLUMNS: &'static [Column] = Accounted::COLUMNS;
    const EVICTABLE: bool = true;

    fn values(&self, out: &mut Vec<Value>) {
        self.account.values(out);
    }

    fn is_closed(&self) -> bool {
        self.account.is_closed()
    }

    fn is_established(&self) -> bool {
        let is_answered = self.account.packets().iter().all(|packets| *packets > 0);
        // The opening side acknowledges only what was answered.
        let flags = self.account.flags();
        let is_tcp = flags != [0, 0];
        is_answered && (!is_tcp || flags.iter().all(|flags| flags & TCP_ACK != 0))
    }
}

/// The accounting record.
impl RecordState for GuardedFlow {
    fn schema() -> Schema {
        Accounted::schema()
    }

    fn record_values(&self, key: &FlowKey, ended: EndedBy, groups: GroupSet, out: &mut Vec<Value>) {
        self.account.record_values(key, ended, groups, out);
    }
}

/// [`Accounting`], with a [`Firewall`] if there are rules, and an [`L7Filter`] if flows are
/// labelled; without rules all packets pass. Messages of neighbor discovery always pass: without
/// them IPv6 hosts on both sides would not find each other.
///
/// # Examples
///
/// ```
/// use flowloom_apps::{Accounting, Guard};
/// // One for each worker: `engine::run_wires` takes a closure like this.
/// let app = |_worker: usize| Guard::new(Accounting::new(Some(1_800_000_000_000)), None);
/// # let _ = app(0);
/// ```
#[derive(Debug)]
pub struct Guard {
    accounting: Accounting,
    firewall: Option<Firewall>,
    labels: Option<(L7Filter, GuardedProtocols)>,
    counts: BTreeMap<&'static str, ProtocolCounts>,
}

impl Guard {
    /// Returns the application of one worker.
    #[must_use]
    pub fn new(accounting: Accounting, rules: Option<(Arc<LiveRules>, FirewallOptions)>) -> Self {
        let firewall = rules.map(|(live, options)| Firewall::new(live, options));
        Self { accounting, firewall, labels: None, counts: BTreeMap::new() }
    }

    /// Returns the application with labels.
    #[must_use]
    pub fn with_protocols(mut self, protocols: Option<&GuardedProtocols>) -> Self {
        self.labels = protocols.map(|protocols| (protocols.plan.app(), protocols.clone()));
        self
    }

    /// Labels the connection, and returns the verdict of the label.
    fn label(&mut self, packet: &PacketView<'_>, flow: &mut GuardedFlow) -> Verdict {
        let Some((filter, protocols)) = &mut self.labels else { return Verdict::Accept };
        let label = flow.label.get_or_insert_default();
        if !label.scan.is_decided() {
            let before = label.scan.protocol();
            filter.on_packet(packet, &mut label.scan);
            if let (None, Some(name)) = (before, label.scan.protocol()) {
                self.counts.entry(name).or_default().flows += 1;
            }
            let is_denied = |name| protocols.denied.iter().any(|denied| denied == name);
            label.is_denied = label.scan.protocol().is_some_and(is_denied);
        }
        if !label.is_denied {
            return Verdict::Accept;
        }
        self.counts.entry(label.scan.protocol().unwrap_or_default()).or_default().denied += 1;
        Verdict::Deny
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Some((_, protocols)) = &self.labels else { return };
        let mut counts = protocols.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, more) in &self.counts {
            let all = counts.entry(name).or_default();
            all.flows += more.flows;
            all.denied += more.denied;
        }
    }
}

/// Returns whether a packet is a message of neighbor discovery (RFC 4861), by which IPv6 hosts of
/// one link find each other and their routers, as IPv4 hosts do by ARP. No router forwards one: its
/// hop limit is 255, and no header is between it and the IPv6 header.
fn is_neighbor_discovery(packet: &PacketView<'_>) -> bool {
    let headers = &packet.headers;
    let ip = packet.bytes.get(headers.network_offset as usize..).unwrap_or_default();
    headers.key.family() == IpFamily::V6
        && headers.transport_offset == headers.network_offset + 40
        && matches!(ip, [_, _, _, _, _, _, 58, 255, ..])
        && matches!(ip.get(40..42), Some([133..=137, 0]))
}

impl App for Guard {
    type Flow = GuardedFlow;

    #[inline]
    fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut GuardedFlow) -> Verdict {
        self.accounting.on_packet(packet, &mut flow.account);
        if is_neighbor_discovery(packet) {
            return Verdict::Accept;
        }
        let by_label = self.label(packet, flow);
        match &mut self.firewall {
            Some(firewall) if by_label == Verdict::Accept => firewall.on_packet(packet, &mut flow.firewall),
            _ => by_label,
        }
    }

    /// Verdict and label continue when accounting begins another record of the connection.
    #[inline]
    fn next_record(&self, packet: &PacketView<'_>, flow: &mut GuardedFlow) -> Option<GuardedFlow> {
        let account = self.accounting.next_record(packet, &mut flow.account)?;
        let begins_connection = packet.headers.tcp_flags & (TCP_SYN | TCP_ACK) == TCP_SYN;
        let label = flow.label.clone().filter(|_| !begins_connection);
        Some(GuardedFlow { account, firewall: flow.firewall.clone(), label })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::L7Options;
    use crate::firewall::{Defaults, FirewallRules};
    use flowloom_classifier::RuleSet;
    use flowloom_dpi::Pattern;
    use flowloom_packet::{DecodeOptions, LinkType, decode};

    use Verdict::{Accept, Deny};

    /// The frame of a segment from or to a client.
    fn segment(port: u16, sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend([port.to_be_bytes(), [0, 22]].concat());
        packet.extend([&sequence.to_be_bytes()[..], &[0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]].concat());
        packet.extend(payload);
        let length = u16::try_from(packet.len()).unwrap().to_be_bytes();
        packet[2..4].copy_from_slice(&length);
        packet
    }

    #[test]
    fn neighbour_discovery_passes_all_rules() {
        let rules = FirewallRules::scanning(RuleSet::default(), Defaults::default());
        let rules = (Arc::new(LiveRules::new(rules)), FirewallOptions::default());
        let mut guard = Guard::new(Accounting::new(None), Some(rules));
        let mut judge = |next, hops, kind, code| {
            let mut frame = vec![0x60, 0, 0, 0, 0, 24, next, hops];
            frame.extend([[0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]; 2].concat());
            frame[39] = 2;
            if next == 60 {
                frame.extend([58, 0, 1, 4, 0, 0, 0, 0]);
            }
            frame.extend([kind, code, 0, 0, 0, 0, 0, 0, 0xFE, 0x80, 0, 0, 0, 0, 0, 0]);
            let headers = decode(LinkType::RAW, &frame, DecodeOptions::default()).unwrap();
            let view = PacketView::new(&frame, headers, 1_000_000_000, 64);
            guard.on_packet(&view, &mut GuardedFlow::default())
        };
        assert_eq!([133, 134, 135, 136, 137].map(|kind| judge(58, 255, kind, 0)), [Accept; 5]);
        let from_afar = judge(58, 64, 135, 0);
        let [echo, behind_options, odd] =
            [judge(58, 255, 128, 0), judge(60, 255, 135, 0), judge(58, 255, 135, 9)];
        assert_eq!([from_afar, echo, behind_options, odd], [Deny; 4]);
    }

    #[test]
    fn flow_is_denied_from_its_identifying_packet_on() {
        let patterns = [Pattern::new("ssh", "^SSH-2"), Pattern::new("web", "^GET ")];
        let plan = || L7Plan::new(&patterns, L7Options::default()).unwrap();
        assert_eq!(GuardedProtocols::new(plan(), vec![String::from("shh")]).unwrap_err(), "shh");
        let protocols = GuardedProtocols::new(plan(), vec![String::from("ssh")]).unwrap();
        let mut guard = Guard::new(Accounting::new(None), None).with_protocols(Some(&protocols));
        let mut judge = |port, data: &[u8]| {
            let mut flow = GuardedFlow::default();
            let next = 10 + u32::try_from(data.len()).unwrap();
            let parts = [(9, 2, &b""[..]), (10, 16, data), (next, 16, b"more")];
            let verdicts = parts.map(|(sequence, flags, payload)| {
                let frame = segment(port, sequence, flags, payload);
                let headers = decode(LinkType::RAW, &frame, DecodeOptions::default()).unwrap();
                guard.on_packet(&PacketView::new(&frame, headers, 1_000_000_000, 60), &mut flow)
            });
            (verdicts, flow.protocol())
        };
        let (accept, deny) = (Accept, Deny);
        assert_eq!(judge(1000, b"SSH-2.0-x"), ([accept, deny, deny], Some("ssh")));
        assert_eq!(judge(1001, b"GET / HTTP"), ([accept; 3], Some("web")));
        assert_eq!(judge(1002, b"other"), ([accept; 3], None));
        drop(guard);
        let counts = protocols.counts();
        assert_eq!((counts["ssh"].flows, counts["ssh"].denied), (1, 2));
        assert_eq!((counts["web"].flows, counts["web"].denied), (1, 0));
    }
}
