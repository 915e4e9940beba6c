//! Targets of iptables, and what becomes of a packet that reaches one.

use alloc::format;
use alloc::string::String;

use super::rule::Does;
use crate::rule::Action;

/// Targets whose verdict is another program's, or depends on the state of the target.
type Asking = (&'static str, &'static [(Option<&'static str>, Action, u32)]);
const ASKING: [Asking; 6] = [
    ("NFQUEUE", &[(Some("NFQUEUE accepts"), Action::Accept, 3), (None, Action::Deny, 0)]),
    ("QUEUE", &[(Some("QUEUE accepts"), Action::Accept, 3), (None, Action::Deny, 0)]),
    ("SYNPROXY", &[(Some("SYNPROXY takes the packet"), Action::Deny, 0)]),
    ("CLUSTERIP", &[(Some("CLUSTERIP: the packet is for another node"), Action::Deny, 0)]),
    ("RTPENGINE", &[(Some("RTPENGINE takes the packet"), Action::Deny, 0)]),
    ("JOOL", &[(Some("JOOL translates the packet"), Action::Accept, 3)]),
];

/// Targets that let the packet go on to the next rule.
const PASSING: [&str; 41] = [
    "DNPT",
    "SNPT",
    "LOGMARK",
    "SYSRQ",
    "IMQ",
    "PROTO",
    "TIMEOUT",
    "FLOWOFFLOAD",
    "IPV4OPTSSTRIP",
    "VLANPRIORITY",
    "NFULNL",
    "LSCAN",
    "LOG",
    "ULOG",
    "NFLOG",
    "MARK",
    "CONNMARK",
    "CONNSECMARK",
    "SECMARK",
    "CLASSIFY",
    "DSCP",
    "TOS",
    "TTL",
    "HL",
    "TCPMSS",
    "TCPOPTSTRIP",
    "ECN",
    "CHECKSUM",
    "CT",
    "NOTRACK",
    "TRACE",
    "TEE",
    "SET",
    "RATEEST",
    "LED",
    "IDLETIMER",
    "AUDIT",
    "HMARK",
    "ACCOUNT",
    "IPMARK",
    "STRIP",
];

/// Returns whether a target lets the packet go on to the next rule.
#[cfg(feature = "std")]
pub(crate) fn is_passing(name: &str) -> bool {
    PASSING.contains(&name)
}

/// Returns what a target does; what is no target is a chain.
pub(super) fn of(name: &str) -> Does {
    match name {
        "ACCEPT" => Does::Decide(Action::Accept, 1),
        "DROP" | "TARPIT" | "STEAL" | "DELUDE" | "CHAOS" | "ECHO" | "MIRROR" => {
            Does::Decide(Action::Deny, 0)
        }
        "REJECT" => Does::Decide(Action::Deny, 2),
        // They end the walk through their table, and the packet goes on.
        "DNAT" | "SNAT" | "MASQUERADE" | "REDIRECT" | "NETMAP" | "SAME" | "BALANCE" | "TPROXY"
        | "DNETMAP" | "FULLCONENAT" => Does::Decide(Action::Accept, 3),
        "RETURN" => Does::Return,
        name if PASSING.contains(&name) => {
            Does::Passes(format!("target {name} decides nothing: the packet goes on"))
        }
        name => match ASKING.iter().find(|(other, _)| *other == name) {
            Some((_, asks)) => Does::Asks(asks),
            None => Does::Jump(String::from(name)),
        },
    }
}
