//! When a shard opens another index, and how large that is.
//!
//! While entries move, each write inserts at most one entry into the next index, and moves the
//! entries of [`LINES_PER_WRITE`] lines. The next index is so large that all entries fit it even if
//! every write until the end of the move inserts one. A move therefore always ends, and the next
//! one can begin.

use super::index::LANES;

/// Number of lines whose entries one write moves.
pub(super) const LINES_PER_WRITE: usize = 4;

/// Returns the number of lines of the index that a shard with this many flows and lines opens, if
/// it opens one: if more than three quarters of the entries are in use, or less than one quarter
/// and more than `lines_min` lines.
#[inline]
pub(super) fn lines_of_next(flows: usize, lines: usize, lines_min: usize) -> Option<usize> {
    let entries = LANES * lines;
    if flows > flows_before_growth(lines) {
        return Some(2 * lines);
    }
    if 4 * flows >= entries || lines <= lines_min {
        return None;
    }
    let half_full = (2 * flows).div_ceil(LANES);
    // At most three quarters are in use at the end of the move; then the index may grow again.
    let at_the_end = flows + writes_until_moved(lines);
    let with_a_burst = (4 * at_the_end).div_ceil(3 * LANES);
    let next = half_full.max(with_a_burst).max(lines_min);
    (next < lines).then_some(next)
}

/// Returns the number of flows that an index of this many lines has before a larger one is opened.
#[inline]
pub(super) fn flows_before_growth(lines: usize) -> usize {
    3 * LANES * lines / 4
}

/// Returns the number of writes after the one that opens the next index, until all entries have
/// moved.
fn writes_until_moved(lines: usize) -> usize {
    lines.saturating_sub(LINES_PER_WRITE).div_ceil(LINES_PER_WRITE)
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_accepts_a_burst_while_its_entries_move() {
        for lines in 1..200 {
            for lines_min in [1, 2, lines / 2, lines] {
                for flows in 0..=LANES * lines {
                    let Some(next) = lines_of_next(flows, lines, lines_min) else { continue };
                    let at_the_end = flows + writes_until_moved(lines);
                    assert!(4 * at_the_end <= 3 * LANES * next, "{flows} flows, {lines} to {next} lines");
                    assert!(next > lines || next >= lines_min, "{flows} flows, {lines} to {next} lines");
                }
            }
        }
    }

    #[test]
    fn empty_index_shrinks_to_its_minimum_in_a_few_steps() {
        for (mut lines, lines_min) in [(1_000_000, 1), (100_000, 100), (2, 1), (3, 2)] {
            for _ in 0..6 {
                lines = lines_of_next(0, lines, lines_min).unwrap_or(lines);
            }
            assert_eq!(lines, lines_min);
        }
    }

    #[test]
    fn a_resized_index_is_neither_too_full_nor_too_empty() {
        for lines in 1..300 {
            for flows in 0..=LANES * lines {
                let Some(next) = lines_of_next(flows, lines, 1) else { continue };
                // Flows that stay as they are cause no move back.
                let back = lines_of_next(flows, next, 1);
                assert!(
                    back.is_none_or(|back| (back < next) == (next < lines)),
                    "{flows}, {lines}, {next}"
                );
            }
        }
    }
}
