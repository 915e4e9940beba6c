//! One digest per packet, and the use of each of its bits.
//!
//! ```text
//!  FlowHash.table    bits 63 … 32   bucket: high bits, by fast range  (any bucket count)
//!                    bits 31 … 0    signature, and alternates derived from it
//!  FlowHash.worker   32 bits        placement: worker, indirection entry, HRW weight
//! ```
//!
//! Worker and table take separate folds of the same mixed key. If bucket bits chose the worker, the
//! worker's table would only use its share of the buckets. If signature bits chose the bucket,
//! flows of one bucket would have similar signatures.

use crate::flow_key::{FlowKey, IpFamily};
use crate::hash::fold::{fold, split_mix};

/// The digest of a flow's key: two halves that share no bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowHash {
    /// The half for the flow table.
    pub table: TableHash,
    /// The half for placement only.
    pub worker: u32,
}

/// The hash with which a table finds a key: 64 well-mixed bits, the upper half for the bucket, the
/// lower half for the signature.
///
/// It is a separate type, so that neither a key nor a 32-bit hash can take its place: those leave
/// one half empty, and a table would put all flows into few buckets. A hasher creates it, or one of
/// two conversions whose names state their requirements.
///
/// # Examples
///
/// ```
/// use flowloom_flow_key::{FlowHasher, TableHash};
/// let keyed: TableHash = FlowHasher::with_seed(7).hash_words(&[1, 2]).table;
/// let of_crc = TableHash::from_weak(0x1234_5678);
/// assert_ne!(keyed.signature(), of_crc.signature());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(transparent)]
pub struct TableHash(u64);

impl TableHash {
    /// Returns a hash with exactly these bits, each of which must depend on the whole key.
    #[inline]
    #[must_use]
    pub const fn from_mixed(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the hash of a weak hash or a small key, mixed into 64 bits. Equal inputs stay equal,
    /// so with a 32-bit hash two of a hundred thousand keys collide.
    #[inline]
    #[must_use]
    pub const fn from_weak(hash: u64) -> Self {
        Self(fold(hash ^ 0x2436_A088_85A3_08D3, 0x9E37_79B9_7F4A_7C15))
    }

    /// Returns the bits.
    #[inline(always)]
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Returns an index below `bucket_count` from the bucket bits.
    ///
    /// A multiplication replaces the modulo, so any count works.
    #[inline(always)]
    #[must_use]
    pub const fn bucket(self, bucket_count: u32) -> u32 {
        (((self.0 >> 32) * bucket_count as u64) >> 32) as u32
    }

    /// Returns the signature bits.
    #[inline(always)]
    #[must_use]
    pub const fn signature(self) -> u32 {
        self.0 as u32
    }
}

/// A keyed hash of [`FlowKey`]s, the default wherever traffic chooses the keys.
///
/// It takes three multiplications for IPv4, five for IPv6, and one more for a key with a zone or a
/// pass. It is a practical mixer, not a proven pseudo-random function: it protects a table from
/// chosen keys only as long as the secret stays secret.
///
/// # Examples
///
/// ```
/// use flowloom_flow_key::{FlowHasher, FlowKey};
/// let (key, _) = FlowKey::from_v4(1, 2, 3, 4, 6);
/// assert_eq!(FlowHasher::with_seed(7).hash(&key), FlowHasher::with_seed(7).hash(&key));
/// assert_ne!(FlowHasher::with_seed(7).hash(&key), FlowHasher::with_seed(8).hash(&key));
/// ```
#[derive(Clone)]
pub struct FlowHasher {
    secrets: [u64; 8],
}

impl core::fmt::Debug for FlowHasher {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("FlowHasher(secret)")
    }
}

impl FlowHasher {
    /// Returns the hasher of a seed, which is the same on every machine and in every version 0.1.
    ///
    /// It serves experiments that must be repeatable. A seed that an attacker can guess protects
    /// nothing.
    #[must_use]
    pub fn with_seed(seed: u64) -> Self {
        let mut state = seed;
        Self { secrets: core::array::from_fn(|_| split_mix(&mut state)) }
    }

    /// Returns a hasher with a secret drawn from the operating system.
    ///
    /// It is not available on targets without a source of entropy, such as
    /// `wasm32-unknown-unknown`, where the standard library returns the same value each time. If
    /// you have another source of entropy there, use [`FlowHasher::with_seed`].
    #[cfg(all(feature = "std", not(target_os = "unknown")))]
    #[must_use]
    pub fn random() -> Self {
        use std::hash::{BuildHasher, Hasher, RandomState};
        // `RandomState` is the standard library's access to the system's entropy.
        Self {
            secrets: core::array::from_fn(|i| {
                let mut hasher = RandomState::new().build_hasher();
                hasher.write_usize(i);
                hasher.finish()
            }),
        }
    }

    /// Returns the digest of a key.
    #[inline]
    #[must_use]
    pub fn hash(&self, key: &FlowKey) -> FlowHash {
        let s = &self.secrets;
        let w = key.words();
        let mixed = match key.family() {
            IpFamily::V4 => fold(w[0] ^ s[0], w[4] ^ s[1]),
            IpFamily::V6 => {
                let low = fold(w[0] ^ s[0], w[1] ^ s[2]);
                let high = fold(w[2] ^ s[3], w[3] ^ s[4]);
                fold(low ^ w[4] ^ s[1], high.rotate_left(32) ^ s[5])
            }
        };
        self.finish(if w[5] == 0 { mixed } else { self.mix_apart(mixed, w[5]) })
    }

    /// Mixes zone and pass, which separate flows of one five-tuple, into the mixed tuple.
    ///
    /// This takes a separate multiplication, because zones and passes are consecutive numbers.
    /// Without it, those of one tuple would have evenly spaced hashes, and some secrets would put
    /// most of them into a few buckets.
    #[inline]
    fn mix_apart(&self, mixed: u64, zone_and_pass: u64) -> u64 {
        fold(mixed ^ zone_and_pass ^ self.secrets[3], self.secrets[4])
    }

    /// Returns the digest of a custom key: any number of words without padding.
    ///
    /// It takes one multiplication per two words, and two for the halves of the digest. Keys of
    /// different lengths have unrelated digests. The same caution applies as for
    /// [`FlowHasher::hash`].
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_flow_key::FlowHasher;
    /// let hasher = FlowHasher::with_seed(7);
    /// assert_ne!(hasher.hash_words(&[1, 2]).table, hasher.hash_words(&[2, 1]).table);
    /// ```
    #[inline]
    #[must_use]
    pub fn hash_words<const N: usize>(&self, words: &[u64; N]) -> FlowHash {
        let s = &self.secrets;
        let (pairs, rest) = words.as_chunks::<2>();
        let mut mixed = s[3].wrapping_add(N as u64);
        for pair in pairs {
            // The previous state enters both factors, so no word can cancel it by making a factor
            // zero.
            mixed = fold(pair[0] ^ s[0] ^ mixed, pair[1] ^ s[1] ^ mixed.rotate_left(32));
        }
        if let [last] = rest {
            mixed = fold(last ^ s[4] ^ mixed, s[1] ^ mixed.rotate_left(32));
        }
        self.finish(mixed)
    }

    /// Derives both halves of a digest from a mixed key.
    #[inline]
    fn finish(&self, mixed: u64) -> FlowHash {
        let s = &self.secrets;
        FlowHash {
            table: TableHash(fold(mixed ^ s[5], s[6])),
            worker: (fold(mixed ^ s[7], s[2]) >> 32) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(count: u32) -> impl Iterator<Item = FlowKey> {
        // One server, neighbouring clients, ascending ports: the least random keys in real traffic.
        (0..count)
            .map(|i| FlowKey::from_v4(0x0A00_0000 + i / 64, 0xC000_0201, 1024 + (i % 64) as u16, 80, 6).0)
    }

    #[test]
    fn different_keys_have_different_digests() {
        let hasher = FlowHasher::with_seed(1);
        let mut seen: Vec<TableHash> = keys(200_000).map(|key| hasher.hash(&key).table).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 200_000);
    }

    #[test]
    fn digests_of_a_seed_match_the_recorded_ones() {
        let hasher = FlowHasher::with_seed(7);
        let (v4, _) = FlowKey::from_v4(0x0A00_0001, 0xC000_0201, 50_000, 443, 6);
        let (v6, _) = FlowKey::from_v6(0x2001_0DB8 << 96 | 1, 0xFE80 << 112 | 2, 50_000, 443, 6);
        let inputs = [
            hasher.hash(&v4),
            hasher.hash(&v6),
            hasher.hash(&v4.with_zone(5).with_pass(1)),
            hasher.hash_words(&[1, 2, 3]),
        ];
        let recorded = [
            (934_612_921_563_203_417, 4_020_914_771),
            (8_950_037_845_753_307_488, 3_267_488_003),
            (18_200_117_669_366_176_094, 2_158_434_428),
            (8_785_910_126_331_361_121, 3_643_671_714),
        ];
        assert_eq!(inputs.map(|hash| (hash.table.bits(), hash.worker)), recorded);
        assert_eq!(format!("{hasher:?}"), "FlowHasher(secret)");
    }

    #[test]
    fn every_bit_of_a_key_changes_the_digest() {
        let hasher = FlowHasher::with_seed(7);
        let (v4, _) = FlowKey::from_v4(0x0A00_0001, 0xC000_0201, 50_000, 443, 6);
        let (v6, _) = FlowKey::from_v6(0x2001_0DB8 << 96 | 1, 0xFE80 << 112 | 2, 50_000, 443, 6);
        for (key, words) in [(v4, &[0, 5][..]), (v6, &[0, 1, 2, 3, 5])] {
            // The lower half of the fourth word contains the family and unused bits.
            let bits = words.iter().flat_map(|word| (0..64).map(move |bit| (*word, bit)));
            for (word, bit) in bits.chain((24..64).map(|bit| (4, bit))) {
                let mut other = *key.words();
                other[word] ^= 1 << bit;
                let (of, other) = (hasher.hash(&key), hasher.hash(&FlowKey::from_words(other)));
                assert!(of.table != other.table && of.worker != other.worker, "bit {bit} of word {word}");
            }
        }
        for bit in 0..192 {
            let mut other = [1, 2, 3];
            other[bit / 64] ^= 1 << (bit % 64);
            assert_ne!(hasher.hash_words(&[1, 2, 3]), hasher.hash_words(&other), "bit {bit}");
        }
    }

    #[test]
    fn keys_of_any_length_have_distinct_digests() {
        let hasher = FlowHasher::with_seed(1);
        let mut seen: Vec<TableHash> = (0..50_000)
            .flat_map(|i| {
                [
                    hasher.hash_words(&[i]),
                    hasher.hash_words(&[i, 0]),
                    hasher.hash_words(&[0, i + 1]),
                    hasher.hash_words(&[i, i, 5]),
                    hasher.hash_words(&[1, 2, i, 4, 5]),
                ]
            })
            .map(|hash| hash.table)
            .collect();
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count);
    }

    #[test]
    fn zones_and_passes_have_distinct_digests() {
        let hasher = FlowHasher::with_seed(1);
        let (key, _) = FlowKey::from_v4(1, 2, 3, 4, 6);
        let mut seen: Vec<TableHash> = (0..1000)
            .flat_map(|i| [hasher.hash(&key.with_zone(i + 1)).table, hasher.hash(&key.with_pass(i)).table])
            .collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 2000);
    }

    /// Chi-square over `cells` equally likely cells, as a z-score: about N(0, 1) when uniform.
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    fn z_score(counts: &[u32]) -> f64 {
        let total: u32 = counts.iter().sum();
        let expected = f64::from(total) / counts.len() as f64;
        let chi: f64 = counts.iter().map(|&c| (f64::from(c) - expected).powi(2) / expected).sum();
        let freedom = counts.len() as f64 - 1.0;
        (chi - freedom) / (2.0 * freedom).sqrt()
    }

    #[test]
    fn zones_and_passes_of_one_tuple_are_spread_whatever_the_seed() {
        let (tuple, _) = FlowKey::from_v4(1, 2, 3, 4, 6);
        for seed in 0..40 {
            let hasher = FlowHasher::with_seed(seed);
            for key_of in [FlowKey::with_zone, FlowKey::with_pass] {
                let (mut bucket, mut worker) = ([0_u32; 1000], [0_u32; 4]);
                for i in 0..15_000 {
                    let hash = hasher.hash(&key_of(tuple, i));
                    bucket[hash.table.bucket(1000) as usize] += 1;
                    worker[(hash.worker >> 30) as usize] += 1;
                }
                for (name, counts) in [("bucket", &bucket[..]), ("worker", &worker[..])] {
                    let z = z_score(counts);
                    assert!(z.abs() < 5.0, "{name} of seed {seed}: z = {z}");
                }
            }
        }
    }

    #[test]
    fn workers_buckets_and_signatures_are_even_and_independent() {
        let hasher = FlowHasher::with_seed(3);
        let mut worker = [0_u32; 7];
        let mut bucket = [0_u32; 1000];
        let mut signature = [0_u32; 1 << 10];
        let mut bucket_of_one_worker = [0_u32; 64];
        for key in keys(300_000) {
            let hash = hasher.hash(&key);
            let w = ((u64::from(hash.worker) * 7) >> 32) as usize;
            worker[w] += 1;
            bucket[hash.table.bucket(1000) as usize] += 1;
            signature[(hash.table.signature() & 0x3FF) as usize] += 1;
            if w == 3 {
                bucket_of_one_worker[hash.table.bucket(64) as usize] += 1;
            }
        }
        for (name, counts) in [
            ("worker", &worker[..]),
            ("bucket", &bucket[..]),
            ("signature", &signature[..]),
            ("bucket of worker 3", &bucket_of_one_worker[..]),
        ] {
            let z = z_score(counts);
            assert!(z.abs() < 5.0, "{name}: z = {z}");
        }
    }

    #[cfg(feature = "std")]
    #[test]
    fn random_secrets_place_flows_differently() {
        let (key, _) = FlowKey::from_v4(1, 2, 3, 4, 6);
        assert_ne!(FlowHasher::random().hash(&key), FlowHasher::random().hash(&key));
    }
}
