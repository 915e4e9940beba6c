//! From a packet's header to the first rule that matches it.
//!
//! ```text
//!  rules ──▶ RuleSet ──▶ ClassifierBuilder ──▶ Classifier ──▶ Match: a rule's id, or none
//! ```
//!
//! ```
//! use flowloom_classifier::{ClassifierBuilder, FiveTuple, PortRange, Rule, RuleSet};
//!
//! let web = Rule {
//!     destination_ports: PortRange::new(443, 443)?,
//!     ..Rule::v4("10.0.0.0/8".parse()?, "0.0.0.0/0".parse()?)
//! };
//! let rules = RuleSet::new(vec![web, Rule::ANY])?;
//! let classifier = ClassifierBuilder::new().build(&rules)?;
//! let found = classifier.classify(&FiveTuple::v4([10, 1, 2, 3], [192, 0, 2, 1], 40_000, 443, 6));
//! assert_eq!(found.rule().map(|id| id.index()), Some(0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! * `papers`: `aggrecuts`, `hicuts` and `PaperTree`, for comparisons. Their interfaces may change
//!   in any version.
//! * `std` (default): run-time detection of instruction sets, huge pages. Without it the crate is
//!   `no_std` with `alloc`.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    reason = "fields are cut out of words everywhere; ids, rows and words are held below 2³² where they are made"
)]

extern crate alloc;

#[cfg(feature = "papers")]
pub mod aggrecuts;
pub mod analysis;
mod arch;
pub mod classifier;
pub mod error;
pub mod first_match;
pub mod flowcuts;
pub mod headers;
#[cfg(feature = "papers")]
pub mod hicuts;
mod intern;
pub mod key;
mod leaf_block;
pub mod lookup;
#[cfg(feature = "papers")]
mod paper_tree;
#[doc(hidden)]
pub mod random;
pub mod rule;
#[cfg(feature = "papers")]
mod rule_box;
mod rule_id;
pub mod rule_set;
mod shrink;
pub mod synth;

pub use flowloom_cpu::{features::Isa, pages::HugePages};
pub use flowloom_flow_key::FiveTuple;

pub use classifier::{Algorithm, Classifier, ClassifierBuilder, ClassifierKey};
pub use error::BuildError;
pub use first_match::FirstMatch;
pub use key::{AnyKey, Key, KeyV4, KeyV6, Match};
#[cfg(feature = "papers")]
pub use paper_tree::PaperTree;
pub use rule::{
    Action, Addresses, FlagsColumn, PortRange, Prefix, PrefixV4, PrefixV6, ProtocolMatch, Rule, RuleError,
    RuleId,
};
pub use rule_set::RuleSet;

#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct Readme;
