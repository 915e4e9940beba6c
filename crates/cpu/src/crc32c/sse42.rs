//! The CRC32 instruction, eight bytes at a time.
#![expect(unsafe_code, reason = "calls a function compiled for SSE4.2, given the proof")]

use core::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};

use crate::features::Sse42;

/// Returns the CRC-32C of `bytes`.
#[inline]
pub(super) fn crc32c(_proof: Sse42, bytes: &[u8]) -> u32 {
    // SAFETY: the token proves that the processor has SSE4.2.
    unsafe { compiled(bytes) }
}

#[expect(clippy::cast_possible_truncation, reason = "the instruction leaves the upper half zero")]
#[target_feature(enable = "sse4.2")]
fn compiled(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let crc = words.iter().fold(0xFFFF_FFFF, |crc, &word| _mm_crc32_u64(crc, u64::from_le_bytes(word)));
    !rest.iter().fold(crc as u32, |crc, &byte| _mm_crc32_u8(crc, byte))
}
