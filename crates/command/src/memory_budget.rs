//! The memory that a run may take, and its parts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flowloom::apps::accounting::fields::FieldMemory;
use flowloom::cpu::memory;

use crate::exit::Failure;
use crate::render::bytes;

/// Memory of the process itself: code, stacks, buffers of files and of the C library.
const PROCESS_BYTES: u64 = 24 << 20;

/// A number of bytes, and where it comes from.
#[derive(Clone, Debug)]
pub struct Budget {
    bytes: u64,
    /// Bytes that are taken for rows.
    rows: u64,
    source: &'static str,
    /// What raises it.
    advice: &'static str,
}

/// A table for the smallest number of flows.
const TABLE_BYTES: u64 = 1 << 20;

/// What raises the memory that is free.
const FREE_ADVICE: &str = "a process with more memory (ulimit -v, control group)";

impl Budget {
    /// Returns the budget of an option, and by default half of the free memory, for a process that
    /// runs beside others.
    pub fn half_of_free(given: Option<u64>) -> Self {
        Self::new(given, |free| free / 2, "half of the free memory is")
    }

    /// Returns the budget of an option, and by default the free memory.
    pub fn of_free(given: Option<u64>) -> Self {
        Self::new(given, |free| free, "the free memory is")
    }

    fn new(given: Option<u64>, share: impl Fn(u64) -> u64, of_free: &'static str) -> Self {
        // A system that does not say how much is free has no limits either.
        let free = memory::available_bytes().unwrap_or(u64::MAX);
        match given {
            Some(bytes) if bytes <= free => {
                Self { bytes, rows: 0, source: "--memory is", advice: "a larger --memory" }
            }
            Some(_) => {
                let source = "--memory exceeds the free memory of";
                Self { bytes: free, rows: 0, source, advice: FREE_ADVICE }
            }
            None => Self { bytes: share(free), rows: 0, source: of_free, advice: FREE_ADVICE },
        }
    }

    /// Takes memory for the rows of a result.
    #[must_use]
    pub fn with_rows(self, bytes: u64) -> Self {
        Self { rows: bytes, ..self }
    }

    /// Returns the bytes that rows may take beside the flow tables.
    ///
    /// # Errors
    ///
    /// As [`without`](Self::without).
    pub fn rows_bytes_max(self) -> Result<u64, Failure> {
        Ok((self.without(&[])? - TABLE_BYTES) / 4)
    }

    /// Returns the memory left for flow tables after the process and these parts.
    ///
    /// # Errors
    ///
    /// A message with all figures if nothing is left.
    pub fn without(self, parts: &[(&str, u64)]) -> Result<u64, Failure> {
        let own = [("the process", PROCESS_BYTES), ("rows", self.rows)];
        let smaller = if parts.is_empty() { "" } else { "smaller rings, or " };
        let parts = || own.iter().chain(parts).filter(|(_, bytes)| *bytes > 0);
        let taken = parts().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        let left = self.bytes.saturating_sub(taken);
        if left >= TABLE_BYTES {
            return Ok(left);
        }
        let each: Vec<String> =
            parts().map(|(name, of_part)| format!("{name} {}", bytes(*of_part))).collect();
        Err(Failure::Usage(format!(
            "{} {}, which leaves too little for flow tables: {}\n  at least {} are needed; use {smaller}{}",
            self.source,
            bytes(self.bytes),
            each.join(", "),
            bytes(taken.saturating_add(TABLE_BYTES)),
            self.advice,
        )))
    }

    /// Returns the memory in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Divides the memory of a run among its tables, the fields of its records, and queues and
    /// buffers of outputs, which take about `others` bytes.
    ///
    /// # Errors
    ///
    /// A message with all figures if there is too little.
    pub fn divide(self, others: u64, fields: Option<&FieldMemory>) -> Result<Shares, Failure> {
        let left = self.without(&[])?;
        let left = left - others.min(left / 8);
        let fields_min_bytes = if fields.is_some() { left / 8 } else { 0 };
        // The records of the flows that are live at the end are copied out of the tables.
        let tables_bytes = (left - fields_min_bytes) / 2;
        let fields = fields.map(|memory| {
            let share = FieldShare {
                memory: memory.clone(),
                min_bytes: fields_min_bytes,
                run_bytes: left,
                tables_bytes: AtomicU64::new(0),
            };
            share.opened(0);
            Arc::new(share)
        });
        Ok(Shares { tables_bytes, fields })
    }
}

/// The parts of a run's memory.
#[derive(Debug)]
pub struct Shares {
    /// For all flow tables together.
    pub tables_bytes: u64,
    pub fields: Option<Arc<FieldShare>>,
}

/// The memory of fields: what the tables leave, and never less than a part that they cannot take.
#[derive(Debug)]
pub struct FieldShare {
    memory: FieldMemory,
    min_bytes: u64,
    run_bytes: u64,
    /// Bytes of all table segments that were opened.
    tables_bytes: AtomicU64,
}

impl FieldShare {
    /// Takes the memory of a table's segment from the fields.
    pub fn opened(&self, bytes: u64) {
        let tables = self.tables_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let left = self.run_bytes.saturating_sub(tables.saturating_mul(2));
        self.memory.set_limit(left.max(self.min_bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_beyond_memory_are_refused_with_all_figures() {
        let budget =
            Budget { bytes: 100 << 20, rows: 0, source: "--memory is", advice: "a larger --memory" };
        assert_eq!(budget.clone().without(&[("rings", 16 << 20)]).unwrap(), 60 << 20);
        assert_eq!(budget.clone().rows_bytes_max().unwrap(), 75 << 18);
        assert_eq!(budget.clone().with_rows(1 << 20).without(&[]).unwrap(), 75 << 20);
        let failure = budget.without(&[("rings", 80 << 20)]).unwrap_err();
        for word in ["--memory is", "the process", "rings", "at least"] {
            assert!(failure.text().contains(word), "{}", failure.text());
        }
    }

    #[test]
    fn only_limits_that_were_given_are_named_in_a_refusal() {
        let refusal = |budget: Budget| budget.without(&[]).unwrap_err().text().to_owned();
        assert!(refusal(Budget::of_free(Some(1))).ends_with("use a larger --memory"));
        let short = Budget { bytes: 1, rows: 0, source: "the free memory is", advice: FREE_ADVICE };
        assert!(!refusal(short).contains("--"));
    }

    #[test]
    fn growing_tables_reduce_the_memory_of_fields_to_a_minimum() {
        let memory = FieldMemory::new(u64::MAX);
        let budget = Budget { bytes: (1024 + 24) << 20, rows: 0, source: "", advice: "" };
        let shares = budget.divide(u64::MAX, Some(&memory)).unwrap();
        let fields = shares.fields.unwrap();
        assert_eq!((fields.run_bytes, fields.min_bytes), (896 << 20, 112 << 20));
        assert_eq!(shares.tables_bytes, 392 << 20);
        assert_eq!(memory.limit_bytes(), 896 << 20);
        fields.opened(100 << 20);
        assert_eq!(memory.limit_bytes(), 696 << 20);
        fields.opened(350 << 20);
        assert_eq!(memory.limit_bytes(), 112 << 20);
    }
}
