//! The position of the next use of each key of a trace.

use core::fmt;

use crate::access::Access;

/// For each access of a trace, the position of the next one of the same key.
#[derive(Clone, PartialEq, Eq)]
pub struct NextUses {
    next: Vec<u32>,
}

impl fmt::Debug for NextUses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NextUses").field("accesses", &self.next.len()).finish_non_exhaustive()
    }
}

/// A trace has more accesses than there are position numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TooLong {
    /// Accesses of the trace.
    pub accesses: usize,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} accesses exceed the limit of {} for policies that know the future",
            self.accesses,
            NextUses::MAX
        )
    }
}

impl core::error::Error for TooLong {}

impl NextUses {
    /// Marks a key without a further use.
    pub const NEVER: u32 = u32::MAX;
    /// Maximum number of accesses in a trace.
    pub const MAX: usize = (u32::MAX - 1) as usize;

    /// Processes a trace from its end. Takes n log n steps, and 16 bytes per access while it works.
    ///
    /// With `ends`, an access after a closing one belongs to another session, because the line has
    /// been dropped by then.
    ///
    /// # Errors
    ///
    /// Returns [`TooLong`] beyond [`NextUses::MAX`] accesses.
    pub fn new(accesses: &[Access], ends: bool) -> Result<Self, TooLong> {
        if accesses.len() > Self::MAX {
            return Err(TooLong { accesses: accesses.len() });
        }
        let mut order: Vec<(u64, u32)> =
            accesses.iter().zip(0..).map(|(access, position)| (access.key(), position)).collect();
        order.sort_unstable();
        let mut next = vec![Self::NEVER; accesses.len()];
        for pair in order.windows(2) {
            let [(key, first), (other, second)] = [pair[0], pair[1]];
            if key == other && !(ends && accesses[first as usize].closes()) {
                next[first as usize] = second;
            }
        }
        Ok(Self { next })
    }

    /// Returns how many accesses the trace has.
    pub(crate) fn accesses(&self) -> usize {
        self.next.len()
    }

    /// Returns the position of the next use after the access at `position`, or [`NextUses::NEVER`].
    ///
    /// # Panics
    ///
    /// Panics if the trace has no access at `position`.
    #[inline]
    #[must_use]
    pub fn after(&self, position: usize) -> u32 {
        self.next[position]
    }

    /// Returns how many keys occur for the first time at or after `position`.
    ///
    /// These miss in every cache that starts empty.
    #[must_use]
    pub fn first_uses_from(&self, position: usize) -> usize {
        let mut known = vec![false; self.next.len()];
        for next in &self.next {
            if let Some(known) = known.get_mut(*next as usize) {
                *known = true;
            }
        }
        known.iter().skip(position).filter(|known| !**known).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_use_is_found_and_sessions_end() {
        let trace = [1, 2, 1, 1, 3, 2].map(|key| Access::new(key, 0));
        let uses = NextUses::new(&trace, false).unwrap();
        let never = NextUses::NEVER;
        assert_eq!(uses.next, [2, 5, 3, never, never, never]);
        assert_eq!((uses.first_uses_from(0), uses.first_uses_from(2)), (3, 1));
        let mut closing = trace;
        closing[0] = closing[0].closing();
        assert_eq!(NextUses::new(&closing, true).unwrap().next, [never, 5, 3, never, never, never]);
        assert_eq!(NextUses::new(&closing, false).unwrap(), uses);
    }
}
