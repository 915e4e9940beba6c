//! A keyed hasher for the standard library's traits, for custom keys that implement `Hash`.
//!
//! The scheme is that of [`FlowHasher`](crate::FlowHasher): words are collected until there are 128
//! bits, and a multiplication folds these into the state. A key costs one multiplication per two
//! words, and the length of an array none. The tables of `flowloom-flow-table` add one
//! multiplication for the bits that they need.

use core::hash::{BuildHasher, Hasher};

use crate::hash::fold::{fold, split_mix};

/// Creates [`KeyedHasher`]s with one secret; the default of a
/// [`FlowMap`](https://docs.rs/flowloom-flow-table/latest/flowloom_flow_table/struct.FlowMap.html).
///
/// It protects a table from chosen keys only as long as the secret stays secret, like
/// [`FlowHasher`](crate::FlowHasher).
///
/// # Examples
///
/// ```
/// use std::hash::BuildHasher;
/// use flowloom_flow_key::KeyedState;
/// let state = KeyedState::with_seed(7);
/// assert_eq!(state.hash_one((1_u32, 2_u16)), KeyedState::with_seed(7).hash_one((1_u32, 2_u16)));
/// assert_ne!(state.hash_one((1_u32, 2_u16)), KeyedState::with_seed(8).hash_one((1_u32, 2_u16)));
/// ```
#[derive(Clone)]
pub struct KeyedState {
    secrets: [u64; 3],
}

impl core::fmt::Debug for KeyedState {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("KeyedState(secret)")
    }
}

impl KeyedState {
    /// Returns the state of a seed, for experiments that must be repeatable.
    ///
    /// A seed that an attacker can guess protects nothing.
    #[must_use]
    pub fn with_seed(seed: u64) -> Self {
        let mut state = seed;
        Self { secrets: core::array::from_fn(|_| split_mix(&mut state)) }
    }

    /// Returns a state with a secret drawn from the operating system.
    ///
    /// It is not available on targets without a source of entropy; see
    /// [`FlowHasher::random`](crate::FlowHasher::random).
    #[cfg(all(feature = "std", not(target_os = "unknown")))]
    #[must_use]
    pub fn random() -> Self {
        let drawn = std::hash::RandomState::new();
        Self { secrets: core::array::from_fn(|number| drawn.hash_one(number)) }
    }
}

#[cfg(all(feature = "std", not(target_os = "unknown")))]
impl Default for KeyedState {
    /// Returns [`KeyedState::random`].
    fn default() -> Self {
        Self::random()
    }
}

impl BuildHasher for KeyedState {
    type Hasher = KeyedHasher;

    #[inline]
    fn build_hasher(&self) -> KeyedHasher {
        KeyedHasher { mixed: 0, is_mixed: false, held: 0, held_bits: 0, secrets: self.secrets }
    }
}

/// Hashes one key with the secret of a [`KeyedState`].
#[derive(Clone)]
pub struct KeyedHasher {
    mixed: u64,
    /// Whether words were folded into `mixed`. Constant, as `held_bits`, for keys of fixed size.
    is_mixed: bool,
    held: u128,
    held_bits: u32,
    secrets: [u64; 3],
}

impl core::fmt::Debug for KeyedHasher {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("KeyedHasher(secret)")
    }
}

impl KeyedHasher {
    /// Adds up to 64 bits.
    #[inline(always)]
    fn take(&mut self, word: u64, bits: u32) {
        if self.held_bits + bits > 128 {
            self.mix();
        }
        self.held |= u128::from(word) << self.held_bits;
        self.held_bits += bits;
    }

    /// Folds the collected words into the state.
    #[inline(always)]
    fn mix(&mut self) {
        let held = self.held;
        (self.held, self.held_bits) = (0, 0);
        self.mix_pair(held as u64, (held >> 64) as u64);
    }

    /// Folds two words into the state, past the collected bits, whose number enters too.
    #[inline(always)]
    fn mix_pair(&mut self, low: u64, high: u64) {
        let [s0, s1, _] = self.secrets;
        let s1 = s1.rotate_left(self.held_bits / 8);
        // The previous state enters both factors, so no word can cancel it by making a factor zero.
        self.mixed = fold(low ^ s0 ^ self.mixed, high ^ s1 ^ self.mixed.rotate_left(32));
        self.is_mixed = true;
    }

    /// Drops a collected word that is the number of the bytes, or of the words of 8 bytes, that
    /// follow: the length that an array announces. A secret of its own for each of the two then
    /// changes the state, so that the key differs from one with another word there.
    #[inline(always)]
    fn drop_length(&mut self, bytes: usize) {
        if self.held_bits == 64 && bytes > 0 {
            let turns = if self.held == bytes as u128 {
                33
            } else if 8 * self.held == bytes as u128 {
                41
            } else {
                return;
            };
            (self.held, self.held_bits) = (0, 0);
            self.mixed ^= self.secrets[2].rotate_left(turns);
        }
    }
}

impl Hasher for KeyedHasher {
    /// An array arrives here behind its length. Pairs of words are not collected, so that this
    /// stays short enough to be inlined into the array's `hash`.
    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) {
        self.drop_length(bytes.len());
        let (pairs, rest) = bytes.as_chunks::<16>();
        for pair in pairs {
            let pair = u128::from_le_bytes(*pair);
            self.mix_pair(pair as u64, (pair >> 64) as u64);
        }
        let (words, rest) = rest.as_chunks::<8>();
        for word in words {
            self.take(u64::from_le_bytes(*word), 64);
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.take(u64::from_le_bytes(last), 8 * rest.len() as u32);
        }
    }

    #[inline(always)]
    fn write_u8(&mut self, value: u8) {
        self.take(value.into(), 8);
    }

    #[inline(always)]
    fn write_u16(&mut self, value: u16) {
        self.take(value.into(), 16);
    }

    #[inline(always)]
    fn write_u32(&mut self, value: u32) {
        self.take(value.into(), 32);
    }

    #[inline(always)]
    fn write_u64(&mut self, value: u64) {
        self.take(value, 64);
    }

    #[inline(always)]
    fn write_u128(&mut self, value: u128) {
        self.take(value as u64, 64);
        self.take((value >> 64) as u64, 64);
    }

    #[inline(always)]
    fn write_usize(&mut self, value: usize) {
        self.take(value as u64, 64);
    }

    #[inline(always)]
    fn finish(&self) -> u64 {
        if self.is_mixed && self.held_bits == 0 {
            return self.mixed;
        }
        let (low, high) = (self.held as u64, (self.held >> 64) as u64);
        let [s0, _, s2] = self.secrets;
        // The last product uses a separate secret for each number of bits, so that a key differs
        // from the same key with more bits appended.
        let last = s2.rotate_left(self.held_bits / 8);
        fold(low ^ s0 ^ self.mixed, high ^ last ^ self.mixed.rotate_left(32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FiveTuple, TableHash};

    #[test]
    fn every_bit_of_a_key_changes_the_digest() {
        let state = KeyedState::with_seed(7);
        let (words, plain) = ([1_u64, 2, 3, 4, 5, 6], state.hash_one([1_u64, 2, 3, 4, 5, 6]));
        for bit in 0..384 {
            let mut other = words;
            other[bit / 64] ^= 1 << (bit % 64);
            assert_ne!(state.hash_one(other), plain, "bit {bit}");
        }
        let bytes = b"thirteen byte";
        for bit in 0..8 * bytes.len() {
            let mut other = *bytes;
            other[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(state.hash_one(other), state.hash_one(bytes), "bit {bit}");
        }
    }

    #[test]
    fn digest_depends_on_the_order_of_words() {
        let state = KeyedState::with_seed(5);
        let hash = |write: fn(&mut KeyedHasher)| {
            let mut hasher = state.build_hasher();
            write(&mut hasher);
            hasher.finish()
        };
        let digests = [
            hash(|h| h.write(&[1; 24])),
            hash(|h| (h.write_usize(16), h.write(&[1; 16])).1),
            hash(|h| (h.write_usize(2), h.write(&[1; 16])).1),
            hash(|h| (h.write_usize(1), h.write(&[1; 16])).1),
            hash(|h| h.write(&[1; 16])),
            hash(|h| (h.write(&[1; 16]), h.write_u64(2)).1),
            hash(|h| (h.write_u64(3), h.write(&[1; 16])).1),
            hash(|h| (h.write_u32(2), h.write(&[1; 16])).1),
            hash(|h| (h.write(&[1; 16]), h.write(&[2; 16]), h.write_u64(2)).2),
            hash(|h| (h.write(&[1; 16]), h.write_u64(2), h.write(&[2; 16])).2),
            hash(|h| (h.write_u64(2), h.write(&[1; 16]), h.write(&[2; 16])).2),
        ];
        for (number, digest) in digests.iter().enumerate() {
            assert!(!digests[..number].contains(digest), "{number}");
        }
    }

    #[test]
    fn keys_of_different_lengths_have_distinct_digests() {
        let state = KeyedState::with_seed(1);
        let mut seen: Vec<u64> = (0..40).map(|length| state.hash_one(&[1_u8; 40][..length])).collect();
        seen.extend((0..40).map(|length| {
            let mut hasher = state.build_hasher();
            (0..length).for_each(|_| hasher.write_u8(2));
            hasher.finish()
        }));
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count);
    }

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    fn neighbouring_keys_fill_buckets_and_signatures_evenly() {
        let state = KeyedState::with_seed(3);
        let (mut buckets, mut signatures) = (vec![0_u32; 1000], vec![0_u32; 1024]);
        let count = 300_000_u32;
        for i in 0..count {
            let [_, a, b, c] = i.to_be_bytes();
            let tuple = FiveTuple::v4([10, 0, a, b], [192, 0, 2, 1], 1024 + u16::from(c), 80, 6);
            let hash = state.hash_one(tuple);
            buckets[TableHash::from_mixed(hash).bucket(1000) as usize] += 1;
            signatures[(hash & 1023) as usize] += 1;
        }
        for counts in [buckets, signatures] {
            let expected = f64::from(count) / counts.len() as f64;
            let chi: f64 = counts.iter().map(|&c| (f64::from(c) - expected).powi(2) / expected).sum();
            let freedom = counts.len() as f64 - 1.0;
            let z = (chi - freedom) / (2.0 * freedom).sqrt();
            assert!(z.abs() < 5.0, "z = {z}");
        }
    }

    #[test]
    fn no_secret_is_printed() {
        let state = KeyedState::with_seed(1);
        let hasher = state.build_hasher();
        assert_eq!(format!("{state:?} {hasher:?}"), "KeyedState(secret) KeyedHasher(secret)");
    }
}
