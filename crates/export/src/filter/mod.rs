//! Expressions that select records.
//!
//! ```text
//!  text ──lexer──▶ tokens ──parser──▶ Node: all / any / not / (subject, test) ──matches──▶ bool
//! ```
//!
//! Every comparison of numbers becomes a list of ranges, and every comparison of addresses a list
//! of prefixes. A test checks that one of the subject's values is in the list, and `!=` is the
//! negation.

mod lexer;
mod parser;
mod subject;
mod value;

use std::fmt;
use std::net::IpAddr;

use flowloom_record::{GroupSet, Row, Schema};

use subject::Subject;

/// Maximum length of an expression, in bytes.
const BYTES_MAX: usize = 1 << 16;
/// Maximum number of nested parentheses and negations.
const DEPTH_MAX: usize = 64;

/// The error of an invalid expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordFilterError {
    /// The position in the text, in bytes from 0.
    pub at: usize,
    what: String,
}

impl RecordFilterError {
    fn new(at: usize, what: impl Into<String>) -> Self {
        Self { at, what: what.into() }
    }
}

impl fmt::Display for RecordFilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.at + 1, self.what)
    }
}

impl std::error::Error for RecordFilterError {}

/// An expression over the columns of records, such as `protocol == tcp and bytes > 1M`.
///
/// | form | what |
/// | --- | --- |
/// | `bytes > 1M`, `duration >= 1.5s` | `==`, `!=`, `<`, `<=`, `>`, `>=`; k, M, G, T and Ki, Mi, Gi; ns, us, ms, s, m, h |
/// | `destination_port in (80, 8000-8999)` | one of these numbers or ranges |
/// | `source in 10.0.0.0/8` | an address in a prefix, or in one of several |
/// | `protocol == tcp`, `end_reason in (fin, reset)` | words; text with other characters stands in quotes |
/// | `dns_queries contains "b.example"` | the text has this part, or one of several in parentheses |
/// | `tcp_flags & 0x12` | one of these bits is set |
/// | `start >= 2026-11-25T17:00:00Z` | a time, or nanoseconds since 1970 |
/// | `and`, `or`, `not`, `( )` | also `&&`, `||`, `!`; `and` binds more closely than `or` |
///
/// In addition to the columns there are `address` and `port`, which match either end, and
/// `total_packets`, `total_bytes` and `duration`, if the records have columns for them. A missing
/// value satisfies `!=` and no other comparison, except that text is `== ""` where it is missing;
/// `!=` always means `not ==`.
///
/// # Examples
///
/// ```
/// use flowloom_apps::accounting::{AccountingRecord, EndedBy};
/// use flowloom_apps::flow_key::FlowKey;
/// use flowloom_export::RecordFilter;
///
/// let (key, _) = FlowKey::from_v4(0x0A00_0001, 0xC000_0201, 40_000, 443, 6);
/// let record = AccountingRecord::new(&key, &Default::default(), EndedBy::EndOfInput);
/// let schema = AccountingRecord::schema();
/// let filter = RecordFilter::parse("protocol == tcp and address in 10.0.0.0/8", &schema)?;
/// assert!(filter.matches(&record.row()));
/// let error = RecordFilter::parse("bytes > many", &schema).unwrap_err();
/// assert!(error.to_string().starts_with("column 9: 'many' is not a number"));
/// # Ok::<(), flowloom_export::RecordFilterError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RecordFilter {
    node: Node,
    groups: GroupSet,
}

impl RecordFilter {
    /// Parses an expression over the columns of a schema.
    ///
    /// # Errors
    ///
    /// An error with the position of the mistake.
    pub fn parse(text: &str, schema: &Schema) -> Result<Self, RecordFilterError> {
        if text.len() > BYTES_MAX {
            let what = format!("the expression has {} bytes, the limit is {BYTES_MAX}", text.len());
            return Err(RecordFilterError::new(BYTES_MAX, what));
        }
        let tokens = lexer::tokens(text)?;
        let (node, groups) = parser::Parser::new(text, tokens, schema).whole()?;
        Ok(Self { node, groups })
    }

    /// Returns the groups of the columns that the expression reads.
    #[must_use]
    pub fn groups(&self) -> GroupSet {
        self.groups
    }

    /// Returns whether a record matches, whose values are in the order of the schema.
    #[must_use]
    pub fn matches(&self, row: &Row) -> bool {
        self.node.matches(row)
    }
}

/// A part of an expression.
#[derive(Clone, Debug)]
enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    Is(Subject, Test),
}

/// The test of a value.
#[derive(Clone, Debug)]
enum Test {
    /// The number is in one of the ranges, which include both ends.
    Ranges(Vec<(u64, u64)>),
    /// At least one of the bits is set.
    Bits(u64),
    /// The address is in one of the prefixes.
    Prefixes(Vec<Prefix>),
    /// The text is one of these.
    Texts(Vec<String>),
    /// The text has one of these parts.
    Parts(Vec<String>),
}

impl Node {
    fn matches(&self, row: &Row) -> bool {
        match self {
            Self::All(nodes) => nodes.iter().all(|node| node.matches(row)),
            Self::Any(nodes) => nodes.iter().any(|node| node.matches(row)),
            Self::Not(node) => !node.matches(row),
            Self::Is(subject, test) => match test {
                Test::Ranges(ranges) => {
                    let is_in =
                        |number| ranges.iter().any(|&(first, last)| first <= number && number <= last);
                    subject.numbers(row).into_iter().flatten().any(is_in)
                }
                Test::Bits(mask) => {
                    subject.numbers(row).into_iter().flatten().any(|number| number & mask != 0)
                }
                Test::Prefixes(prefixes) => {
                    let is_in = |address| prefixes.iter().any(|prefix| prefix.holds(address));
                    subject.addresses(row).into_iter().flatten().any(is_in)
                }
                Test::Texts(texts) => {
                    let text = subject.text(row).unwrap_or_default();
                    texts.iter().any(|known| *known == text)
                }
                Test::Parts(parts) => {
                    let text = subject.text(row);
                    text.is_some_and(|text| parts.iter().any(|part| text.contains(&**part)))
                }
            },
        }
    }
}

/// Addresses with the same leading bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Prefix {
    address: IpAddr,
    bits: u8,
}

impl Prefix {
    fn holds(&self, address: IpAddr) -> bool {
        let differs = match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => u128::from(own.to_bits() ^ other.to_bits()) << 96,
            (IpAddr::V6(own), IpAddr::V6(other)) => own.to_bits() ^ other.to_bits(),
            _ => return false,
        };
        differs.leading_zeros() >= u32::from(self.bits)
    }
}
