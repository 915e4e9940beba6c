//! The pattern of a protocol: a name, the transports that carry it, and a regular expression.

use std::fmt;

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

/// One protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pattern {
    /// The label of a flow that matches.
    pub name: String,
    /// Where it is looked for.
    pub transports: Transports,
    /// The expression, in the syntax of the `regex` crate.
    pub regex: String,
    /// How to read it.
    pub dialect: Dialect,
    /// Labels that tshark gives the protocol, the most usual first; empty if it has none.
    pub tshark: Vec<String>,
    /// Which specification the expression was written from.
    pub spec: String,
}

impl Pattern {
    /// Returns a pattern of our own dialect, looked for on both transports.
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
        Self {
            name: name.to_owned(),
            transports: Transports::BOTH,
            regex: regex.to_owned(),
            dialect: Dialect::Bytes,
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
}

/// The number of a pattern in its set: the lower, the higher its priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PatternId(pub u16);

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
