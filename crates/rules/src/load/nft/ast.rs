//! The syntax tree of an nftables ruleset, for both of its formats.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::LoadError;
use super::super::iptables::is_passing;
use super::super::reject;
use super::hook::Hook;
use crate::firewall::Families;
use crate::rule::Action;

/// An expression that is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expr {
    /// A field of a header, such as `tcp dport`.
    Payload(String, String),
    /// A key of `meta`.
    Meta(String),
    /// Several expressions, concatenated.
    Ct(String),
    /// Several, side by side.
    Concat(Vec<Expr>),
    /// The bits of an expression that a mask selects.
    Masked(Box<Expr>, Box<Value>),
    /// Bits of a packet: the header, the first bit, and their number.
    Raw(String, u32, u32),
    /// Data that packets do not contain, or an unknown expression.
    Other(String),
}

/// The right side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// A number, a name, an address, a prefix or a range as text.
    Word(String),
    /// From one to another.
    Range(String, String),
    /// Bits that are set together, such as `syn|ack`.
    Flags(Vec<String>),
    /// A set, with a verdict per element if it is a map of verdicts.
    Set(Vec<(Value, Option<Verdict>)>),
    /// A named set or map.
    Named(String),
    /// Several values, concatenated.
    Concat(Vec<Value>),
    /// Flags, a slash and a mask: `syn / fin,syn,rst,ack`.
    Slash(Box<Value>, Box<Value>),
    /// Every value.
    Any,
}

/// The comparison operator.
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

impl Op {
    /// Returns the operator with a sign or a name.
    pub(super) fn from_sign(sign: &str) -> Option<Self> {
        Some(match sign {
            "==" | "eq" => Self::Equal,
            "!=" | "ne" => Self::NotEqual,
            "<" | "lt" => Self::Less,
            "<=" | "le" => Self::LessOrEqual,
            ">" | "gt" => Self::Greater,
            ">=" | "ge" => Self::GreaterOrEqual,
            _ => return None,
        })
    }

    /// Returns whether it compares the order of values.
    pub(super) const fn is_order(self) -> bool {
        matches!(self, Self::Less | Self::LessOrEqual | Self::Greater | Self::GreaterOrEqual)
    }
}

/// The verdict on a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Accept,
    Drop,
    /// With this answer, by its number.
    Reject(u32),
    /// Address translation by the statement of this name: the packet continues in another form.
    Translate(String),
    Continue,
    Return,
    Jump(String),
    Goto(String),
}

impl Verdict {
    /// Returns the verdict that a word alone is.
    pub(super) fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "accept" => Self::Accept,
            "drop" => Self::Drop,
            "return" => Self::Return,
            "continue" => Self::Continue,
            _ => return None,
        })
    }
}

/// A part of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Statement {
    Match(Expr, Op, Value),
    Vmap(Expr, Value),
    Verdict(Verdict),
    /// No decision.
    Passes(String),
    /// A field gets the value that the words give.
    Set(Expr, String),
    /// The packet is not tracked, if it is not yet; or perhaps, as the text says.
    Untrack(Option<String>),
    /// The packet may continue with the rest of the rule, or not.
    Unknowable(String),
    /// Another program decides: it accepts the packet, or the packet is dropped.
    Queue,
    /// The statement may consume the packet.
    MayTake(String),
    /// An invalid rule, which matters only if packets reach it.
    Wrong(LoadError),
}

impl Statement {
    /// Returns whether no statement can follow in its rule, except a comment.
    pub(super) const fn is_last(&self) -> bool {
        match self {
            Self::Verdict(verdict) => !matches!(verdict, Verdict::Continue),
            Self::Queue => true,
            _ => false,
        }
    }

    /// Returns the names that may be those of sets whose elements the statement changes.
    fn updated_sets(&self) -> impl Iterator<Item = &str> {
        let text = match self {
            Self::Passes(text) | Self::Unknowable(text) if super::changes_a_set(text) => text.as_str(),
            _ => "",
        };
        let is_end = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '\\'));
        text.split('@').skip(1).filter_map(move |name| name.split(is_end).next())
    }

    /// Returns whether it is a comment.
    pub(super) fn is_comment(&self) -> bool {
        matches!(self, Self::Passes(text) if text == "comment")
    }

    /// Returns the name of a statement that the kernel may allow in some chains only.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Verdict(Verdict::Translate(name)) => Some(name),
            Self::Verdict(Verdict::Reject(_)) => Some("reject"),
            Self::Unknowable(text) | Self::MayTake(text) => text.split(' ').next(),
            _ => None,
        }
    }

    /// Returns whether the statement itself, or a chain to which it leads, may drop packets or send
    /// them elsewhere.
    pub(super) fn may_divert(&self) -> bool {
        match self {
            Self::Match(..) | Self::Set(..) | Self::Untrack(_) => false,
            Self::Verdict(verdict) => {
                !matches!(verdict, Verdict::Accept | Verdict::Continue | Verdict::Return)
            }
            Self::Passes(text) | Self::Unknowable(text) => {
                matches!(text.split(' ').next(), Some("fwd" | "tproxy"))
            }
            Self::Vmap(..) | Self::Queue | Self::MayTake(_) | Self::Wrong(_) => true,
        }
    }
}

/// What is said of a statement that cannot be reached.
pub(super) const AFTER_LAST: &str =
    "the end of the rule, or a comment: no statement after the verdict has an effect";

/// A rule.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) statements: Vec<Statement>,
    pub(super) line: usize,
    /// Its number among all rules.
    pub(super) number: usize,
    /// First byte in the text.
    pub(super) at: usize,
    /// The number by which commands name it, if the text tells it.
    pub(super) handle: Option<u64>,
}

/// What a text declares.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    pub(super) tables: Vec<Table>,
    /// Statements that are not supported, by line.
    pub(super) notes: Vec<(usize, String)>,
    pub(super) errors: Vec<LoadError>,
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

impl Chain {
    /// Makes it a base chain.
    ///
    /// # Errors
    ///
    /// A description of another hook that it has.
    pub(super) fn set_hook(&mut self, hook: Hook) -> Result<(), String> {
        match &self.hook {
            Some(other) if *other != hook => Err(alloc::format!(
                "the chain '{}' has another hook already, {} with priority {}; a chain keeps its hook",
                self.name,
                other.name,
                other.priority
            )),
            _ => {
                self.hook = Some(hook);
                Ok(())
            }
        }
    }
}

/// A named set or map.
#[derive(Clone, Debug, Default)]
pub(super) struct Set {
    pub(super) elements: Vec<(Value, Option<Verdict>)>,
    /// Elements are added and removed while packets flow.
    pub(super) is_dynamic: bool,
}

/// The flags of a table.
pub(super) const TABLE_FLAGS: &str = "dormant owner persist";

/// A table.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) family: String,
    pub(super) name: String,
    pub(super) chains: Vec<Chain>,
    pub(super) sets: BTreeMap<String, Set>,
    /// The kernel tracks connections and reassembles fragments.
    pub(super) is_tracked: bool,
    /// Packets pass by a dormant table.
    pub(super) is_dormant: bool,
    /// The handle of the next object, as long as the text tells it.
    pub(super) next_handle: Option<u64>,
}

impl Table {
    pub(super) fn new(family: &str, name: &str) -> Self {
        Self {
            family: family.into(),
            name: name.into(),
            chains: Vec::new(),
            sets: BTreeMap::new(),
            is_tracked: false,
            is_dormant: false,
            next_handle: Some(1),
        }
    }

    /// Returns the families of its packets; `None` for tables without IP packets.
    pub(super) fn families(&self) -> Option<Families> {
        families_of(&self.family).flatten()
    }

    /// Finds the sets whose elements the rules change; their flags may not tell.
    pub(super) fn find_updated_sets(&mut self) {
        let rules = self.chains.iter().flat_map(|chain| &chain.rules);
        for name in rules.flat_map(|rule| &rule.statements).flat_map(Statement::updated_sets) {
            if let Some(set) = self.sets.get_mut(name) {
                set.is_dynamic = true;
            }
        }
    }

    /// Returns the handle of a new object.
    pub(super) fn count_object(&mut self) -> Option<u64> {
        let handle = self.next_handle?;
        self.next_handle = Some(handle + 1);
        Some(handle)
    }

    /// Returns a chain, creating it if necessary.
    pub(super) fn chain(&mut self, name: &str) -> &mut Chain {
        let at = self.chains.iter().position(|chain| chain.name == name).unwrap_or_else(|| {
            self.count_object();
            self.chains.push(Chain { name: name.into(), ..Chain::default() });
            self.chains.len() - 1
        });
        &mut self.chains[at]
    }
}

/// Returns the families of packets that tables of a family see, or that they see none of IP; `None`
/// for other words.
#[expect(clippy::option_option, reason = "no family is one of the families")]
pub(super) fn families_of(word: &str) -> Option<Option<Families>> {
    Some(match word {
        "ip" => Some(Families::V4),
        "ip6" => Some(Families::V6),
        "inet" => Some(Families::BOTH),
        "arp" | "bridge" | "netdev" => None,
        _ => return None,
    })
}

/// Returns the statement for a match (a name in lower case) or a target (in capitals) of iptables
/// that nftables has no other syntax for.
pub(super) fn from_iptables(name: &str) -> Result<Statement, String> {
    Ok(match name {
        "comment" => Statement::Passes("comment".into()),
        "ACCEPT" => Statement::Verdict(Verdict::Accept),
        "DROP" => Statement::Verdict(Verdict::Drop),
        "REJECT" => Statement::Verdict(Verdict::Reject(reject::DEFAULT)),
        "MASQUERADE" | "SNAT" | "DNAT" | "REDIRECT" | "NETMAP" | "TPROXY" => {
            Statement::Verdict(Verdict::Translate(name.into()))
        }
        "NFQUEUE" => Statement::Queue,
        "NOTRACK" => Statement::Untrack(None),
        "CT" => Statement::Untrack(Some("CT leaves the packet untracked".into())),
        "SYNPROXY" => Statement::MayTake("SYNPROXY takes the packet".into()),
        name if is_passing(name) => Statement::Passes(name.into()),
        name if name.starts_with(|c: char| c.is_ascii_lowercase()) => {
            Statement::Unknowable(alloc::format!("xt {name}"))
        }
        name => {
            return Err(alloc::format!("unsupported target 'xt {name}' from iptables; use iptables-save"));
        }
    })
}
