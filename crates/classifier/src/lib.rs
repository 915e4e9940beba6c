//! From a packet's header to the first rule that matches it.
//!
//! ```text
//!  rules ──▶ RuleSet ──▶ ClassifierBuilder ──▶ Classifier ──▶ Match: a rule's id, or none
//! ```
//!
//! # Features
//!
//! * `std` (default): run-time detection of instruction sets, huge pages, loaders.
#![cfg_attr(not(feature = "std"), no_std)]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    reason = "fields are cut out of words everywhere; ids, rows and words are held below 2³² where they are made"
)]

extern crate alloc;

pub mod aggrecuts;
pub mod analysis;
mod arch;
mod boxes;
pub mod classifier;
pub mod error;
pub mod flowcuts;
pub mod headers;
pub mod hicuts;
pub mod image;
mod intern;
pub mod key;
mod leaf_block;
#[cfg(feature = "std")]
pub mod live;
pub mod load;
pub mod lookup;
mod random;
pub mod rule;
pub mod rule_set;
pub mod synth;

pub use classifier::{Algorithm, Classifier, ClassifierBuilder, ClassifierKey};
pub use error::BuildError;
pub use image::ImageError;
pub use key::{AnyKey, Key, KeyV4, KeyV6, Match};
pub use rule::{
    Action, Addresses, PortRange, Prefix, PrefixV4, PrefixV6, ProtocolMatch, Rule, RuleError, RuleId,
};
pub use rule_set::RuleSet;
