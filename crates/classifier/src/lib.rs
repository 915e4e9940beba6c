//! From a packet's header to the first rule that matches it.
//!
//! ```text
//!  rules ──▶ RuleSet ──▶ ClassifierBuilder ──▶ Classifier ──▶ Match: a rule's id, or none
//! ```
//!
//! ```
//! use flowloom_classifier::load::{LoadLimits, classbench};
//! use flowloom_classifier::{ClassifierBuilder, FiveTuple, RuleSet};
//!
//! let text = "@10.0.0.0/8 0.0.0.0/0 0 : 65535 443 : 443 0x06/0xff\n\
//!             @0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00\n";
//! let rules = RuleSet::new(classbench::parse(text, LoadLimits::default())?)?;
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
//! * `std` (default): run-time detection of instruction sets, huge pages, the TOML loader. Without it the crate is `no_std` with `alloc`.
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
pub mod firewall;
pub mod first_match;
pub mod flowcuts;
pub mod headers;
#[cfg(feature = "papers")]
pub mod hicuts;
mod intern;
pub mod key;
mod leaf_block;
pub mod load;
pub mod lookup;
#[cfg(feature = "papers")]
mod paper_tree;
mod random;
pub mod rule;
#[cfg(feature = "papers")]
mod rule_box;
mod rule_id;
pub mod rule_set;
mod shrink;
pub mod synth;
pub mod write;

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
