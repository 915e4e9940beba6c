//! The classifier: rules in, matches out.

use alloc::vec::Vec;

use flowloom_cpu::features::Isa;
use flowloom_cpu::pages::HugePages;
use flowloom_flow_key::FiveTuple;

use crate::analysis;
use crate::arch::{Backend, ClassifyBatch, Program};
use crate::error::BuildError;
use crate::flowcuts::plan::Plan;
use crate::flowcuts::tune::{self, Limits, Tuned};
use crate::key::{AnyKey, Key, KeyV4, KeyV6, Match};
use crate::lookup::{Candidates, Reads, classify_counting};
use crate::rule_set::{Flat, RuleSet};
use crate::shrink::shrink;

/// The search algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Algorithm {
    /// FlowCuts with the best of several plans; linear search if that is faster.
    #[default]
    Auto,
    /// FlowCuts with this plan, the same for both families.
    FlowCuts(Plan),
    /// Linear search, eight rules at a time.
    Linear,
}

/// Number of first rules by which a large set is judged.
const JUDGED: usize = 1 << 14;

/// Builds a [`Classifier`].
///
/// # Examples
///
/// ```
/// use flowloom_classifier::{ClassifierBuilder, KeyV4, PrefixV4, Rule, RuleSet};
/// let rules = RuleSet::new(vec![Rule::v4(PrefixV4::new(0xc000_0200, 24)?, PrefixV4::ANY)])?;
/// let classifier = ClassifierBuilder::new().memory_bytes_max(1 << 20).build(&rules)?;
/// let keys = [KeyV4::new(0xc000_0201, 7, (1, 2), 6), KeyV4::new(0xc000_0301, 7, (1, 2), 6)];
/// let mut matches = [Default::default(); 2];
/// classifier.classify_batch(&keys, &mut matches);
/// assert_eq!(matches.map(|found| found.rule().is_some()), [true, false]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ClassifierBuilder {
    algorithm: Algorithm,
    limits: Limits,
    huge: HugePages,
    isa: Option<Isa>,
}

impl Default for ClassifierBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl ClassifierBuilder {
    /// Returns a builder that tries several plans, for the best instruction set of this processor:
    /// within 1 GiB per family, and within 12 million steps and 4,000 more per rule, which is about
    /// ten microseconds per rule.
    pub fn new() -> Self {
        Self { algorithm: Algorithm::Auto, limits: Limits::default(), huge: HugePages::Try, isa: None }
    }

    /// Sets the search algorithm.
    #[must_use]
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// Sets the maximum size of the arrays of each family, in bytes.
    #[must_use]
    pub fn memory_bytes_max(mut self, bytes: usize) -> Self {
        self.limits.memory_bytes_max = bytes;
        self
    }

    /// Sets the maximum number of steps for all plans together; a step takes several nanoseconds.
    ///
    /// If no plan is finished, the classifier uses linear search, which takes no steps, as far as
    /// the memory allows. Rules designed to make building slow then make lookups slow instead.
    /// [`FamilyStats::worst`] describes how slow lookups can be, so that a caller can refuse such
    /// rules.
    #[must_use]
    pub fn steps_max(mut self, steps: u64) -> Self {
        self.limits.steps_max = Some(steps);
        self
    }

    /// Sets whether to request huge pages; the default is to request them.
    #[must_use]
    pub fn huge_pages(mut self, huge: HugePages) -> Self {
        self.huge = huge;
        self
    }

    /// Sets the instruction set; the default is the best one of this processor.
    #[must_use]
    pub fn isa(mut self, isa: Isa) -> Self {
        self.isa = Some(isa);
        self
    }

    /// Builds the classifier. The limits bound the work for any rules.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError`] if no form of the rules stays within the limits, or if the processor
    /// lacks the instruction set.
    ///
    /// # Examples
    ///
    /// Example: a set that exceeds the memory limit, and one that would be slow.
    ///
    /// ```
    /// use flowloom_classifier::synth::{Profile, rules};
    /// use flowloom_classifier::{BuildError, ClassifierBuilder};
    /// let set = rules(Profile::Firewall, 2000, 1, false)?;
    /// let error = ClassifierBuilder::new().memory_bytes_max(1000).build(&set).unwrap_err();
    /// assert!(matches!(error, BuildError::Memory { limit_bytes: 1000, .. }));
    /// let classifier = ClassifierBuilder::new().steps_max(1).build(&set)?;
    /// assert!(classifier.stats().v4.worst.words > 1000, "refuse it");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build(&self, rules: &RuleSet) -> Result<Classifier, BuildError> {
        let isa = self.isa.unwrap_or_else(Isa::detect);
        let backend = Backend::new(isa).ok_or(BuildError::IsaUnavailable { isa })?;
        let mut v4 = self.half(&rules.flatten::<KeyV4>())?;
        let mut v6 = self.half(&rules.flatten::<KeyV6>())?;
        if self.algorithm == Algorithm::Auto {
            v4 = self.shrunk(v4, rules);
            v6 = self.shrunk(v6, rules);
        }
        if self.algorithm == Algorithm::Auto && (v4.is_dear() || v6.is_dear()) {
            let dead = self.dead(rules);
            v4 = self.without_dead(v4, rules, &dead);
            v6 = self.without_dead(v6, rules, &dead);
        }
        Ok(Classifier { backend, isa, rules: rules.len(), v4, v6 })
    }

    /// Returns the rules that never win, in ascending order, as far as the build steps suffice. If
    /// a match may leave a packet to later rules, returns none.
    fn dead(&self, rules: &RuleSet) -> Vec<u32> {
        if rules.rules().iter().any(|rule| rule.is_conditional) {
            return Vec::new();
        }
        let dead_of = |rules: &RuleSet| analysis::check(rules, self.limits.steps(rules.len()));
        // The first rules of a large set tell cheaply whether many may be dead.
        if let Some(first) = rules.rules().get(..JUDGED).filter(|_| rules.len() > 8 * JUDGED)
            && let Ok(first) = RuleSet::new(first.to_vec())
            && dead_of(&first).oddities.len() < JUDGED / 16
        {
            return Vec::new();
        }
        let found = dead_of(rules);
        found.oddities.iter().map(|oddity| oddity.rule().0).collect()
    }

    /// Returns a family's part from smaller boxes, in which each rule can win, if that makes
    /// lookups cheaper.
    fn shrunk<K: Key>(&self, half: Half<K>, rules: &RuleSet) -> Half<K> {
        if !half.is_dear() {
            return half;
        }
        let all = rules.flatten::<K>();
        match self.half(&shrink(&all)) {
            Ok(smaller)
                if tune::cost_for(&smaller.tuned.program, &all)
                    < tune::cost_for(&half.tuned.program, &all) =>
            {
                Half { rules: half.rules, ..smaller }
            }
            _ => half,
        }
    }

    /// Returns a family's part without the dead rules, if there are many and removing them makes
    /// lookups cheaper.
    fn without_dead<K: Key>(&self, half: Half<K>, rules: &RuleSet, dead: &[u32]) -> Half<K> {
        let all = rules.flatten::<K>();
        let live: Vec<Flat<K>> =
            all.into_iter().filter(|rule| dead.binary_search(&rule.id).is_err()).collect();
        if !half.is_dear() || live.len() + live.len() / 8 > half.rules {
            return half;
        }
        match self.half(&live) {
            Ok(smaller) if smaller.tuned.expected_cost < half.tuned.expected_cost => {
                Half { rules: half.rules, ..smaller }
            }
            _ => half,
        }
    }

    fn half<K: Key>(&self, rules: &[Flat<K>]) -> Result<Half<K>, BuildError> {
        let tuned = match self.algorithm {
            Algorithm::Auto => tune::tune(rules, self.limits, self.huge)?,
            Algorithm::FlowCuts(plan) => tune::build_one(rules, plan, self.limits, self.huge)?,
            Algorithm::Linear => Tuned {
                program: tune::linear(rules, self.limits.memory_bytes_max, self.huge)?,
                plan: None,
                tried: 0,
                steps: 0,
                expected_cost: 0.0,
            },
        };
        Ok(Half { rules: rules.len(), tuned })
    }
}

/// One family's part.
#[derive(Debug)]
pub(crate) struct Half<K: Key> {
    rules: usize,
    tuned: Tuned<K>,
}

impl<K: Key> Half<K> {
    /// Returns whether lookups may search long lists.
    fn is_dear(&self) -> bool {
        tune::searches_long_lists(&self.tuned.program)
    }

    fn try_clone(&self) -> Result<Self, BuildError> {
        let tuned = &self.tuned;
        let program = &tuned.program;
        let program =
            Program::new(program.words(), program.rows(), program.trees().to_vec(), HugePages::Try)?;
        Ok(Self { rules: self.rules, tuned: Tuned { program, ..*tuned } })
    }
}

/// Rules in a form for fast lookups. Immutable; share it among threads.
#[derive(Debug)]
pub struct Classifier {
    backend: Backend,
    isa: Isa,
    /// Rules of the whole set.
    rules: usize,
    v4: Half<KeyV4>,
    v6: Half<KeyV6>,
}

/// A key that a [`Classifier`] looks up: [`KeyV4`] or [`KeyV6`].
pub trait ClassifierKey: Key {
    #[doc(hidden)]
    fn program(classifier: &Classifier) -> &Program<Self>;
}

impl ClassifierKey for KeyV4 {
    fn program(classifier: &Classifier) -> &Program<Self> {
        &classifier.v4.tuned.program
    }
}

impl ClassifierKey for KeyV6 {
    fn program(classifier: &Classifier) -> &Program<Self> {
        &classifier.v6.tuned.program
    }
}

impl Classifier {
    /// Returns the first rule that matches a packet. In a batch, lookups take a fraction of the
    /// time per packet.
    pub fn classify(&self, tuple: &FiveTuple) -> Match {
        match AnyKey::from(tuple) {
            AnyKey::V4(key) => self.classify_key(&key),
            AnyKey::V6(key) => self.classify_key(&key),
        }
    }

    /// Returns the first rule that matches a key.
    pub fn classify_key<K: ClassifierKey>(&self, key: &K) -> Match {
        let mut found = [Match::NONE];
        self.classify_batch(core::slice::from_ref(key), &mut found);
        found[0]
    }

    /// Looks up any number of keys of one family; batches of 128 and more are fastest. A caller
    /// with keys of both families separates them first: [`AnyKey`] distinguishes them. Allocates
    /// nothing and does not panic on any key.
    ///
    /// # Panics
    ///
    /// Panics if `matches` and `keys` differ in length.
    pub fn classify_batch<K: ClassifierKey>(&self, keys: &[K], matches: &mut [Match]) {
        assert_eq!(keys.len(), matches.len(), "a batch has a place for the match of each key");
        ClassifyBatch { program: K::program(self), keys, out: matches }.run_on(self.backend);
    }

    /// Returns the first rule that matches a key, and what the lookup read. This is slow.
    pub fn classify_counting<K: ClassifierKey>(&self, key: &K) -> (Match, Reads) {
        classify_counting(K::program(self), key)
    }

    /// Returns the rules that match a key, in order: at least all of them through the first one
    /// that is not [conditional](crate::Rule::is_conditional).
    ///
    /// Walks the trees once, and compares leaf blocks only as far as the iterator advances.
    /// Allocates nothing.
    pub fn candidates<K: ClassifierKey>(&self, key: &K) -> Candidates<'_, K> {
        Candidates::new(K::program(self), *key)
    }

    /// Returns the instruction set that lookups use.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Returns a classifier with the same arrays and another instruction set.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError`] if the processor lacks it, or if there is no memory for the copy.
    pub fn with_isa(&self, isa: Isa) -> Result<Self, BuildError> {
        let backend = Backend::new(isa).ok_or(BuildError::IsaUnavailable { isa })?;
        let (v4, v6) = (self.v4.try_clone()?, self.v6.try_clone()?);
        Ok(Self { backend, isa, rules: self.rules, v4, v6 })
    }

    /// Returns the number of rules of the original set.
    pub fn rules(&self) -> usize {
        self.rules
    }

    /// Returns the tree of a family and its worst-case cost.
    pub fn stats(&self) -> Stats {
        Stats { v4: FamilyStats::new(&self.v4), v6: FamilyStats::new(&self.v6) }
    }
}

/// What was built.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// For IPv4 packets.
    pub v4: FamilyStats,
    /// For IPv6 packets.
    pub v6: FamilyStats,
}

/// The tree of one address family.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FamilyStats {
    /// Rules of this family.
    pub rules: usize,
    /// Bytes of nodes.
    pub node_bytes: usize,
    /// Bytes of leaves.
    pub leaf_bytes: usize,
    /// Trees.
    pub trees: usize,
    /// The plan; `None` for linear search.
    pub plan: Option<Plan>,
    /// Plans that were tried.
    pub plans_tried: u32,
    /// Steps that all tries took.
    pub build_steps: u64,
    /// The tuner's estimate of the cost per packet, in units near a cycle.
    pub expected_cost: f64,
    /// The most that a lookup reads, proved by the check of the finished trees.
    pub worst: Reads,
}

impl FamilyStats {
    fn new<K: Key>(half: &Half<K>) -> Self {
        let program = &half.tuned.program;
        let mut worst = Reads::default();
        for tree in program.worst() {
            worst.trees += 1;
            worst.nodes += tree.nodes;
            worst.blocks = worst.blocks.saturating_add(tree.blocks);
            worst.words = worst.words.saturating_add(tree.words);
        }
        Self {
            rules: half.rules,
            node_bytes: size_of_val(program.words()),
            leaf_bytes: size_of_val(program.rows()),
            trees: program.trees().len(),
            plan: half.tuned.plan,
            plans_tried: half.tuned.tried,
            build_steps: half.tuned.steps,
            expected_cost: half.tuned.expected_cost,
            worst,
        }
    }

    /// Bytes of both arrays.
    pub fn bytes(&self) -> usize {
        self.node_bytes + self.leaf_bytes
    }
}
