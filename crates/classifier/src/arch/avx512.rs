//! Eight packets per gather, four to eight gathers in flight.
#![expect(unsafe_code, reason = "SIMD intrinsics, with the proof of their features in hand")]

use core::arch::x86_64::{
    __m512i, _mm_cvtsi32_si128, _mm256_cvtsi256_si32, _mm256_loadu_epi32, _mm256_mask_cmpgt_epu32_mask,
    _mm256_mask_compress_epi32, _mm256_maskz_loadu_epi32, _mm256_set1_epi32, _mm256_testn_epi32_mask,
    _mm512_add_epi64, _mm512_and_si512 as and, _mm512_andnot_si512, _mm512_cmpeq_epi64_mask,
    _mm512_cvtepu32_epi64, _mm512_loadu_epi64, _mm512_mask_blend_epi64, _mm512_mask_cmple_epu64_mask,
    _mm512_mask_i64gather_epi64, _mm512_maskz_compress_epi64, _mm512_maskz_loadu_epi64, _mm512_or_si512,
    _mm512_permutex2var_epi64, _mm512_popcnt_epi64, _mm512_set1_epi64, _mm512_setr_epi64,
    _mm512_slli_epi64, _mm512_sllv_epi64, _mm512_srl_epi64, _mm512_srli_epi64, _mm512_srlv_epi64,
    _mm512_storeu_si512, _mm512_test_epi64_mask, _mm512_testn_epi64_mask, _mm512_xor_si512,
};
use core::ops::Range;
use core::ptr;

use flowloom_cpu::features::Avx512Popcount;

use super::program::{LEAF, LEAF_BLOCKS, LEAF_TOP, Program, Root};
use super::{Column, Flight, Kernel, Lanes, Looking, avx2, scalar};
use crate::key::{Key, Match};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512Lanes(Avx512Popcount);

impl Avx512Lanes {
    pub(crate) fn detect() -> Option<Self> {
        Avx512Popcount::detect().map(Self)
    }
}

/// Number of groups of eight packets that are walked together.
const GROUPS: usize = 4;

impl Lanes for Avx512Lanes {
    #[inline(always)]
    unsafe fn enter<K: Key>(
        self,
        program: &Program<K>,
        keys: &[K],
        found: &[Match],
        least: u32,
        flight: &mut Flight,
    ) -> usize {
        if K::WORDS == 2 {
            // SAFETY: `self` proves the features; the rest is the caller's promise.
            unsafe { enter_pairs(program, keys, found, least, flight) }
        } else {
            scalar::enter(program, keys, found, least, flight)
        }
    }

    #[inline(always)]
    unsafe fn descend<K: Key>(
        self,
        program: &Program<K>,
        root: &Root,
        flight: &mut Flight,
        count: usize,
    ) -> usize {
        let mut looking = 0;
        for start in (0..count).step_by(8 * GROUPS) {
            // SAFETY: `self` proves the features; `start` is a multiple of 32 below `count`, and as
            // many leaves were put first at most. The rest is the caller's promise.
            unsafe {
                looking = if count - start >= 8 * GROUPS {
                    walk::<K, true>(program, root, flight, start..count, looking)
                } else {
                    walk::<K, false>(program, root, flight, start..count, looking)
                };
            }
        }
        looking
    }

    #[inline(always)]
    unsafe fn block<K: Key>(self, rows: &[[u32; 8]], block: usize, key: &K) -> u32 {
        // SAFETY: `self` proves AVX-512, which implies AVX2; all rows of the block are inside
        // `rows`, by the caller's promise.
        unsafe {
            let differs = avx2::differences(rows, block, key);
            let rules = rows.get_unchecked((block + 1) * Program::<K>::BLOCK_ROWS - 1);
            let rules = _mm256_loadu_epi32(rules.as_ptr().cast());
            // The first match comes first; -1 if there is none.
            let hits = _mm256_testn_epi32_mask(differs, differs);
            let first = _mm256_mask_compress_epi32(_mm256_set1_epi32(-1), hits, rules);
            _mm256_cvtsi256_si32(first).cast_unsigned()
        }
    }
}

/// Puts packets with keys of two words into the flight, eight at a time.
///
/// # Safety
///
/// The processor has what [`Avx512Popcount`] proves; there are as many matches as keys, [`FLIGHT`]
/// at most; a key is two words.
#[inline(always)]
unsafe fn enter_pairs<K: Key>(
    program: &Program<K>,
    keys: &[K],
    found: &[Match],
    least: u32,
    flight: &mut Flight,
) -> usize {
    let mut count = 0;
    // SAFETY: the features are the caller's promise. Masks keep loads inside keys and matches. At
    // most as many packets were put into the flight as there were keys, a multiple of eight below
    // `FLIGHT`, and arrays hold eight more.
    unsafe {
        let least = _mm256_set1_epi32(least.cast_signed());
        let shift = _mm_cvtsi32_si128(program.least_shift().cast_signed());
        let even = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
        let odd = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
        let numbers = _mm512_slli_epi64::<{ Looking::PLACE }>(_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
        for start in (0..keys.len()).step_by(8) {
            let here = (keys.len() - start).min(8);
            let lanes = 0xff_u8 >> (8 - here);
            let words = ((1_u32 << (2 * here)) - 1) as u16;
            let matches = found.as_ptr().add(start).cast::<i32>();
            let best = _mm256_maskz_loadu_epi32(lanes, matches);
            let enters = _mm256_mask_cmpgt_epu32_mask(lanes, best, least);
            let pairs = keys.as_ptr().add(start).cast::<i64>();
            let low = _mm512_maskz_loadu_epi64(words as u8, pairs);
            let high = _mm512_maskz_loadu_epi64((words >> 8) as u8, pairs.wrapping_add(8));
            let columns = [
                _mm512_permutex2var_epi64(low, even, high),
                _mm512_permutex2var_epi64(low, odd, high),
                _mm512_add_epi64(numbers, _mm512_set1_epi64((start as i64) << Looking::PLACE)),
                _mm512_srl_epi64(_mm512_cvtepu32_epi64(best), shift),
            ];
            let [first, second, ..] = &mut flight.words;
            let arrays = [first, second, &mut flight.place, &mut flight.limit];
            for (array, column) in arrays.into_iter().zip(columns) {
                let packed =
                    if enters == 0xff { column } else { _mm512_maskz_compress_epi64(enters, column) };
                _mm512_storeu_si512(ptr::from_mut(array).cast::<u64>().add(count).cast(), packed);
            }
            count += enters.count_ones() as usize;
        }
    }
    count
}

/// Walks four groups of eight packets to their leaves. Places those whose leaves must be searched
/// after the first `looking`. Returns the new count.
///
/// # Safety
///
/// The processor has what [`Avx512Popcount`] proves. The range begins at a multiple of 32 and ends
/// at [`FLIGHT`] or before; `looking` is not above its beginning; its packets fill the groups that
/// are marked `FULL`. `root` is a root of this program.
#[inline(always)]
unsafe fn walk<K: Key, const FULL: bool>(
    program: &Program<K>,
    root: &Root,
    flight: &mut Flight,
    packets: Range<usize>,
    mut looking: usize,
) -> usize {
    let words = program.words().as_ptr();
    let start = packets.start;
    // SAFETY: the features are the caller's promise. Loads are of what `enter` wrote for packets of
    // the range. Stores begin at or before the group that was loaded, and all groups are loaded
    // before any is stored. A gather reads the child of a node for each lane that is not at a leaf:
    // `Program::new` holds all of these inside the words.
    unsafe {
        let there: [u8; GROUPS] = if FULL {
            [0xff; GROUPS]
        } else {
            core::array::from_fn(|group| {
                ((1_u32 << packets.len().saturating_sub(8 * group).min(8)) - 1) as u8
            })
        };
        let load = |column: &Column, group: usize| {
            let column = ptr::from_ref(column).cast::<i64>();
            _mm512_maskz_loadu_epi64(there[group], column.add(start + 8 * group))
        };
        let set = |value: u64| _mm512_set1_epi64(value.cast_signed());
        // Lanes without a packet are at a leaf without blocks.
        let nowhere = set(LEAF);
        let mut at: [__m512i; GROUPS] = if root.is_leaf() {
            core::array::from_fn(|group| _mm512_mask_blend_epi64(there[group], nowhere, set(root.word)))
        } else {
            let (word, shift, u) = root.window();
            let begins = root.sub_arrays.as_ptr().cast::<i64>();
            let (low, high) = (_mm512_loadu_epi64(begins), _mm512_loadu_epi64(begins.add(8)));
            let [shift, up] = [shift, u].map(|bits| _mm_cvtsi32_si128(bits.cast_signed()));
            let below = set((1 << u) - 1);
            core::array::from_fn(|group| {
                let cut = _mm512_srl_epi64(load(&flight.words[word], group), shift);
                // Of the number only the low four bits count, which select the sub-array.
                let begin = _mm512_permutex2var_epi64(low, _mm512_srl_epi64(cut, up), high);
                let index = _mm512_add_epi64(begin, and(cut, below));
                _mm512_mask_i64gather_epi64::<8>(nowhere, there[group], index, words.cast())
            })
        };
        loop {
            let mut walking = 0;
            for (group, at) in at.iter_mut().enumerate() {
                let node = *at;
                let nodes = _mm512_testn_epi64_mask(node, set(LEAF));
                walking |= nodes;
                if nodes == 0 {
                    continue;
                }
                let mut field = _mm512_mask_blend_epi64(
                    _mm512_test_epi64_mask(node, set(1 << 55)),
                    load(&flight.words[0], group),
                    load(&flight.words[1], group),
                );
                if K::WORDS > 2 {
                    let number = and(_mm512_srli_epi64::<55>(node), set(7));
                    for word in 2..K::WORDS {
                        let here = _mm512_cmpeq_epi64_mask(number, set(word as u64));
                        field = _mm512_mask_blend_epi64(here, field, load(&flight.words[word], group));
                    }
                }
                let cut = _mm512_srlv_epi64(field, _mm512_srli_epi64::<58>(node));
                let u = and(_mm512_srli_epi64::<51>(node), set(15));
                let sub_array = and(_mm512_srlv_epi64(cut, u), set(15));
                let habs = and(node, set(0xffff_0000_0000));
                let before =
                    _mm512_popcnt_epi64(_mm512_sllv_epi64(habs, _mm512_xor_si512(sub_array, set(31))));
                let low = _mm512_andnot_si512(_mm512_sllv_epi64(set(u64::MAX), u), cut);
                let index = and(node, set(0xffff_ffff));
                let index = _mm512_add_epi64(_mm512_add_epi64(index, low), _mm512_sllv_epi64(before, u));
                *at = _mm512_mask_i64gather_epi64::<8>(node, nodes, index, words.cast());
            }
            if walking == 0 {
                break;
            }
        }
        let before = looking;
        let [leaves, _] = &mut flight.at;
        for (group, leaf) in at.into_iter().enumerate() {
            let has_blocks = _mm512_test_epi64_mask(leaf, set(LEAF_BLOCKS));
            let least = _mm512_srli_epi64::<LEAF_TOP>(leaf);
            let is_worth = _mm512_mask_cmple_epu64_mask(has_blocks, least, load(&flight.limit, group));
            let count = _mm512_slli_epi64::<{ Looking::COUNT_UP }>(and(leaf, set(LEAF_BLOCKS)));
            let first = and(leaf, set(0xffff_ffff));
            let told = _mm512_or_si512(_mm512_or_si512(count, first), load(&flight.place, group));
            let packed = _mm512_maskz_compress_epi64(is_worth, told);
            _mm512_storeu_si512(ptr::from_mut(leaves).cast::<u64>().add(looking).cast(), packed);
            looking += is_worth.count_ones() as usize;
        }
        if program.wants_hints() {
            for position in before..looking {
                program.prefetch_block(leaves.get(position) as u32);
            }
        }
    }
    looking
}

#[inline(always)]
pub(crate) fn run<K: Kernel>(lanes: Avx512Lanes, kernel: K) -> K::Output {
    // SAFETY: `lanes` proves these features.
    unsafe { compiled(lanes, kernel) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vpopcntdq,avx2,bmi1,bmi2,popcnt")]
fn compiled<K: Kernel>(lanes: Avx512Lanes, kernel: K) -> K::Output {
    kernel.run(lanes)
}
