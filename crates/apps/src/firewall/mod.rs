//! A first-match firewall, which decides once per flow.
//!
//! ```text
//!  first packet of a flow ──▶ FlowCuts ──▶ rule, verdict ──▶ kept in the flow's state
//!  its other packets, and all replies ─────────────────────▶ the verdict kept there
//!  a flow judged by replaced rules ───▶ judged again, in the direction of its first packet
//! ```
//!
//! **Direction.** Rules match the direction of a flow's first packet. Packets of the other
//! direction inherit the verdict, so replies need no rule. A TCP packet with SYN and without ACK in
//! the other direction opens a separate connection, and rules match it separately. If they accept
//! it on a denied flow, the flow takes its direction.
//!
//! **TCP that opens no connection** (no SYN was seen, for example in a capture that begins
//! midstream, or in a scan) is judged like other traffic. With [`FirewallOptions::strict_tcp`] it
//! is denied until a SYN arrives, and rules match the direction of the SYN. Only the opening is
//! checked, neither sequence numbers nor the end of a connection.
//!
//! **Rules with conditions beyond a flow**, such as TCP flags, an ICMP type or a connection's
//! state, are evaluated for every packet separately, in its own direction, as in a packet filter.
//! Replies then need rules. States come from the flow table: see [`Connection`].
//!
//! **Fragments** other than the first have no ports. All such fragments of one protocol between two
//! hosts are one flow, which no rule with ports matches. `strict_tcp` does not apply to them. They
//! have no state either: where the verdict depends on it, they are denied as
//! [undecided](Judgement::is_undecided). The kernel joins fragments before it looks up the state,
//! as `flowloom_traffic::Defrag` does for captures.
//!
//! **ICMP errors** are separate flows with unknown state, unless the packets were decoded with
//! [`errors_by_flow`](flowloom_packet::DecodeOptions::errors_by_flow). Then an error is a packet of
//! the flow that it concerns, rules match its own addresses and type, and its state is RELATED or
//! INVALID.
//!
//! **The action of a rule** is its [`flowloom_classifier::Action`] if its file has one, and
//! otherwise follows from [`Defaults`].
//!
//! **Within an application of your own**, load a policy (`rules::load`) and build it with
//! [`FirewallRules::of_policy`]. For each packet call [`describe()`], [`FirewallRules::locate`],
//! [`Connection::take_view`], [`FirewallRules::judge_packet`] and, with the verdict,
//! [`Connection::settle`]. [`LiveRules`] replaces rules, and [`WorkerRules`] counts what each
//! decides. `examples/stateful_firewall.rs` of the
//! crate `flowloom` does this.
//!
//! Results do not depend on the number of workers, if each flow's packets keep their order and the
//! rules are not replaced meanwhile.

mod connection;
mod describe;
mod flow;
mod live_rules;
mod rules;
mod rules_error;
mod sctp_tracker;
mod tally;
mod tcp_tracker;

use flowloom_flow_key::protocol::TCP;
use std::sync::Arc;

use flowloom_engine::{App, Verdict};
use flowloom_flow_key::FiveTuple;
use flowloom_packet::{InterfaceName, PacketView};
use flowloom_rules::firewall::{ConnectionState, Fragment, Packet};

pub use connection::{Connection, Connections};
pub use describe::describe;
pub use flow::FirewallFlow;
pub use live_rules::{LiveRules, WorkerRules};
pub use rules::{CaptureSide, Defaults, Enforcement, FirewallRules, Judgement};
pub use rules_error::RulesError;
pub use tally::{Hits, VerdictCounts};

const FIN: u16 = 1;
const SYN: u16 = 2;
const RST: u16 = 4;
const ACK: u16 = 16;

/// How the firewall judges flows and packets.
///
/// Any version may add fields, so end a literal with `..FirewallOptions::default()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirewallOptions {
    /// Judge every packet separately, in its own direction. Replies then need rules.
    pub per_packet: bool,
    /// Deny TCP packets of flows that no SYN has opened. It has no effect if packets are judged
    /// separately.
    pub strict_tcp: bool,
}

/// Accepts and denies packets by rules.
///
/// The firewall reads the rules' generation once per packet, which costs one load, and takes a lock
/// only after a change. Its counts are immediately visible in [`LiveRules::counts`].
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use flowloom_apps::firewall::{Defaults, Firewall, FirewallOptions, FirewallRules, LiveRules};
/// use flowloom_classifier::{ClassifierBuilder, RuleSet};
/// let builder = ClassifierBuilder::new();
/// let rules = FirewallRules::build(RuleSet::default(), Defaults::default(), builder)?;
/// let live = Arc::new(LiveRules::new(rules));
/// // One for each worker: `engine::run` takes a closure like this.
/// let app = |_worker: usize| Firewall::new(Arc::clone(&live), FirewallOptions::default());
/// let _running = app(0);
/// assert_eq!(live.counts().denied.packets, 0);
/// # Ok::<(), flowloom_classifier::BuildError>(())
/// ```
#[derive(Debug)]
pub struct Firewall {
    rules: WorkerRules,
    options: FirewallOptions,
}

impl Firewall {
    /// Returns a firewall over the current and all future rules of `live`.
    #[must_use]
    pub fn new(live: Arc<LiveRules>, options: FirewallOptions) -> Self {
        Self { rules: WorkerRules::new(live), options }
    }

    /// Judges a packet separately. The flow keeps the rule of its last packet.
    fn packet(&mut self, packet: &PacketView<'_>, flow: &mut FirewallFlow) -> Judgement {
        let rules = self.rules.rules();
        let mut located = rules.locate(describe(packet), packet.port, packet.headers.interface);
        let is_tracked = rules.asks_state() && !rules.untracks(&located);
        if is_tracked {
            located.state = flow.connection.take_view(packet, &located);
        } else if rules.asks_state() {
            located.state = Some(ConnectionState::Untracked);
        }
        let found = rules.judge_packet(rules.policy().seen(located));
        if is_tracked && !packet.headers.is_error_of_flow {
            flow.connection.settle(located.state, found.verdict == Verdict::Accept);
        }
        flow.number = found.number;
        flow.generation = self.rules.generation();
        if flow.way.is_none() {
            flow.way = Some(packet.headers.direction);
            self.rules.count_flow(found);
        }
        found
    }

    /// Judges a flow by its tuple, whose packets a port of a wire receives or an interface
    /// captures. A flow of later fragments has no ports.
    fn judge_flow(
        &self,
        tuple: FiveTuple,
        later_fragment: bool,
        (port, interface): (u16, InterfaceName),
    ) -> Judgement {
        let fragment = if later_fragment { Fragment::Later } else { Fragment::Whole };
        let packet = Packet::new(tuple).with_fragment(fragment);
        self.rules.rules().judge_received(packet, port, interface)
    }

    /// Judges a packet by its flow. Returns `None` for a packet of a connection that was not
    /// opened.
    #[inline]
    fn flow(&mut self, packet: &PacketView<'_>, flow: &mut FirewallFlow) -> Option<Judgement> {
        let headers = &packet.headers;
        let is_tcp = headers.key.protocol() == TCP && !headers.later_fragment;
        let opens = is_tcp && headers.tcp_flags & (SYN | ACK | FIN | RST) == SYN;
        if self.options.strict_tcp && is_tcp && !flow.is_open {
            if !opens {
                if flow.way.is_none() {
                    flow.way = Some(headers.direction);
                    self.rules.tally.not_opened().flow();
                    self.rules.tally.begin(Verdict::Deny);
                }
                return None;
            }
            flow.is_open = true;
            flow.turn(headers);
            flow.generation = 0;
        }
        if flow.way.is_none() {
            flow.turn(headers);
        }
        let way = flow.way.unwrap_or(headers.direction);
        if flow.generation != self.rules.generation() {
            let is_first = flow.packets() == [0, 0];
            // Packets of the other direction come in by the other port.
            let port = if headers.direction == way { packet.port } else { packet.port ^ 1 };
            let place = (port, flow.captured_by);
            let found = self.judge_flow(headers.key.tuple(way), headers.later_fragment, place);
            self.rules.tally.of(found).flow();
            if is_first {
                self.rules.tally.begin(found.verdict);
            }
            flow.generation = self.rules.generation();
            flow.number = found.number;
            (flow.denies, flow.is_undecided) = (found.verdict == Verdict::Deny, found.is_undecided);
        }
        if opens && headers.direction != way {
            let place = (packet.port, headers.interface);
            let found = self.judge_flow(headers.tuple(), headers.later_fragment, place);
            if flow.denies && found.verdict == Verdict::Accept {
                flow.turn(headers);
                flow.number = found.number;
                (flow.denies, flow.is_undecided) = (false, false);
            }
            return Some(found);
        }
        let verdict = if flow.denies { Verdict::Deny } else { Verdict::Accept };
        Some(Judgement { number: flow.number, verdict, is_undecided: flow.is_undecided })
    }
}

impl App for Firewall {
    type Flow = FirewallFlow;

    #[inline]
    fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut FirewallFlow) -> Verdict {
        self.rules.refresh();
        let found = if self.options.per_packet || self.rules.rules().is_per_packet() {
            Some(self.packet(packet, flow))
        } else {
            self.flow(packet, flow)
        };
        let (hits, verdict) = match found {
            Some(found) => {
                if found.number == 0
                    && !found.is_undecided
                    && self.rules.rules().is_of_other_family(&packet.headers.key)
                {
                    self.rules.tally.of_other_family().packet(packet.wire_bytes);
                }
                (self.rules.tally.of(found), found.verdict)
            }
            None => (self.rules.tally.not_opened(), Verdict::Deny),
        };
        hits.packet(packet.wire_bytes);
        flow.count(verdict, packet.wire_bytes);
        verdict
    }
}
