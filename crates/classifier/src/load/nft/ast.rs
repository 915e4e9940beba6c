//! What a ruleset of nftables says, whichever form it is written in.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::iptables::is_passing;
use crate::policy::Families;
use crate::rule::Action;

/// Something that is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expr {
    /// A field of a header, such as `tcp dport`.
    Payload(String, String),
    /// A key of `meta`.
    Meta(String),
    /// A key of `ct`.
    Ct(String),
    /// Several, side by side.
    Concat(Vec<Expr>),
    /// Bits under a mask.
    Masked(Box<Expr>, Box<Value>),
    /// Something that no packet shows, or that is not known.
    Other(String),
}

/// What it is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// A number, a name, an address, a prefix or a range as text.
    Word(String),
    /// From one to another.
    Range(String, String),
    /// Bits that are set together, such as `syn|ack`.
    Flags(Vec<String>),
    /// A set, with a verdict for each element where it is a map.
    Set(Vec<(Value, Option<Verdict>)>),
    /// A named set or map.
    Named(String),
    /// Several, side by side.
    Concat(Vec<Value>),
    /// Flags, a slash and a mask: `syn / fin,syn,rst,ack`.
    Slash(Box<Value>, Box<Value>),
    /// Every value.
    Any,
}

/// How it is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// No operator: one of the values, or one of the bits.
    In,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// What becomes of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Accept,
    Drop,
    Reject,
    /// Address translation: the packet goes on, in another form.
    Translate,
    Continue,
    Return,
    Jump(String),
    Goto(String),
}

/// A part of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Statement {
    Match(Expr, Op, Value),
    Vmap(Expr, Value),
    Verdict(Verdict),
    /// Decides nothing.
    Passes(String),
    /// May let the packet go on to the rest of the rule, or not.
    Unknowable(String),
    /// Another program decides: it accepts, or the packet is dropped.
    Queue,
    /// May take the packet away.
    MayTake(String),
}

/// A rule.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) statements: Vec<Statement>,
    pub(super) line: usize,
    /// Its number among all rules.
    pub(super) number: usize,
    /// First byte in the text.
    pub(super) at: usize,
}

/// A chain.
#[derive(Clone, Debug, Default)]
pub(super) struct Chain {
    pub(super) name: String,
    pub(super) rules: Vec<Rule>,
    pub(super) hook: Option<Hook>,
    pub(super) policy: Option<Action>,
    pub(super) line: usize,
}

/// Where packets enter a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hook {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) priority: i64,
}

/// A named set or map.
#[derive(Clone, Debug, Default)]
pub(super) struct Set {
    pub(super) elements: Vec<(Value, Option<Verdict>)>,
    /// Elements come and go while packets flow.
    pub(super) is_dynamic: bool,
}

/// A table.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) family: String,
    pub(super) name: String,
    pub(super) chains: Vec<Chain>,
    pub(super) sets: BTreeMap<String, Set>,
}

impl Table {
    pub(super) fn new(family: &str, name: &str) -> Self {
        Self { family: family.into(), name: name.into(), chains: Vec::new(), sets: BTreeMap::new() }
    }

    /// Returns the families of packets that it sees; `None` where they are not of IP.
    pub(super) fn families(&self) -> Option<Families> {
        match self.family.as_str() {
            "ip" => Some(Families::V4),
            "ip6" => Some(Families::V6),
            "inet" => Some(Families::BOTH),
            _ => None,
        }
    }

    /// Returns a chain, which is made where it is not there yet.
    pub(super) fn chain(&mut self, name: &str) -> &mut Chain {
        let at = self.chains.iter().position(|chain| chain.name == name).unwrap_or_else(|| {
            self.chains.push(Chain { name: name.into(), ..Chain::default() });
            self.chains.len() - 1
        });
        &mut self.chains[at]
    }
}

/// Returns the statement of what stems from iptables and has no other words in nftables: a match in
/// small letters, or a target in capitals.
pub(super) fn from_iptables(name: &str) -> Result<Statement, String> {
    Ok(match name {
        "comment" => Statement::Passes("comment".into()),
        "ACCEPT" => Statement::Verdict(Verdict::Accept),
        "DROP" => Statement::Verdict(Verdict::Drop),
        "REJECT" => Statement::Verdict(Verdict::Reject),
        "MASQUERADE" | "SNAT" | "DNAT" | "REDIRECT" | "NETMAP" | "TPROXY" => {
            Statement::Verdict(Verdict::Translate)
        }
        "NFQUEUE" => Statement::Queue,
        "SYNPROXY" => Statement::MayTake("SYNPROXY takes the packet".into()),
        name if is_passing(name) => Statement::Passes(name.into()),
        name if name.starts_with(|c: char| c.is_ascii_lowercase()) => {
            Statement::Unknowable(alloc::format!("xt {name}"))
        }
        name => {
            return Err(alloc::format!(
                "unsupported target 'xt {name}': it stems from iptables; use what iptables-save writes"
            ));
        }
    })
}

/// Returns the number of a priority's name.
pub(super) fn priority(name: &str) -> Option<i64> {
    Some(match name {
        "raw" => -300,
        "mangle" => -150,
        "dstnat" => -100,
        "filter" => 0,
        "security" => 50,
        "srcnat" => 100,
        _ => return name.parse().ok(),
    })
}
