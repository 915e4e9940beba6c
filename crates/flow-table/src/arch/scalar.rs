//! The definition: slot by slot.

use super::Lanes;
#[cfg(feature = "papers")]
use crate::dhash::layout::Bucket;
use crate::linehash::layout::{ALL_LANES, Line};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Scalar;

impl Lanes for Scalar {
    #[cfg(feature = "papers")]
    #[inline(always)]
    fn equal(self, bucket: &Bucket, word: u32) -> u32 {
        let mut mask = 0;
        for (slot, &stored) in bucket.0.iter().enumerate() {
            mask |= u32::from(stored == word) << slot;
        }
        mask
    }

    #[inline(always)]
    fn equal_lanes(self, line: &Line, signature: u16) -> u32 {
        let mut mask = 0;
        for (lane, &stored) in line.0.iter().enumerate() {
            mask |= u32::from(stored == signature) << lane;
        }
        mask & ALL_LANES
    }

    #[inline(always)]
    fn top_bits(self, line: &Line) -> u32 {
        let mut mask = 0;
        for (lane, &stored) in line.0.iter().enumerate() {
            mask |= u32::from(stored >> 15) << lane;
        }
        mask
    }
}
