//! What the firewall keeps of a flow.

use flowloom_engine::{FlowState, FlowValue, Verdict};
use flowloom_flow_key::Direction;

use super::connection::Connection;

/// The verdict that a flow has, which rule gave it, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirewallFlow {
    /// Accepted, denied.
    packets: [u64; 2],
    /// Bytes on the wire: accepted, denied.
    bytes: [u64; 2],
    /// Number of the rule that gave the last verdict, 0 for none.
    pub(super) number: u32,
    /// Generation of the rules that gave it; 0 is none yet.
    pub(super) generation: u32,
    /// The direction that is judged: whoever sent first.
    pub(super) way: Option<Direction>,
    pub(super) denies: bool,
    /// The judged direction is no longer that of the first packet.
    pub(super) has_turned: bool,
    /// A SYN has opened the connection.
    pub(super) is_open: bool,
    /// For rules that ask for states; packets before such rules were loaded are not in it.
    pub(super) connection: Connection,
}

const _: () = assert!(size_of::<FirewallFlow>() <= 64, "a flow's state fits the line behind its key");

impl FirewallFlow {
    /// Returns the packets that passed, and those that were refused.
    pub fn packets(&self) -> [u64; 2] {
        self.packets
    }

    /// Returns their bytes on the wire.
    pub fn bytes(&self) -> [u64; 2] {
        self.bytes
    }

    /// Returns the number of the rule that gave the last verdict, from one; 0 if no rule did.
    pub fn rule(&self) -> u32 {
        self.number
    }

    /// Returns the [generation](super::LiveRules::generation) of the rules among which [`rule`](Self::rule) is a number; 0 if none were
    /// asked yet. A flow that sent nothing since rules were replaced has the number that its rule had among the former ones.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Returns which end the flow was judged for: the one that sent first.
    pub fn way(&self) -> Option<Direction> {
        self.way
    }

    /// Adds the packets and bytes of a later record.
    pub(super) fn add(&mut self, later: &Self) {
        for at in 0..2 {
            self.packets[at] += later.packets[at];
            self.bytes[at] += later.bytes[at];
        }
    }

    /// Says whether later packets, judged by themselves, were judged as after these.
    pub(super) fn judged_alike(&self, later: &Self) -> bool {
        !later.has_turned
            && (self.way, self.generation, self.number, self.denies)
                == (later.way, later.generation, later.number, later.denies)
    }

    #[inline]
    pub(super) fn count(&mut self, verdict: Verdict, wire_bytes: u32) {
        let at = usize::from(verdict == Verdict::Deny);
        self.packets[at] += 1;
        self.bytes[at] += u64::from(wire_bytes);
    }

    fn word(&self) -> &'static str {
        match self.packets {
            [0, 0] => "-",
            [_, 0] => "accept",
            [0, _] => "deny",
            _ => "mixed",
        }
    }
}

impl FlowState for FirewallFlow {
    const COLUMNS: &'static [&'static str] = &[
        "verdict",
        "rule",
        "first_sender",
        "packets_accepted",
        "bytes_accepted",
        "packets_denied",
        "bytes_denied",
    ];

    fn values(&self, out: &mut Vec<FlowValue>) {
        out.extend([
            FlowValue::Word(self.word()),
            FlowValue::Count(u64::from(self.number)),
            FlowValue::Word(match self.way {
                Some(Direction::LowToHigh) => "low",
                Some(Direction::HighToLow) => "high",
                None => "-",
            }),
            FlowValue::Count(self.packets[0]),
            FlowValue::Count(self.bytes[0]),
            FlowValue::Count(self.packets[1]),
            FlowValue::Count(self.bytes[1]),
        ]);
    }
}
