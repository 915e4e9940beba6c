//! Four 16-byte compares, each folded to four bits.
#![expect(unsafe_code, reason = "SIMD intrinsics, with the proof of their features in hand")]

use core::arch::aarch64::{vaddvq_u16, vandq_u16, vceqq_u16, vdupq_n_u16, vld1q_u16, vtstq_u16};

use flowloom_cpu::features::Neon;

use super::{Kernel, Lanes};
#[cfg(feature = "papers")]
use crate::dhash::layout::Bucket;
use crate::linehash::layout::{ALL_LANES, Line};

#[derive(Clone, Copy, Debug)]
pub(crate) struct NeonLanes(Neon);

impl NeonLanes {
    pub(crate) fn detect() -> Option<Self> {
        Neon::detect().map(Self)
    }
}

/// The bit of each 16-bit lane within its quarter.
const HALF_BITS: [u16; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

impl Lanes for NeonLanes {
    #[cfg(feature = "papers")]
    #[inline(always)]
    fn equal(self, bucket: &Bucket, word: u32) -> u32 {
        use core::arch::aarch64::{vaddvq_u32, vandq_u32, vceqq_u32, vdupq_n_u32, vld1q_u32};

        /// The bit of each lane within its quarter.
        const BITS: [u32; 4] = [1, 2, 4, 8];

        let (quarters, _) = bucket.0.as_chunks::<4>();
        let mut mask = 0;
        for (number, quarter) in quarters.iter().enumerate() {
            // SAFETY: both loads read four words of an array of four; `self` proves NEON.
            let bits = unsafe {
                let equal = vceqq_u32(vld1q_u32(quarter.as_ptr()), vdupq_n_u32(word));
                vaddvq_u32(vandq_u32(equal, vld1q_u32(BITS.as_ptr())))
            };
            mask |= bits << (4 * number);
        }
        mask
    }

    #[inline(always)]
    fn equal_lanes(self, line: &Line, signature: u16) -> u32 {
        let (quarters, _) = line.0.as_chunks::<8>();
        let mut mask = 0;
        for (number, quarter) in quarters.iter().enumerate() {
            // SAFETY: both loads read eight halves of an array of eight; `self` proves NEON.
            let bits = unsafe {
                let equal = vceqq_u16(vld1q_u16(quarter.as_ptr()), vdupq_n_u16(signature));
                vaddvq_u16(vandq_u16(equal, vld1q_u16(HALF_BITS.as_ptr())))
            };
            mask |= u32::from(bits) << (8 * number);
        }
        mask & ALL_LANES
    }

    #[inline(always)]
    fn top_bits(self, line: &Line) -> u32 {
        let (quarters, _) = line.0.as_chunks::<8>();
        let mut mask = 0;
        for (number, quarter) in quarters.iter().enumerate() {
            // SAFETY: both loads read eight halves of an array of eight; `self` proves NEON.
            let bits = unsafe {
                let set = vtstq_u16(vld1q_u16(quarter.as_ptr()), vdupq_n_u16(0x8000));
                vaddvq_u16(vandq_u16(set, vld1q_u16(HALF_BITS.as_ptr())))
            };
            mask |= u32::from(bits) << (8 * number);
        }
        mask
    }
}

#[inline(always)]
pub(crate) fn run<K: Kernel>(lanes: NeonLanes, kernel: K) -> K::Output {
    // SAFETY: `lanes` proves NEON.
    unsafe { compiled(lanes, kernel) }
}

#[target_feature(enable = "neon")]
fn compiled<K: Kernel>(lanes: NeonLanes, kernel: K) -> K::Output {
    kernel.run(lanes)
}
