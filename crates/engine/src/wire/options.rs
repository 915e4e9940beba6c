//! The treatment of frames that no application judges.

use flowloom_packet::DropReason;
use flowloom_packet::refusal::Refusal;

use crate::app::Verdict;

/// The treatment of a frame without a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoFlow {
    /// The frame passes.
    Pass,
    /// The frame is dropped.
    Drop,
    /// The application [decides](crate::App::on_frame_without_flow).
    Ask,
}

/// The treatment of frames without a flow, for each reason.
///
/// # Examples
///
/// ```
/// use flowloom_engine::packet::DropReason;
/// use flowloom_engine::{NoFlow, NoFlowPolicy};
/// // ARP and the like pass; what contradicts itself does not.
/// let policy = NoFlowPolicy::all(NoFlow::Pass).with(DropReason::MalformedIpv4, NoFlow::Drop);
/// assert_eq!(policy.for_reason(DropReason::NotIp), NoFlow::Pass);
/// assert_eq!(policy.for_reason(DropReason::MalformedIpv4), NoFlow::Drop);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoFlowPolicy([NoFlow; DropReason::ALL.len()]);

impl NoFlowPolicy {
    /// Returns a policy that treats all reasons equally.
    #[must_use]
    pub const fn all(what: NoFlow) -> Self {
        Self([what; DropReason::ALL.len()])
    }

    /// Returns the policy with another treatment for one reason.
    #[must_use]
    pub const fn with(mut self, reason: DropReason, what: NoFlow) -> Self {
        self.0[reason as usize] = what;
        self
    }

    /// Returns the treatment of a frame without a flow for this reason.
    #[must_use]
    pub const fn for_reason(&self, reason: DropReason) -> NoFlow {
        self.0[reason as usize]
    }
}

/// What a panic of the application does to a wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnPanic {
    /// It ends the run with a [fault](crate::Fault::WorkerPanicked).
    #[default]
    Stop,
    /// The frame passes.
    Pass,
    /// The frame is dropped.
    Drop,
}

/// The treatment of frames by an appliance.
///
/// Any version may add fields, so end a literal with `..WireOptions::default()`.
///
/// # Examples
///
/// ```
/// use flowloom_engine::packet::refusal::Refusal;
/// use flowloom_engine::{Verdict, WireOptions};
/// let options = WireOptions { refusal: Refusal::Reset, ..WireOptions::default() };
/// assert_eq!(options.table_full, Verdict::Deny);
/// ```
#[derive(Clone, Debug)]
pub struct WireOptions {
    /// The treatment of frames without a flow. Defaults to passing all of them.
    pub no_flow: NoFlowPolicy,
    /// Whether a packet passes if the full table refuses its flow. Defaults to denying it.
    pub table_full: Verdict,
    /// How to answer the sender of a denied packet. Defaults to no answer.
    pub refusal: Refusal,
    /// What a panic of the application does. Defaults to ending the run. Otherwise the panic
    /// counts, the flow's state is dropped without a record, and the run continues.
    pub on_panic: OnPanic,
}

impl Default for WireOptions {
    fn default() -> Self {
        Self {
            no_flow: NoFlowPolicy::all(NoFlow::Pass),
            table_full: Verdict::Deny,
            refusal: Refusal::Silent,
            on_panic: OnPanic::Stop,
        }
    }
}
