//! The firewall's state of a flow.

use flowloom_engine::{FlowState, Verdict};
use flowloom_flow_key::Direction;
use flowloom_packet::{Headers, InterfaceName};
use flowloom_record::{Column, Group, Kind, Value, Word, element};

use super::connection::Connection;
use crate::record_columns::{end_word, source_end};

/// The verdict of a flow, the rule that gave it, and the counts of packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirewallFlow {
    /// Packets accepted and denied.
    packets: [u64; 2],
    /// Bytes on the wire, accepted and denied.
    bytes: [u64; 2],
    /// The number of the rule that gave the last verdict; 0 for no rule.
    pub(super) number: u32,
    /// The generation of the rules that gave it; 0 before the first verdict.
    pub(super) generation: u32,
    /// The direction that rules match: that of the first sender.
    pub(super) way: Option<Direction>,
    /// The interface that captured the first packet of that direction.
    pub(super) captured_by: InterfaceName,
    pub(super) denies: bool,
    pub(super) is_undecided: bool,
    /// A SYN has opened the connection.
    pub(super) is_open: bool,
    /// The connection, for rules that match on states. It lacks packets from before such rules were
    /// loaded.
    pub(super) connection: Connection,
}

const _: () = assert!(size_of::<FirewallFlow>() <= 64, "a flow's state fits the line behind its key");

impl FirewallFlow {
    /// Returns the packets accepted and denied.
    pub fn packets(&self) -> [u64; 2] {
        self.packets
    }

    /// Returns the bytes on the wire, accepted and denied.
    pub fn bytes(&self) -> [u64; 2] {
        self.bytes
    }

    /// Returns the number of the rule that gave the last verdict, counted from 1; 0 if no rule did.
    pub fn rule(&self) -> u32 {
        self.number
    }

    /// Returns the [generation](super::LiveRules::generation) of the rules to which
    /// [`rule`](Self::rule) refers; 0 before the first verdict. A flow without packets since the
    /// rules were replaced keeps the number of its rule in the earlier rules.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Returns the direction for which the flow was judged: that of its first sender.
    pub fn source_direction(&self) -> Option<Direction> {
        self.way
    }

    /// Returns the state with which the next record of the flow begins: what was judged, without
    /// packets.
    #[cfg(feature = "l7-filter")]
    pub(crate) fn carried(&self) -> Self {
        Self { packets: [0; 2], bytes: [0; 2], ..self.clone() }
    }

    /// Begins to match the direction of a packet.
    pub(super) fn turn(&mut self, headers: &Headers) {
        self.way = Some(headers.direction);
        self.captured_by = headers.interface;
    }

    #[inline]
    pub(super) fn count(&mut self, verdict: Verdict, wire_bytes: u32) {
        let at = usize::from(verdict == Verdict::Deny);
        self.packets[at] += 1;
        self.bytes[at] += u64::from(wire_bytes);
    }

    pub(crate) fn word(&self) -> &'static str {
        match self.packets {
            [0, 0] => "-",
            [_, 0] => "accept",
            [0, _] => "deny",
            _ => "mixed",
        }
    }
}

const fn verdict(name: &'static str, kind: Kind, description: &'static str) -> Column {
    Column::new(name, kind, description).in_group(Group::Verdict)
}

/// The verdicts, with their codes in IPFIX: forwarded, dropped, unknown [RFC 7270 §4.12].
const VERDICTS: &[Word] =
    &[Word::new("accept", 64), Word::new("deny", 128), Word::new("mixed", 0), Word::new("-", 0)];

/// A full table evicts flows of which no packet was accepted, so that a scan closes no firewall.
impl FlowState for FirewallFlow {
    const EVICTABLE: bool = true;
    const COLUMNS: &'static [Column] = &[
        verdict(
            "verdict",
            Kind::Word(VERDICTS),
            "Whether all packets were accepted (`accept`), all denied (`deny`), or some of each (`mixed`).",
        )
        .with_elements(element::FORWARDING),
        verdict("rule", Kind::Number, "The number of the rule that gave the last verdict; 0 for none."),
        source_end("first_sender", "The endpoint of the key whose direction the rules match."),
        verdict("packets_accepted", Kind::Packets, "Packets that were accepted.")
            .with_elements(element::PACKETS),
        verdict("bytes_accepted", Kind::Bytes, "The bytes of these packets on the wire.")
            .with_elements(element::BYTES),
        verdict("packets_denied", Kind::Packets, "Packets that were denied.")
            .with_elements(element::DROPPED_PACKETS),
        verdict("bytes_denied", Kind::Bytes, "The bytes of these packets on the wire."),
    ];

    fn is_established(&self) -> bool {
        self.packets[0] > 0
    }

    fn values(&self, out: &mut Vec<Value>) {
        out.extend([
            Value::Word(self.word()),
            Value::Number(u64::from(self.number)),
            Value::Word(end_word(self.way)),
            Value::Number(self.packets[0]),
            Value::Number(self.bytes[0]),
            Value::Number(self.packets[1]),
            Value::Number(self.bytes[1]),
        ]);
    }
}
