//! Stores equal strings once. Contents are compared, so a hash collision only costs time.

use alloc::vec;
use alloc::vec::Vec;

/// A set of word strings, each with a value.
#[derive(Debug)]
pub(crate) struct Interner {
    arena: Vec<u32>,
    entries: Vec<Entry>,
    /// Positions in `entries` plus one; the length is a power of two.
    table: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u64,
    start: usize,
    len: u32,
    value: u64,
}

impl Interner {
    pub(crate) fn new() -> Self {
        Self { arena: Vec::new(), entries: Vec::new(), table: vec![0; 64] }
    }

    /// Returns the value of a string.
    pub(crate) fn get(&self, string: &[u32]) -> Option<u64> {
        self.find(hash(string), string).ok()
    }

    /// Assigns a value to a string that has none yet.
    pub(crate) fn insert(&mut self, string: &[u32], value: u64) {
        let hash = hash(string);
        if 2 * self.entries.len() >= self.table.len() {
            self.grow();
        }
        if let Err(slot) = self.find(hash, string) {
            let start = self.arena.len();
            self.arena.extend_from_slice(string);
            self.entries.push(Entry { hash, start, len: string.len() as u32, value });
            self.table[slot] = self.entries.len() as u32;
        }
    }

    /// Returns the bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        4 * self.arena.len() + size_of::<Entry>() * self.entries.len() + 4 * self.table.len()
    }

    /// Returns the value, or the slot for the string.
    fn find(&self, hash: u64, string: &[u32]) -> Result<u64, usize> {
        let mask = self.table.len() - 1;
        let mut slot = (hash >> 32) as usize & mask;
        loop {
            let Some(entry) = (self.table[slot] as usize).checked_sub(1).map(|index| self.entries[index])
            else {
                return Err(slot);
            };
            if entry.hash == hash && self.arena[entry.start..][..entry.len as usize] == *string {
                return Ok(entry.value);
            }
            slot = (slot + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let mask = 2 * self.table.len() - 1;
        self.table = vec![0; mask + 1];
        for (index, entry) in self.entries.iter().enumerate() {
            let mut slot = (entry.hash >> 32) as usize & mask;
            while self.table[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            self.table[slot] = index as u32 + 1;
        }
    }
}

fn hash(string: &[u32]) -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15 ^ string.len() as u64;
    for &word in string {
        state = (state ^ u64::from(word)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        state ^= state >> 29;
    }
    state.wrapping_mul(0xca5a_8263_9512_1157)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_string_keeps_its_first_value() {
        let mut interner = Interner::new();
        for i in 0..1000 {
            assert_eq!(interner.get(&[i, i + 1]), None);
            interner.insert(&[i, i + 1], u64::from(i));
            interner.insert(&[i, i + 1], 7777);
        }
        for i in 0..1000 {
            assert_eq!(interner.get(&[i, i + 1]), Some(u64::from(i)));
        }
        assert_eq!(interner.get(&[]), None);
    }
}
