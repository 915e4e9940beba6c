//! Who decides which worker has a packet.

use flowloom_scheduler::registry::Policy;
use flowloom_scheduler::{OrderGuarantee, Placement, PullPolicy};

/// The policy of a run.
pub enum PolicyRef<'a> {
    /// The input stage decides, packet by packet, into a ring for each worker.
    Push(&'a mut dyn Placement),
    /// Workers fetch from a pool.
    Pull(&'a mut dyn PullPolicy),
}

impl<'a> PolicyRef<'a> {
    /// Returns the discipline of a policy that was chosen by its name, as [`Scheme::policy`] gives it: it pushes or pulls.
    ///
    /// [`Scheme::policy`]: flowloom_scheduler::registry::Scheme::policy
    pub fn of(policy: &'a mut Policy) -> Self {
        match policy {
            Policy::Push(policy) => Self::Push(&mut **policy),
            Policy::Pull(policy) => Self::Pull(&mut **policy),
        }
    }
}

impl PolicyRef<'_> {
    /// Returns what the policy promises about order.
    pub fn order(&self) -> OrderGuarantee {
        match self {
            Self::Push(policy) => policy.order(),
            Self::Pull(policy) => policy.order(),
        }
    }

    /// Returns how many workers the policy was made for, where it says so.
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
