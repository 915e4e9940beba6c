//! A column: its name, and what its values are.

use flowloom_flow_key::Direction;

use crate::{Element, Group};

/// What the values of a column are. It determines how each format stores them, and which
/// comparisons they have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An address of IPv4 or IPv6.
    Address,
    /// A port, 16 bits.
    Port,
    /// The number of an IP protocol.
    Protocol,
    /// A count of packets.
    Packets,
    /// A count of bytes.
    Bytes,
    /// Another number of at most 32 bits.
    Number,
    /// A set of at most 32 bits, such as TCP flags.
    Bits,
    /// 64 bits that identify a content, shown as [`Bits`](Self::Bits).
    Digest,
    /// A number with a fraction, 64 bits.
    Real,
    /// Nanoseconds since 1970.
    Time,
    /// Nanoseconds.
    Duration,
    /// A word of a fixed set. The set is empty if only the configuration knows it.
    Word(&'static [Word]),
    /// Text.
    Text,
}

/// A word that a column may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// The word.
    pub name: &'static str,
    /// Its value in the column's IPFIX element.
    pub code: u8,
}

impl Word {
    /// Returns a word with its value in IPFIX; 0 if the column has no element.
    #[must_use]
    pub const fn new(name: &'static str, code: u8) -> Self {
        Self { name, code }
    }
}

impl Kind {
    /// Returns the unit of the values, for people.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Port | Self::Protocol | Self::Number | Self::Real => "number",
            Self::Packets => "packets",
            Self::Bytes => "bytes",
            Self::Bits | Self::Digest => "bits",
            Self::Time => "ns since 1970",
            Self::Duration => "ns",
            Self::Word(_) => "word",
            Self::Text => "text",
        }
    }
}

/// A column of records.
///
/// # Examples
///
/// ```
/// use flowloom_record::{Column, Group, Kind, element};
///
/// const PACKETS: Column = Column::new("packets", Kind::Packets, "Packets from the source.")
///     .in_group(Group::Default)
///     .with_elements(element::PACKETS);
/// assert_eq!((PACKETS.kind.unit(), PACKETS.elements[0].number), ("packets", 2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Column {
    /// The name: the heading in CSV, and the key in JSON.
    pub name: &'static str,
    /// What its values are.
    pub kind: Kind,
    /// The IPFIX elements that hold the value.
    pub elements: &'static [Element],
    /// What the value means, in one sentence.
    pub description: &'static str,
    /// The columns with which it is computed and shown.
    pub group: Group,
    /// For a value of one direction of the flow's key: the direction, and the name of the column
    /// that shows it by source.
    pub direction: Option<(Direction, &'static str)>,
}

impl Column {
    /// Returns a column of an application of its own.
    #[must_use]
    pub const fn new(name: &'static str, kind: Kind, description: &'static str) -> Self {
        Self { name, kind, elements: &[], description, group: Group::Own, direction: None }
    }

    /// Puts the column in a group.
    #[must_use]
    pub const fn in_group(self, group: Group) -> Self {
        Self { group, ..self }
    }

    /// Names the IPFIX elements of the column.
    #[must_use]
    pub const fn with_elements(self, elements: &'static [Element]) -> Self {
        Self { elements, ..self }
    }

    /// Says that the value belongs to packets in a direction of the key. The column of the name
    /// `shown` shows it if the low endpoint is the source, and otherwise the value of the other
    /// direction, whose column is the next one.
    #[must_use]
    pub const fn of_direction(self, direction: Direction, shown: &'static str) -> Self {
        Self { direction: Some((direction, shown)), ..self }
    }

    /// Gives the column another name.
    #[must_use]
    pub const fn renamed(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// Returns the column that shows the value by source.
    #[must_use]
    pub const fn by_source(self) -> Self {
        match self.direction {
            Some((_, name)) => Self { name, direction: None, ..self },
            None => self,
        }
    }

    /// Returns the column that shows the value as it is in the key, on request.
    #[must_use]
    pub const fn on_request(self) -> Self {
        Self { group: Group::Internal, elements: &[], direction: None, ..self }
    }
}
