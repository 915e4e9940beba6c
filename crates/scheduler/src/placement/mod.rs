//! The seam: a policy decides for a batch of work items, given what each worker has waiting.

pub mod direct_hash;
pub mod hrw_flat;

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

/// How many workers there are: between 1 and [`WORKERS_MAX`].
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

/// A policy that cannot be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetupError {
    /// A number of workers that cannot be.
    Workers {
        /// What was asked for.
        workers: usize,
    },
}

impl core::fmt::Display for SetupError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Workers { workers } => {
                write!(f, "{workers} workers cannot be placed onto: between 1 and {WORKERS_MAX} can")
            }
        }
    }
}

impl core::error::Error for SetupError {}

/// What a policy knows of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkItem {
    /// The worker bits of the flow's hash: equal for all packets of a flow, in either direction.
    pub digest: u32,
    /// Bytes on the wire, as a measure of the work.
    pub bytes: u32,
}

/// What becomes of a work item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It goes to this worker.
    To(WorkerId),
    /// It waits in the policy's care.
    Park,
    /// It is dropped.
    Drop,
}

/// What each worker has been given and has completed, as far as the dispatcher knows.
///
/// Both slices have one entry per worker, or none: a policy that looks at neither may be given [`LoadView::idle`].
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadView<'a> {
    /// Items given to each worker so far.
    pub sent: &'a [u64],
    /// Items each worker has completed so far; lags behind by up to a batch.
    pub completed: &'a [u64],
}

impl LoadView<'_> {
    /// Returns the view of workers nothing is known about.
    #[must_use]
    pub const fn idle() -> Self {
        Self { sent: &[], completed: &[] }
    }

    /// Returns how many items a worker has waiting, 0 where that is not known.
    #[must_use]
    pub fn waiting(&self, worker: WorkerId) -> u64 {
        match (self.sent.get(worker.index()), self.completed.get(worker.index())) {
            (Some(sent), Some(completed)) => sent.saturating_sub(*completed),
            _ => 0,
        }
    }
}

/// What a policy promises about the packets of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderGuarantee {
    /// They are processed in the order they arrived in.
    PerFlow,
    /// Nothing.
    None,
}

/// A policy that decides which worker gets a packet.
pub trait Placement: Send {
    /// Decides for each item; `decisions` is as long as `items`. Cost: a few nanoseconds an item, no allocation.
    fn place(&mut self, items: &[WorkItem], load: &LoadView<'_>, decisions: &mut [Decision]);

    /// Returns what the policy promises about order.
    fn order(&self) -> OrderGuarantee;

    /// Returns the policy's short name, as on the command line.
    fn name(&self) -> &'static str;
}
