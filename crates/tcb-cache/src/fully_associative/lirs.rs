//! LIRS: keys with few other keys between two uses (LIR) keep their place; the others (HIR) share a
//! hundredth of the cache.
//!
//! The stack contains keys by recency, including some that are not resident. A non-resident key
//! that is used while it is in the stack becomes LIR. The original stack has no size limit. This
//! one drops the oldest non-resident key when their number exceeds twice the number of lines.

use super::queues::{END, Queues};
use super::{Eviction, Full};

/// Marks of keys in the stack.
const LIR: u8 = 1;
const HIR: u8 = 2;
/// Not resident.
const GONE: u8 = 3;

#[derive(Clone, Debug)]
pub(crate) struct Lirs {
    stack: Queues<1>,
    /// The resident HIR keys.
    hir: Queues<1>,
    /// The non-resident keys of the stack, in the order in which they were evicted.
    gone: Queues<1>,
    lir_count: usize,
    lir_max: usize,
    lines: usize,
    gone_max: usize,
}

impl Lirs {
    pub(crate) fn new(lines: usize) -> Self {
        let hir_max = (lines / 100).max(1).min(lines);
        let gone_max = 2 * lines;
        Self {
            stack: Queues::new(2 * lines + gone_max + 2),
            hir: Queues::new(lines + 1),
            gone: Queues::new(gone_max + 2),
            lir_count: 0,
            lir_max: lines - hir_max,
            lines,
            gone_max,
        }
    }

    fn residents(&self) -> usize {
        self.lir_count + self.hir.len(0)
    }

    /// Removes keys from the bottom of the stack until the bottom key is LIR.
    fn prune(&mut self) {
        loop {
            let bottom = self.stack.back(0);
            if bottom == END || self.stack.mark(bottom) == LIR {
                return;
            }
            let was_gone = self.stack.mark(bottom) == GONE;
            let key = self.stack.remove(bottom);
            if was_gone && let Some(node) = self.gone.find(key) {
                self.gone.remove(node);
            }
        }
    }

    /// Turns the LIR key at the bottom of the stack into a HIR key.
    fn demote(&mut self) {
        self.prune();
        let bottom = self.stack.back(0);
        if bottom == END {
            return;
        }
        let key = self.stack.remove(bottom);
        self.lir_count -= 1;
        self.hir.push(0, key);
        self.prune();
    }

    fn raise(&mut self, key: u64, mark: u8) {
        let node = if let Some(node) = self.stack.find(key) {
            self.stack.move_to(0, node);
            node
        } else {
            self.stack.push(0, key)
        };
        self.stack.set_mark(node, mark);
    }

    /// Evicts the HIR key that has waited longest.
    fn evict(&mut self) {
        if self.hir.len(0) == 0 {
            self.demote();
        }
        let Some(key) = self.hir.pop(0) else { return };
        if let Some(node) = self.stack.find(key) {
            self.stack.set_mark(node, GONE);
            self.gone.push(0, key);
            if self.gone.len(0) > self.gone_max
                && let Some(node) = self.gone.pop(0).and_then(|oldest| self.stack.find(oldest))
            {
                self.stack.remove(node);
            }
        }
    }
}

impl Full for Lirs {
    fn hit(&mut self, key: u64) -> bool {
        let in_stack = self.stack.find(key).map(|node| self.stack.mark(node));
        match (in_stack, self.hir.find(key)) {
            (Some(LIR), _) => {
                self.raise(key, LIR);
                self.prune();
            }
            (Some(_), Some(node)) => {
                self.hir.remove(node);
                self.raise(key, LIR);
                self.lir_count += 1;
                if self.lir_count > self.lir_max {
                    self.demote();
                }
            }
            (None, Some(node)) => {
                self.hir.move_to(0, node);
                self.raise(key, HIR);
            }
            _ => return false,
        }
        true
    }

    fn fill(&mut self, key: u64) -> Eviction {
        let full = self.residents() == self.lines;
        if full {
            self.evict();
        }
        // The eviction above may have pruned it.
        let was_known = self.stack.find(key).is_some();
        if let Some(node) = self.gone.find(key) {
            self.gone.remove(node);
        }
        if self.lir_count < self.lir_max {
            self.raise(key, LIR);
            self.lir_count += 1;
        } else if was_known && self.lir_max > 0 {
            self.raise(key, LIR);
            self.lir_count += 1;
            self.demote();
        } else {
            self.raise(key, HIR);
            self.hir.push(0, key);
            self.prune();
        }
        full.into()
    }

    fn close(&mut self, key: u64) {
        if let Some(node) = self.hir.find(key) {
            self.hir.remove(node);
        } else {
            self.lir_count -= 1;
        }
        if let Some(node) = self.stack.find(key) {
            self.stack.remove(node);
        }
        self.prune();
    }

    fn resident(&self) -> Vec<u64> {
        let lir = self
            .stack
            .keys(0)
            .filter(|key| self.stack.find(*key).is_some_and(|node| self.stack.mark(node) == LIR));
        lir.chain(self.hir.keys(0)).collect()
    }
}
