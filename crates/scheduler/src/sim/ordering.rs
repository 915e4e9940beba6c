//! External order: packets go to threads round robin, enter and leave in order, and lock their flow
//! [FLOWNP §5.1].
//!
//! The alternative, internal order, keeps a flow's packets in one queue, like any push policy that
//! keeps a flow's order.
//!
//! Packet i runs on thread i mod N. It enters when that thread has released its last packet and
//! packet i − 1 has entered. It then works, and during the part of the work that uses the flow's
//! state, it holds its flow's lock, in packet order. It leaves after packet i − 1. The thread is
//! free when the packet has left.
//!
//! The paper's lock is a test-and-set lock, which may let packets of one flow pass each other. This
//! one is a ticket lock.

use super::servers::TICK;
use super::workload::{Pace, Workload};
use crate::placement::{SetupError, bounded};

/// The costs of external order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExternalOrder {
    /// Number of threads.
    pub threads: u32,
    /// Thousandths of a packet's work that use its flow's state, under the flow's lock.
    pub locked_permille: u32,
    /// Cycles of the ordered section at the entrance.
    pub enter_cycles: u32,
    /// Cycles of the ordered section at the exit.
    pub leave_cycles: u32,
}

/// The order in which packets leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Each packet leaves after the previous one.
    InOrder,
    /// Each packet leaves when it is completed. The difference in cost to
    /// [`InOrder`](Self::InOrder) is the price of the ordered exit.
    WhenDone,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OrderingReport {
    /// Cycles until the last packet has left.
    pub cycles: u64,
    /// Cycles that threads were at work, summed over all threads.
    pub busy_cycles: u64,
    /// Cycles that packets waited for the lock of their flow.
    pub lock_cycles: u64,
    /// Cycles that packets waited for earlier ones to leave.
    pub leave_wait_cycles: u64,
    /// Packets that used their flow's state after a later packet of the flow. Zero by construction,
    /// but counted nevertheless.
    pub reorders: u64,
    /// Packets that left after a later one. Zero if they leave in order.
    pub overtaken: u64,
}

impl ExternalOrder {
    /// Runs a workload.
    ///
    /// # Errors
    ///
    /// Returns [`SetupError::Parameter`] for zero threads or more than 1024, and for a share above
    /// 1000.
    pub fn run(&self, workload: &Workload) -> Result<OrderingReport, SetupError> {
        self.run_to(workload, Exit::InOrder)
    }

    /// Runs a workload with the given kind of exit.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`ExternalOrder::run`].
    pub fn run_to(&self, workload: &Workload, exit: Exit) -> Result<OrderingReport, SetupError> {
        bounded("threads", u64::from(self.threads), 1, 1024)?;
        bounded("locked share", u64::from(self.locked_permille), 0, 1000)?;
        let (enter, leave) = (u64::from(self.enter_cycles) << TICK, u64::from(self.leave_cycles) << TICK);
        let mut free = vec![0_u64; self.threads as usize];
        let mut flow_free = vec![0_u64; workload.flows() as usize];
        let mut last_of_flow = vec![0_u32; workload.flows() as usize];
        let (mut entered, mut left) = (0_u64, 0_u64);
        let mut report = OrderingReport {
            cycles: 0,
            busy_cycles: 0,
            lock_cycles: 0,
            leave_wait_cycles: 0,
            reorders: 0,
            overtaken: 0,
        };
        let mut gone = vec![0_u64; if exit == Exit::WhenDone { workload.jobs().len() } else { 0 }];
        for (number, job) in (1_u32..).zip(workload.jobs()) {
            let thread = (number - 1) as usize % free.len();
            let arrival = if workload.pace() == Pace::Open { job.arrival << TICK } else { 0 };
            entered = entered.max(free[thread]).max(arrival) + enter;
            let work = u64::from(job.work) << TICK;
            let locked = work / 1000 * u64::from(self.locked_permille)
                + work % 1000 * u64::from(self.locked_permille) / 1000;
            let ready = entered + (work - locked);
            let flow = job.flow as usize;
            let begun = ready.max(flow_free[flow]);
            if number < last_of_flow[flow] {
                report.reorders += 1;
            }
            last_of_flow[flow] = number;
            let done = begun + locked;
            flow_free[flow] = done;
            let own = match exit {
                Exit::InOrder => (left + leave).max(done),
                Exit::WhenDone => done + leave,
            };
            if let Some(gone) = gone.get_mut(number as usize - 1) {
                *gone = own;
            }
            left = left.max(own);
            free[thread] = own;
            report.lock_cycles += (begun - ready) >> TICK;
            report.leave_wait_cycles += (own - done) >> TICK;
            report.busy_cycles += u64::from(job.work);
        }
        // Starts from the end: a packet is overtaken if a later one left before it.
        let mut first = u64::MAX;
        for &own in gone.iter().rev() {
            report.overtaken += u64::from(own > first);
            first = first.min(own);
        }
        report.cycles = left >> TICK;
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Job;

    #[test]
    fn unequal_packets_stay_in_order_only_with_an_ordered_exit() {
        let job = |work| Job { arrival: 0, flow: work, digest: work, bytes: 60, work };
        let workload = Workload::new(
            (0..200).map(|at| job(if at % 2 == 0 { 900 } else { 100 })).collect(),
            Pace::Closed,
        );
        let workload = workload.unwrap();
        let order = ExternalOrder { threads: 4, locked_permille: 0, enter_cycles: 1, leave_cycles: 1 };
        let (kept, free) =
            (order.run(&workload).unwrap(), order.run_to(&workload, Exit::WhenDone).unwrap());
        assert!(kept.overtaken == 0 && free.overtaken > 0, "{}", free.overtaken);
        assert!(kept.leave_wait_cycles > free.leave_wait_cycles);
    }

    #[test]
    fn a_packet_is_overtaken_if_a_later_one_leaves_before_it() {
        let mut unequal = jobs(&[0, 1, 2, 3, 4, 5], 100).jobs().to_vec();
        for (job, work) in unequal.iter_mut().zip([1000, 900, 100, 100, 300, 200]) {
            job.work = work;
        }
        let order = ExternalOrder { threads: 6, ..PLAIN };
        let free = order.run_to(&Workload::new(unequal, Pace::Closed).unwrap(), Exit::WhenDone).unwrap();
        assert_eq!((free.leave_wait_cycles, free.overtaken), (0, 3), "those of 1000, 900 and 300");
    }

    fn jobs(flows: &[u32], work: u32) -> Workload {
        let jobs =
            flows.iter().map(|&flow| Job { arrival: 0, flow, digest: flow, bytes: 60, work }).collect();
        Workload::new(jobs, Pace::Closed).unwrap()
    }

    const PLAIN: ExternalOrder =
        ExternalOrder { threads: 4, locked_permille: 0, enter_cycles: 0, leave_cycles: 0 };

    #[test]
    fn without_locks_threads_divide_the_work() {
        let report = PLAIN.run(&jobs(&[0; 8], 100)).unwrap();
        assert_eq!((report.cycles, report.busy_cycles, report.lock_cycles), (200, 800, 0));
    }

    #[test]
    fn packets_of_one_permanently_locked_flow_are_processed_serially() {
        let all = ExternalOrder { locked_permille: 1000, ..PLAIN };
        assert_eq!(all.run(&jobs(&[0; 8], 100)).unwrap().cycles, 800);
        assert_eq!(all.run(&jobs(&[0, 1, 2, 3, 0, 1, 2, 3], 100)).unwrap().cycles, 200);
    }

    #[test]
    fn lock_waits_and_order_waits_are_counted_separately() {
        let half = ExternalOrder { locked_permille: 500, ..PLAIN };
        // All four begin at 0 and request the lock at 50: the second gets it at 100, the third at
        // 150, the fourth at 200.
        let report = half.run(&jobs(&[0; 4], 100)).unwrap();
        assert_eq!((report.cycles, report.lock_cycles, report.leave_wait_cycles), (250, 50 + 100 + 150, 0));
        assert_eq!(report.reorders, 0, "the lock is taken in packet order");
        // Three short packets wait until a long one of another flow has left.
        let mut mixed = jobs(&[0, 1, 2, 3], 100).jobs().to_vec();
        mixed[0].work = 1000;
        let report = PLAIN.run(&Workload::new(mixed, Pace::Closed).unwrap()).unwrap();
        assert_eq!((report.cycles, report.lock_cycles, report.leave_wait_cycles), (1000, 0, 3 * 900));
        // Each one leaves after the previous one, which also takes time; the thread is free only
        // then.
        let narrow = ExternalOrder { threads: 1, leave_cycles: 7, ..PLAIN };
        let report = narrow.run(&jobs(&[0; 3], 100)).unwrap();
        assert_eq!((report.cycles, report.leave_wait_cycles), (300, 0));
        let narrow = ExternalOrder { leave_cycles: 70, ..PLAIN };
        let report = narrow.run(&jobs(&[0; 4], 100)).unwrap();
        assert_eq!((report.cycles, report.leave_wait_cycles), (100 + 3 * 70, 70 + 140 + 210));
    }

    #[test]
    fn in_an_open_workload_packets_enter_when_they_arrive() {
        let mut apart = jobs(&[0, 1], 100).jobs().to_vec();
        apart[1].arrival = 500;
        let report = PLAIN.run(&Workload::new(apart, Pace::Open).unwrap()).unwrap();
        assert_eq!((report.cycles, report.busy_cycles), (600, 200));
    }

    #[test]
    fn ordered_sections_bound_the_rate() {
        let narrow = ExternalOrder { enter_cycles: 50, ..PLAIN };
        let report = narrow.run(&jobs(&[0, 1, 2, 3, 4, 5, 6, 7], 100)).unwrap();
        assert_eq!(report.cycles, 8 * 50 + 100);
        assert!(ExternalOrder { threads: 0, ..PLAIN }.run(&jobs(&[0], 1)).is_err());
        assert!(ExternalOrder { locked_permille: 1001, ..PLAIN }.run(&jobs(&[0], 1)).is_err());
    }
}
