//! Ordinary stores.

#[inline(always)]
pub(super) fn write<const N: usize>(to: &mut [u64; N], group: [u64; N]) {
    *to = group;
}

#[inline(always)]
pub(super) fn settle() {}
