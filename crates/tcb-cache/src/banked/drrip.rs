//! Dynamic re-reference interval prediction: new lines enter as "long" or nearly always as
//! "distant", depending on which of these two methods has fewer misses in a few dedicated sets.
//!
//! Of every 32 sets of bank 0, set 0 always uses the first method and set 1 the second. A ten-bit
//! counter records which has fewer misses. "Nearly always" means all but one fill in 32.

use super::cache::Replacement;
use super::miss::Miss;
use super::srrip::{DISTANT, LONG, Srrip};

/// One set in this many is dedicated to each method; smaller caches have one of each too.
const LEADERS_EVERY: usize = 32;
/// The maximum of the selecting counter: ten bits.
const SELECTOR_MAX: u16 = 1023;
/// One fill in this many is "long" with the second method.
const RARELY: u32 = 32;

#[derive(Clone, Debug)]
pub(crate) struct Drrip {
    inner: Srrip,
    /// Above the middle, the first method missed more.
    selector: u16,
    fills: u32,
}

impl Drrip {
    pub(crate) fn new(lines: usize) -> Self {
        Self { inner: Srrip::new(lines), selector: SELECTOR_MAX / 2, fills: 0 }
    }
}

impl Replacement for Drrip {
    #[inline(always)]
    fn hit(&mut self, line: usize) {
        self.inner.intervals[line] = 0;
    }

    #[inline(always)]
    fn place<const B: usize, const W: usize>(&mut self, miss: &mut Miss<'_, B, W>) -> usize {
        let set = (miss.primary & 0xFFFF) as usize % LEADERS_EVERY;
        let rarely_long = match set {
            0 => {
                self.selector = (self.selector + 1).min(SELECTOR_MAX);
                false
            }
            1 => {
                self.selector = self.selector.saturating_sub(1);
                true
            }
            _ => self.selector > SELECTOR_MAX / 2,
        };
        let line = self.inner.victim(miss);
        let mut interval = LONG;
        if rarely_long {
            self.fills = (self.fills + 1) % RARELY;
            if self.fills != 0 {
                interval = DISTANT;
            }
        }
        self.inner.intervals[line] = interval;
        line
    }
}
