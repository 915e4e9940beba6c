//! A rule set that changes while packets are classified.
//!
//! ```text
//!  writer: insert, remove ──▶ Live ──▶ version + 1 ──▶ Reader, one a thread, reads it once a batch
//!
//!  snapshot = base (FlowCuts over all rules of the last rebuild)
//!           + dead rules of the base, each with the rules that may take its place
//!           + pending rules: in a prefilter of 64 to a word, or once settled in a small tree
//! ```
//!
//! A change is published within microseconds as a new snapshot that shares the base.
//! [`Live::settle`] makes pending changes cheap for lookups. It takes well under a millisecond for
//! several tens of changes, and half a second for a thousand rules removed from twenty thousand.
//! [`Live::rebuild`] makes them part of the base on the calling thread, while lookups and changes
//! continue. A rule may have [tests](Live::insert_with) beyond its box; [`Reader::find`] evaluates
//! them for packets. The crate starts no threads. A lookup takes no locks, except at the moment
//! when a reader takes a new snapshot.

mod entry;
mod prefilter;
mod reader;
mod rule_values;
mod snapshot;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU32;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use entry::{Entry, Tests};
use prefilter::Prefilter;
pub use reader::Reader;
use snapshot::{Base, Pending, Snapshot};

use crate::classifier::{Algorithm, ClassifierBuilder};
use crate::error::BuildError;
use crate::firewall::Test;
use crate::flowcuts::plan::{Plan, Split};
use crate::rule::Rule;
use crate::rule_set::{RULES_MAX, RuleSet};

/// Maximum number of changes that wait for a rebuild.
pub const PENDING_MAX: usize = 4096;

/// Up to this many pending rules, a prefilter is cheaper than a tree.
const PREFILTER_RULES: usize = 128;

/// The id of a rule in a [`Live`] set, valid until the rule is removed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LiveId(NonZeroU32);

impl LiveId {
    /// Returns the id of the rule with this number, counted from 0.
    const fn of(number: u32) -> Self {
        // Fewer than 2³² rules are ever added.
        Self(NonZeroU32::MIN.saturating_add(number))
    }

    /// Returns the id of this [number](Self::number), for naming a rule from outside the program;
    /// `None` for `u32::MAX`, which no rule has. Whether such a rule exists is checked when the id
    /// is used.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_classifier::live::LiveId;
    /// let id = LiveId::from_number(7).expect("a rule may have this number");
    /// assert_eq!((id.number(), id.to_string()), (7, String::from("7")));
    /// ```
    pub const fn from_number(number: u32) -> Option<Self> {
        if number == u32::MAX { None } else { Some(Self::of(number)) }
    }

    /// Returns the number of the rule among all rules ever added to its set, counted from 0, for
    /// display, storage or transmission.
    pub const fn number(self) -> u32 {
        self.0.get() - 1
    }
}

impl fmt::Display for LiveId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number().fmt(f)
    }
}

impl fmt::Debug for LiveId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LiveId({self})")
    }
}

/// The result of a lookup in a [`Live`] set.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct LiveMatch {
    /// Zero if no rule matches.
    id: u32,
    /// Zero if no rule matches.
    value: u32,
}

impl LiveMatch {
    /// Returns the winning rule and its value; `None` if no rule matches.
    #[inline]
    pub fn rule(self) -> Option<(LiveId, u32)> {
        NonZeroU32::new(self.id).map(|id| (LiveId(id), self.value))
    }

    /// Returns the match of the rule with this number; for `u32::MAX`, the match of no rule, whose
    /// value is zero.
    const fn of(number: u32, value: u32) -> Self {
        Self { id: number.wrapping_add(1), value }
    }
}

impl fmt::Debug for LiveMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rule() {
            Some((id, value)) => write!(f, "LiveMatch({id}, value {value})"),
            None => f.write_str("LiveMatch(none)"),
        }
    }
}

/// The reason why a change was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LiveError {
    /// No rule has this id, or the rule was removed.
    NoSuchRule,
    /// The maximum number of changes is pending: call [`Live::rebuild`] first.
    TooManyPending,
    /// The set has its maximum number of rules.
    TooManyRules,
    /// All numbers of a [`LiveId`] have been assigned, including those of removed rules: create
    /// another set from [`Live::rules`].
    NumbersUsedUp,
    /// The classifier of the changes cannot be built.
    Build(BuildError),
}

impl fmt::Display for LiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchRule => f.write_str("no rule has this id any more"),
            Self::TooManyPending => {
                write!(f, "{PENDING_MAX} changes already wait for a rebuild; rebuild first")
            }
            Self::TooManyRules => {
                write!(f, "the set already has {RULES_MAX} rules; remove one first")
            }
            Self::NumbersUsedUp => {
                write!(f, "{} rules have been added; create another set from the remaining ones", u32::MAX)
            }
            Self::Build(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for LiveError {}

impl From<BuildError> for LiveError {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}

/// The position of a rule: by priority, the highest first, then by age.
type Order = u64;

fn order_of(priority: i32, id: u32) -> Order {
    let above = i64::from(i32::MAX) - i64::from(priority);
    above.cast_unsigned() << 32 | u64::from(id)
}

#[derive(Clone)]
struct State {
    rules: BTreeMap<Order, Rule>,
    /// The tests of rules that have any.
    tests: BTreeMap<Order, Arc<[Test]>>,
    orders: BTreeMap<u32, Order>,
    next: u32,
    pending: Vec<Entry>,
    /// Number of the pending rules that are in the small tree.
    settled: usize,
}

impl State {
    /// Returns a rule with its tests.
    fn entry(&self, order: Order, rule: Rule) -> Entry {
        Entry { order, rule, tests: self.tests.get(&order).cloned() }
    }
}

/// A rule set that changes while packets are classified.
///
/// Share it by reference or in an [`Arc`]. Each thread creates its own [`Reader`], and changes need
/// no `mut`.
///
/// # Examples
///
/// ```
/// use flowloom_classifier::live::Live;
/// use flowloom_classifier::{ClassifierBuilder, FiveTuple, KeyV4, Rule, RuleSet};
/// let live = Live::new(&RuleSet::default(), ClassifierBuilder::new())?;
/// let mut reader = live.reader();
/// assert_eq!(reader.classify_key(&KeyV4::default()).rule(), None);
/// let id = live.insert(Rule { value: 7, ..Rule::ANY })?;
/// assert_eq!(reader.classify_key(&KeyV4::default()).rule(), Some((id, 7)));
/// let packet = FiveTuple::v6([1; 16], [2; 16], 1024, 443, 6);
/// assert_eq!(reader.classify(&packet).rule(), Some((id, 7)));
/// live.remove(id)?;
/// assert_eq!(reader.classify_key(&KeyV4::default()).rule(), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Live {
    builder: ClassifierBuilder,
    state: Mutex<State>,
    current: Mutex<Arc<Snapshot>>,
    /// Previous snapshots that some reader may still use. They are kept so that no reader is the
    /// last owner: freeing a large classifier takes longer than a packet may.
    retired: Mutex<Vec<Arc<Snapshot>>>,
    version: AtomicU64,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("version", &self.version).finish_non_exhaustive()
    }
}

/// A copy shares the classifier of the last rebuild, and changes independently from then on. It
/// takes time in proportion to the rules.
impl Clone for Live {
    fn clone(&self) -> Self {
        let state = locked(&self.state);
        Self {
            builder: self.builder,
            current: Mutex::new(self.snapshot()),
            retired: Mutex::default(),
            version: AtomicU64::new(self.version()),
            state: Mutex::new(state.clone()),
        }
    }
}

/// A panic under a lock leaves consistent state, because changes are applied in one step at the
/// end.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Live {
    /// Builds a set that starts with these rules. The [numbers](LiveId::number) of their ids are
    /// their positions in the set.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError`], as for [`ClassifierBuilder::build`].
    pub fn new(rules: &RuleSet, builder: ClassifierBuilder) -> Result<Self, BuildError> {
        let entries: Vec<Entry> = (0_u32..)
            .zip(rules.rules())
            .map(|(id, &rule)| Entry { order: order_of(rule.priority, id), rule, tests: None })
            .collect();
        let base = Arc::new(Base::build(&entries, builder)?);
        let state = State {
            rules: entries.iter().map(|entry| (entry.order, entry.rule)).collect(),
            tests: BTreeMap::new(),
            orders: entries.iter().map(|entry| (entry.order as u32, entry.order)).collect(),
            next: entries.len() as u32,
            pending: Vec::new(),
            settled: 0,
        };
        let current = Mutex::new(Arc::new(Snapshot::new(base)));
        let (state, retired) = (Mutex::new(state), Mutex::default());
        Ok(Self { builder, state, current, retired, version: AtomicU64::new(0) })
    }

    /// Returns a reader for one thread.
    pub fn reader(&self) -> Reader<'_> {
        Reader::new(self)
    }

    /// Returns how often the snapshot of readers has changed: once for each rule added or removed,
    /// and once each time the set was settled or rebuilt.
    ///
    /// A cache of lookups, such as the verdict of a flow, stores with each result the version read
    /// *before* the lookup. While the version stays the same, the lookup would give the same
    /// result.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_classifier::live::Live;
    /// use flowloom_classifier::{ClassifierBuilder, KeyV4, Rule, RuleSet};
    /// let live = Live::new(&RuleSet::default(), ClassifierBuilder::new())?;
    /// let mut reader = live.reader();
    /// let (version, verdict) = (live.version(), reader.classify_key(&KeyV4::default()));
    /// assert_eq!((live.version(), verdict.rule()), (version, None));
    /// live.insert(Rule::ANY)?;
    /// assert_ne!(live.version(), version, "to be judged again");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        locked(&self.state).rules.len()
    }

    /// Returns whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of changes that wait for a rebuild.
    pub fn pending(&self) -> usize {
        let state = locked(&self.state);
        state.pending.len() + self.snapshot().dead_count()
    }

    /// Returns all rules in the order of matching, with their ids.
    pub fn rules(&self) -> Vec<(LiveId, Rule)> {
        locked(&self.state).rules.iter().map(|(&order, &rule)| (LiveId::of(order as u32), rule)).collect()
    }

    /// Returns a rule; `None` if this id has none, or if the rule was removed.
    ///
    /// # Examples
    ///
    /// A lookup returns the rule's id and value; this method returns the rest, such as its action:
    ///
    /// ```
    /// use flowloom_classifier::live::Live;
    /// use flowloom_classifier::{Action, ClassifierBuilder, KeyV4, Rule, RuleSet};
    /// let live = Live::new(&RuleSet::default(), ClassifierBuilder::new())?;
    /// live.insert(Rule { action: Some(Action::Deny), ..Rule::ANY })?;
    /// let (id, _) = live.reader().classify_key(&KeyV4::default()).rule().expect("it matches all");
    /// assert_eq!(live.get(id).and_then(|rule| rule.action), Some(Action::Deny));
    /// live.remove(id)?;
    /// assert_eq!(live.get(id), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get(&self, id: LiveId) -> Option<Rule> {
        let state = locked(&self.state);
        state.rules.get(state.orders.get(&id.number())?).copied()
    }

    /// Returns the tests of a rule beyond its box; none if this id has no rule.
    pub fn tests(&self, id: LiveId) -> Vec<Test> {
        let state = locked(&self.state);
        let tests = state.orders.get(&id.number()).and_then(|order| state.tests.get(order));
        tests.map(|tests| tests.to_vec()).unwrap_or_default()
    }

    /// Adds a rule after those of equal priority. Lookups that start after the call see it.
    ///
    /// Each 64 pending rules add the cost of two or three lookups to every lookup until they are
    /// [settled](Live::settle); 4,096 of them cost a hundred times as much as a lookup.
    ///
    /// # Errors
    ///
    /// Returns [`LiveError`] if too many changes are pending, or if the set is full; nothing has
    /// changed then.
    pub fn insert(&self, rule: Rule) -> Result<LiveId, LiveError> {
        self.insert_asking(rule, None)
    }

    /// Adds a rule with tests beyond its box: all `tests` must hold too. [`Reader::find`] evaluates
    /// them. Lookups of keys alone, such as [`Reader::classify_key`], cannot evaluate tests and
    /// treat the rule as having none.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`insert`](Self::insert).
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_classifier::live::Live;
    /// use flowloom_classifier::firewall::{Assume, ConnectionState, Packet, TestKind};
    /// use flowloom_classifier::{Action, ClassifierBuilder, FiveTuple, Rule, RuleSet};
    /// let live = Live::new(&RuleSet::default(), ClassifierBuilder::new())?;
    /// let known = TestKind::State(ConnectionState::Established.bit());
    /// let replies = live.insert_with(Rule::ANY, vec![known.into()])?;
    /// let others = live.insert(Rule { action: Some(Action::Deny), ..Rule::ANY })?;
    /// let mut reader = live.reader();
    /// let mut packet = Packet::new(FiveTuple::v4([10, 0, 0, 1], [192, 0, 2, 1], 1024, 22, 6));
    /// let mut find = |packet: &Packet| {
    ///     reader.find(packet, Assume::NoMatch).rule().map(|(id, _)| id)
    /// };
    /// packet.state = Some(ConnectionState::Established);
    /// assert_eq!(find(&packet), Some(replies));
    /// packet.state = Some(ConnectionState::New);
    /// assert_eq!(find(&packet), Some(others));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn insert_with(&self, rule: Rule, tests: Vec<Test>) -> Result<LiveId, LiveError> {
        self.insert_asking(rule, (!tests.is_empty()).then(|| Arc::from(tests)))
    }

    fn insert_asking(&self, rule: Rule, tests: Tests) -> Result<LiveId, LiveError> {
        let mut state = locked(&self.state);
        let snapshot = self.snapshot();
        if state.pending.len() + snapshot.dead_count() >= PENDING_MAX {
            return Err(LiveError::TooManyPending);
        }
        if state.rules.len() >= RULES_MAX {
            return Err(LiveError::TooManyRules);
        }
        if state.next == u32::MAX {
            return Err(LiveError::NumbersUsedUp);
        }
        let id = state.next;
        let order = order_of(rule.priority, id);
        state.tests.extend(tests.as_ref().map(|tests| (order, Arc::clone(tests))));
        let entry = Entry { order, rule, tests };
        self.publish(snapshot.with_pending(snapshot.settled(), snapshot.fresh().with(entry.clone())));
        state.pending.push(entry);
        state.next += 1;
        state.rules.insert(order, rule);
        state.orders.insert(id, order);
        Ok(LiveId::of(id))
    }

    /// Removes a rule. Lookups that start after the call do not see it.
    ///
    /// Packets that it would have won are compared with later rules one by one; once
    /// [settled](Live::settle), only with those that meet it, up to one that covers it. If there
    /// are many, as after a wide rule at the start of a large set, such packets stay slow (a
    /// thousand rules take as long as about five hundred lookups). A sender can exploit this, so
    /// [rebuild](Live::rebuild) soon.
    ///
    /// # Errors
    ///
    /// Returns [`LiveError`] if there is no such rule, or if too many changes are pending; nothing
    /// has changed then.
    pub fn remove(&self, id: LiveId) -> Result<Rule, LiveError> {
        let mut state = locked(&self.state);
        let &order = state.orders.get(&id.number()).ok_or(LiveError::NoSuchRule)?;
        let snapshot = self.snapshot();
        let next = if let Some(place) = state.pending.iter().position(|entry| entry.order == order) {
            state.pending.remove(place);
            if place < state.settled {
                // The rules of the small tree return to the prefilter until they are settled again.
                state.settled = 0;
                snapshot.with_pending(None, Prefilter::of(&state.pending))
            } else {
                snapshot.with_pending(snapshot.settled(), snapshot.fresh().without(order))
            }
        } else {
            if state.pending.len() + snapshot.dead_count() >= PENDING_MAX {
                return Err(LiveError::TooManyPending);
            }
            snapshot.with_dead(order)
        };
        let rule = state.rules.remove(&order).ok_or(LiveError::NoSuchRule)?;
        state.tests.remove(&order);
        state.orders.remove(&id.number());
        self.publish(next);
        Ok(rule)
    }

    /// Makes pending changes cheap for lookups. Many pending rules go into a small tree. For each
    /// dead rule, the rules that may take its place are determined once. It takes time in
    /// proportion to the pending changes, and to the number of rules for each dead one, so call it
    /// when changes pause.
    ///
    /// # Errors
    ///
    /// Returns [`LiveError::Build`]; nothing has changed then.
    pub fn settle(&self) -> Result<(), LiveError> {
        let mut state = locked(&self.state);
        let snapshot = self.snapshot();
        if state.pending.len() <= PREFILTER_RULES {
            state.settled = 0;
            let prefilter = Prefilter::of(&state.pending);
            self.publish(snapshot.with_substitutes().with_pending(None, prefilter));
            return Ok(());
        }
        let plan = Plan { split: Split::Whole, leaf_rules: 8, growth_max: 8.0 };
        let tree = Pending::build_some(&state.pending, self.builder.algorithm(Algorithm::FlowCuts(plan)))?;
        state.settled = state.pending.len();
        self.publish(snapshot.with_substitutes().with_pending(tree, Prefilter::default()));
        Ok(())
    }

    /// Builds a new base from all rules while the old one stays in use, and swaps it in. Changes
    /// made meanwhile are pending on top of it. Lookups and changes continue, except while rules
    /// are copied out and while the new base is put in.
    ///
    /// The memory of the old base is freed by the first change, or [`settle`](Live::settle), after
    /// the last reader has moved on to the new one. A reader never frees it.
    ///
    /// # Errors
    ///
    /// Returns [`LiveError::Build`], within the limits of the builder; all rules stay unchanged
    /// then.
    pub fn rebuild(&self) -> Result<(), LiveError> {
        let entries: Vec<Entry> = {
            let state = locked(&self.state);
            state.rules.iter().map(|(&order, &rule)| state.entry(order, rule)).collect()
        };
        let base = Arc::new(Base::build(&entries, self.builder)?);
        let mut state = locked(&self.state);
        let pending: Vec<Entry> = state
            .rules
            .iter()
            .filter(|(order, _)| !base.has(**order))
            .map(|(&order, &rule)| state.entry(order, rule))
            .collect();
        let fresh = Prefilter::of(&pending);
        let mut next = Snapshot::new(base).with_pending(None, fresh);
        for entry in &entries {
            if !state.rules.contains_key(&entry.order) {
                next = next.with_dead(entry.order);
            }
        }
        state.pending = pending;
        state.settled = 0;
        self.publish(next);
        Ok(())
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&locked(&self.current))
    }

    fn publish(&self, snapshot: Snapshot) {
        let former = core::mem::replace(&mut *locked(&self.current), Arc::new(snapshot));
        self.version.fetch_add(1, Ordering::Release);
        // Not earlier: readers would wait for the lock while memory is freed.
        let mut retired = locked(&self.retired);
        retired.push(former);
        retired.retain(|former| Arc::strong_count(former) > 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_reader_gives_back_what_it_was_the_last_to_look_up_in() {
        let live = Live::new(&RuleSet::default(), ClassifierBuilder::new()).unwrap();
        let [mut first, mut second] = [live.reader(), live.reader()];
        let former = Arc::downgrade(&live.snapshot());
        live.rebuild().unwrap();
        first.classify_key(&crate::key::KeyV4::default());
        assert_eq!(former.strong_count(), 2, "a reader looks up in it");
        live.settle().unwrap();
        second.classify_key(&crate::key::KeyV4::default());
        assert_eq!(former.strong_count(), 1, "the set has kept it");
        let copy = live.clone();
        copy.settle().unwrap();
        assert_eq!(former.strong_count(), 1, "a copy has not");
        live.settle().unwrap();
        assert_eq!(former.strong_count(), 0);
        assert_eq!(locked(&live.retired).len(), 2, "each reader has one");
    }

    #[test]
    fn a_set_whose_numbers_are_used_up_says_so_and_still_takes_rules_out() {
        let live = Live::new(&RuleSet::default(), ClassifierBuilder::new()).unwrap();
        locked(&live.state).next = u32::MAX - 1;
        let last = live.insert(Rule::ANY).unwrap();
        assert_eq!(live.insert(Rule::ANY), Err(LiveError::NumbersUsedUp));
        assert_eq!(live.remove(last), Ok(Rule::ANY));
        assert_eq!(live.insert(Rule::ANY), Err(LiveError::NumbersUsedUp));
    }
}
