//! Placement policies: given the load of the workers, they choose the worker for each work item of
//! a batch.
//!
//! If a policy compares workers, the cost of a decision depends on their number. Instructions per
//! item, in batches of 32 on x86-64 with AVX2; the second number applies to flows that the policy
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

/// Maximum number of workers of a policy.
pub const WORKERS_MAX: usize = 1024;
/// Maximum number of levels of a tree: socket, core, pipeline, thread.
pub const LEVELS_MAX: usize = 4;
/// Capacity of a worker of ordinary speed.
pub const CAPACITY_FULL: u32 = 100;
/// Maximum capacity of a worker: a hundred times an ordinary one.
pub const CAPACITY_MAX: u32 = 100 * CAPACITY_FULL;

/// A worker, numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(u16);

impl WorkerId {
    /// Returns the worker's index in arrays.
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
    /// Returns [`SetupError::Workers`] for 0 and for more than [`WORKERS_MAX`].
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

/// The reason why a policy, topology or workload is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetupError {
    /// The number of workers is invalid.
    Workers {
        /// The requested number.
        workers: usize,
    },
    /// A tree has no level or too many, or places of unequal depth.
    Levels {
        /// The number of levels of the tree, or of the place that differs.
        levels: usize,
    },
    /// The capacity of a worker is zero or above the maximum.
    Capacity {
        /// The worker.
        worker: usize,
        /// Capacity in hundredths of an ordinary worker.
        capacity: u32,
    },
    /// Two workers have the same place.
    SamePlace {
        /// The second of the two workers.
        worker: usize,
    },
    /// A text does not describe a topology.
    Text {
        /// The invalid part.
        part: &'static str,
    },
    /// A parameter of a policy or machine is out of range.
    Parameter {
        /// Name of the parameter.
        name: &'static str,
        /// The given value.
        value: u64,
        /// Minimum value.
        least: u64,
        /// Maximum value.
        most: u64,
    },
    /// A workload has no packets or no flows.
    NoWork,
    /// A workload has fewer flows than workers.
    FewFlows {
        /// Number of workers.
        workers: u16,
        /// Number of flows.
        flows: u32,
    },
}

/// Checks a parameter against its limits.
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
                "invalid topology: the place of a worker has {levels} levels; all places must have the \
                 same number of levels, from 1 to {LEVELS_MAX}"
            ),
            Self::Capacity { worker, capacity } => write!(
                f,
                "invalid capacity {capacity} % of worker {worker}: must be from 1 to {CAPACITY_MAX}; remove a thread with \
                 -{worker}"
            ),
            Self::SamePlace { worker } => {
                write!(f, "invalid topology: worker {worker} has the same place as the previous worker")
            }
            Self::Text { part } => write!(
                f,
                "invalid topology: cannot read the {part}; write, for example, 8x2x4, or 8x2x4,-0,5=50 \
                 to omit thread 0 and run thread 5 at half speed"
            ),
            Self::Parameter { name, value, least, most } => {
                write!(f, "invalid value {value} for {name}: must be from {least} to {most}")
            }
            Self::FewFlows { workers, flows } => write!(
                f,
                "{flows} flows cannot keep {workers} workers busy if order is kept; use a smaller \
                 topology, or traffic with more flows"
            ),
            Self::NoWork => f.write_str(
                "no packet belongs to a flow: use a trace with packets that can \
                be scheduled",
            ),
        }
    }
}

impl core::error::Error for SetupError {}

/// The data about a packet that a policy can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkItem {
    /// The worker bits of the flow's hash, which are equal for all packets of a flow in both
    /// directions.
    pub digest: u32,
    /// Size on the wire in bytes, as a measure of the work.
    pub bytes: u32,
}

/// The dispatcher's action for a work item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Send the item to this worker.
    To(WorkerId),
    /// Drop the item, and count it like a packet that found a ring full.
    Drop,
}

/// The load of each worker, as far as the dispatcher knows it.
///
/// Each slice has one entry per worker, or is empty. A policy that ignores load may get
/// [`LoadView::idle`]. Other policies use the available slices: bytes if times are missing, their
/// own counts if all slices are empty.
///
/// A worker completes items in the order in which it gets them, so a count of items is a position
/// in its queue. An item is completed when `completed` has reached the value that `sent` had when
/// the item was sent. Policies store positions in 48 bits. Counts must start near zero and stay
/// below 2⁴⁸, which ten million items per second reach after 325 days. To run longer, replace the
/// policy while no items are in flight.
///
/// Later versions may add fields: end a literal with `..LoadView::idle()`.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadView<'a> {
    /// Number of items sent to each worker so far. Items staged for a worker count; items dropped
    /// before they reach it do not.
    pub sent: &'a [u64],
    /// Number of items that each worker has completed so far; lags by up to a batch.
    pub completed: &'a [u64],
    /// Bytes of the sent items.
    pub sent_bytes: &'a [u64],
    /// Bytes of the completed items.
    pub completed_bytes: &'a [u64],
    /// Time that each worker has spent on the completed items, in any unit that is the same for all
    /// workers.
    pub busy: &'a [u64],
}

impl LoadView<'_> {
    /// Returns a view without load information.
    #[must_use]
    pub const fn idle() -> Self {
        Self { sent: &[], completed: &[], sent_bytes: &[], completed_bytes: &[], busy: &[] }
    }

    /// Returns the number of items that wait for a worker, or 0 if unknown.
    #[must_use]
    pub fn waiting(&self, worker: WorkerId) -> u64 {
        match (self.sent.get(worker.index()), self.completed.get(worker.index())) {
            (Some(sent), Some(completed)) => sent.saturating_sub(*completed),
            _ => 0,
        }
    }
}

/// The order of a flow's packets that a policy guarantees, strongest guarantee first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderGuarantee {
    /// One worker gets all packets of a flow for the lifetime of the policy, so the flow's state
    /// can stay with that worker.
    Home,
    /// The packets are processed in the order in which they arrived, and by one worker at a time.
    /// The flow may move between two packets, so both workers must be able to access its state.
    PerFlow,
    /// Packets leave in the order in which they arrived, independent of the workers that processed
    /// them.
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

/// A policy whose decision depends on the digest alone, so that [`cached::Cached`] can cache it.
pub trait ByDigest {
    /// Returns the worker of a digest, which is always the same.
    fn worker(&self, digest: u32) -> WorkerId;

    /// Returns the short name of the policy with a cache.
    fn cached_name(&self) -> &'static str;
}

/// A policy that decides which worker gets a packet.
///
/// # Examples
///
/// This example implements a policy and runs the checks of its guarantees:
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
    /// workers, a call should take a few nanoseconds per item; see the table in the [module](self).
    fn place(&mut self, items: &[WorkItem], load: &LoadView<'_>, decisions: &mut [Decision]);

    /// Returns the number of workers that the policy was made for, or `None` if it accepts any
    /// number.
    ///
    /// The engine refuses to run the policy with a different number. A policy that returns `None`
    /// must accept any number. Choosing a worker that does not exist ends the run.
    fn workers(&self) -> Option<usize> {
        None
    }

    /// Returns the order of a flow's packets that the policy guarantees.
    fn order(&self) -> OrderGuarantee;

    /// Returns the policy's short name, for reports.
    fn name(&self) -> &'static str;
}

macro_rules! forward {
    ($pointer:ty) => {
        impl<P: Placement + ?Sized> Placement for $pointer {
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
    };
}

forward!(&mut P);
forward!(Box<P>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DirectHash, laws};

    #[test]
    fn borrowed_and_boxed_policies_decide_alike() {
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
    fn waiting_items_are_sent_minus_completed_items() {
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
