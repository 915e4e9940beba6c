//! Index functions, which map a key to a set of each bank, as compared in [TCBCACHE §2.3].

mod affine;

use core::fmt;

use flowloom_flow_key::hash::h3::{H3, H3Error};
use flowloom_flow_key::hash::index::crc_slice::crc_slice;
use flowloom_flow_key::hash::index::modulo::modulo;
use flowloom_flow_key::hash::index::prime_displacement::{MULTIPLIERS, prime_displacement};
use flowloom_flow_key::hash::index::prime_modulo::{largest_prime_at_most, prime_modulo};
use flowloom_flow_key::hash::index::skew_xor::skew_xor;

use crate::geometry::Geometry;
use crate::random::Random;
use crate::trace::number;
use affine::Affine;

/// An index function; with several banks, each bank has its own variant of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexFunction {
    /// The low bits of the key; the same for every bank.
    Modulo,
    /// Index XOR tag; additional banks rotate the tag's slice.
    Xor,
    /// Remainder by the largest prime that fits; additional banks use the next smaller primes.
    PrimeModulo,
    /// Index plus a multiple of the tag, with a different multiplier per bank.
    PrimeDisplacement,
    /// Bits of the CRC-32, with a different slice per bank.
    Crc,
    /// The universal class H₃ over selected bits of the key; each bank has its own random matrix.
    H3 {
        /// Number of key bits that the function uses, 1 to 64; see [`selected_bits`].
        key_bits: u32,
        /// Whether only matrices of full rank are used.
        full_rank: bool,
    },
}

impl IndexFunction {
    /// The paper's choice: H₃ over 16 bits [TCBCACHE §3.2, Fig. 8].
    pub const PAPER: Self = Self::H3 { key_bits: 16, full_rank: false };
}

impl fmt::Display for IndexFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Modulo => f.write_str("mod"),
            Self::Xor => f.write_str("xor"),
            Self::PrimeModulo => f.write_str("pmod"),
            Self::PrimeDisplacement => f.write_str("pdisp"),
            Self::Crc => f.write_str("crc"),
            Self::H3 { key_bits, full_rank: false } => write!(f, "h3-{key_bits}"),
            Self::H3 { key_bits, full_rank: true } => write!(f, "h3-{key_bits}-full"),
        }
    }
}

/// The name of an index function is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownIndex {
    /// The given text.
    pub name: String,
}

impl fmt::Display for UnknownIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unknown index function '{}'; functions: mod, xor, pmod, pdisp, crc, h3-N over N key bits \
             (1 to 64), and h3-N-full with matrices of full rank only",
            self.name
        )
    }
}

impl core::error::Error for UnknownIndex {}

impl core::str::FromStr for IndexFunction {
    type Err = UnknownIndex;

    fn from_str(text: &str) -> Result<Self, UnknownIndex> {
        let name = text.trim().to_ascii_lowercase();
        Ok(match name.as_str() {
            "mod" => Self::Modulo,
            "xor" => Self::Xor,
            "pmod" => Self::PrimeModulo,
            "pdisp" => Self::PrimeDisplacement,
            "crc" => Self::Crc,
            "h3" => Self::PAPER,
            _ => {
                let (bits, full_rank) =
                    name.strip_suffix("-full").map_or((&name[..], false), |bits| (bits, true));
                let key_bits = bits.strip_prefix("h3-").and_then(number::decimal);
                match key_bits.filter(|bits| (1..=64).contains(bits)) {
                    Some(key_bits) => Self::H3 { key_bits, full_rank },
                    None => return Err(UnknownIndex { name: text.to_owned() }),
                }
            }
        })
    }
}

/// Returns a mask of the `n` bits of a key that an n-bit hash uses [TCBCACHE §4.3].
///
/// The order is: the eight low bits of the port, then the bits of the address starting with the
/// lowest (40 in total), then the upper bits of the port, and beyond 48 the upper bits of external
/// keys. 16 gives the paper's choice, `IP<24–31>` and `Port<8–15>`, where bit 0 is the most
/// significant one.
#[must_use]
pub const fn selected_bits(n: u32) -> u64 {
    match n {
        9..=40 => ones(8) | ones(n - 8) << 16,
        41..=48 => ones(n - 32) | ones(32) << 16,
        _ => ones(n),
    }
}

/// The bits of address and port in a key.
const SESSION_BITS: u64 = ones(48);

const fn ones(count: u32) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

/// The index functions of all banks, and the same number of auxiliary ones, prepared for
/// evaluation.
#[derive(Clone, Debug)]
pub struct Indexing {
    primary: Lanes,
    auxiliary: Lanes,
    matrices: Vec<H3>,
}

/// Sets of up to four banks, 16 bits each.
#[derive(Clone, Debug)]
enum Lanes {
    Affine(Affine),
    PrimeModulo([u32; 4]),
    PrimeDisplacement { multipliers: [u32; 4], index_bits: u32 },
}

impl Lanes {
    #[inline(always)]
    fn lane(&self, key: u64) -> u64 {
        match self {
            Self::Affine(affine) => affine.lanes(key),
            Self::PrimeModulo(primes) => pack(|bank| prime_modulo(key & SESSION_BITS, primes[bank])),
            Self::PrimeDisplacement { multipliers, index_bits } => {
                pack(|bank| prime_displacement(key, multipliers[bank], *index_bits))
            }
        }
    }
}

#[inline(always)]
fn pack(set: impl Fn(usize) -> u32) -> u64 {
    (0..4).fold(0, |lanes, bank| lanes | u64::from(set(bank) & 0xFFFF) << (16 * bank))
}

/// Returns the lane of a bank, or 0 if the bank does not exist.
fn lane(lanes: u64, bank: u32) -> u32 {
    lanes.checked_shr(bank.saturating_mul(16)).unwrap_or(0) as u32 & 0xFFFF
}

impl Indexing {
    /// Returns the functions of a cache's banks; the matrices of the H₃ class are drawn from
    /// `seed`.
    ///
    /// # Errors
    ///
    /// Returns [`H3Error`] if H₃ has too few key bits for the number of sets.
    pub fn new(function: IndexFunction, geometry: Geometry, seed: u64) -> Result<Self, H3Error> {
        let r = geometry.index_bits();
        let banks = geometry.banks();
        let mut matrices: Vec<H3> = Vec::new();
        let affine = |of: &dyn Fn(u64, u32) -> u32| {
            let half = |first: u32| {
                Lanes::Affine(Affine::tabulate(|key| {
                    pack(|bank| if (bank as u32) < banks { of(key, first + bank as u32) } else { 0 })
                }))
            };
            (half(0), half(banks))
        };
        let (primary, auxiliary) = match function {
            IndexFunction::Modulo => affine(&|key, _| modulo(key, r)),
            IndexFunction::Xor => affine(&|key, bank| skew_xor(key, bank, r)),
            IndexFunction::Crc => affine(&|key, bank| crc_slice(key, bank, r)),
            IndexFunction::H3 { key_bits, full_rank } => {
                let mut random = Random::new(seed);
                let selected = selected_bits(key_bits);
                for _ in 0..2 * banks {
                    let state = random.state_mut();
                    matrices.push(if full_rank {
                        H3::draw_full_rank(state, r, selected)?
                    } else {
                        H3::draw(state, r, selected)?
                    });
                }
                affine(&|key, bank| matrices[bank as usize].hash(key))
            }
            IndexFunction::PrimeModulo => {
                let mut primes = [1; 8];
                let mut limit = geometry.sets();
                for prime in &mut primes {
                    *prime = largest_prime_at_most(limit);
                    // Small caches have fewer primes than banks; then the largest prime is used
                    // again.
                    limit = if *prime > 2 { *prime - 1 } else { geometry.sets() };
                }
                let half = |first: usize| {
                    Lanes::PrimeModulo(core::array::from_fn(|bank| primes[(first + bank) % 8]))
                };
                (half(0), half(banks as usize))
            }
            IndexFunction::PrimeDisplacement => {
                let half = |first: usize| Lanes::PrimeDisplacement {
                    multipliers: core::array::from_fn(|bank| MULTIPLIERS[(first + bank) % 8]),
                    index_bits: r,
                };
                (half(0), half(banks as usize))
            }
        };
        Ok(Self { primary, auxiliary, matrices })
    }

    /// Returns the sets of the banks' own functions, 16 bits per bank, with bank 0 in the lowest
    /// bits.
    #[inline(always)]
    pub(crate) fn primary(&self, key: u64) -> u64 {
        self.primary.lane(key)
    }

    /// Returns the sets of the auxiliary functions.
    #[inline(always)]
    pub(crate) fn auxiliary(&self, key: u64) -> u64 {
        self.auxiliary.lane(key)
    }

    /// Returns the set of a key in a bank, by the bank's own function. The result is meaningless if
    /// the cache has no such bank.
    #[must_use]
    pub fn set(&self, key: u64, bank: u32) -> u32 {
        lane(self.primary(key), bank)
    }

    /// Returns the set of a key in a bank, by the auxiliary function. The result is meaningless if
    /// the cache has no such bank.
    #[must_use]
    pub fn auxiliary_set(&self, key: u64, bank: u32) -> u32 {
        lane(self.auxiliary(key), bank)
    }

    /// Returns the matrices, those of the banks first; empty if the function is not H₃.
    #[must_use]
    pub fn matrices(&self) -> &[H3] {
        &self.matrices
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn key_bits_are_parsed_from_digits() {
        assert_eq!("h3-16".parse(), Ok(IndexFunction::H3 { key_bits: 16, full_rank: false }));
        for text in ["h3-+16", "h3-65", "h3-"] {
            assert!(text.parse::<IndexFunction>().is_err(), "{text}");
        }
    }

    #[test]
    fn sixteen_bits_are_the_last_octet_and_the_low_byte_of_the_port() {
        assert_eq!(selected_bits(16), 0x00FF_00FF);
        assert_eq!(selected_bits(8), 0xFF);
        assert_eq!(selected_bits(40), 0xFFFF_FFFF_00FF);
        assert_eq!(selected_bits(48), 0xFFFF_FFFF_FFFF);
        assert_eq!(selected_bits(64), u64::MAX);
        for n in 0..=64 {
            assert_eq!(selected_bits(n).count_ones(), n);
        }
    }

    proptest! {
        #[test]
        fn lookup_tables_match_the_definitions(key: u64, sets in 0_u32..8, banks in 1_u32..=4, seed: u64) {
            let geometry = Geometry::new((64 * u64::from(banks)) << sets, 64, banks, 1).unwrap();
            let r = geometry.index_bits();
            let set = |function, bank| {
                let indexing = Indexing::new(function, geometry, seed).unwrap();
                (indexing.set(key, bank), indexing.auxiliary_set(key, bank))
            };
            for bank in 0..banks {
                let other = bank + banks;
                prop_assert_eq!(set(IndexFunction::Modulo, bank), (modulo(key, r), modulo(key, r)));
                prop_assert_eq!(set(IndexFunction::Xor, bank), (skew_xor(key, bank, r), skew_xor(key, other, r)));
                prop_assert_eq!(
                    set(IndexFunction::Crc, bank),
                    (crc_slice(key, bank, r), crc_slice(key, other, r))
                );
                let multiplied = |bank: u32| prime_displacement(key, MULTIPLIERS[bank as usize], r);
                prop_assert_eq!(
                    set(IndexFunction::PrimeDisplacement, bank),
                    (multiplied(bank), multiplied(other))
                );
                let h3 = IndexFunction::H3 { key_bits: 16, full_rank: true };
                let matrices = Indexing::new(h3, geometry, seed).unwrap().matrices;
                let hashed = |bank: u32| matrices[bank as usize].hash(key);
                prop_assert_eq!(set(h3, bank), (hashed(bank), hashed(other)));
                let (a, b) = set(IndexFunction::PrimeModulo, bank);
                prop_assert!(a < geometry.sets() && b < geometry.sets());
            }
            let prime = largest_prime_at_most(geometry.sets());
            prop_assert_eq!(set(IndexFunction::PrimeModulo, 0).0, prime_modulo(key & SESSION_BITS, prime));
        }
    }

    #[test]
    fn names_read_back_as_written() {
        for name in ["mod", "xor", "pmod", "pdisp", "crc", "h3-16", "h3-48-full"] {
            assert_eq!(name.parse::<IndexFunction>().unwrap().to_string(), name);
        }
        assert_eq!("h3".parse(), Ok(IndexFunction::PAPER));
        for bad in ["h3-0", "h3-65", "md5", "", "h3-full"] {
            assert!(bad.parse::<IndexFunction>().unwrap_err().to_string().contains("h3-N"), "{bad}");
        }
    }

    #[test]
    fn sessions_of_one_address_and_port_share_a_set() {
        let functions = [
            IndexFunction::Modulo,
            IndexFunction::Xor,
            IndexFunction::PrimeModulo,
            IndexFunction::PrimeDisplacement,
            IndexFunction::Crc,
            IndexFunction::H3 { key_bits: 48, full_rank: false },
        ];
        for function in functions {
            let indexing = Indexing::new(function, Geometry::PAPER, 3).unwrap();
            let index = |session| {
                let key = crate::Access::nth_session_key(0xC0A8_0105, 1031, session);
                (indexing.primary(key), indexing.auxiliary(key))
            };
            assert_eq!(index(0), index(0xFFFE), "{function}");
        }
    }

    #[test]
    fn bank_out_of_range_has_no_lane() {
        let indexing = Indexing::new(IndexFunction::PAPER, Geometry::PAPER, 1).unwrap();
        for bank in [4, 5, u32::MAX] {
            assert_eq!((indexing.set(77, bank), indexing.auxiliary_set(77, bank)), (0, 0));
        }
    }

    #[test]
    fn too_few_bits_for_the_sets_are_refused_where_full_rank_is_asked_for() {
        let h3 = |key_bits, full_rank| {
            Indexing::new(IndexFunction::H3 { key_bits, full_rank }, Geometry::PAPER, 1)
        };
        assert!(h3(5, true).is_err() && h3(0, false).is_err());
        assert!(h3(5, false).is_ok() && h3(6, true).is_ok());
    }
}
