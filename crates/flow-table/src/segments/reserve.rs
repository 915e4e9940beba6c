//! Space for flows that are yet to come.

use super::{Growing, SEGMENTS_MAX};
use crate::table::{FlowTable, Full, FullReason, TableKey};

impl<K: TableKey, V, T: FlowTable<K, V>> Growing<K, V, T> {
    /// Opens a segment now if the newest one has no space for a number of further flows, which
    /// insert then without growth. Ids stay valid.
    ///
    /// # Errors
    ///
    /// Returns [`FullReason::Capacity`] if that exceeds the maximum number of flows, and
    /// [`FullReason::Memory`] if no such segment can be opened; nothing has changed then.
    pub fn try_reserve(&mut self, flows: u32) -> Result<(), Full> {
        if self.options.flows.saturating_sub(self.len()) < flows {
            return Err(Full { reason: FullReason::Capacity });
        }
        if self.newest.flows.saturating_sub(self.newest.table.len()) >= flows {
            return Ok(());
        }
        if self.count() == SEGMENTS_MAX {
            self.retire();
        }
        // As large as growth would make it, if there is memory.
        let mut next = self.next_flows().max(flows);
        while self.count() < SEGMENTS_MAX {
            if self.open(next).is_ok() {
                self.stuck = false;
                self.retire();
                return Ok(());
            }
            if next == flows {
                break;
            }
            next = (next / 2).max(flows);
        }
        Err(Full { reason: FullReason::Memory })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{CLASS, OPTIONS, growing, hash};
    use super::*;
    use crate::options::TableOptions;
    use crate::table::Tick;

    #[test]
    fn reserved_space_takes_flows_without_growth() {
        for (before, flows) in [(0, 0), (0, 10), (0, 200), (5, 5), (5, 6), (10, 190), (150, 50)] {
            let mut table = growing(OPTIONS).unwrap();
            for key in 0..before {
                table.insert(key, hash(key), key, CLASS, Tick(0)).unwrap();
            }
            let ids: Vec<_> = (0..before).map(|key| table.lookup(&key, hash(key))).collect();
            table.try_reserve(flows).unwrap();
            let memory = table.memory();
            for key in 1000..1000 + u64::from(flows) {
                table.insert(key, hash(key), key, CLASS, Tick(0)).unwrap();
            }
            assert_eq!(table.memory(), memory, "{flows} flows after {before}");
            assert!((0..before).map(|key| table.lookup(&key, hash(key))).eq(ids));
        }
    }

    #[test]
    fn space_beyond_a_limit_is_not_reserved() {
        let mut table = growing(OPTIONS).unwrap();
        table.insert(1, hash(1), 1, CLASS, Tick(0)).unwrap();
        let before = table.memory();
        for flows in [200, 201, u32::MAX] {
            assert_eq!(table.try_reserve(flows), Err(Full { reason: FullReason::Capacity }));
        }
        let options = TableOptions { memory_limit_bytes: before.total_bytes() * 3, ..OPTIONS };
        let mut table = growing(options).unwrap();
        assert_eq!(table.try_reserve(200), Err(Full { reason: FullReason::Memory }));
        assert_eq!(table.memory(), before);
        table.try_reserve(11).expect("a segment for eleven flows is smaller than one for forty");
    }
}
