//! Turns: packets enter one after the other, in the order that their numbers were given out.

use crate::descriptor::TURNS;
use crate::sync::{AtomicU32, Ordering};

/// Whose turn it is.
#[derive(Debug, Default)]
pub(crate) struct Turn(AtomicU32);

impl Turn {
    /// Says whether it is the turn of this number, below [`TURNS`].
    pub(crate) fn is(&self, number: u32) -> bool {
        // Acquire pairs with the Release in `pass`: what the one before did to the state is seen.
        self.0.load(Ordering::Acquire) == number
    }

    /// Lets the one after this number enter; only whoever has the turn may.
    pub(crate) fn pass(&self, number: u32) {
        self.0.store((number + 1) % TURNS, Ordering::Release);
    }
}
