//! Pending rules, sixty-four per word. For most packets a few loads show that none of them can
//! match.
//!
//! ```text
//!  each of 12 nibbles of a packet's key has a table of 16 words;
//!  bit i of a word: rule i admits this value
//!
//!   4 of the source   4 of the destination   3 of the port   1 of the protocol
//!    │   │   │   │       │   │   │   │         │   │   │            │
//!    └───┴───┴───┴───────┴───┴─ and ─┴─────────┴───┴───┴────────────┘ ──▶ rules that may match
//! ```
//!
//! Looking up each field separately and intersecting sets of rules as bits is the idea of Lakshman
//! and Stiliadis (1998).

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::entry::Entry;
use super::{LiveMatch, Order};
use crate::arch::{Backend, GROUP, Sift, Tables, nibbles};
use crate::key::{Key, KeyV4, KeyV6, Span};

/// Number of keys per step.
pub(super) const CHUNK: usize = 256;
/// Number of rules in a word.
const RULES: usize = u64::BITS as usize;

/// The rules of a word for packets of one family.
#[derive(Clone, Debug)]
struct Family<S> {
    tables: Tables,
    spans: Vec<Option<S>>,
}

impl<S: Copy + AsRef<[Span]>> Family<S> {
    fn new() -> Box<Self> {
        Box::new(Self { tables: Tables::default(), spans: Vec::with_capacity(RULES) })
    }

    /// Adds a rule; `None` for a rule of the other family.
    fn push<K: Key>(&mut self, spans: Option<S>) {
        let rule = 1_u64 << self.spans.len();
        self.spans.push(spans);
        let Some(spans) = spans else { return };
        for (table, (dimension, bit)) in self.tables.iter_mut().zip(nibbles::<K>()) {
            let span = spans.as_ref()[dimension];
            let nibble = |value: u32| (value >> bit & 15) as usize;
            // Above this nibble both ends are equal, or every value may occur.
            let above = |value: u32| value.checked_shr(bit + 4).unwrap_or(0);
            let admitted = if above(span.low) == above(span.high) {
                nibble(span.low)..=nibble(span.high)
            } else {
                0..=15
            };
            for word in &mut table[admitted] {
                *word |= rule;
            }
        }
    }
}

/// At most sixty-four rules.
#[derive(Clone, Debug)]
struct Word {
    entries: Vec<Entry>,
    v4: Box<Family<<KeyV4 as Key>::Spans>>,
    /// `None` while no rule of the word matches IPv6 packets.
    v6: Option<Box<Family<<KeyV6 as Key>::Spans>>>,
}

impl Word {
    fn new() -> Self {
        Self { entries: Vec::with_capacity(RULES), v4: Family::new(), v6: None }
    }

    fn push(&mut self, entry: Entry) {
        self.v4.push::<KeyV4>(entry.rule.spans::<KeyV4>());
        let spans = entry.rule.spans::<KeyV6>();
        if self.v6.is_none() && spans.is_some() {
            let mut family = Family::new();
            for _ in &self.entries {
                family.push::<KeyV6>(None);
            }
            self.v6 = Some(family);
        }
        if let Some(family) = &mut self.v6 {
            family.push::<KeyV6>(spans);
        }
        self.entries.push(entry);
    }

    /// Returns the tables for sifting keys; `None` if no rule matches packets of their family.
    fn tables<K: Key>(&self) -> Option<&Tables> {
        if K::IS_V6 { self.v6.as_ref().map(|family| &family.tables) } else { Some(&self.v4.tables) }
    }

    /// Returns the first of these rules that matches.
    fn first<K: Key>(&self, key: &K, mut candidates: u64) -> Option<&Entry> {
        let mut first: Option<&Entry> = None;
        while candidates != 0 {
            let rule = candidates.trailing_zeros() as usize;
            candidates &= candidates - 1;
            let entry = &self.entries[rule];
            if first.is_none_or(|first| entry.order < first.order) && self.matches(rule, key) {
                first = Some(entry);
            }
        }
        first
    }

    fn matches<K: Key>(&self, rule: usize, key: &K) -> bool {
        let spans: Option<&[Span]> = match (&self.v6, K::IS_V6) {
            (Some(family), true) => family.spans[rule].as_ref().map(AsRef::as_ref),
            (None, true) => None,
            (_, false) => self.v4.spans[rule].as_ref().map(AsRef::as_ref),
        };
        spans.is_some_and(|spans| {
            spans.iter().enumerate().all(|(d, span)| span.contains(key.dimension(d)))
                && self.entries[rule].rule.protocol.contains(key.protocol())
        })
    }
}

/// The output of sifting: the rules that may match each key, and the keys that have any.
#[derive(Debug)]
pub(super) struct Sifted {
    masks: [u64; CHUNK],
    some: [u8; CHUNK / GROUP],
}

impl Default for Sifted {
    fn default() -> Self {
        Self { masks: [0; CHUNK], some: [0; CHUNK / GROUP] }
    }
}

/// Pending rules. A copy shares all words except the changed one.
#[derive(Clone, Debug, Default)]
pub(super) struct Prefilter(Vec<Arc<Word>>);

impl Prefilter {
    /// Returns the rules in any order.
    pub(super) fn of(entries: &[Entry]) -> Self {
        let word = |entries: &[Entry]| {
            let mut word = Word::new();
            for entry in entries {
                word.push(entry.clone());
            }
            Arc::new(word)
        };
        Self(entries.chunks(RULES).map(word).collect())
    }

    /// Returns the prefilter with one more rule.
    pub(super) fn with(&self, entry: Entry) -> Self {
        let mut words = self.0.clone();
        match words.last_mut().filter(|word| word.entries.len() < RULES) {
            Some(word) => Arc::make_mut(word).push(entry),
            None => words.extend(Self::of(&[entry]).0),
        }
        Self(words)
    }

    /// Returns the prefilter without a rule; rebuilds its word.
    pub(super) fn without(&self, order: Order) -> Self {
        let mut words = self.0.clone();
        for at in 0..words.len() {
            let entries = &words[at].entries;
            if entries.iter().any(|entry| entry.order == order) {
                let left: Vec<Entry> =
                    entries.iter().filter(|entry| entry.order != order).cloned().collect();
                match Self::of(&left).0.pop() {
                    Some(word) => words[at] = word,
                    None => drop(words.remove(at)),
                }
                break;
            }
        }
        Self(words)
    }

    /// Returns all rules, in any order.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter().flat_map(|word| word.entries.iter())
    }

    /// Returns the maximum number of times that a key may be reported.
    pub(super) fn words(&self) -> usize {
        self.0.len()
    }

    /// Reports, word by word, the first matching rule of each key that has one: the key's position,
    /// the rule's order, and the result of a lookup. A key is reported at most once per word.
    #[inline]
    pub(super) fn each_first<K: Key>(
        &self,
        backend: Backend,
        keys: &[K],
        sifted: &mut Sifted,
        mut tell: impl FnMut(usize, Order, LiveMatch),
    ) {
        let Sifted { masks, some } = sifted;
        let groups = keys.len().div_ceil(GROUP);
        for word in &self.0 {
            let Some(tables) = word.tables::<K>() else { continue };
            Sift { tables, keys, masks: &mut masks[..], some: &mut some[..] }.run_on(backend);
            for (group, &some) in some[..groups].iter().enumerate() {
                let mut left = some;
                while left != 0 {
                    let i = GROUP * group + left.trailing_zeros() as usize;
                    left &= left - 1;
                    if let Some(entry) = word.first(&keys[i], masks[i]) {
                        tell(i, entry.order, entry.result());
                    }
                }
            }
        }
    }
}
