//! The signature: 32 bits that represent a session in its bucket.
//!
//! | type | formula | directions |
//! | --- | --- | --- |
//! | [`Algorithm1`] | sip ⊕ dip ⊕ sp ⊕ dp | same |
//! | [`Algorithm2`] | CRC(sip ⊕ dip ∣ sp ⊕ dp) | same |
//! | [`Algorithm3`] | CRC(sip ∣ dip ∣ sp ⊕ dp) ⊕ CRC(dip ∣ sip ∣ sp ⊕ dp) | same |
//! | [`Algorithm4`] | high half of CRC(sip ∣ dip ∣ sp ∣ dp), high half of CRC(dip ∣ sip ∣ dp ∣ sp) | halves swapped |
//! | [`Keyed`] | low half of the caller's hash | whatever the hash is |
//!
//! CRC is CRC-32C, the one of the SSE4.2 instruction. All four are linear and unkeyed, so an
//! attacker can make any number of sessions that share one signature. They serve the paper's
//! measurements; [`Keyed`] is for traffic.
//!
//! Paper: [DHASH §III-B].

use core::net::IpAddr;

use flowloom_flow_key::hash::crc32c::crc32c;
use flowloom_flow_key::{FlowKey, TableHash};

/// A way to compute signatures.
pub trait Signature<K>: Copy {
    /// Returns whether the two directions have signatures with swapped halves, so that a failed
    /// search is repeated with swapped halves.
    fn is_swapped_by_direction(self) -> bool {
        false
    }

    /// Returns the signature before [`non_zero`] replaces zero.
    fn raw(self, key: &K, hash: TableHash) -> u32;
}

/// Replacement for a signature of zero, which marks an empty slot.
///
/// Its halves are equal, so swapping them does not change it, as with zero.
pub const FOR_ZERO: u32 = 0x0001_0001;

/// Returns the signature to store.
#[inline(always)]
#[must_use]
pub const fn non_zero(raw: u32) -> u32 {
    if raw == 0 { FOR_ZERO } else { raw }
}

/// The paper's session: an IPv4 4-tuple, equal to the one of the opposite direction.
///
/// # Examples
///
/// ```
/// use flowloom_flow_table::dhash::signature::Session;
/// let there = Session { source: 1, destination: 2, source_port: 3, destination_port: 4 };
/// assert_eq!(there, there.reversed());
/// ```
#[derive(Clone, Copy, Debug, Eq)]
pub struct Session {
    /// Sender's address.
    pub source: u32,
    /// Receiver's address.
    pub destination: u32,
    /// Sender's port.
    pub source_port: u16,
    /// Receiver's port.
    pub destination_port: u16,
}

impl Session {
    /// Returns the session of a flow, from its lower end to its higher one.
    #[must_use]
    pub fn from_key(key: &FlowKey) -> Self {
        let folded = |address| match address {
            IpAddr::V4(address) => address.to_bits(),
            IpAddr::V6(address) => {
                let words = address.octets();
                words.as_chunks().0.iter().fold(0, |folded, word| folded ^ u32::from_be_bytes(*word))
            }
        };
        Self {
            source: folded(key.low_address()),
            destination: folded(key.high_address()),
            source_port: key.low_port(),
            destination_port: key.high_port(),
        }
    }

    /// Returns the opposite direction.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
        }
    }

    fn is_exactly(&self, other: &Self) -> bool {
        (self.source, self.destination, self.source_port, self.destination_port)
            == (other.source, other.destination, other.source_port, other.destination_port)
    }

    /// Returns the addresses and ports in network order.
    fn octets(&self) -> [u8; 12] {
        let mut octets = [0; 12];
        octets[..4].copy_from_slice(&self.source.to_be_bytes());
        octets[4..8].copy_from_slice(&self.destination.to_be_bytes());
        octets[8..10].copy_from_slice(&self.source_port.to_be_bytes());
        octets[10..].copy_from_slice(&self.destination_port.to_be_bytes());
        octets
    }

    /// Returns the addresses and the xor of the ports in network order.
    fn octets_with_folded_ports(&self) -> [u8; 10] {
        let mut octets = [0; 10];
        octets[..4].copy_from_slice(&self.source.to_be_bytes());
        octets[4..8].copy_from_slice(&self.destination.to_be_bytes());
        octets[8..].copy_from_slice(&(self.source_port ^ self.destination_port).to_be_bytes());
        octets
    }
}

impl PartialEq for Session {
    fn eq(&self, other: &Self) -> bool {
        self.is_exactly(other) || self.is_exactly(&other.reversed())
    }
}

/// Algorithm 1: the xor of all fields.
#[derive(Clone, Copy, Debug, Default)]
pub struct Algorithm1;

impl Signature<Session> for Algorithm1 {
    fn raw(self, key: &Session, _hash: TableHash) -> u32 {
        key.source ^ key.destination ^ u32::from(key.source_port ^ key.destination_port)
    }
}

/// Algorithm 2: the CRC of xors.
#[derive(Clone, Copy, Debug, Default)]
pub struct Algorithm2;

impl Signature<Session> for Algorithm2 {
    fn raw(self, key: &Session, _hash: TableHash) -> u32 {
        let mut octets = [0; 6];
        octets[..4].copy_from_slice(&(key.source ^ key.destination).to_be_bytes());
        octets[4..].copy_from_slice(&(key.source_port ^ key.destination_port).to_be_bytes());
        crc32c(&octets)
    }
}

/// Algorithm 3: the xor of CRCs. The ports cancel out, so all sessions between two hosts share one
/// signature.
#[derive(Clone, Copy, Debug, Default)]
pub struct Algorithm3;

impl Signature<Session> for Algorithm3 {
    fn raw(self, key: &Session, _hash: TableHash) -> u32 {
        crc32c(&key.octets_with_folded_ports()) ^ crc32c(&key.reversed().octets_with_folded_ports())
    }
}

/// Algorithm 4: halves of two CRCs, one per direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Algorithm4;

impl Signature<Session> for Algorithm4 {
    fn is_swapped_by_direction(self) -> bool {
        true
    }

    fn raw(self, key: &Session, _hash: TableHash) -> u32 {
        (crc32c(&key.octets()) & 0xFFFF_0000) | (crc32c(&key.reversed().octets()) >> 16)
    }
}

/// The low half of the caller's hash: independent of the bucket, and keyed if the hash is.
///
/// Unlike the paper, which computes a signature from the 4-tuple separately from the bucket's hash,
/// one digest per packet serves both, and no attacker can aim at it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keyed;

impl<K> Signature<K> for Keyed {
    #[inline(always)]
    fn raw(self, _key: &K, hash: TableHash) -> u32 {
        hash.signature()
    }
}

/// A signature by its number in the paper, or the caller's hash.
///
/// The key of a flow has no direction: the paper's session is that from its lower to its higher
/// end. So the second search of [`Four`](Self::Four) never finds anything, and a miss costs it
/// twice the comparisons, as in the paper. Of IPv6, the words of an address are folded into one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SignatureAlgorithm {
    /// [`Algorithm1`].
    One,
    /// [`Algorithm2`].
    Two,
    /// [`Algorithm3`].
    Three,
    /// [`Algorithm4`].
    Four,
    /// [`struct@Keyed`].
    #[default]
    Keyed,
}

impl Signature<FlowKey> for SignatureAlgorithm {
    fn is_swapped_by_direction(self) -> bool {
        self == Self::Four
    }

    fn raw(self, key: &FlowKey, hash: TableHash) -> u32 {
        let session = Session::from_key(key);
        match self {
            Self::One => Algorithm1.raw(&session, hash),
            Self::Two => Algorithm2.raw(&session, hash),
            Self::Three => Algorithm3.raw(&session, hash),
            Self::Four => Algorithm4.raw(&session, hash),
            Self::Keyed => hash.signature(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use flowloom_flow_key::hash::fold::split_mix;

    #[expect(clippy::cast_possible_truncation, reason = "any bits of a random word will do")]
    fn sessions(count: u32) -> impl Iterator<Item = Session> {
        let mut state = 1;
        (0..count).map(move |_| {
            let (a, b) = (split_mix(&mut state), split_mix(&mut state));
            Session {
                source: a as u32,
                destination: (a >> 32) as u32,
                source_port: b as u16,
                destination_port: (b >> 16) as u16,
            }
        })
    }

    #[test]
    fn algorithms_1_to_3_do_not_see_the_direction() {
        for session in sessions(200) {
            let back = session.reversed();
            assert_eq!(
                Algorithm1.raw(&session, TableHash::default()),
                Algorithm1.raw(&back, TableHash::default())
            );
            assert_eq!(
                Algorithm2.raw(&session, TableHash::default()),
                Algorithm2.raw(&back, TableHash::default())
            );
            assert_eq!(
                Algorithm3.raw(&session, TableHash::default()),
                Algorithm3.raw(&back, TableHash::default())
            );
        }
    }

    #[test]
    fn algorithms_are_those_of_the_paper() {
        let session = Session {
            source: 0xF0F0_0001,
            destination: 0x0FF0_00FF,
            source_port: 0x1234,
            destination_port: 0x00FF,
        };
        assert_eq!(session.octets(), [0xF0, 0xF0, 0, 1, 0x0F, 0xF0, 0, 0xFF, 0x12, 0x34, 0, 0xFF]);
        // F0F00001 ^ 0FF000FF is FF0000FE, and 1234 ^ 00FF is 12CB.
        assert_eq!(Algorithm1.raw(&session, TableHash::default()), 0xFF00_00FE ^ 0x12CB);
        assert_eq!(Algorithm2.raw(&session, TableHash::default()), crc32c(&[0xFF, 0, 0, 0xFE, 0x12, 0xCB]));
        let (there, back) = (
            [0xF0, 0xF0, 0, 1, 0x0F, 0xF0, 0, 0xFF, 0x12, 0x34, 0, 0xFF],
            [0x0F, 0xF0, 0, 0xFF, 0xF0, 0xF0, 0, 1, 0, 0xFF, 0x12, 0x34],
        );
        let halves = (crc32c(&there) & 0xFFFF_0000) | (crc32c(&back) >> 16);
        assert_eq!(Algorithm4.raw(&session, TableHash::default()), halves);
        let folded = |addresses: &[u8]| crc32c(&[addresses, &[0x12, 0xCB]].concat());
        assert_eq!(
            Algorithm3.raw(&session, TableHash::default()),
            folded(&there[..8]) ^ folded(&back[..8])
        );
    }

    #[test]
    fn algorithm_4_swaps_its_halves_with_the_direction() {
        for session in sessions(200) {
            let (there, back) = (
                Algorithm4.raw(&session, TableHash::default()),
                Algorithm4.raw(&session.reversed(), TableHash::default()),
            );
            assert_eq!(there, back.rotate_left(16));
        }
    }

    #[test]
    fn zero_signature_is_remapped_alike_for_both_directions() {
        assert_eq!(non_zero(0), FOR_ZERO);
        assert_eq!(FOR_ZERO.rotate_left(16), FOR_ZERO);
        assert_eq!(non_zero(5), 5);
    }

    #[test]
    fn a_flow_has_the_signature_of_its_session() {
        let hash = TableHash::from_mixed(77);
        let session = Session { source: 9, destination: 4, source_port: 80, destination_port: 7 };
        let low_first = session.reversed();
        let (key, _) = FlowKey::from_v4(9, 4, 80, 7, 6);
        let wide = |low: u128| FlowKey::from_v6(9, low << 96, 80, 7, 6).0;
        for (algorithm, expected) in [
            (SignatureAlgorithm::One, Algorithm1.raw(&session, hash)),
            (SignatureAlgorithm::Two, Algorithm2.raw(&session, hash)),
            (SignatureAlgorithm::Three, Algorithm3.raw(&session, hash)),
            (SignatureAlgorithm::Four, Algorithm4.raw(&low_first, hash)),
            (SignatureAlgorithm::Keyed, hash.signature()),
        ] {
            assert_eq!(algorithm.raw(&key, hash), expected, "{algorithm:?}");
            let is_swapped = Signature::<FlowKey>::is_swapped_by_direction(algorithm);
            assert_eq!(is_swapped, algorithm == SignatureAlgorithm::Four, "{algorithm:?}");
            let is_keyed = algorithm == SignatureAlgorithm::Keyed;
            assert_eq!(algorithm.raw(&wide(4), hash) == algorithm.raw(&wide(5), hash), is_keyed);
        }
    }

    #[test]
    fn session_key_is_equal_only_for_both_directions_of_one_session() {
        let session = Session { source: 1, destination: 2, source_port: 3, destination_port: 4 };
        assert!(session == session.reversed() && !session.is_exactly(&session.reversed()));
        for other in [
            Session { source: 9, ..session },
            Session { destination: 9, ..session },
            Session { source_port: 9, ..session },
            Session { destination_port: 9, ..session },
            Session { source_port: 4, destination_port: 3, ..session },
        ] {
            assert!(session != other && session.reversed() != other, "{other:?}");
        }
        // The words of an IPv6 address are folded by xor: 5 ^ 4 is 1.
        let wide = Session::from_key(&FlowKey::from_v6(9, 5 << 96 | 4, 80, 7, 6).0);
        assert!(wide.is_exactly(&Session {
            source: 9,
            destination: 1,
            source_port: 80,
            destination_port: 7
        }));
    }

    #[test]
    fn algorithm_3_forgets_the_ports() {
        let mut seen: Vec<u32> = (0..1000)
            .map(|port| Session { source: 1, destination: 2, source_port: port, destination_port: 80 })
            .map(|session| Algorithm3.raw(&session, TableHash::default()))
            .collect();
        seen.dedup();
        assert_eq!(seen.len(), 1);
    }
}
