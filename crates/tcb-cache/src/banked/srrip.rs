//! Static re-reference interval prediction: two bits per line that predict the distance of its next
//! use.
//!
//! A line enters as "long" (2), a hit sets it to "soon" (0), and the first "distant" (3) line is
//! evicted. If there is none, all candidates age by one.

use super::cache::Replacement;
use super::miss::Miss;

/// The most distant prediction.
pub(crate) const DISTANT: u8 = 3;
/// The prediction for a new line.
pub(crate) const LONG: u8 = 2;

#[derive(Clone, Debug)]
pub(crate) struct Srrip {
    pub(crate) intervals: Vec<u8>,
}

impl Srrip {
    pub(crate) fn new(lines: usize) -> Self {
        Self { intervals: vec![DISTANT; lines] }
    }

    /// Returns the line to be filled.
    #[inline(always)]
    pub(crate) fn victim<const B: usize, const W: usize>(&mut self, miss: &Miss<'_, B, W>) -> usize {
        if let Some(line) = miss.first_empty() {
            return line;
        }
        let farthest = miss.candidates().map(|line| self.intervals[line]).max().unwrap_or(DISTANT);
        for line in miss.candidates() {
            self.intervals[line] += DISTANT - farthest;
        }
        miss.candidates()
            .find(|&line| self.intervals[line] == DISTANT)
            .expect("the most distant line is distant now")
    }
}

impl Replacement for Srrip {
    #[inline(always)]
    fn hit(&mut self, line: usize) {
        self.intervals[line] = 0;
    }

    #[inline(always)]
    fn place<const B: usize, const W: usize>(&mut self, miss: &mut Miss<'_, B, W>) -> usize {
        let line = self.victim(miss);
        self.intervals[line] = LONG;
        line
    }
}
