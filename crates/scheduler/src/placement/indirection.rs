//! Indirection: a digest selects an entry of a table, which contains the worker [LFB slide 5].
//!
//! The table of a network card has 128 entries. A fixed table is a hash with rounding: of 63
//! workers, two have three entries each, and the others two. A rebalanced table is the adaptive
//! hash of receive-side scaling: entries move from the most loaded to the least loaded worker. As
//! in RSS++, the load is the number of bytes in a period, and the choice of moves is greedy.
//!
//! RSS++ accepts a short period of reordering. Here, an entry moves only while none of its packets
//! is in flight.

use super::backlog::Backlog;
use super::{Decision, LoadView, OrderGuarantee, Placement, SetupError, WorkItem, WorkerId, bounded};
use crate::topology::Topology;

/// Maximum number of moves per rebalancing.
const MOVES_MAX: usize = 16;

/// Places flows through a table.
#[derive(Clone)]
pub struct Indirection {
    worker: Vec<u16>,
    workers: usize,
    balance: Option<Balance>,
}

impl core::fmt::Debug for Indirection {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Indirection")
            .field("workers", &self.workers)
            .field("entries", &self.worker.len())
            .field("balances", &self.balance.is_some())
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
struct Balance {
    backlog: Backlog,
    capacity: Vec<u64>,
    /// Position of each entry's last packet in its worker's queue.
    place: Vec<u64>,
    /// Load of each entry; halved every period.
    load: Vec<u64>,
    /// The worker to which each entry moves as soon as none of its packets is in flight.
    target: Vec<u16>,
    period: u32,
    left: u32,
}

impl Indirection {
    /// Number of entries of a network card's table.
    pub const ENTRIES: usize = 128;
    /// Default number of items between rebalancings.
    pub const PERIOD: u32 = 8192;

    /// Returns a fixed table, with entries assigned to the workers round robin.
    ///
    /// # Errors
    ///
    /// Returns [`SetupError::Parameter`] for no entries or more than 65,536.
    pub fn fixed(topology: &Topology, entries: usize) -> Result<Self, SetupError> {
        bounded("entries of the indirection table", entries as u64, 1, 1 << 16)?;
        let workers = usize::from(topology.workers().get());
        Ok(Self {
            worker: (0..entries).map(|entry| (entry % workers) as u16).collect(),
            workers,
            balance: None,
        })
    }

    /// Returns a table that is rebalanced every `period` items.
    ///
    /// # Errors
    ///
    /// Returns [`SetupError::Parameter`] as for [`Indirection::fixed`], and for a period of zero
    /// items.
    pub fn rebalanced(topology: &Topology, entries: usize, period: u32) -> Result<Self, SetupError> {
        bounded("rebalancing period", u64::from(period), 1, u64::from(u32::MAX))?;
        let table = Self::fixed(topology, entries)?;
        let level = topology.levels() - 1;
        let balance = Balance {
            backlog: Backlog::new(topology),
            capacity: (0..topology.nodes(level)).map(|w| u64::from(topology.capacity(level, w))).collect(),
            place: vec![0; entries],
            load: vec![0; entries],
            target: table.worker.clone(),
            period,
            left: period,
        };
        Ok(Self { balance: Some(balance), ..table })
    }

    #[inline]
    fn entry(&self, digest: u32) -> usize {
        ((u64::from(digest) * self.worker.len() as u64) >> 32) as usize
    }
}

impl Balance {
    /// Plans moves from the worker with the highest load per capacity to the one with the lowest,
    /// while the gap shrinks.
    fn plan(&mut self) {
        let mut loads = vec![0_u64; self.capacity.len()];
        for (&load, &target) in self.load.iter().zip(&self.target) {
            loads[usize::from(target)] += load;
        }
        for _ in 0..MOVES_MAX {
            let per_capacity = |worker: &usize| (loads[*worker] << 10) / self.capacity[*worker];
            let (Some(most), Some(least)) =
                ((0..loads.len()).max_by_key(per_capacity), (0..loads.len()).min_by_key(per_capacity))
            else {
                return;
            };
            // The gap shrinks if the moved load is smaller than it. The largest such entry reduces
            // it most.
            let gap = per_capacity(&most) - per_capacity(&least);
            let shift =
                |load: u64| (load << 10) / self.capacity[most] + (load << 10) / self.capacity[least];
            let best = (0..self.load.len())
                .filter(|&entry| usize::from(self.target[entry]) == most && self.load[entry] > 0)
                .filter(|&entry| shift(self.load[entry]) < gap * 2)
                .min_by_key(|&entry| shift(self.load[entry]).abs_diff(gap));
            let Some(entry) = best else { return };
            self.target[entry] = least as u16;
            loads[most] -= self.load[entry];
            loads[least] += self.load[entry];
        }
    }
}

impl Placement for Indirection {
    fn place(&mut self, items: &[WorkItem], load: &LoadView<'_>, decisions: &mut [Decision]) {
        if let Some(balance) = &mut self.balance {
            balance.backlog.refresh(load);
        }
        for (&item, decision) in items.iter().zip(decisions) {
            let entry = self.entry(item.digest);
            if let Some(balance) = &mut self.balance {
                let (now, target) = (self.worker[entry], balance.target[entry]);
                if now != target && balance.backlog.is_done(usize::from(now), balance.place[entry]) {
                    self.worker[entry] = target;
                }
                let (place, _) = balance.backlog.assign(usize::from(self.worker[entry]), item);
                balance.place[entry] = place;
                balance.load[entry] += u64::from(balance.backlog.cost(item));
                balance.left -= 1;
                if balance.left == 0 {
                    balance.left = balance.period;
                    balance.plan();
                    balance.load.iter_mut().for_each(|load| *load /= 2);
                }
            }
            *decision = Decision::To(WorkerId(self.worker[entry]));
        }
    }

    fn workers(&self) -> Option<usize> {
        Some(self.workers)
    }

    fn order(&self) -> OrderGuarantee {
        if self.balance.is_some() { OrderGuarantee::PerFlow } else { OrderGuarantee::Home }
    }

    fn name(&self) -> &'static str {
        if self.balance.is_some() { "rss++" } else { "rss" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_leave_an_overloaded_worker_when_they_are_idle() {
        let mut policy = Indirection::rebalanced(&"2".parse().unwrap(), 8, 64).unwrap();
        // Entries 0 and 2, both of worker 0, have all of the traffic.
        let items: Vec<WorkItem> =
            (0..64).map(|i| WorkItem { digest: (i % 2) << 30, bytes: 100 }).collect();
        let mut decisions = vec![Decision::Drop; 64];
        let done = |count| [count, 0];
        policy.place(
            &items,
            &LoadView { sent: &[0, 0], completed: &[0, 0], ..LoadView::idle() },
            &mut decisions,
        );
        assert!(decisions.iter().all(|&decision| decision == Decision::To(0.into())));
        // Planned, but packets are in flight.
        let busy = LoadView { sent: &[64, 0], completed: &done(10), ..LoadView::idle() };
        policy.place(&items[..2], &busy, &mut decisions);
        assert_eq!(decisions[..2], [Decision::To(0.into()); 2]);
        let idle = LoadView { sent: &[66, 0], completed: &done(66), ..LoadView::idle() };
        policy.place(&items[..2], &idle, &mut decisions);
        assert_ne!(decisions[0], decisions[1]);
    }

    #[test]
    fn moves_are_planned_while_they_narrow_the_gap_of_loads_per_capacity() {
        let planned = |capacity: &[u64], target: &[u16], load: &[u64]| {
            let mut balance = Balance {
                backlog: Backlog::new(&"3".parse().unwrap()),
                capacity: capacity.to_vec(),
                place: Vec::new(),
                load: load.to_vec(),
                target: target.to_vec(),
                period: 1,
                left: 1,
            };
            balance.plan();
            balance.target
        };
        // Loads per capacity are 0.9, 0.4 and 0.8. The 30 of worker 0 move to worker 1, which then
        // has 1.0; 10 move back: 0.7, 0.8, 0.8.
        let loads = [60, 10, 10, 30, 10, 30];
        assert_eq!(planned(&[100, 50, 50], &[0, 1, 2, 0, 1, 2], &loads), [0, 0, 2, 1, 1, 2]);
        // One of the two moves. Another move would only leave a different worker without entries.
        assert_eq!(planned(&[100; 3], &[0, 0, 1, 2], &[50, 50, 0, 0]), [1, 0, 1, 2]);
        assert_eq!(planned(&[100; 3], &[0, 1, 2], &[7, 7, 7]), [0, 1, 2]);
    }

    #[test]
    fn tables_without_entries_or_period_are_refused() {
        let topology: Topology = "2".parse().unwrap();
        assert!(Indirection::fixed(&topology, 0).is_err());
        assert!(Indirection::fixed(&topology, 1 << 17).is_err());
        assert!(Indirection::rebalanced(&topology, 8, 0).is_err());
    }
}
