//! Policies: firewall rules with conditions beyond a five-tuple.
//!
//! ```text
//!  a file ──▶ chains ──▶ entries in order: conditions, and what follows ──▶ boxes ──▶ Classifier
//!                                            │                                           │
//!                                            └── tests on other fields ◀── candidates ───┘
//! ```
//!
//! Addresses, ports and the protocol are indexed. A condition on any other field is a [`Test`],
//! which is evaluated only for packets that the index returns as candidates. The first entry in the
//! order of the file that matches decides.

mod boxes;
mod check;
mod conditions;
mod contents;
mod cutting;
mod difference;
mod entries;
mod explain;
mod flatten;
mod hook;
mod knowledge;
mod matcher;
mod minimise;
mod overlap;
mod packet;
mod payload;
mod ranges;
mod region;
mod test;
mod witness_search;
mod writes;

pub use conditions::{Conditions, Families, Truth};
pub(crate) use contents::of_hexadecimal;
pub use contents::{Contents, NetworkBytes};
pub use difference::{CompareDefaults, Comparison, Difference, Witness};
pub use entries::{Entry, Note, Outcome, Policy, Possible, Source};
pub use explain::PossibleOutcome;
pub use flatten::{Chain, ChainRule, Chains, FlattenError, Target};
pub use flowloom_flow_key::protocol::{WITH_PORTS, has_ports};
pub use hook::Hook;
pub use knowledge::{Field, Knowledge, Undecidable};
pub use matcher::{Assume, PolicyMatcher};
pub use minimise::{LeftOut, Minimised};
pub use packet::{ConnectionState, Fragment, Packet};
pub use ranges::Ranges;
pub use test::{HeaderField, InterfacePattern, Test, TestKind};
pub use writes::{Write, WrittenField, WrittenValue};

pub(crate) use conditions::{bits_of, protocol_name};
#[cfg(feature = "std")]
pub(crate) use entries::conditions_of;
pub(crate) use ranges::address_text;
pub(crate) use test::{FLAG_NAMES, flags_text, mac_text};
pub(crate) use writes::Writes;
