//! Algorithms of other crates, which items run beside the built-in ones.
//!
//! Each item that compares algorithms of a kind adds a row for every rival of that kind, on the
//! same inputs and seeds. Rivals do not change an item's verdict, which is about the paper.

use flowloom::classifier::{BuildError, FirstMatch, RuleSet};
use flowloom::flow_key::TableHash;
use flowloom::scheduler::registry::Policy;
use flowloom::scheduler::{SetupError, Topology};
use flowloom::tcb_cache::{CacheSpec, Simulator};

/// The state of a flow in the items that time tables: with the key and the table's own words, it
/// fills one cache line.
pub type State = flowloom_measure::lookup::State;

/// Algorithms from outside this crate.
///
/// # Examples
///
/// ```
/// use flowloom::scheduler::DirectHash;
/// use flowloom::scheduler::registry::Policy;
/// use flowloom_repro::rivals::{RivalScheduler, Rivals};
/// use flowloom_repro::{Context, Scale, select};
///
/// let mine = RivalScheduler::new("mine", |topology, _seed| {
///     Ok(Policy::Push(Box::new(DirectHash::new(topology.workers()))))
/// });
/// let rivals = Rivals { schedulers: &[mine], ..Rivals::default() };
/// let context = Context { rivals: &rivals, ..Context::new(Scale::Smoke, 1, &|| true) };
/// let outcome = (select("lfb/fig2_4")[0].run)(&context)?;
/// let mut rows = outcome.values.iter().filter(|value| value.name.contains("mine"));
/// assert!(rows.all(|value| (value.ours - 1.0).abs() < 1e-9), "it is direct hash");
/// # Ok::<(), flowloom_repro::ItemError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Rivals<'a> {
    /// Schedulers, for the items of `hrwtree` and `lfb` that compare schemes.
    pub schedulers: &'a [RivalScheduler],
    /// Caches, for the items of `tcbcache` that compare replacement policies.
    pub caches: &'a [RivalCache],
    /// Classifiers, for the items of `flownp` that compare trees.
    pub classifiers: &'a [RivalClassifier],
    /// Tables, for the items of `dhash` that compare tables.
    pub tables: &'a [RivalTable],
}

/// No rivals.
pub(crate) const NONE: &Rivals<'static> =
    &Rivals { schedulers: &[], caches: &[], classifiers: &[], tables: &[] };

type MakeScheduler = dyn Fn(&Topology, u64) -> Result<Policy, SetupError> + Sync;
type MakeCache = dyn Fn(&CacheSpec) -> Box<dyn Simulator> + Sync;
type MakeClassifier = dyn Fn(&RuleSet) -> Result<Box<dyn FirstMatch>, BuildError> + Sync;
type MakeTable = dyn Fn(u32) -> Box<dyn StateTable> + Sync;

macro_rules! rival {
    ($(#[$about:meta])* $name:ident, $make:ty) => {
        $(#[$about])*
        pub struct $name {
            /// The name in rows and charts.
            pub name: &'static str,
            /// Makes an instance for a run.
            pub(crate) make: Box<$make>,
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).field("name", &self.name).finish_non_exhaustive()
            }
        }
    };
}

rival! {
    /// A scheduling policy.
    RivalScheduler, MakeScheduler
}

rival! {
    /// A cache with a replacement policy.
    RivalCache, MakeCache
}

rival! {
    /// A classification algorithm.
    RivalClassifier, MakeClassifier
}

rival! {
    /// A flow table.
    RivalTable, MakeTable
}

impl RivalScheduler {
    /// Returns a scheduler that `make` sets up for a machine, with a seed.
    pub fn new(
        name: &'static str,
        make: impl Fn(&Topology, u64) -> Result<Policy, SetupError> + Sync + 'static,
    ) -> Self {
        Self { name, make: Box::new(make) }
    }
}

impl RivalCache {
    /// Returns a cache that `make` sets up with the geometry and the seed of a specification.
    pub fn new(
        name: &'static str,
        make: impl Fn(&CacheSpec) -> Box<dyn Simulator> + Sync + 'static,
    ) -> Self {
        Self { name, make: Box::new(make) }
    }
}

impl RivalClassifier {
    /// Returns a classifier that `make` builds from rules.
    pub fn new(
        name: &'static str,
        make: impl Fn(&RuleSet) -> Result<Box<dyn FirstMatch>, BuildError> + Sync + 'static,
    ) -> Self {
        Self { name, make: Box::new(make) }
    }
}

impl RivalTable {
    /// Returns a table that `make` builds for a number of flows.
    pub fn new(name: &'static str, make: impl Fn(u32) -> Box<dyn StateTable> + Sync + 'static) -> Self {
        Self { name, make: Box::new(make) }
    }
}

/// A table from the key of a flow to its state of one cache line, as the items of `dhash` use it.
pub trait StateTable: std::fmt::Debug {
    /// Inserts a flow that the table does not contain; returns `false` if it refuses.
    fn insert(&mut self, key: [u64; 2], hash: TableHash, state: State) -> bool;

    /// Returns the state of a flow. The items measure the time of this call.
    fn get(&self, key: &[u64; 2], hash: TableHash) -> Option<&State>;
}
