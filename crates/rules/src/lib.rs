//! Firewall policies: read, judge packets, check, compare and write them.
//!
//! ```text
//!  a file ──▶ load ──▶ Policy ──▶ PolicyMatcher: entry of a packet, what it does
//!                        ├──────▶ check, minimise, compare
//!                        └──────▶ write ──▶ a file, also of another format
//! ```
//!
//! ```
//! use flowloom_rules::classifier::{ClassifierBuilder, FiveTuple, RuleSet};
//! use flowloom_rules::load::{LoadLimits, classbench};
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
//! Without the feature `std` (default) the crate is `no_std` with `alloc`, and reads ClassBench,
//! `iptables-save`, ipset and Cisco only.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![cfg_attr(
    feature = "std",
    expect(clippy::cast_possible_wrap, reason = "a file has fewer than 2⁶³ rules")
)]
#![expect(
    clippy::cast_possible_truncation,
    reason = "lines, rules and entries are held below 2³² where they are made"
)]

extern crate alloc;

pub mod firewall;
pub mod load;
pub mod write;

pub use flowloom_classifier as classifier;

use flowloom_classifier::{analysis, error, first_match, key, rule, rule_set};

#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct Readme;
