//! What the other back ends compute, in plain words.
#![expect(unsafe_code, reason = "indices that the check of a program has proved")]

use flowloom_cpu::prefetch;

use super::program::{LEAF, Program, child_index};
use super::{Flight, Lanes};
use crate::key::Key;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Scalar;

impl Lanes for Scalar {
    #[inline(always)]
    unsafe fn descend<K: Key>(self, program: &Program<K>, flight: &mut Flight, count: usize) {
        // SAFETY: the caller's promise is the same.
        unsafe { descend(program, flight, count) };
    }

    #[inline(always)]
    unsafe fn block<K: Key>(self, program: &Program<K>, block: usize, key: &K) -> u32 {
        scan_block(program.block(block), key)
    }
}

/// Walks packet by packet, a level at a time, so that the loads of a level are in flight together.
///
/// # Safety
///
/// As of [`Lanes::descend`].
#[inline(always)]
pub(super) unsafe fn descend<K: Key>(program: &Program<K>, flight: &mut Flight, count: usize) {
    let words = program.words();
    let hints = program.wants_hints();
    let mut walking = [0_u8; super::FLIGHT];
    let mut left = 0;
    for packet in 0..count {
        walking[left % super::FLIGHT] = packet as u8;
        left += usize::from(flight.at[packet] & LEAF == 0);
    }
    while left > 0 {
        let mut still = 0;
        for position in 0..left {
            let packet = usize::from(walking[position]) % super::FLIGHT;
            let node = flight.at[packet];
            let index = child_index(node, flight.words[(node >> 55) as usize & 7][packet]);
            // SAFETY: the check of a program (`Program::new`) holds every child of every node, and of every root, below
            // the length; `at` holds such a node, by the caller's promise or because it was read from the program.
            let word = unsafe { *words.get_unchecked(index) };
            flight.at[packet] = word;
            walking[still] = packet as u8;
            let is_leaf = word & LEAF != 0;
            still += usize::from(!is_leaf);
            if hints && is_leaf {
                program.prefetch_block(word as u32);
            }
        }
        left = still;
    }
}

/// Returns the first rule of a block that matches.
pub(crate) fn scan_block<K: Key>(rows: &[[u32; 8]], key: &K) -> u32 {
    let n = K::ADDRESS_DIMENSIONS;
    let (addresses, rest) = rows.split_at(2 * n);
    let &[lengths, low, high, rules] = rest else { return u32::MAX };
    let matches = |lane: usize| {
        let lengths = lengths[lane];
        let protocol = (lengths ^ u32::from(key.protocol()) << 16) & (lengths >> 8) & 0x00ff_0000;
        let address = addresses.iter().enumerate().fold(0, |differs, (d, row)| {
            let host_bits = lengths >> (8 * (d / n)) & 0xff;
            let shift = host_bits.saturating_sub(32 * (n - 1 - d % n) as u32);
            differs | (key.dimension(d) ^ row[lane]).checked_shr(shift).unwrap_or(0)
        });
        let within = |shift: u32| {
            let port = (key.ports() >> shift) as u16;
            port.max((low[lane] >> shift) as u16).min((high[lane] >> shift) as u16) == port
        };
        protocol == 0 && address == 0 && within(16) && within(0)
    };
    (0..8).find(|&lane| matches(lane)).map_or(u32::MAX, |lane| rules[lane])
}

/// Hints that the lines of a block will be read.
#[inline(always)]
pub(super) fn prefetch_rows(rows: &[[u32; 8]], first: usize, count: usize) {
    for line in 0..count / 2 {
        prefetch::read_at(rows, first + 2 * line);
    }
}
