//! Finds which of sixty-four rules may match a packet, with a table of sixteen words for each
//! examined nibble of the key.

use super::{Backend, Kernel, Lanes};
use crate::key::Key;

/// Number of nibbles of a key that are examined.
const NIBBLES: usize = 12;

/// Number of keys in a group; one byte marks the masks that are not empty.
pub(crate) const GROUP: usize = u8::BITS as usize;

/// For each nibble and each of its values, the rules that admit the value, one bit each.
pub(crate) type Tables = [[u64; 16]; NIBBLES];

/// Returns the nibbles: the dimension of each, and its lowest bit in that dimension.
///
/// For addresses they cover sixteen bits: for IPv4 the first, and for IPv6 the third and fourth
/// byte, because the first two are nearly the same for all. For the destination port they cover the
/// low twelve bits, and for the protocol the four bits that distinguish ICMP, TCP, UDP, ESP and
/// SCTP.
pub(crate) const fn nibbles<K: Key>() -> [(usize, u32); NIBBLES] {
    let n = K::ADDRESS_DIMENSIONS;
    let low = if n == 1 { 16 } else { 0 };
    let (port, protocol) = (2 * n + 1, 2 * n + 2);
    [
        (0, low),
        (0, low + 4),
        (0, low + 8),
        (0, low + 12),
        (n, low),
        (n, low + 4),
        (n, low + 8),
        (n, low + 12),
        (port, 0),
        (port, 4),
        (port, 8),
        (protocol, 1),
    ]
}

/// Keys to sift. There is a mask for each, and a byte for each eight.
pub(crate) struct Sift<'a, K: Key> {
    pub(crate) tables: &'a Tables,
    pub(crate) keys: &'a [K],
    /// The rules that may match each key, one bit each.
    pub(crate) masks: &'a mut [u64],
    /// Which of eight masks are not zero, one bit each.
    pub(crate) some: &'a mut [u8],
}

impl<K: Key> Sift<'_, K> {
    /// Writes the masks, and which of them are not zero.
    pub(crate) fn run_on(self, backend: Backend) {
        backend.run(self);
    }

    /// Sifts one key after another.
    #[inline(always)]
    pub(super) fn plainly(self) {
        let at = const { nibbles::<K>() };
        let groups = self.keys.chunks(GROUP).zip(self.masks.chunks_mut(GROUP));
        for ((keys, masks), some) in groups.zip(self.some) {
            *some = 0;
            for (i, (key, mask)) in keys.iter().zip(masks).enumerate() {
                *mask = u64::MAX;
                for (table, (dimension, bit)) in self.tables.iter().zip(at) {
                    *mask &= table[(key.dimension(dimension) >> bit & 15) as usize];
                }
                *some |= u8::from(*mask != 0) << i;
            }
        }
    }
}

impl<K: Key> Kernel for Sift<'_, K> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        assert!(self.masks.len() >= self.keys.len() && self.some.len() >= self.keys.len().div_ceil(GROUP));
        lanes.sift(self);
    }
}

#[cfg(test)]
mod tests {
    use flowloom_cpu::features::Isa;
    use proptest::prelude::*;

    use super::*;
    use crate::key::{KeyV4, KeyV6};

    fn sifted<K: Key>(backend: Backend, tables: &Tables, keys: &[K]) -> (Vec<u64>, Vec<u8>) {
        let mut masks = vec![7; keys.len()];
        let mut some = vec![7; keys.len().div_ceil(GROUP)];
        Sift { tables, keys, masks: &mut masks, some: &mut some }.run_on(backend);
        (masks, some)
    }

    /// Every instruction set gives the same results as the dimensions of keys.
    fn agree<K: Key>(tables: &Tables, keys: &[K]) {
        let admitted = |key: &K| {
            let nibbles = nibbles::<K>().into_iter();
            let nibbles = nibbles.map(|(dimension, bit)| (key.dimension(dimension) >> bit & 15) as usize);
            tables.iter().zip(nibbles).fold(u64::MAX, |mask, (table, nibble)| mask & table[nibble])
        };
        let masks: Vec<u64> = keys.iter().map(admitted).collect();
        for isa in Isa::available() {
            let (found, some) = sifted(Backend::new(isa).unwrap(), tables, keys);
            assert_eq!(found, masks, "{isa}");
            let is_some = |i: usize| some[i / GROUP] >> (i % GROUP) & 1 == 1;
            assert!((0..8 * some.len()).all(|i| is_some(i) == masks.get(i).is_some_and(|&mask| mask != 0)));
        }
    }

    proptest! {
        #[test]
        fn all_instruction_sets_agree(
            seeds in prop::collection::vec(any::<u64>(), 16 * NIBBLES),
            fields in prop::collection::vec((any::<u128>(), any::<u128>(), any::<(u16, u16)>(), any::<u8>()), 0..40),
        ) {
            // Most bits are set, because otherwise no packet would pass twelve tables.
            let mut tables = Tables::default();
            for (word, seed) in tables.as_flattened_mut().iter_mut().zip(seeds) {
                *word = seed | seed.rotate_left(17) | seed.rotate_left(41);
            }
            let v4: Vec<KeyV4> = fields.iter().map(|&(s, d, ports, p)| KeyV4::from_fields(s, d, ports, p)).collect();
            let v6: Vec<KeyV6> = fields.iter().map(|&(s, d, ports, p)| KeyV6::from_fields(s, d, ports, p)).collect();
            agree(&tables, &v4);
            agree(&tables, &v6);
        }
    }
}
