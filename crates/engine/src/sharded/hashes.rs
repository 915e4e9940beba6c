//! The short hashes of a part's packets, by which a second pass skips packets of other flows.

use flowloom_flow_key::TableHash;

use crate::worker::process::Burst;

/// The packets of a part that have a short hash; a second pass decodes the packets after them. The
/// hashes take at most 32 MiB.
const PACKETS_MAX: usize = 1 << 24;

/// 16 bits of the hash of each packet of a part, in the order of the source.
#[derive(Debug, Default)]
pub(crate) struct PacketHashes {
    /// 0 for packets without a key.
    short: Vec<u16>,
}

impl PacketHashes {
    /// Adds `packets` packets, of which `burst` holds those with a key. The first has number
    /// `first`.
    pub(crate) fn add(&mut self, first: u64, packets: usize, burst: &Burst) {
        let from = self.short.len();
        // Once a batch did not fit, the numbers of later ones lie ahead.
        if first != from as u64 || packets > PACKETS_MAX - from {
            return;
        }
        self.short.resize(from + packets, 0);
        for (number, hash) in burst.hashes() {
            self.short[number as usize] = short(hash);
        }
    }

    /// Returns the short hash of a packet, or `None` if it is not known.
    #[inline]
    pub(crate) fn get(&self, number: u64) -> Option<u16> {
        self.short.get(number as usize).copied()
    }
}

/// A set of short hashes.
#[derive(Debug)]
pub(crate) struct ShortHashes(Box<[u64; 1 << 10]>);

impl ShortHashes {
    /// Returns the set of the short hashes of `hashes`.
    pub(crate) fn of(hashes: impl Iterator<Item = TableHash>) -> Self {
        let mut bits = Box::new([0; 1 << 10]);
        for hash in hashes.map(short) {
            bits[usize::from(hash >> 6)] |= 1 << (hash & 63);
        }
        Self(bits)
    }

    #[inline]
    pub(crate) fn contains(&self, hash: u16) -> bool {
        self.0[usize::from(hash >> 6)] & 1 << (hash & 63) != 0
    }
}

fn short(hash: TableHash) -> u16 {
    (hash.bits() >> 16) as u16
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_beyond_the_limit_have_no_hash() {
        let mut hashes = PacketHashes::default();
        let burst = Burst::new();
        hashes.add(0, PACKETS_MAX - 1, &burst);
        hashes.add(PACKETS_MAX as u64 - 1, 2, &burst);
        hashes.add(PACKETS_MAX as u64 + 1, 1, &burst);
        assert_eq!(hashes.get(PACKETS_MAX as u64 - 2), Some(0));
        assert_eq!(hashes.get(PACKETS_MAX as u64 - 1), None);
        assert_eq!(hashes.get(PACKETS_MAX as u64 + 1), None);
    }
}
