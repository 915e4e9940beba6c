//! All scheduling policies by name, in one list.
//!
//! The command line, the simulator and the engine use it to create a policy from its name and to
//! determine what its decisions cost a dispatcher.

use crate::placement::adaptive::{AdaptiveForm, Threshold};
use crate::placement::{OrderGuarantee, Placement, SetupError};
use crate::pull::PullPolicy;
use crate::topology::Topology;
use crate::{
    Adaptive, Cached, DirectHash, Fixed, FlowBurst, FlowPin, FlowPull, HrwFlat, HrwTree, HrwTree2009,
    Indirection, LastFlowBundle, MinLoad, Modulo, PacketHandoff, RoundRobin, TwoChoices,
};

/// A policy of either kind.
pub enum Policy {
    /// The dispatcher assigns packets to workers.
    Push(Box<dyn Placement>),
    /// Workers fetch packets.
    Pull(Box<dyn PullPolicy>),
}

impl core::fmt::Debug for Policy {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Push(policy) => f.debug_tuple("Push").field(&policy.name()).finish(),
            Self::Pull(policy) => f.debug_tuple("Pull").field(&policy.name()).finish(),
        }
    }
}

impl Policy {
    /// Returns the order of packets that the policy guarantees.
    #[must_use]
    pub fn order(&self) -> OrderGuarantee {
        match self {
            Self::Push(policy) => policy.order(),
            Self::Pull(policy) => policy.order(),
        }
    }
}

/// The input from which the digest of a flow is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestKind {
    /// The keyed hash of the engine.
    Keyed,
    /// CRC-32 of the key, the same for both directions.
    Crc,
    /// The address of the server.
    Destination,
}

/// A scheduling policy by name.
///
/// # Examples
///
/// ```
/// use flowloom_scheduler::Topology;
/// use flowloom_scheduler::registry::{Policy, Scheme};
///
/// let topology: Topology = "2x2".parse()?;
/// let scheme = Scheme::named("flowpin").expect("FlowPin is in the registry");
/// assert!(matches!(scheme.policy(&topology, 1)?, Policy::Push(_)));
/// assert!(Scheme::ALL.iter().filter(|scheme| !scheme.is_simulated_only).count() > 20);
/// # Ok::<(), flowloom_scheduler::SetupError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scheme {
    /// Name on the command line.
    pub name: &'static str,
    /// Description in one line.
    pub about: &'static str,
    /// The input of its digests.
    pub digest: DigestKind,
    /// Whether only the simulator offers it, because it models an operating system or another
    /// application.
    pub is_simulated_only: bool,
    /// Whether an idealised operating system moves its threads among all pipelines.
    pub pooled: bool,
    /// Whether each worker keeps a replica of the states of all flows, and brings it up to date
    /// with the packets of the other workers.
    pub replicates: bool,
    /// Increase of the dispatcher's work per packet because of its decisions, in thousandths.
    ///
    /// Schemes with a table of flows add what [HRWTREE §4.6] states for the adaptive one: 0.57
    /// instead of 0.49 µs.
    pub decision_permille: u32,
    /// Increase of the dispatcher's work for each packet that it sorts into its flow, in
    /// thousandths.
    pub sort_permille: u32,
    /// When queue lengths override the hash, in the adaptive schemes.
    pub threshold: Threshold,
}

/// Cost of a table of flows or of queue lengths, in thousandths [HRWTREE §4.6].
const STATEFUL: u32 = 163;

const fn scheme(name: &'static str, about: &'static str, decision_permille: u32) -> Scheme {
    Scheme {
        name,
        about,
        digest: DigestKind::Keyed,
        is_simulated_only: false,
        pooled: false,
        replicates: false,
        decision_permille,
        sort_permille: 0,
        threshold: Threshold::PAPER,
    }
}

const fn simulated(name: &'static str, about: &'static str, pooled: bool) -> Scheme {
    Scheme { is_simulated_only: true, pooled, ..scheme(name, about, 0) }
}

impl Scheme {
    /// All schemes.
    pub const ALL: &'static [Self] = &[
        scheme("rr", "round robin: no order", 0),
        scheme("dh", "direct hash, keyed", 0),
        Self { digest: DigestKind::Crc, ..scheme("crc", "CRC-32 of the five-tuple modulo the workers", 0) },
        Self { digest: DigestKind::Destination, ..scheme("dst", "server's address modulo the workers", 0) },
        scheme("rss", "indirection table of 128 entries", 0),
        scheme("rss++", "indirection table of 512 entries, rebalanced, moving only idle entries", STATEFUL),
        scheme("fixed", "least loaded worker at a flow's first packet, then permanently", STATEFUL),
        scheme("minload", "least loaded worker for each packet: no order", STATEFUL),
        scheme("hrw", "highest random weight over all workers", 50),
        scheme("hrw3", "highest random weight level by level, weighted", 80),
        scheme("hrw3-2009", "the tree's formula as printed, which leaves threads idle", 80),
        scheme("adaptive", "the tree, overridden by queue lengths in bytes, order kept", STATEFUL),
        scheme("adaptive-fitted", "the same with queue lengths in measured time per capacity", STATEFUL),
        scheme("adaptive-racy", "the adaptive tree as published: moves flows in flight", STATEFUL),
        scheme("adaptive-2009", "the adaptive tree with what can be run of the printed table", STATEFUL),
        simulated("pckt+os", "packets round robin to threads moved by an OS: no order", true),
        simulated("conn+aff", "connections to threads by hash, threads pinned", false),
        simulated("conn+os", "connections to threads by hash, threads moved by an OS", true),
        Self {
            replicates: true,
            ..simulated(
                "scr",
                "State-Compute Replication: packets round robin, states replicated: no order",
                false,
            )
        },
        scheme("fbs", "to the worker of the flow's packets in flight, else the least loaded", STATEFUL),
        scheme("p2c", "idle flows to the better of two random workers", STATEFUL),
        scheme("flowpin", "idle flows move only if a move pays; aware of pipelines", STATEFUL),
        scheme("ph", "Packet Handoff: workers fetch packets and pass them to the flow's owner", 0),
        scheme("lfb", "Last Flow Bundle, sticky, with stealing", 0),
        scheme("lfb-ns", "Last Flow Bundle, sticky, without stealing", 0),
        Self {
            sort_permille: STATEFUL,
            ..scheme(
                "flowpull",
                "workers fetch flows, which return to their last worker unless it is \
                busy",
                0,
            )
        },
    ];

    /// Returns the scheme with the given name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|scheme| scheme.name == name).copied()
    }

    /// Returns whether queue lengths override the hash, by more than the
    /// [`threshold`](Self::threshold).
    #[must_use]
    pub fn has_threshold(&self) -> bool {
        self.name.starts_with("adaptive")
    }

    /// Returns the scheme with another threshold. Others than the adaptive ones ignore it.
    #[must_use]
    pub fn with_threshold(self, threshold: Threshold) -> Self {
        Self { threshold, ..self }
    }

    /// Returns the policy for the workers of a topology. `seed` determines random choices.
    ///
    /// # Errors
    ///
    /// Returns [`SetupError`] for a topology that the policy does not support. At present, all
    /// policies support every topology that can be built.
    pub fn policy(self, topology: &Topology, seed: u64) -> Result<Policy, SetupError> {
        let workers = topology.workers();
        let adaptive = |form| Adaptive::new(topology, form, self.threshold, Adaptive::BITS);
        Ok(match self.name {
            "ph" => Policy::Pull(Box::new(PacketHandoff::new(topology, PacketHandoff::BITS)?)),
            "lfb" => Policy::Pull(Box::new(LastFlowBundle::new(topology, LastFlowBundle::BITS, true)?)),
            "lfb-ns" => Policy::Pull(Box::new(LastFlowBundle::new(topology, LastFlowBundle::BITS, false)?)),
            "flowpull" => Policy::Pull(Box::new(FlowPull::new(topology, FlowPull::BITS)?)),
            name => Policy::Push(match name {
                "rr" | "pckt+os" | "scr" => Box::new(RoundRobin::new(workers)),
                "crc" | "dst" => Box::new(Modulo::new(workers, self.name)),
                "rss" => Box::new(Indirection::fixed(topology, Indirection::ENTRIES)?),
                "rss++" => Box::new(Indirection::rebalanced(topology, 512, Indirection::PERIOD)?),
                "fixed" => Box::new(Fixed::new(topology, Fixed::BITS)?),
                "minload" => Box::new(MinLoad::new(topology)),
                "hrw" => Box::new(Cached::new(HrwFlat::new(workers), Cached::<HrwFlat>::BITS)?),
                "hrw3" => Box::new(Cached::new(HrwTree::new(topology), Cached::<HrwTree>::BITS)?),
                "hrw3-2009" => Box::new(HrwTree2009::new(topology)),
                "adaptive" => Box::new(adaptive(AdaptiveForm::OrderSafe)?),
                "adaptive-fitted" => {
                    Box::new(adaptive(AdaptiveForm::OrderSafe)?.with_fitted_costs(topology))
                }
                "adaptive-racy" => Box::new(adaptive(AdaptiveForm::Corrected)?),
                "adaptive-2009" => Box::new(adaptive(AdaptiveForm::Printed)?),
                "fbs" => Box::new(FlowBurst::new(topology, FlowBurst::BITS)?),
                "p2c" => Box::new(TwoChoices::new(topology, TwoChoices::BITS, seed)?),
                "flowpin" => Box::new(FlowPin::new(topology, FlowPin::BITS)?),
                _ => Box::new(DirectHash::new(workers)),
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws;

    #[test]
    fn names_select_the_policy_of_that_name() {
        let topology: Topology = "2x2".parse().unwrap();
        for scheme in Scheme::ALL {
            assert_eq!(Scheme::named(scheme.name), Some(*scheme));
            let expected = match scheme.name {
                "pckt+os" | "scr" => "rr",
                "conn+aff" | "conn+os" => "dh",
                name @ ("hrw" | "hrw3") => &format!("{name}-cached"),
                name => name,
            };
            let policy = scheme.policy(&topology, 1).unwrap();
            let (name, workers) = match &policy {
                Policy::Push(policy) => (policy.name(), policy.workers()),
                Policy::Pull(policy) => (policy.name(), policy.workers()),
            };
            assert_eq!((name, workers), (expected, Some(4)));
            assert_eq!(
                scheme.about.contains("no order"),
                policy.order() == OrderGuarantee::None && !scheme.name.contains("adaptive")
            );
        }
        assert_eq!(Scheme::named("best"), None);
    }

    #[test]
    fn every_policy_passes_the_law_suite() {
        for shape in ["1", "3", "2x2x2x2", "8x2x4,-0"] {
            let topology: Topology = shape.parse().unwrap();
            // The tree of 2009 leaves threads without flows, by itself and under the printed table,
            // and 128 entries are two or three for each of 63 workers.
            let is_even = |scheme: &&Scheme| {
                !scheme.name.ends_with("-2009") && (scheme.name != "rss" || topology.workers().get() < 32)
            };
            for scheme in Scheme::ALL.iter().filter(is_even) {
                match scheme.policy(&topology, 1).unwrap() {
                    Policy::Push(mut policy) => laws::check(&mut *policy, topology.workers(), 1),
                    Policy::Pull(mut policy) => laws::check_pull(&mut *policy, topology.workers(), 1),
                }
            }
        }
    }

    #[test]
    fn simulator_only_schemes_are_those_of_systems_and_applications() {
        let names: Vec<&str> = Scheme::ALL
            .iter()
            .filter(|scheme| scheme.is_simulated_only)
            .map(|scheme| scheme.name)
            .collect();
        assert_eq!(names, ["pckt+os", "conn+aff", "conn+os", "scr"]);
    }
}
