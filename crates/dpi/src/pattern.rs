//! The pattern of a protocol: a name, the transports that carry it, and its expressions.

use std::fmt;

use crate::condition::Condition;

/// The protocol that carries the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// A byte stream, scanned as it grows, each direction for itself.
    Tcp,
    /// Datagrams, each scanned for itself.
    Udp,
}

impl Transport {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Tcp, Self::Udp];

    /// Returns the transport of an IP protocol number, if it is one of the two.
    #[must_use]
    pub fn of_ip_protocol(number: u8) -> Option<Self> {
        match number {
            6 => Some(Self::Tcp),
            17 => Some(Self::Udp),
            _ => None,
        }
    }
}

/// The transports that a pattern is looked for on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Transports {
    /// On TCP.
    pub tcp: bool,
    /// On UDP.
    pub udp: bool,
}

impl Transports {
    /// Both.
    pub const BOTH: Self = Self { tcp: true, udp: true };
    /// TCP alone.
    pub const TCP: Self = Self { tcp: true, udp: false };
    /// UDP alone.
    pub const UDP: Self = Self { tcp: false, udp: true };

    /// Returns whether `transport` is one of these.
    #[must_use]
    pub fn has(self, transport: Transport) -> bool {
        match transport {
            Transport::Tcp => self.tcp,
            Transport::Udp => self.udp,
        }
    }
}

/// The language a regular expression is written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// That of the `regex` crate over bytes: no Unicode, and `.` is any byte.
    #[default]
    Bytes,
    /// The syntax of the `regex` crate after translation from an l7-filter file: letters match
    /// either case, and payload bytes of zero are skipped, as in the original.
    L7Filter,
}

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The end that opened the connection.
    Client,
    /// The end that accepted it.
    Server,
}

/// What is known of where a payload comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Origin {
    /// The end that has sent it; `None` if it may be either.
    pub sender: Option<Role>,
    /// Both ports of the flow, if they are known.
    pub ports: Option<[u16; 2]>,
}

impl Origin {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { sender: None, ports: None };

    /// Returns the origin with the end that has sent the payload.
    #[must_use]
    pub const fn from(mut self, sender: Option<Role>) -> Self {
        self.sender = sender;
        self
    }

    /// Returns the origin with the ports of the flow.
    #[must_use]
    pub const fn between(mut self, ports: [u16; 2]) -> Self {
        self.ports = Some(ports);
        self
    }
}

/// One regular expression of a pattern, and what else must hold where it matches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Expression {
    /// The expression, in the syntax of the `regex` crate.
    pub regex: String,
    /// The end that sends such bytes, if only one does. A sender that is not known may be either.
    pub sender: Option<Role>,
    /// What must hold besides. All conditions must.
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
    /// Where it is looked for.
    pub transports: Transports,
    /// Alternatives: the pattern matches where one of them does.
    pub expressions: Vec<Expression>,
    /// How to read them.
    pub dialect: Dialect,
    /// The usual ports of the protocol. They decide how sure a label is, not whether the pattern
    /// matches.
    pub ports: Vec<u16>,
    /// The names of patterns that answer this one in kind, besides its own.
    pub answers: Vec<String>,
    /// Whether an answer that neither this pattern nor one of `answers` matches contradicts it.
    pub strict: bool,
    /// Labels that tshark gives the protocol, the most usual first; empty if it has none.
    pub tshark: Vec<String>,
    /// Which specification the expressions were written from.
    pub spec: String,
}

impl Pattern {
    /// Returns a pattern of our own dialect with one expression, looked for on both transports.
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

    /// Returns the pattern, looked for on these transports only.
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

/// Joins alternatives to one expression.
pub(crate) fn joined<'a>(list: impl Iterator<Item = &'a str> + Clone) -> String {
    if list.clone().count() == 1 {
        return list.collect();
    }
    let list: Vec<String> = list.map(|regex| format!("(?:{regex})")).collect();
    list.join("|")
}

/// The number of a pattern in its set: the lower, the higher its priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PatternId(pub u16);

/// A pattern that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Match {
    /// The pattern.
    pub pattern: PatternId,
    /// Whether the expression that matches says little: other payload may well begin alike.
    pub weak: bool,
}

impl PatternId {
    /// Returns it as an index into the set.
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
