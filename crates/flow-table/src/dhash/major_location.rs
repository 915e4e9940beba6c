//! The preferred slot of a signature in its bucket.
//!
//! A lookup starts at the *major location* and walks the bucket from there, so it finds a signature
//! at its preferred slot with one comparison. [`reference`](super::reference) works like this; the
//! production table compares all sixteen slots with one instruction and needs no preferred slot.
//!
//! Paper: [DHASH §III-C], functions (1) and (2).

use super::layout::SLOTS_PER_BUCKET;

/// A function that selects the first slot of a search.
pub trait MajorLocation: Copy {
    /// Returns a slot below [`SLOTS_PER_BUCKET`].
    fn slot(self, signature: u32) -> u32;
}

/// Function (1): bits 0–3.
///
/// It is the same for both directions only if the signature is. The paper names Algorithm 4 as an
/// example of that, which its own text contradicts: Algorithm 4 swaps halves, and needs [`Folded`].
#[derive(Clone, Copy, Debug, Default)]
pub struct LowBits;

impl MajorLocation for LowBits {
    #[inline(always)]
    fn slot(self, signature: u32) -> u32 {
        signature % SLOTS_PER_BUCKET
    }
}

/// Function (2): bits 0–3 xor bits 16–19, the same when the halves are swapped.
///
/// # Examples
///
/// ```
/// use flowloom_flow_table::dhash::major_location::{Folded, MajorLocation};
/// assert_eq!(Folded.slot(0x000A_0003), Folded.slot(0x0003_000A));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Folded;

impl MajorLocation for Folded {
    #[inline(always)]
    fn slot(self, signature: u32) -> u32 {
        (signature ^ (signature >> 16)) % SLOTS_PER_BUCKET
    }
}

/// No major location: every search begins at slot 0, [DHASH Tab. V] "w/o ML".
#[derive(Clone, Copy, Debug, Default)]
pub struct FirstSlot;

impl MajorLocation for FirstSlot {
    #[inline(always)]
    fn slot(self, _signature: u32) -> u32 {
        0
    }
}

/// A major location, or none: [`FirstSlot`].
impl<M: MajorLocation> MajorLocation for Option<M> {
    #[inline(always)]
    fn slot(self, signature: u32) -> u32 {
        self.map_or(0, |major| major.slot(signature))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_read_the_bits_named_in_the_paper() {
        for signature in [0, 1, 0xF, 0x10, 0x000F_0000, 0x0010_0000, 0x1234_5678, u32::MAX] {
            assert_eq!(LowBits.slot(signature), signature & 0x0F);
            assert_eq!(Folded.slot(signature), (signature & 0x0F) ^ ((signature & 0xF_0000) >> 16));
            assert_eq!(Folded.slot(signature), Folded.slot(signature.rotate_left(16)));
            assert_eq!(Some(Folded).slot(signature), Folded.slot(signature));
            assert_eq!((FirstSlot.slot(signature), None::<Folded>.slot(signature)), (0, 0));
        }
    }
}
