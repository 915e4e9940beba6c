//! The pattern of a protocol: a name, the transports that carry it, and its expressions.

use std::fmt;

use regex_automata::util::syntax;

use crate::condition::Condition;

/// The protocol that carries the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// A byte stream, scanned as it grows, each direction separately.
    Tcp,
    /// Datagrams, each scanned separately.
    Udp,
}

impl Transport {
    /// Both transports.
    pub const ALL: [Self; 2] = [Self::Tcp, Self::Udp];

    /// Returns the transport with an IP protocol number, if it is TCP or UDP.
    #[must_use]
    pub fn of_ip_protocol(number: u8) -> Option<Self> {
        match number {
            6 => Some(Self::Tcp),
            17 => Some(Self::Udp),
            _ => None,
        }
    }
}

/// The transports on which a pattern is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Transports {
    /// Whether TCP is included.
    pub tcp: bool,
    /// Whether UDP is included.
    pub udp: bool,
}

impl Transports {
    /// TCP and UDP.
    pub const BOTH: Self = Self { tcp: true, udp: true };
    /// TCP only.
    pub const TCP: Self = Self { tcp: true, udp: false };
    /// UDP only.
    pub const UDP: Self = Self { tcp: false, udp: true };

    /// Returns whether `transport` is included.
    #[must_use]
    pub fn has(self, transport: Transport) -> bool {
        match transport {
            Transport::Tcp => self.tcp,
            Transport::Udp => self.udp,
        }
    }
}

/// The language of a regular expression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// The syntax of the `regex` crate for bytes: no Unicode, and `.` is any byte.
    #[default]
    Bytes,
    /// The syntax of the `regex` crate after translation from an l7-filter file: letters match
    /// either case, and payload bytes of zero are skipped, as in the original.
    L7Filter,
}

/// Returns the parser configuration of a dialect.
pub(crate) fn syntax_of(dialect: Dialect) -> syntax::Config {
    syntax::Config::new()
        .unicode(false)
        .utf8(false)
        .dot_matches_new_line(true)
        .case_insensitive(dialect == Dialect::L7Filter)
        .nest_limit(64)
}

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The end that opened the connection.
    Client,
    /// The end that accepted it.
    Server,
}

/// What is known about the origin of a payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Origin {
    /// The end that sent it; `None` if unknown.
    pub sender: Option<Role>,
    /// Both ports of the flow, if known.
    pub ports: Option<[u16; 2]>,
}

impl Origin {
    /// An unknown origin.
    pub const UNKNOWN: Self = Self { sender: None, ports: None };

    /// Sets the end that sent the payload.
    #[must_use]
    pub const fn from(mut self, sender: Option<Role>) -> Self {
        self.sender = sender;
        self
    }

    /// Sets the ports of the flow.
    #[must_use]
    pub const fn between(mut self, ports: [u16; 2]) -> Self {
        self.ports = Some(ports);
        self
    }
}

/// A regular expression of a pattern, and further requirements on the payloads that it matches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Expression {
    /// The expression, in the syntax of the `regex` crate.
    pub regex: String,
    /// The end that sends such bytes, if only one does. A payload of an unknown sender may come
    /// from this end.
    pub sender: Option<Role>,
    /// Further requirements. All of them must hold.
    pub conditions: Vec<Condition>,
}

impl Expression {
    /// Returns an expression without conditions.
    #[must_use]
    pub fn new(regex: &str) -> Self {
        Self { regex: regex.to_owned(), sender: None, conditions: Vec::new() }
    }
}

/// One protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pattern {
    /// The label of a flow that matches.
    pub name: String,
    /// The transports on which it is searched for.
    pub transports: Transports,
    /// Alternatives: the pattern matches where one of them does.
    pub expressions: Vec<Expression>,
    /// The language of the expressions.
    pub dialect: Dialect,
    /// The usual ports of the protocol. They decide how certain a label is, not whether the pattern
    /// matches.
    pub ports: Vec<u16>,
    /// The names of other patterns that can match the answer to this pattern.
    pub answers: Vec<String>,
    /// Whether an answer that matches neither this pattern nor one of `answers` contradicts it.
    pub strict: bool,
    /// Labels of the protocol in tshark, the most usual first; empty if there are none.
    pub tshark: Vec<String>,
    /// The specification that the expressions were written from.
    pub spec: String,
}

impl Pattern {
    /// Returns a pattern with one expression in the native dialect, for both transports.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_dpi::Pattern;
    ///
    /// let ssh = Pattern::new("ssh", r"^SSH-(1\.99|2\.0)-");
    /// assert_eq!(ssh.name, "ssh");
    /// ```
    #[must_use]
    pub fn new(name: &str, regex: &str) -> Self {
        Self { expressions: vec![Expression::new(regex)], ..Self::empty(name) }
    }

    /// Returns a pattern without expressions.
    pub(crate) fn empty(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            transports: Transports::BOTH,
            expressions: Vec::new(),
            dialect: Dialect::Bytes,
            ports: Vec::new(),
            answers: Vec::new(),
            strict: false,
            tshark: Vec::new(),
            spec: String::new(),
        }
    }

    /// Limits the pattern to these transports.
    #[must_use]
    pub fn on(mut self, transports: Transports) -> Self {
        self.transports = transports;
        self
    }

    /// Returns all expressions as one.
    #[must_use]
    pub fn regex(&self) -> String {
        joined(self.expressions.iter().map(|expression| expression.regex.as_str()))
    }

    /// Returns the pattern without the conditions of its expressions.
    #[must_use]
    pub fn without_conditions(mut self) -> Self {
        self.expressions = vec![Expression::new(&self.regex())];
        self
    }
}

/// Joins alternatives into one expression.
pub(crate) fn joined<'a>(list: impl Iterator<Item = &'a str> + Clone) -> String {
    if list.clone().count() == 1 {
        return list.collect();
    }
    let list: Vec<String> = list.map(|regex| format!("(?:{regex})")).collect();
    list.join("|")
}

/// The number of a pattern in its set: a lower number has a higher priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PatternId(pub u16);

/// A pattern that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Match {
    /// The pattern.
    pub pattern: PatternId,
    /// Whether the matching expression is weak: other payloads are likely to begin alike.
    pub weak: bool,
}

impl PatternId {
    /// Returns the number as an index into the set.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for PatternId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pattern {}", self.0)
    }
}
