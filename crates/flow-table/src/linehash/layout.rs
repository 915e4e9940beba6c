//! The line: where its bits are, and what of a hash decides what.
//!
//! ```text
//!  half     0 … 29        30                                31
//!           signature     filter: 8 bits first alternate    flows away u8 · flows in the stash u8
//!                                 8 bits second alternate
//!
//!  hash     63 … 32 line, by fast range     31 … 0 alternates     15 … 0 signature     18 … 16, 21 … 19 filter bits
//! ```

use flowloom_cpu::pages::CacheLine;
use flowloom_flow_key::FlowHash;

/// Signatures on a line.
pub const LANES: u32 = 30;

/// The bits of all lanes in the result of a compare.
pub(super) const ALL_LANES: u32 = (1 << LANES) - 1;

/// Thirty signatures, then filter and counts; a signature of 0 is an empty lane.
pub type Line = CacheLine<[u16; 32]>;

const _: () = assert!(size_of::<Line>() == 64 && align_of::<Line>() == 64, "one cache line");

const FILTER: usize = 30;
const COUNTS: usize = 31;

/// The most flows of one home line that live in alternates, and the most in the stash.
pub const DISPLACED_MAX: u16 = 255;

/// What a flow's hash says about where it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line it would like.
    pub home: u32,
    /// What stands in its lane; never 0.
    pub signature: u16,
}

/// One of the two ways out of a full line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The first alternate line.
    First,
    /// The second one; the same line now and then.
    Second,
}

impl Place {
    /// Returns the place of a hash in a table of so many lines.
    #[inline(always)]
    #[must_use]
    pub const fn of(hash: u64, lines: u32) -> Self {
        Self { home: FlowHash::bucket_of(hash, lines), signature: Self::signature_of(hash) }
    }

    /// Returns the signature of a hash.
    #[inline(always)]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
    pub const fn signature_of(hash: u64) -> u16 {
        let low = hash as u16;
        if low == 0 { 1 } else { low }
    }

    /// Returns an alternate line, another than home; there must be at least two lines.
    #[inline(always)]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
    pub const fn alternate(self, hash: u64, lines: u32, way: Way) -> u32 {
        let low = hash as u32;
        let mixed = match way {
            Way::First => low.wrapping_mul(0x9E37_79B1),
            Way::Second => low.wrapping_mul(0x85EB_CA6B).rotate_left(11),
        };
        let off = ((mixed as u64 * (lines - 1) as u64) >> 32) as u32;
        let line = self.home as u64 + 1 + off as u64;
        (if line >= lines as u64 { line - lines as u64 } else { line }) as u32
    }
}

/// Returns the filter's bit for a hash and a way out.
#[inline(always)]
#[must_use]
pub const fn filter_bit(hash: u64, way: Way) -> u16 {
    match way {
        Way::First => 1 << (hash >> 16 & 7) as u16,
        Way::Second => 0x100 << (hash >> 19 & 7) as u16,
    }
}

/// The control word of a line, by its parts.
pub(super) trait Control {
    /// Says which ways a flow of this hash may have gone, or that it may be in the stash.
    fn filter(&self) -> u16;
    fn away(&self) -> u16;
    fn stashed(&self) -> u16;
    fn is_plain(&self) -> bool;
    fn send_away(&mut self, bit: u16);
    fn call_back(&mut self);
    fn stash(&mut self);
    fn unstash(&mut self);
}

impl Control for Line {
    #[inline(always)]
    fn filter(&self) -> u16 {
        self.0[FILTER]
    }

    #[inline(always)]
    fn away(&self) -> u16 {
        self.0[COUNTS] & 0xFF
    }

    #[inline(always)]
    fn stashed(&self) -> u16 {
        self.0[COUNTS] >> 8
    }

    /// Says that all flows of this home are in it.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        self.0[COUNTS] == 0
    }

    /// Notes a flow that goes to an alternate; there are fewer than [`DISPLACED_MAX`].
    #[inline]
    fn send_away(&mut self, bit: u16) {
        debug_assert!(self.away() < DISPLACED_MAX, "the caller looked");
        self.0[FILTER] |= bit;
        self.0[COUNTS] += 1;
    }

    /// Notes that a flow in an alternate ended. The filter forgets only when none is left.
    #[inline]
    fn call_back(&mut self) {
        debug_assert!(self.away() > 0, "it was sent away");
        self.0[COUNTS] -= 1;
        if self.away() == 0 {
            self.0[FILTER] = 0;
        }
    }

    #[inline]
    fn stash(&mut self) {
        debug_assert!(self.stashed() < DISPLACED_MAX, "the caller looked");
        self.0[COUNTS] += 0x100;
    }

    #[inline]
    fn unstash(&mut self) {
        debug_assert!(self.stashed() > 0, "it was there");
        self.0[COUNTS] -= 0x100;
    }
}

/// Returns the state of a line's lane.
#[inline(always)]
#[must_use]
pub const fn state_of(line: u32, lane: u32) -> u32 {
    line * LANES + lane
}

/// Returns line and lane of a state that is not in the pool.
#[inline]
#[must_use]
pub const fn place_of(state: u32) -> (u32, u32) {
    (state / LANES, state % LANES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_flow_key::hash::fold::split_mix;

    #[test]
    fn an_alternate_is_never_home_and_every_other_line_is_one() {
        let mut state = 3;
        for lines in [2, 3, 7, 1000, u32::MAX] {
            for _ in 0..500 {
                let hash = split_mix(&mut state);
                let place = Place::of(hash, lines);
                for way in [Way::First, Way::Second] {
                    let line = place.alternate(hash, lines, way);
                    assert!(line < lines && line != place.home, "{lines} {hash:#x}");
                }
            }
        }
        let mut met = [false; 7];
        for _ in 0..500 {
            let hash = split_mix(&mut state);
            met[Place::of(hash, 7).alternate(hash, 7, Way::Second) as usize] = true;
        }
        assert_eq!(met, [true; 7]);
    }

    #[test]
    fn zero_is_no_signature() {
        assert_eq!(Place::signature_of(0xFFFF_FFFF_FFFF_0000), 1);
        assert_eq!(Place::signature_of(0x1_FFFF), 0xFFFF);
    }

    #[test]
    fn counts_do_not_run_into_each_other() {
        let mut line = Line::default();
        for _ in 0..DISPLACED_MAX {
            line.send_away(filter_bit(0, Way::Second));
            line.stash();
        }
        assert_eq!((line.away(), line.stashed(), line.filter()), (255, 255, 0x100));
        for _ in 0..DISPLACED_MAX {
            line.call_back();
            line.unstash();
        }
        assert!(line.is_plain() && line.filter() == 0);
    }

    #[test]
    fn states_and_lanes_are_one_to_one() {
        for state in 0..95 {
            let (line, lane) = place_of(state);
            assert!(lane < LANES);
            assert_eq!(state_of(line, lane), state);
        }
    }
}
