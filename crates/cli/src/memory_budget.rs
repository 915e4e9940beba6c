//! The memory that a run may take, and its parts.

use flowloom::cpu::memory;

use crate::exit::Failure;
use crate::render::bytes;

/// Memory of the process itself: code, stacks, buffers of files and of the C library.
const PROCESS_BYTES: u64 = 24 << 20;

/// A number of bytes, and where it comes from.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    bytes: u64,
    source: &'static str,
}

impl Budget {
    /// Returns the budget of an option, and by default half of the free memory, for a process that
    /// runs beside others.
    pub(crate) fn half_of_free(given: Option<u64>) -> Self {
        Self::of(given, |free| free / 2, "half of the free memory is")
    }

    /// Returns the budget of an option, and by default the free memory.
    pub(crate) fn of_free(given: Option<u64>) -> Self {
        Self::of(given, |free| free, "the free memory is")
    }

    fn of(given: Option<u64>, share: impl Fn(u64) -> u64, of_free: &'static str) -> Self {
        // A system that does not say how much is free has no limits either.
        let free = memory::available_bytes().unwrap_or(u64::MAX);
        match given {
            Some(bytes) if bytes <= free => Self { bytes, source: "--memory is" },
            Some(_) => Self { bytes: free, source: "--memory exceeds the free memory of" },
            None => Self { bytes: share(free), source: of_free },
        }
    }

    /// Returns what is left for flow tables after the process and these parts.
    ///
    /// # Errors
    ///
    /// A message with all figures if nothing is left.
    pub(crate) fn without(self, parts: &[(&str, u64)]) -> Result<u64, Failure> {
        /// A table for the smallest number of flows.
        const TABLE_BYTES: u64 = 1 << 20;
        let own = [("the process", PROCESS_BYTES)];
        let parts = || own.iter().chain(parts).filter(|(_, bytes)| *bytes > 0);
        let taken = parts().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        let left = self.bytes.saturating_sub(taken);
        if left >= TABLE_BYTES {
            return Ok(left);
        }
        let each: Vec<String> =
            parts().map(|(name, of_part)| format!("{name} {}", bytes(*of_part))).collect();
        Err(Failure::Usage(format!(
            "{} {}, which leaves too little for flow tables: {}\n  at least {} are needed; use smaller \
             rings, or a larger limit (--memory, ulimit -v, control group)",
            self.source,
            bytes(self.bytes),
            each.join(", "),
            bytes(taken.saturating_add(TABLE_BYTES))
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_do_not_fit_are_refused_with_all_figures() {
        let budget = Budget { bytes: 100 << 20, source: "--memory is" };
        assert_eq!(budget.clone().without(&[("rings", 16 << 20)]).unwrap(), 60 << 20);
        let failure = budget.without(&[("rings", 80 << 20)]).unwrap_err();
        for word in ["--memory is", "the process", "rings", "at least"] {
            assert!(failure.text().contains(word), "{}", failure.text());
        }
    }
}
