//! The layout of a line, and the use of each bit of a hash.
//!
//! ```text
//!  half     0 … 29        30 · 31
//!           signature     filter: 32 classes of flows that are elsewhere
//!
//!  hash     63 … 32 line and favourite lane, by fast range     31 … 0 alternates
//!           20 … 16 class in the filter                        14 … 0 signature
//! ```
//!
//! [`Counts`] has the number of displaced flows of each line, in a separate array that lookups do
//! not read.

use flowloom_cpu::pages::CacheLine;
use flowloom_flow_key::TableHash;

/// Signatures on a line.
pub const LANES: u32 = 30;

/// The bits of all lanes in the result of a compare.
pub(crate) const ALL_LANES: u32 = (1 << LANES) - 1;

/// Thirty signatures, then a filter of two halves; a signature of 0 is an empty lane.
pub type Line = CacheLine<[u16; 32]>;

const _: () = assert!(size_of::<Line>() == 64 && align_of::<Line>() == 64, "one cache line");

/// Index of the low half of the filter; the high half follows.
const FILTER: usize = 30;

/// Maximum number of flows of one home line in alternates, and in the stash.
pub const DISPLACED_MAX: u8 = u8::MAX;

/// The bit that is set in every signature.
const TAKEN: u16 = 0x8000;

/// The positions that a flow's hash allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinePlace {
    /// The home line.
    pub home: u32,
    /// The contents of its lane, never 0.
    pub signature: u16,
}

/// One of the two alternates of a full line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The first alternate line.
    First,
    /// The second alternate line, which is occasionally the same.
    Second,
}

impl LinePlace {
    /// Returns the positions of a hash in a table of this many lines.
    #[inline(always)]
    #[must_use]
    pub const fn new(hash: TableHash, lines: u32) -> Self {
        Self { home: hash.bucket(lines), signature: Self::signature_of(hash) }
    }

    /// Returns the offset of a byte in a hash's line, in bytes from the first line; any byte of the
    /// line serves for a prefetch.
    #[inline(always)]
    #[must_use]
    pub const fn near_line_of(hash: TableHash, lines: u32) -> usize {
        const LINE_BITS: u32 = size_of::<Line>().trailing_zeros();
        (((hash.bits() >> 32) * lines as u64) >> (32 - LINE_BITS)) as usize
    }

    /// Returns the signature of a hash: fifteen bits, and one bit that is always set, so that no
    /// lane with a signature looks empty.
    #[inline(always)]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
    pub const fn signature_of(hash: TableHash) -> u16 {
        hash.bits() as u16 | TAKEN
    }

    /// Returns the favourite state of a hash among all states of lanes: a state of its home line,
    /// selected by the same bits as the line. A new flow takes it if it is free. A lookup can
    /// prefetch it before the line has arrived, and is usually right.
    #[inline(always)]
    #[must_use]
    pub const fn favourite_of(hash: TableHash, states: u32) -> u32 {
        hash.bucket(states)
    }

    /// Returns the lane of the favourite in its line.
    #[inline(always)]
    #[must_use]
    pub const fn favourite_lane_of(hash: TableHash, lines: u32) -> u32 {
        // The remainder of the product that selects the line selects the lane.
        let rest = ((hash.bits() >> 32) * lines as u64) & u32::MAX as u64;
        ((rest * LANES as u64) >> 32) as u32
    }

    /// Returns an alternate line, which differs from home; there must be at least two lines.
    #[inline(always)]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
    pub const fn alternate(self, hash: TableHash, lines: u32, way: Way) -> u32 {
        let low = hash.bits() as u32;
        let mixed = match way {
            Way::First => low.wrapping_mul(0x9E37_79B1),
            Way::Second => low.wrapping_mul(0x85EB_CA6B).rotate_left(11),
        };
        let off = ((mixed as u64 * (lines - 1) as u64) >> 32) as u32;
        let line = self.home as u64 + 1 + off as u64;
        (if line >= lines as u64 { line - lines as u64 } else { line }) as u32
    }
}

/// The filter bit for flows in the stash, which also stands for a class.
pub(super) const STASH_BIT: u32 = 1 << 31;

/// Returns the filter bit of a hash.
#[inline(always)]
#[must_use]
pub const fn filter_bit(hash: TableHash) -> u32 {
    1 << (hash.bits() >> 16 & 31) as u32
}

/// The filter of a line.
pub(super) trait Filter {
    fn filter(&self) -> u32;
    fn set_filter(&mut self, filter: u32);

    /// Returns whether a flow of this hash, whose home is this line, may be elsewhere.
    #[inline(always)]
    fn may_be_elsewhere(&self, hash: TableHash) -> bool {
        self.filter() >> (hash.bits() >> 16 & 31) & 1 != 0
    }

    /// Returns whether any flow whose home is this line may be in the stash.
    #[inline(always)]
    fn may_have_stashed(&self) -> bool {
        self.filter() & STASH_BIT != 0
    }
}

impl Filter for Line {
    #[inline(always)]
    fn filter(&self) -> u32 {
        u32::from(self.0[FILTER]) | u32::from(self.0[FILTER + 1]) << 16
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "halves of a word")]
    fn set_filter(&mut self, filter: u32) {
        self.0[FILTER] = filter as u16;
        self.0[FILTER + 1] = (filter >> 16) as u16;
    }
}

/// The number of flows of a home line that are in alternates, and that are in the stash.
pub type Counts = [u8; 2];

/// Index of a count: flows in alternates.
pub(super) const AWAY: usize = 0;
/// Index of a count: flows in the stash.
pub(super) const STASHED: usize = 1;

/// Returns the state of a line's lane.
#[inline(always)]
#[must_use]
pub const fn state_of(line: u32, lane: u32) -> u32 {
    line * LANES + lane
}

/// Returns the favourite lane if it is empty, or else the first empty lane. At least one lane must
/// be empty.
#[inline(always)]
#[must_use]
pub(super) const fn lane_to_take(empty: u32, favourite: u32) -> u32 {
    if empty >> favourite & 1 != 0 { favourite } else { empty.trailing_zeros() }
}

/// Returns line and lane of a state that is not in the pool.
#[inline]
#[must_use]
pub const fn place_of(state: u32) -> (u32, u32) {
    (state / LANES, state % LANES)
}

/// Visits the states of a line's lanes until `visit` returns `false`. Returns whether it never did.
pub(super) fn visit_line(line: u32, visit: &mut dyn FnMut(u32) -> bool) -> bool {
    let start = state_of(line, 0);
    (start..start + LANES).all(visit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_flow_key::hash::fold::split_mix;

    #[test]
    fn alternate_line_is_any_line_except_the_home_line() {
        let mut state = 3;
        for lines in [2, 3, 7, 1000, u32::MAX] {
            for _ in 0..500 {
                let hash = TableHash::from_mixed(split_mix(&mut state));
                let place = LinePlace::new(hash, lines);
                for way in [Way::First, Way::Second] {
                    let line = place.alternate(hash, lines, way);
                    assert!(line < lines && line != place.home, "{lines} {hash:?}");
                }
            }
        }
        let mut met = [false; 7];
        for _ in 0..500 {
            let hash = TableHash::from_mixed(split_mix(&mut state));
            met[LinePlace::new(hash, 7).alternate(hash, 7, Way::Second) as usize] = true;
        }
        assert_eq!(met, [true; 7]);
    }

    #[test]
    fn stored_byte_leads_back_to_its_line() {
        let mut state = 4;
        // No table has more bytes than there are addresses.
        let most = u32::try_from(usize::MAX / 64).unwrap_or(u32::MAX);
        for lines in [1, 2, 7, 1000, most] {
            for _ in 0..500 {
                let hash = TableHash::from_mixed(split_mix(&mut state));
                assert_eq!(
                    LinePlace::near_line_of(hash, lines) / 64,
                    LinePlace::new(hash, lines).home as usize
                );
            }
        }
    }

    #[test]
    fn preferred_lane_can_be_any_lane_of_the_home_line() {
        let mut state = 5;
        for lines in [1, 2, 7, 1000, u32::MAX / LANES] {
            let mut met = 0_u32;
            for _ in 0..500 {
                let hash = TableHash::from_mixed(split_mix(&mut state));
                let (line, lane) = place_of(LinePlace::favourite_of(hash, lines * LANES));
                assert_eq!(line, LinePlace::new(hash, lines).home, "{lines} {hash:?}");
                assert_eq!(lane, LinePlace::favourite_lane_of(hash, lines), "{lines} {hash:?}");
                met |= 1 << lane;
            }
            assert_eq!(met, ALL_LANES, "{lines}");
        }
    }

    #[test]
    fn preferred_lane_is_used_if_empty_else_the_first_empty_one() {
        assert_eq!([0, 5, 29].map(|favourite| lane_to_take(ALL_LANES, favourite)), [0, 5, 29]);
        assert_eq!([0, 5, 29].map(|favourite| lane_to_take(0b110_0000, favourite)), [5, 5, 5]);
    }

    #[test]
    fn no_flow_has_the_signature_zero() {
        assert_eq!(LinePlace::signature_of(TableHash::from_mixed(0xFFFF_FFFF_FFFF_0000)), 0x8000);
        assert_eq!(LinePlace::signature_of(TableHash::from_mixed(0x1_7FFF)), 0xFFFF);
    }

    #[test]
    fn line_filter_reports_displaced_flows() {
        let [hash, other] = [3 << 16, 29 << 16].map(TableHash::from_mixed);
        let mut line = Line::default();
        assert!(!line.may_be_elsewhere(hash) && !line.may_have_stashed());
        line.set_filter(filter_bit(other));
        assert_eq!(line.0[30..], [0, 0x2000]);
        assert!(!line.may_be_elsewhere(hash) && line.may_be_elsewhere(other));
        line.set_filter(line.filter() | filter_bit(hash) | STASH_BIT);
        assert!(line.may_be_elsewhere(hash) && line.may_be_elsewhere(other) && line.may_have_stashed());
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
