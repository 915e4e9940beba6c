//! Flows of an attack: all have the same CRC.
//!
//! A CRC is linear: crc(a ⊕ b ⊕ c) = crc(a) ⊕ crc(b) ⊕ crc(c) for keys of one length, independent
//! of the seed. Therefore elimination finds the keys that share a value without a search; their
//! number is two to the power of the free bits above 32. A table that hashes with a CRC puts all of
//! them into one bucket under one signature.

use std::cmp::Reverse;

use flowloom_flow_key::hash::crc32c::crc32c;

use super::{Flows, shuffle};

/// Bits of a key's first word that the attacker chooses, as first bit and number of bits: the
/// source address, and the lower half of the destination address.
const FIRST_WORD: [(u32, u32); 2] = [(32, 32), (0, 16)];

/// Bits of its last word that the attacker chooses: the source port.
const LAST_WORD: (u32, u32) = (32, 16);

/// Returns the hash of a table without a secret: one CRC for both bucket and signature.
pub fn crc_hash<const W: usize>(key: &[u64; W]) -> u64 {
    let crc = u64::from(crc(key));
    crc << 32 | crc
}

fn crc<const W: usize>(key: &[u64; W]) -> u32 {
    crc32c(key.map(u64::to_be_bytes).as_flattened())
}

/// Returns `count` flows that share one CRC, and the same number of missing keys that share it too;
/// keys must have at least two words.
///
/// There are 2³² such keys: from 2³¹ flows on, some flows are among the missing keys.
pub fn one_crc<const W: usize>(count: u32, seed: u64) -> Flows<W> {
    const { assert!(W >= 2, "addresses and ports are in separate words") };
    let mut base = [0x2001_0DB8_0000_0000; W];
    (base[0], base[W - 1]) = (0x0A00_0001_C0A8_0001, 1024 << 32 | 443 << 16 | 6);
    let kernel = kernel(base);
    let key = |number: u64| {
        let mut key = base;
        for (bit, vector) in kernel.iter().enumerate() {
            if number >> bit & 1 == 1 {
                key = xor(key, *vector);
            }
        }
        key
    };
    let mut packets: Vec<_> = (0..count).map(|number| (key(number.into()), number)).collect();
    let mut missing: Vec<_> = (u64::from(count)..2 * u64::from(count)).map(key).collect();
    let mut state = seed;
    shuffle(&mut packets, &mut state);
    shuffle(&mut missing, &mut state);
    Flows::from_packets(packets, missing, seed)
}

fn xor<const W: usize>(a: [u64; W], b: [u64; W]) -> [u64; W] {
    std::array::from_fn(|word| a[word] ^ b[word])
}

/// Returns independent changes to a key that keep its CRC.
fn kernel<const W: usize>(base: [u64; W]) -> Vec<[u64; W]> {
    let of_word = |word: usize, (first, count)| (first..first + count).map(move |bit: u32| (word, bit));
    let free = FIRST_WORD.into_iter().flat_map(|bits| of_word(0, bits)).chain(of_word(W - 1, LAST_WORD));
    let of_base = crc(&base);
    // Each row is the effect of these bits on the CRC, reduced by the previous rows.
    let mut rows: Vec<(u32, [u64; W])> = Vec::new();
    let mut kernel = Vec::new();
    for (word, bit) in free {
        let mut change = [0; W];
        change[word] = 1 << bit;
        let mut image = crc(&xor(base, change)) ^ of_base;
        for &(row, made_of) in &rows {
            if image ^ row < image {
                image ^= row;
                change = xor(change, made_of);
            }
        }
        if image == 0 {
            kernel.push(change);
        } else {
            rows.push((image, change));
            rows.sort_unstable_by_key(|&(image, _)| Reverse(image));
        }
    }
    kernel
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_flow_key::TableHash;
    use flowloom_flow_table::dhash::DHash;
    use flowloom_flow_table::probe::Counts;
    use flowloom_flow_table::{FlowTable, FullReason, LineHash, TableOptions, Tick, TimeoutClass};

    fn all_share_one_crc<const W: usize>() {
        let flows = one_crc::<W>(65_536, 1);
        let shared = crc(&flows.keys[0]);
        assert!(flows.keys.iter().chain(&flows.missing).all(|key| crc(key) == shared));
        let mut keys: Vec<_> = flows.keys.iter().chain(&flows.missing).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 131_072);
    }

    #[test]
    fn flooding_flows_share_a_crc_and_have_distinct_keys() {
        all_share_one_crc::<2>();
        all_share_one_crc::<5>();
    }

    /// Average number of lines read per lookup.
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    fn lines<const W: usize>(flows: &Flows<W>) -> f64 {
        let config = TableOptions::for_flows(u32::try_from(flows.keys.len()).unwrap());
        let mut table = LineHash::try_new(&config).unwrap();
        flows.fill(&mut table).unwrap();
        let mut counts = Counts::default();
        for key in &flows.keys {
            assert!(table.find_counting(key, flows.hash(key), &mut counts).is_some());
        }
        counts.lines as f64 / counts.hits as f64
    }

    fn is_no_flood<const W: usize>() {
        let (random, flood) = (Flows::<W>::new(65_536, 3), one_crc::<W>(65_536, 3));
        assert!(lines(&flood) < 1.02 * lines(&random), "{} {}", lines(&flood), lines(&random));
    }

    #[test]
    fn a_flood_of_one_crc_is_no_flood_for_a_keyed_table() {
        is_no_flood::<2>();
        is_no_flood::<5>();
    }

    #[test]
    fn a_table_without_a_secret_is_flooded_and_stays_bounded() {
        let flows = one_crc::<2>(1000, 1);
        let mut table = DHash::<[u64; 2], ()>::try_new(&TableOptions::for_flows(1000)).unwrap();
        let mut taken = 0;
        for key in &flows.keys {
            match table.insert(*key, TableHash::from_mixed(crc_hash(key)), (), TimeoutClass(0), Tick(0)) {
                Ok(_) => taken += 1,
                Err(refused) => assert_eq!(refused.reason, FullReason::ListCap),
            }
        }
        // Sixteen slots and a list of sixteen: the remaining flows are rejected, not chained.
        assert_eq!((taken, table.stats().refused), (32, 968));
    }
}
