//! Pending rules, sixty-four to a word: a few loads say of most packets that none of them can match.
//!
//! ```text
//!  of 6 bytes of a packet's key each has a table of 256 words; bit i of a word: rule i admits this byte
//!
//!  source  source  destination  destination  destination  protocol
//!  byte 1  byte 2    byte 1       byte 2      port, low
//!    │       │         │            │            │           │
//!    └───────┴────── and ───────────┴────────────┴───────────┘ ──▶ rules that may match; compared in full
//! ```
//!
//! The idea of looking up each field by itself and joining sets of rules as bits is Lakshman and Stiliadis' (1998).

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::snapshot::{CHUNK, Entry};
use super::{LiveId, Order};
use crate::key::{Key, KeyV4, KeyV6, Span};

/// Rules of a word.
const RULES: usize = u64::BITS as usize;
/// Bytes of a key that are looked at.
const BYTES: usize = 6;

/// Which byte: the dimension, and the lowest bit there.
type Byte = (usize, u32);

/// Returns the bytes that are looked at. Of IPv6 addresses the third and fourth: the first two are nearly the same for all.
const fn bytes<K: Key>() -> [Byte; BYTES] {
    let n = K::ADDRESS_DIMENSIONS;
    let (first, second) = if n == 4 { (8, 0) } else { (24, 16) };
    [(0, first), (0, second), (n, first), (n, second), (2 * n + 1, 0), (2 * n + 2, 0)]
}

/// The rules of a word as far as they match packets of one family.
#[derive(Clone, Debug)]
struct Family<S> {
    tables: [[u64; 256]; BYTES],
    spans: Vec<Option<S>>,
}

impl<S: Copy + AsRef<[Span]>> Family<S> {
    fn new() -> Box<Self> {
        Box::new(Self { tables: [[0; 256]; BYTES], spans: Vec::with_capacity(RULES) })
    }

    /// Adds a rule; `None` of one that is for the other family.
    fn push<K: Key>(&mut self, spans: Option<S>) {
        let bit = 1_u64 << self.spans.len();
        self.spans.push(spans);
        let Some(spans) = spans else { return };
        for (table, (dimension, shift)) in self.tables.iter_mut().zip(bytes::<K>()) {
            let span = spans.as_ref()[dimension];
            let byte = |value: u32| (value >> shift & 0xFF) as usize;
            // Above this byte both ends are the same, or every byte may occur.
            let above = |value: u32| value.checked_shr(shift + 8).unwrap_or(0);
            let admitted = if above(span.low) == above(span.high) {
                byte(span.low)..=byte(span.high)
            } else {
                0..=0xFF
            };
            for word in &mut table[admitted] {
                *word |= bit;
            }
        }
    }

    /// Writes the rules that may match each key, a bit each.
    #[inline]
    fn candidates<K: Key>(&self, keys: &[K], masks: &mut [u64]) {
        let at = const { bytes::<K>() };
        let tables = &self.tables;
        for (key, mask) in keys.iter().zip(masks) {
            let admitting = |i: usize| {
                let (dimension, shift) = at[i];
                tables[i][(key.dimension(dimension) >> shift & 0xFF) as usize]
            };
            // Written out: the addresses of all six loads are known before the first has come.
            *mask = admitting(0) & admitting(1) & admitting(2) & admitting(3) & admitting(4) & admitting(5);
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

    /// Writes the rules that may match each key, a bit each.
    #[inline]
    fn candidates<K: Key>(&self, keys: &[K], masks: &mut [u64]) {
        match (&self.v6, K::IS_V6) {
            (Some(family), true) => family.candidates(keys, masks),
            (None, true) => masks.fill(0),
            (_, false) => self.v4.candidates(keys, masks),
        }
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

/// Pending rules. A copy shares all words but the one that is changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Sieve(Vec<Arc<Word>>);

impl Sieve {
    /// Returns the rules in any order.
    pub(super) fn of(entries: &[Entry]) -> Self {
        let word = |entries: &[Entry]| {
            let mut word = Word::new();
            for &entry in entries {
                word.push(entry);
            }
            Arc::new(word)
        };
        Self(entries.chunks(RULES).map(word).collect())
    }

    /// Returns the sieve with a rule more.
    pub(super) fn with(&self, entry: Entry) -> Self {
        let mut words = self.0.clone();
        match words.last_mut().filter(|word| word.entries.len() < RULES) {
            Some(word) => Arc::make_mut(word).push(entry),
            None => words.extend(Self::of(&[entry]).0),
        }
        Self(words)
    }

    /// Returns the sieve without a rule; its word is made anew.
    pub(super) fn without(&self, order: Order) -> Self {
        let mut words = self.0.clone();
        for at in 0..words.len() {
            let entries = &words[at].entries;
            if entries.iter().any(|entry| entry.order == order) {
                let left: Vec<Entry> =
                    entries.iter().filter(|entry| entry.order != order).copied().collect();
                match Self::of(&left).0.pop() {
                    Some(word) => words[at] = word,
                    None => drop(words.remove(at)),
                }
                break;
            }
        }
        Self(words)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tells for each key that some rule matches the first that does, word by word: the key's place, the rule's order, and what
    /// lookups say. A key is told once a word at most.
    #[inline]
    pub(super) fn each_first<K: Key>(&self, keys: &[K], mut tell: impl FnMut(usize, Order, (LiveId, u32))) {
        let mut masks = [0; CHUNK];
        let masks = &mut masks[..keys.len()];
        for word in &self.0 {
            word.candidates(keys, masks);
            for (i, &mask) in masks.iter().enumerate() {
                if mask == 0 {
                    continue;
                }
                if let Some(entry) = word.first(&keys[i], mask) {
                    tell(i, entry.order, (LiveId::of(entry.order as u32), entry.rule.value));
                }
            }
        }
    }
}
