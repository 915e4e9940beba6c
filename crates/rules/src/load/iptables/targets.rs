//! Targets of iptables, and their effect on packets.

use alloc::format;
use alloc::string::String;

use super::super::has_word;
use crate::rule::Action;

/// The effect of a rule, as far as its line determines it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Does {
    Decide(Action, u32),
    /// A jump to a chain, or an unknown target.
    Jump(String),
    Goto(String),
    Return,
    /// The effect depends on data that packets do not contain: each action applies if its text
    /// holds.
    Asks(&'static [(Option<&'static str>, Action, u32)]),
    /// No decision: a target such as LOG, or none.
    Passes(String),
}

/// Targets whose verdict comes from another program, or depends on the state of the target.
type Asking = (&'static str, &'static [(Option<&'static str>, Action, u32)]);
const ASKING: [Asking; 6] = [
    ("NFQUEUE", &[(Some("NFQUEUE accepts"), Action::Accept, 3), (None, Action::Deny, 0)]),
    ("QUEUE", &[(Some("QUEUE accepts"), Action::Accept, 3), (None, Action::Deny, 0)]),
    ("SYNPROXY", &[(Some("SYNPROXY takes the packet"), Action::Deny, 0)]),
    ("CLUSTERIP", &[(Some("CLUSTERIP: the packet is for another node"), Action::Deny, 0)]),
    ("RTPENGINE", &[(Some("RTPENGINE takes the packet"), Action::Deny, 0)]),
    ("JOOL", &[(Some("JOOL translates the packet"), Action::Accept, 3)]),
];

/// Targets after which the packet continues with the next rule.
const PASSING: &str = "\
    DNPT SNPT LOGMARK SYSRQ IMQ PROTO TIMEOUT FLOWOFFLOAD IPV4OPTSSTRIP VLANPRIORITY NFULNL \
    LSCAN LOG ULOG NFLOG MARK CONNMARK CONNSECMARK SECMARK CLASSIFY DSCP TOS TTL HL TCPMSS \
    TCPOPTSTRIP ECN CHECKSUM TRACE TEE SET RATEEST LED IDLETIMER AUDIT HMARK ACCOUNT IPMARK \
    STRIP";

/// Returns whether a packet continues with the next rule after a target.
#[cfg(feature = "std")]
pub(crate) fn is_passing(name: &str) -> bool {
    has_word(PASSING, name)
}

/// Returns the effect of a target; a name that is not a target is a chain.
pub(super) fn effect(name: &str) -> Does {
    match name {
        "ACCEPT" => Does::Decide(Action::Accept, 1),
        "DROP" | "TARPIT" | "STEAL" | "DELUDE" | "CHAOS" | "ECHO" | "MIRROR" => {
            Does::Decide(Action::Deny, 0)
        }
        "REJECT" => Does::Decide(Action::Deny, 2),
        // They end the walk through their table, and the packet continues.
        "DNAT" | "SNAT" | "MASQUERADE" | "REDIRECT" | "NETMAP" | "SAME" | "BALANCE" | "TPROXY"
        | "DNETMAP" | "FULLCONENAT" => Does::Decide(Action::Accept, 3),
        "RETURN" => Does::Return,
        "CT" | "NOTRACK" => Does::Passes(format!("target {name} decides nothing: the packet continues")),
        name if has_word(PASSING, name) => {
            Does::Passes(format!("target {name} decides nothing: the packet continues"))
        }
        name => match ASKING.iter().find(|(other, _)| *other == name) {
            Some((_, asks)) => Does::Asks(asks),
            None => Does::Jump(String::from(name)),
        },
    }
}

/// Returns the names of the sets whose elements the rules of a text add and remove.
pub(super) fn changed_sets(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().filter(|line| line.contains("-set") && !line.starts_with('#'));
    lines.flat_map(|line| {
        let names = line.split_whitespace().skip(1);
        let pairs = line.split_whitespace().zip(names);
        let is_change = |word: &str| has_word("--add-set --del-set add-set del-set", word);
        pairs.filter(move |(word, _)| is_change(word)).map(|(_, name)| name)
    })
}

/// Returns the only table in whose chains the kernel allows a target.
pub(super) fn table_of(name: &str) -> Option<&'static str> {
    match name {
        "DNAT" | "SNAT" | "MASQUERADE" | "REDIRECT" | "NETMAP" => Some("nat"),
        "TPROXY" => Some("mangle"),
        _ => None,
    }
}
