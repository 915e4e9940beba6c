//! Placement policies: for a batch of work items, which worker gets each, given the load of the
//! workers.
//!
//! Where a policy compares workers, the cost of a decision depends on their number. Instructions
//! per item, in batches of 32 on x86-64 with AVX2; the second number is for flows that the policy
//! has not seen:
//!
//! | policy | 4 workers | 64 | 1024 |
//! | --- | --- | --- | --- |
//! | [`DirectHash`](crate::DirectHash), [`Modulo`](crate::Modulo), [`RoundRobin`](crate::RoundRobin), [`Indirection`](crate::Indirection) | 5 to 13 | the same | the same |
//! | the last, rebalanced | 100 | 150 | 700 |
//! | [`TwoChoices`](crate::TwoChoices) | 130 | 190 | 740 |
//! | [`FlowPin`](crate::FlowPin) | 110, 140 | 180, 290 | 600, 2,800 |
//! | [`Fixed`](crate::Fixed) | 70, 140 | 150, 740 | 980, 9,900 |
//! | [`MinLoad`](crate::MinLoad), [`FlowBurst`](crate::FlowBurst) | 130 | 730 | 10,000 |
//! | [`HrwFlat`](crate::HrwFlat); 22 for a flow that [`Cached`](crate::Cached) remembers | 70 | 710 | 11,000 |
//! | [`HrwTree`](crate::HrwTree), [`Adaptive`](crate::Adaptive): flat | 140, 500 | 1,300, 4,500 | 20,000, 87,000 |
//! | the same two over 32x2x16 | | | 1,100, 5,300 |

pub mod adaptive;
mod backlog;
pub mod cached;
pub mod direct_hash;
pub mod fixed;
pub mod flow_burst;
pub mod flow_pin;
mod flows;
pub mod hrw_2009;
pub mod hrw_flat;
pub mod hrw_tree;
pub mod indirection;
mod load_index;
pub mod min_load;
pub mod modulo;
pub(crate) mod rendezvous;
pub mod round_robin;
mod tree;
pub mod two_choices;

/// The most workers a policy places onto.
pub const WORKERS_MAX: usize = 1024;

/// A worker, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(u16);

impl WorkerId {
    /// Returns the worker's place in arrays.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl From<u16> for WorkerId {
    fn from(index: u16) -> Self {
        Self(index)
    }
}

impl core::fmt::Display for WorkerId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}

/// A number of workers between 1 and [`WORKERS_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerCount(u16);

impl WorkerCount {
    /// Returns the count.
    ///
    /// # Errors
    ///
    /// [`SetupError::Workers`] for 0 and for more than [`WORKERS_MAX`].
    pub fn new(workers: usize) -> Result<Self, SetupError> {
        match u16::try_from(workers) {
            Ok(count) if count > 0 && workers <= WORKERS_MAX => Ok(Self(count)),
            _ => Err(SetupError::Workers { workers }),
        }
    }

    /// Returns the count as a number.
    #[inline]
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// Returns every worker.
    pub fn workers(self) -> impl Iterator<Item = WorkerId> {
        (0..self.0).map(WorkerId)
    }
}

/// Why a policy, topology or workload is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetupError {
    /// An invalid number of workers.
    Workers {
        /// The requested number.
        workers: usize,
    },
    /// A tree with no level, too many, or places of unequal depth.
    Levels {
        /// The levels of the tree, or of the place that differs.
        levels: usize,
    },
    /// A worker whose capacity is zero or above the maximum.
    Capacity {
        /// The worker.
        worker: usize,
        /// In hundredths of an ordinary worker.
        capacity: u32,
    },
    /// Two workers in one place.
    SamePlace {
        /// The second of them.
        worker: usize,
    },
    /// A text that describes no topology.
    Text {
        /// The part that is not valid.
        part: &'static str,
    },
    /// A number of a policy's, an policy's or a machine's that lies outside its bounds.
    Parameter {
        /// Its name.
        name: &'static str,
        /// The given value.
        value: u64,
        /// The least that can be.
        least: u64,
        /// The most that can be.
        most: u64,
    },
    /// A workload without packets, or without flows.
    NoWork,
    /// A workload with fewer flows than workers.
    FewFlows {
        /// The workers.
        workers: u16,
        /// The flows.
        flows: u32,
    },
}

/// Checks a parameter against its bounds.
pub(crate) fn bounded(name: &'static str, value: u64, least: u64, most: u64) -> Result<u64, SetupError> {
    if (least..=most).contains(&value) {
        Ok(value)
    } else {
        Err(SetupError::Parameter { name, value, least, most })
    }
}

impl core::fmt::Display for SetupError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Workers { workers } => {
                write!(f, "invalid number of workers {workers}: must be from 1 to {WORKERS_MAX}")
            }
            Self::Levels { levels } => write!(
                f,
                "invalid topology: a worker has a place of {levels} levels; all places must have the same \
                 number of levels, from 1 to {}",
                crate::topology::LEVELS_MAX
            ),
            Self::Capacity { worker, capacity } => write!(
                f,
                "invalid capacity {capacity} % of worker {worker}: must be from 1 to {}; remove a thread with \
                 -{worker}",
                crate::topology::CAPACITY_MAX
            ),
            Self::SamePlace { worker } => {
                write!(f, "invalid topology: worker {worker} has the place of the worker before it")
            }
            Self::Text { part } => write!(
                f,
                "invalid topology: cannot read the {part}; write for example 8x2x4, or 8x2x4,-0,5=50 \
                 without thread 0 and with thread 5 at half speed"
            ),
            Self::Parameter { name, value, least, most } => {
                write!(f, "invalid value {value} for {name}: must be from {least} to {most}")
            }
            Self::FewFlows { workers, flows } => write!(
                f,
                "{flows} flows cannot occupy {workers} workers in order; use a smaller topology, or traffic \
                 with more flows"
            ),
            Self::NoWork => f.write_str("no packet has a flow to schedule: use a trace that has some"),
        }
    }
}

impl core::error::Error for SetupError {}

/// What a policy sees of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkItem {
    /// The worker bits of the flow's hash: equal for all packets of a flow, in either direction.
    pub digest: u32,
    /// Bytes on the wire, as a measure of the work.
    pub bytes: u32,
}

/// What the dispatcher does with a work item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The item goes to this worker.
    To(WorkerId),
    /// It is dropped, and counted as packets are that found a ring full.
    Drop,
}

/// Load of each worker, as far as the dispatcher knows it.
///
/// Each slice has one entry per worker, or none: a policy that ignores load may get
/// [`LoadView::idle`]. Other policies work with what is there: bytes where times are missing, their
/// own counts where all slices are empty.
///
/// A worker completes items in the order in which it gets them, so a count of items is a position
/// in its queue: an item is completed once `completed` has reached the value that `sent` had with
/// it. Policies store positions in 48 bits: counts must start near zero and stay below 2⁴⁸, which
/// ten million items per second reach after 325 days. To run longer, replace the policy at a moment
/// without items in flight.
///
/// Fields may be added in any version: a literal ends with `..LoadView::idle()`.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadView<'a> {
    /// Items sent to each worker so far. Items staged for a worker count; items dropped before they
    /// reach it do not.
    pub sent: &'a [u64],
    /// Items that each worker has completed so far; lags by up to a batch.
    pub completed: &'a [u64],
    /// Bytes of the items sent.
    pub sent_bytes: &'a [u64],
    /// Bytes of the items completed.
    pub completed_bytes: &'a [u64],
    /// Time each worker has spent on the items completed, in any unit that is the same for all.
    pub busy: &'a [u64],
}

impl LoadView<'_> {
    /// Returns a view without load information.
    #[must_use]
    pub const fn idle() -> Self {
        Self { sent: &[], completed: &[], sent_bytes: &[], completed_bytes: &[], busy: &[] }
    }

    /// Returns the number of items that wait for a worker, 0 if it is unknown.
    #[must_use]
    pub fn waiting(&self, worker: WorkerId) -> u64 {
        match (self.sent.get(worker.index()), self.completed.get(worker.index())) {
            (Some(sent), Some(completed)) => sent.saturating_sub(*completed),
            _ => 0,
        }
    }
}

/// Which order of a flow's packets a policy guarantees, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderGuarantee {
    /// One worker gets all packets of a flow for the lifetime of the policy: the flow's state may
    /// stay with that worker.
    Home,
    /// They are processed in the order they arrived in, and by one worker at a time. Between two
    /// packets the flow may move, and its state must be where both workers reach it.
    PerFlow,
    /// Packets leave in the order in which they arrived, whichever workers processed them.
    External,
    /// No guarantee.
    None,
}

impl OrderGuarantee {
    /// Returns whether packets of a flow are processed in order and never two at a time.
    #[must_use]
    pub const fn keeps_flow_order(self) -> bool {
        matches!(self, Self::Home | Self::PerFlow)
    }
}

/// A policy whose decision depends on the digest alone, so that [`cached::Cached`] can remember it.
pub trait ByDigest {
    /// Returns the worker of a digest, always the same.
    fn worker(&self, digest: u32) -> WorkerId;

    /// Returns the short name of the policy with a memory before it.
    fn cached_name(&self) -> &'static str;
}

/// A policy that decides which worker gets a packet.
///
/// # Examples
///
/// A policy of your own, and the laws that check its guarantees:
///
/// ```
/// use flowloom_scheduler::{
///     Decision, LoadView, OrderGuarantee, Placement, WorkItem, WorkerCount, WorkerId, laws,
/// };
///
/// struct LowBits(WorkerCount);
///
/// impl Placement for LowBits {
///     fn place(&mut self, items: &[WorkItem], _load: &LoadView<'_>, decisions: &mut [Decision]) {
///         for (item, decision) in items.iter().zip(decisions) {
///             let worker = item.digest % u32::from(self.0.get());
///             *decision = Decision::To(WorkerId::from(worker as u16));
///         }
///     }
///
///     fn workers(&self) -> Option<usize> {
///         Some(self.0.get().into())
///     }
///
///     fn order(&self) -> OrderGuarantee {
///         OrderGuarantee::Home
///     }
///
///     fn name(&self) -> &'static str {
///         "low-bits"
///     }
/// }
///
/// let workers = WorkerCount::new(3)?;
/// for seed in 0..4 {
///     laws::check(&mut LowBits(workers), workers, seed);
///     laws::check_order(&mut LowBits(workers), workers, seed);
/// }
/// # Ok::<(), flowloom_scheduler::SetupError>(())
/// ```
pub trait Placement: Send {
    /// Decides for each item; `decisions` is as long as `items`. Must not allocate. With few
    /// workers it should take a few nanoseconds per item; see the table in the [module](self).
    fn place(&mut self, items: &[WorkItem], load: &LoadView<'_>, decisions: &mut [Decision]);

    /// Returns the number of workers that the policy was made for, if it depends on one.
    ///
    /// The engine refuses to run the policy with another number. A policy that returns `None` must
    /// accept any number; deciding for a worker that does not exist ends the run.
    fn workers(&self) -> Option<usize> {
        None
    }

    /// Returns which order of a flow's packets the policy guarantees.
    fn order(&self) -> OrderGuarantee;

    /// Returns the policy's short name, for reports.
    fn name(&self) -> &'static str;
}

impl<P: Placement + ?Sized> Placement for &mut P {
    fn place(&mut self, items: &[WorkItem], load: &LoadView<'_>, decisions: &mut [Decision]) {
        (**self).place(items, load, decisions);
    }

    fn workers(&self) -> Option<usize> {
        (**self).workers()
    }

    fn order(&self) -> OrderGuarantee {
        (**self).order()
    }

    fn name(&self) -> &'static str {
        (**self).name()
    }
}

impl<P: Placement + ?Sized> Placement for Box<P> {
    fn place(&mut self, items: &[WorkItem], load: &LoadView<'_>, decisions: &mut [Decision]) {
        (**self).place(items, load, decisions);
    }

    fn workers(&self) -> Option<usize> {
        (**self).workers()
    }

    fn order(&self) -> OrderGuarantee {
        (**self).order()
    }

    fn name(&self) -> &'static str {
        (**self).name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DirectHash, laws};

    #[test]
    fn a_policy_that_is_lent_or_boxed_is_the_same_policy() {
        fn check(mut policy: impl Placement, workers: WorkerCount) {
            laws::check(&mut policy, workers, 1);
            assert_eq!((policy.name(), policy.order()), ("dh", OrderGuarantee::Home));
            assert_eq!(policy.workers(), Some(3));
        }
        let workers = WorkerCount::new(3).unwrap();
        let mut policy = DirectHash::new(workers);
        check(&mut policy, workers);
        check(Box::new(policy) as Box<dyn Placement>, workers);
    }

    #[test]
    fn waiting_items_are_those_sent_and_not_completed() {
        let view = LoadView { sent: &[9, 3, 5], completed: &[2, 4], ..LoadView::idle() };
        let waiting = [0, 1, 2, 3].map(|worker| view.waiting(WorkerId::from(worker)));
        assert_eq!(waiting, [7, 0, 0, 0]);
        assert_eq!(LoadView::idle().waiting(WorkerId::from(0)), 0);
    }

    #[test]
    fn only_some_promises_keep_a_flow_in_order_while_it_is_processed() {
        let keeps =
            [OrderGuarantee::Home, OrderGuarantee::PerFlow, OrderGuarantee::External, OrderGuarantee::None]
                .map(OrderGuarantee::keeps_flow_order);
        assert_eq!(keeps, [true, true, false, false]);
    }
}
