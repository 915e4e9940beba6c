//! The result of one compare with a line: the lanes that are empty or contain a signature.

use super::layout::{ALL_LANES, Line};
use crate::arch::{Kernel, Lanes};

/// The lanes of a line without a flow.
pub(super) struct Empty<'a>(pub(super) &'a Line);

impl Kernel for Empty<'_> {
    type Output = u32;

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> u32 {
        !lanes.top_bits(self.0) & ALL_LANES
    }
}

/// The lanes of a line that contain a signature.
pub(super) struct Matching<'a>(pub(super) &'a Line, pub(super) u16);

impl Kernel for Matching<'_> {
    type Output = u32;

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> u32 {
        lanes.equal_lanes(self.0, self.1)
    }
}
