//! Eight packets a gather, four to eight gathers in flight.
#![expect(unsafe_code, reason = "SIMD intrinsics, with the proof of their features in hand")]

use core::arch::x86_64::{
    __m512i, _mm512_add_epi64, _mm512_and_si512, _mm512_andnot_si512, _mm512_cmpeq_epi64_mask,
    _mm512_load_si512, _mm512_mask_blend_epi64, _mm512_mask_i64gather_epi64, _mm512_popcnt_epi64,
    _mm512_set1_epi64, _mm512_sllv_epi64, _mm512_srli_epi64, _mm512_srlv_epi64, _mm512_store_si512,
    _mm512_test_epi64_mask, _mm512_testn_epi64_mask, _mm512_xor_si512,
};
use core::ptr;

use flowloom_cpu::features::Avx512Popcount;

use super::program::{LEAF, Program};
use super::{Flight, Kernel, Lanes, avx2};
use crate::key::Key;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512Lanes(Avx512Popcount);

impl Avx512Lanes {
    pub(crate) fn detect() -> Option<Self> {
        Avx512Popcount::detect().map(Self)
    }
}

/// Groups of eight packets that are walked together.
const GROUPS: usize = 4;

impl Lanes for Avx512Lanes {
    #[inline(always)]
    unsafe fn descend<K: Key>(self, program: &Program<K>, flight: &mut Flight, count: usize) {
        flight.at[count..].fill(LEAF);
        for start in (0..count).step_by(8 * GROUPS) {
            // SAFETY: `self` proves the features; `start` is a multiple of 32 below the flight's 64. Packets below `count`
            // stand at words of this program by the caller's promise, the others at a leaf, which is not followed.
            unsafe { walk(program, flight, start) };
        }
        if program.wants_hints() {
            for &leaf in &flight.at[..count] {
                program.prefetch_block(leaf as u32);
            }
        }
    }

    #[inline(always)]
    unsafe fn block<K: Key>(self, program: &Program<K>, block: usize, key: &K) -> u32 {
        // SAFETY: `self` proves AVX-512, which implies AVX2, and the bit instructions; the block is the caller's promise.
        unsafe { avx2::scan(program, block, key) }
    }
}

/// Walks four groups of eight packets to their leaves.
///
/// # Safety
///
/// The processor has what [`Avx512Popcount`] proves. `start` is a multiple of 32 below [`super::FLIGHT`], and packets that
/// do not stand at a leaf stand at nodes of this program.
#[inline(always)]
unsafe fn walk<K: Key>(program: &Program<K>, flight: &mut Flight, start: usize) {
    let words = program.words().as_ptr();
    // SAFETY: the features are the caller's promise. Loads and stores lie in the flight's arrays, which are aligned to 64
    // bytes, at multiples of eight packets. A gather reads the child of a node for each lane that is not at a leaf:
    // `Program::new` holds all of these inside the words.
    unsafe {
        let load = |array: &[u64; super::FLIGHT], group: usize| {
            _mm512_load_si512(ptr::from_ref(array).cast::<u64>().add(start + 8 * group).cast())
        };
        let set = |value: u64| _mm512_set1_epi64(value.cast_signed());
        let mut at: [__m512i; GROUPS] = core::array::from_fn(|group| load(&flight.at, group));
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
                    let number = _mm512_and_si512(_mm512_srli_epi64::<55>(node), set(7));
                    for word in 2..K::WORDS {
                        let here = _mm512_cmpeq_epi64_mask(number, set(word as u64));
                        field = _mm512_mask_blend_epi64(here, field, load(&flight.words[word], group));
                    }
                }
                let cut = _mm512_srlv_epi64(field, _mm512_srli_epi64::<58>(node));
                let u = _mm512_and_si512(_mm512_srli_epi64::<51>(node), set(15));
                let sub_array = _mm512_and_si512(_mm512_srlv_epi64(cut, u), set(15));
                let habs = _mm512_and_si512(node, set(0xffff_0000_0000));
                let before =
                    _mm512_popcnt_epi64(_mm512_sllv_epi64(habs, _mm512_xor_si512(sub_array, set(31))));
                let low = _mm512_andnot_si512(_mm512_sllv_epi64(set(u64::MAX), u), cut);
                let index = _mm512_and_si512(node, set(0xffff_ffff));
                let index = _mm512_add_epi64(_mm512_add_epi64(index, low), _mm512_sllv_epi64(before, u));
                *at = _mm512_mask_i64gather_epi64::<8>(node, nodes, index, words.cast());
            }
            if walking == 0 {
                break;
            }
        }
        for (group, at) in at.into_iter().enumerate() {
            let place = flight.at.as_mut_ptr().add(start + 8 * group);
            _mm512_store_si512(place.cast(), at);
        }
    }
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
