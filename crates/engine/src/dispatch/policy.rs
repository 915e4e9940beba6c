//! A borrowed placement or pull policy, which decides the worker of each packet.

use flowloom_scheduler::registry::Policy;
use flowloom_scheduler::{OrderGuarantee, Placement, PullPolicy};

/// The policy of a run, borrowed for its duration.
///
/// # Examples
///
/// ```
/// use flowloom_engine::PolicyRef;
/// use flowloom_engine::scheduler::{DirectHash, WorkerCount};
///
/// let mut policy = DirectHash::new(WorkerCount::new(2)?);
/// let policy_ref = PolicyRef::from(&mut policy);
/// assert!(matches!(policy_ref, PolicyRef::Push(_)));
/// assert_eq!(policy_ref.workers(), Some(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub enum PolicyRef<'a> {
    /// The input stage places each packet into the ring of one worker.
    Push(&'a mut dyn Placement),
    /// Workers fetch packets from a pool.
    Pull(&'a mut dyn PullPolicy),
}

impl<'a> PolicyRef<'a> {
    /// Borrows a policy created by name with [`Scheme::policy`].
    ///
    /// [`Scheme::policy`]: flowloom_scheduler::registry::Scheme::policy
    pub fn new(policy: &'a mut Policy) -> Self {
        match policy {
            Policy::Push(policy) => Self::Push(&mut **policy),
            Policy::Pull(policy) => Self::Pull(&mut **policy),
        }
    }
}

impl PolicyRef<'_> {
    /// Returns the order that the policy guarantees.
    pub fn order(&self) -> OrderGuarantee {
        match self {
            Self::Push(policy) => policy.order(),
            Self::Pull(policy) => policy.order(),
        }
    }

    /// Returns the number of workers for which the policy was made, if it states one.
    pub fn workers(&self) -> Option<usize> {
        match self {
            Self::Push(policy) => policy.workers(),
            Self::Pull(policy) => policy.workers(),
        }
    }

    /// Returns the policy's short name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Push(policy) => policy.name(),
            Self::Pull(policy) => policy.name(),
        }
    }
}

impl std::fmt::Debug for PolicyRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self {
            Self::Push(_) => "Push",
            Self::Pull(_) => "Pull",
        };
        f.debug_tuple(kind).field(&self.name()).finish()
    }
}

impl<'a, P: Placement> From<&'a mut P> for PolicyRef<'a> {
    fn from(policy: &'a mut P) -> Self {
        Self::Push(policy)
    }
}

impl<'a, 'p: 'a> From<&'a mut (dyn Placement + 'p)> for PolicyRef<'a> {
    fn from(policy: &'a mut (dyn Placement + 'p)) -> Self {
        Self::Push(policy)
    }
}

impl<'a, 'p: 'a> From<&'a mut (dyn PullPolicy + 'p)> for PolicyRef<'a> {
    fn from(policy: &'a mut (dyn PullPolicy + 'p)) -> Self {
        Self::Pull(policy)
    }
}
