//! The input stage for whoever has time: a thread of its own, or any worker that finds nothing else to do.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::actor::Polled;
use crate::crew::{InputSide, panic_message};
use crate::sync::{AtomicBool, Ordering};

/// Batches of a turn: what the input stage writes all the time is then not fetched from the other CPU for each.
const BATCHES: usize = 16;

/// An input stage that one thread at a time polls.
pub(crate) struct TurnsAtInput<'a> {
    stage: Mutex<InputSide<'a>>,
    /// A hint that spares the lock.
    is_done: AtomicBool,
}

impl<'a> TurnsAtInput<'a> {
    pub(crate) fn new(stage: InputSide<'a>) -> Self {
        Self { stage: Mutex::new(stage), is_done: AtomicBool::new(false) }
    }

    /// Keeps everybody from the input stage until the guard is dropped.
    pub(crate) fn hold(&self) -> MutexGuard<'_, InputSide<'a>> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Polls the input stage once; `Idle` while somebody else does. A panic is the input stage's, not the caller's, and
    /// what follows it is the stage's orderly end.
    pub(crate) fn poll(&self) -> Polled {
        self.poll_up_to(1)
    }

    /// Does the same up to so many times, as long as there is work.
    fn poll_up_to(&self, times: usize) -> Polled {
        // Relaxed: whoever sees it late finds the stage as it is behind the lock.
        if self.is_done.load(Ordering::Relaxed) {
            return Polled::Done;
        }
        let mut stage = match self.stage.try_lock() {
            Ok(stage) => stage,
            Err(TryLockError::Poisoned(stage)) => stage.into_inner(),
            Err(TryLockError::WouldBlock) => return Polled::Idle,
        };
        // Unwind safety: after a panic the stage only ends, and its counters are whole at any moment.
        let polls = AssertUnwindSafe(|| {
            let mut polled = Polled::Idle;
            for _ in 0..times {
                match stage.poll() {
                    Polled::Worked => polled = Polled::Worked,
                    Polled::Done => return Polled::Done,
                    // It goes on as soon as whoever is here has done its own part.
                    other => return if polled == Polled::Worked { polled } else { other },
                }
            }
            polled
        });
        match catch_unwind(polls) {
            Ok(Polled::Done) => {
                stage.close();
                self.is_done.store(true, Ordering::Relaxed);
                Polled::Done
            }
            Ok(polled) => polled,
            Err(panic) => {
                stage.settle(panic_message(&*panic));
                Polled::Worked
            }
        }
    }

    /// Polls the input stage for a worker that is short of packets, a few times on end: it has an end of its own, which this is not.
    pub(crate) fn help(&self) -> Polled {
        match self.poll_up_to(BATCHES) {
            Polled::Done => Polled::Idle,
            polled => polled,
        }
    }

    /// Returns the stage.
    pub(crate) fn into_inner(self) -> InputSide<'a> {
        self.stage.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
