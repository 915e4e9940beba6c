//! The operations of the back ends in plain code.
#![expect(unsafe_code, reason = "indices that the check of a program has proved")]

use super::program::{LEAF, LEAF_BLOCKS, LEAF_TOP, Program, Root, child_index};
use super::{FLIGHT, Flight, Lanes, Looking};
use crate::key::{Key, Match};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Scalar;

impl Lanes for Scalar {
    #[inline(always)]
    unsafe fn enter<K: Key>(
        self,
        program: &Program<K>,
        keys: &[K],
        found: &[Match],
        least: u32,
        flight: &mut Flight,
    ) -> usize {
        enter(program, keys, found, least, flight)
    }

    #[inline(always)]
    unsafe fn descend<K: Key>(
        self,
        program: &Program<K>,
        root: &Root,
        flight: &mut Flight,
        count: usize,
    ) -> usize {
        // SAFETY: the caller's promise is the same.
        unsafe { descend(program, root, flight, count) }
    }

    #[inline(always)]
    unsafe fn block<K: Key>(self, rows: &[[u32; 8]], block: usize, key: &K) -> u32 {
        let size = Program::<K>::BLOCK_ROWS;
        scan_block(&rows[block * size..][..size], key)
    }
}

/// Puts packets into the flight, like [`Lanes::enter`].
#[inline(always)]
pub(super) fn enter<K: Key>(
    program: &Program<K>,
    keys: &[K],
    found: &[Match],
    least: u32,
    flight: &mut Flight,
) -> usize {
    let mut count = 0;
    for (place, (key, found)) in keys.iter().zip(found).enumerate() {
        // Write whether or not the packet enters; otherwise the next one overwrites it.
        let at = count % FLIGHT;
        for word in 0..K::WORDS {
            flight.words[word].set(at, key.word(word));
        }
        flight.place.set(at, (place as u64) << Looking::PLACE);
        flight.limit.set(at, u64::from(found.0 >> program.least_shift()));
        count += usize::from(found.0 > least);
    }
    count
}

/// Walks the packets one level at a time, so that the loads of a level are in flight together.
///
/// # Safety
///
/// As for [`Lanes::descend`].
#[inline(always)]
pub(super) unsafe fn descend<K: Key>(
    program: &Program<K>,
    root: &Root,
    flight: &mut Flight,
    count: usize,
) -> usize {
    let words = program.words();
    let [at, _] = &mut flight.at;
    let mut walking = [0_u8; FLIGHT];
    let mut left = 0;
    if root.is_leaf() {
        (0..count).for_each(|packet| at.set(packet, root.word));
    } else {
        let (word, ..) = root.window();
        for packet in 0..count {
            // SAFETY: as below; `enter` wrote the words of so many packets.
            let next = unsafe { *words.get_unchecked(root.child_index(flight.words[word].get(packet))) };
            at.set(packet, next);
            walking[left % FLIGHT] = packet as u8;
            left += usize::from(next & LEAF == 0);
        }
    }
    while left > 0 {
        let mut still = 0;
        for position in 0..left {
            let packet = usize::from(walking[position]);
            // SAFETY: the check of a program (`Program::new`) holds every child of every node, and
            // of every root, below the length; `at` holds such a node, by the caller's promise or
            // because it was read from the program. All columns were written for this packet.
            let next = unsafe {
                let node = at.get(packet);
                let field = flight.words[(node >> 55) as usize & 7].get(packet);
                *words.get_unchecked(child_index(node, field))
            };
            at.set(packet, next);
            walking[still] = packet as u8;
            still += usize::from(next & LEAF == 0);
        }
        left = still;
    }
    let hints = program.wants_hints();
    let mut looking = 0;
    for packet in 0..count {
        // SAFETY: all were written for so many packets.
        let (leaf, limit, place) =
            unsafe { (at.get(packet), flight.limit.get(packet), flight.place.get(packet)) };
        let is_worth = leaf & LEAF_BLOCKS != 0 && leaf >> LEAF_TOP <= limit;
        at.set(looking, Looking::new(leaf, place).0);
        looking += usize::from(is_worth);
        if hints && is_worth {
            program.prefetch_block(leaf as u32);
        }
    }
    looking
}

/// Looks one packet up in a tree, without a flight.
///
/// # Safety
///
/// `root` is a root of this program.
#[inline(always)]
pub(super) unsafe fn leaf_of<K: Key>(program: &Program<K>, root: &Root, key: &K) -> u64 {
    let words = program.words();
    let mut at = root.word;
    while at & LEAF == 0 {
        // SAFETY: the check of a program holds every child of every node and root below the length.
        at = unsafe { *words.get_unchecked(child_index(at, key.word((at >> 55) as usize & 7))) };
    }
    at
}

/// Returns the first rule of a block that matches.
pub(crate) fn scan_block<K: Key>(rows: &[[u32; 8]], key: &K) -> u32 {
    match rows.last() {
        Some(rules) => match match_lanes(rows, key) {
            0 => u32::MAX,
            lanes => rules[lanes.trailing_zeros() as usize & 7],
        },
        None => u32::MAX,
    }
}

/// Returns which rules of a block match, with the first in the lowest bit. A lane without a rule
/// may be among them.
#[inline]
pub(crate) fn match_lanes<K: Key>(rows: &[[u32; 8]], key: &K) -> u8 {
    let n = K::ADDRESS_DIMENSIONS;
    let Some((addresses, rest)) = rows.split_at_checked(2 * n) else { return 0 };
    let &[lengths, low, high, _] = rest else { return 0 };
    let protocol = u32::from(key.protocol()) << 16;
    // Compare row by row, so that the compiler compares all lanes at once.
    let mut differs: [u32; 8] =
        core::array::from_fn(|lane| (lengths[lane] ^ protocol) & (lengths[lane] >> 8) & 0x00ff_0000);
    for (d, row) in addresses.iter().enumerate() {
        let (value, side, above) = (key.dimension(d), 8 * (d / n), 32 * (n - 1 - d % n) as u32);
        for lane in 0..8 {
            let shift = (lengths[lane] >> side & 0xff).saturating_sub(above).min(32);
            differs[lane] |= (u64::from(value ^ row[lane]) >> shift) as u32;
        }
    }
    let ports = key.ports();
    for lane in 0..8 {
        let (low, high) = (low[lane], high[lane]);
        let outside = |port: u32, low: u32, high: u32| u32::from(port < low) | u32::from(port > high);
        differs[lane] |= outside(ports >> 16, low >> 16, high >> 16)
            | outside(ports & 0xffff, low & 0xffff, high & 0xffff);
    }
    (0..8).fold(0, |lanes, lane| lanes | u8::from(differs[lane] == 0) << lane)
}
