//! [`LineHash`]: find, add, delete.

use core::fmt;

use flowloom_cpu::features::Isa;
use flowloom_cpu::pages::{HugePages, LineArray, PageReport};
use flowloom_cpu::prefetch;

use super::batch::FindBatch;
use super::layout::{
    ALL_LANES, Control, DISPLACED_MAX, LANES, Line, Place, Way, filter_bit, place_of, state_of,
};
use crate::arch::{Backend, Kernel, Lanes};
use crate::dhash::conflict::ConflictLists;
use crate::error::{BuildError, check_size};
use crate::indexed::Indexed;
use crate::probe::Probe;
use crate::state::{States, Timeouts};
use crate::table::{FlowId, FullReason, MemoryReport, TableKey, TableStats};

/// Lines whose stash is one list.
const LINES_PER_LIST: u32 = 8;

/// How a [`LineHash`] is built.
///
/// # Examples
///
/// ```
/// use flowloom_flow_table::{FlowTable, LineHash, LineHashConfig};
/// let table = LineHash::<u64, ()>::try_new(&LineHashConfig::for_flows(1_000_000))?;
/// assert!(table.memory().lookup_bytes() < 3_000_000);
/// # Ok::<(), flowloom_flow_table::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LineHashConfig {
    /// The most flows that the table will hold, up to 2³⁰.
    pub flows: u32,
    /// Lines; `None` for three quarters of the lanes taken when the table is full.
    pub lines: Option<u32>,
    /// States behind the stash; `None` for one in a thousand flows and 64, some forty times what is needed.
    pub pool: Option<u32>,
    /// Flows in one list of the stash, at most; eight lines share a list.
    pub list_cap: u32,
    /// How long flows may stay unseen.
    pub timeouts: Timeouts,
    /// The instruction set; `None` for the best that this processor has.
    pub isa: Option<Isa>,
    /// Whether to ask for huge pages.
    pub huge_pages: HugePages,
    /// Bytes that the table may reserve.
    pub memory_limit_bytes: u64,
}

impl LineHashConfig {
    /// Returns the configuration for so many flows: no timeouts, no memory limit.
    #[must_use]
    pub const fn for_flows(flows: u32) -> Self {
        Self {
            flows,
            lines: None,
            pool: None,
            list_cap: 64,
            timeouts: Timeouts::NEVER,
            isa: None,
            huge_pages: HugePages::Try,
            memory_limit_bytes: u64::MAX,
        }
    }

    /// Returns the number of lines.
    pub fn line_count(&self) -> u32 {
        // 22.5 flows a line.
        let lines = (u64::from(self.flows) * 2).div_ceil(u64::from(LANES) * 3 / 2);
        self.lines.unwrap_or(u32::try_from(lines).unwrap_or(u32::MAX)).max(1)
    }

    /// Returns the number of states behind the stash.
    pub fn pool_size(&self) -> u32 {
        self.pool.unwrap_or(self.flows / 1000 + 64)
    }

    /// Returns the bytes that a table of keys `K` and values `V` reserves.
    pub fn bytes_needed<K: Copy, V>(&self) -> u64 {
        u64::from(self.line_count()) * size_of::<Line>() as u64
            + ConflictLists::bytes_needed(u64::from(self.list_count()), u64::from(self.pool_size()))
            + States::<K, V>::bytes_needed(self.places(), &self.timeouts)
    }

    fn list_count(&self) -> u32 {
        self.line_count().div_ceil(LINES_PER_LIST)
    }

    fn places(&self) -> u64 {
        u64::from(self.line_count()) * u64::from(LANES) + u64::from(self.pool_size())
    }
}

/// The table to use. See the [module](super).
pub struct LineHash<K, V> {
    pub(super) lines: LineArray<Line>,
    line_count: u32,
    stash: ConflictLists,
    /// Flows in alternate lines.
    away: u32,
    pub(super) states: States<K, V>,
    backend: Backend,
}

impl<K: TableKey, V> LineHash<K, V> {
    /// Returns an empty table. Memory is reserved and not touched.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if the configuration cannot be, or does not fit the memory.
    pub fn try_new(config: &LineHashConfig) -> Result<Self, BuildError> {
        let places = check_size(
            config.flows,
            config.places(),
            config.bytes_needed::<K, V>(),
            config.memory_limit_bytes,
        )?;
        let isa = config.isa.unwrap_or_else(Isa::detect);
        let backend = Backend::new(isa).ok_or(BuildError::IsaUnavailable { isa })?;
        let line_count = config.line_count();
        Ok(Self {
            lines: LineArray::try_new(line_count as usize, config.huge_pages)?,
            line_count,
            stash: ConflictLists::try_new(config.list_count(), config.pool_size(), config.list_cap)?,
            away: 0,
            states: States::try_new(places, config.flows, config.timeouts, config.huge_pages)?,
            backend,
        })
    }

    /// Makes all of the table resident now; otherwise the first flow in a fresh page pays for the page.
    pub fn prefault(&mut self) {
        self.lines.prefault();
        self.stash.prefault();
        self.states.prefault();
    }

    /// Returns what huge pages were asked for and obtained; asks the kernel, which is slow.
    pub fn pages_obtained(&self) -> PageReport {
        self.lines.pages_obtained().and(self.states.pages(true))
    }

    /// Returns the number of lines.
    pub fn line_count(&self) -> u32 {
        self.line_count
    }

    /// Returns the flow of a key, telling `probe` each step: lane by lane, in plain code.
    ///
    /// Gives what [`FlowTable::lookup`](crate::FlowTable::lookup) gives, slowly. For measuring how good a hash is.
    pub fn find_counting(&self, key: &K, hash: u64, probe: &mut impl Probe) -> Option<FlowId> {
        let place = self.place_of_hash(hash);
        let found = self
            .search_line(place.home, place.signature, key, probe)
            .or_else(|| self.search_elsewhere(place, key, hash, probe));
        probe.done(found.is_some());
        found
    }

    fn search_elsewhere(&self, place: Place, key: &K, hash: u64, probe: &mut impl Probe) -> Option<FlowId> {
        let home = &self.lines[place.home as usize];
        for way in [Way::First, Way::Second] {
            if home.filter() & filter_bit(hash, way) != 0 {
                let line = place.alternate(hash, self.line_count, way);
                let found = self.search_line(line, place.signature, key, probe);
                if found.is_some() {
                    return found;
                }
            }
        }
        if home.stashed() == 0 {
            return None;
        }
        for (number, stored) in self.stash.list(place.home / LINES_PER_LIST) {
            probe.line();
            probe.list_step();
            probe.comparison();
            if stored == Self::stash_signature(hash) {
                probe.line();
                let found = self.states.verify(self.pool_start() + number, key);
                if found.is_some() {
                    return found;
                }
                probe.false_match();
            }
        }
        None
    }

    fn search_line(&self, line: u32, signature: u16, key: &K, probe: &mut impl Probe) -> Option<FlowId> {
        probe.line();
        let halves = &self.lines[line as usize].0;
        for (lane, &stored) in (0..LANES).zip(halves) {
            probe.comparison();
            if stored == signature {
                probe.line();
                let found = self.states.verify(state_of(line, lane), key);
                if found.is_some() {
                    if lane == 0 {
                        probe.first_hit();
                    }
                    return found;
                }
                probe.false_match();
            }
        }
        None
    }

    #[inline(always)]
    pub(super) fn place_of_hash(&self, hash: u64) -> Place {
        Place::of(hash, self.line_count)
    }

    /// Returns what a list of the stash compares: all that does not choose the line.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
    fn stash_signature(hash: u64) -> u32 {
        hash as u32
    }

    /// Returns the first state of the pool.
    #[inline(always)]
    fn pool_start(&self) -> u32 {
        self.line_count * LANES
    }

    /// Returns the lanes of a line that hold a half-word.
    ///
    /// No closure here or below: one is compiled for any processor, and what it calls is no longer inlined.
    #[inline(always)]
    fn lanes_with<L: Lanes>(&self, lanes: L, line: u32, half: u16) -> u32 {
        match self.lines.get(line as usize) {
            Some(line) => lanes.equal_halves(line, half) & ALL_LANES,
            None => 0,
        }
    }

    /// Compares the matching lanes' keys.
    #[inline(always)]
    fn verify(&self, line: u32, matching: u32, key: &K) -> Option<FlowId> {
        if matching == 0 {
            return None;
        }
        match self.states.verify(state_of(line, matching.trailing_zeros()), key) {
            None if matching & (matching - 1) != 0 => self.verify_others(line, matching, key),
            found => found,
        }
    }

    /// Compares the keys of all matching lanes but the first.
    #[cold]
    #[inline(never)]
    fn verify_others(&self, line: u32, matching: u32, key: &K) -> Option<FlowId> {
        let mut matching = matching & (matching - 1);
        while matching != 0 {
            let found = self.states.verify(state_of(line, matching.trailing_zeros()), key);
            if found.is_some() {
                return found;
            }
            matching &= matching - 1;
        }
        None
    }

    /// Says whether a flow of this hash may have left its home line this way.
    #[inline(always)]
    fn may_have_left(home: &Line, hash: u64, way: Way) -> bool {
        home.filter() & filter_bit(hash, way) != 0
    }

    /// Looks where a flow may be that is not in its home line.
    #[inline(always)]
    pub(super) fn find_elsewhere<L: Lanes>(&self, lanes: L, key: &K, hash: u64) -> Option<FlowId> {
        let place = self.place_of_hash(hash);
        let home = &self.lines[place.home as usize];
        for way in [Way::First, Way::Second] {
            if !Self::may_have_left(home, hash, way) {
                continue;
            }
            let line = place.alternate(hash, self.line_count, way);
            let found = self.verify(line, self.lanes_with(lanes, line, place.signature), key);
            if found.is_some() {
                return found;
            }
        }
        if home.stashed() == 0 {
            return None;
        }
        self.stash
            .list(place.home / LINES_PER_LIST)
            .filter(|&(_, stored)| stored == Self::stash_signature(hash))
            .find_map(|(number, _)| self.states.verify(self.pool_start() + number, key))
    }

    /// Looks a key up whose home line does not have it; apart, so that the way of most keys stays short.
    #[inline(never)]
    fn find_outside(&self, key: &K, hash: u64) -> Option<FlowId> {
        self.backend.run_one(FindElsewhere(Find { table: self, key, hash }))
    }

    /// Looks a key up whose home line has its signature, but for another flow.
    #[cold]
    #[inline(never)]
    pub(super) fn find_after_false_match(&self, key: &K, hash: u64) -> Option<FlowId> {
        self.find(key, hash)
    }

    /// Asks for the alternate lines that a flow of this hash may live in; says whether it may live outside its home at all.
    #[inline]
    pub(super) fn prefetch_ways(&self, hash: u64) -> bool {
        let place = self.place_of_hash(hash);
        let home = &self.lines[place.home as usize];
        let mut any = home.stashed() != 0;
        for way in [Way::First, Way::Second] {
            if Self::may_have_left(home, hash, way) {
                prefetch::read_at(&self.lines, place.alternate(hash, self.line_count, way) as usize);
                any = true;
            }
        }
        any
    }

    /// Asks for the states in alternate lines that a flow of this hash may have.
    #[inline(always)]
    pub(super) fn prefetch_states_elsewhere<L: Lanes>(&self, lanes: L, hash: u64) {
        let place = self.place_of_hash(hash);
        let home = &self.lines[place.home as usize];
        for way in [Way::First, Way::Second] {
            if !Self::may_have_left(home, hash, way) {
                continue;
            }
            let line = place.alternate(hash, self.line_count, way);
            let matching = self.lanes_with(lanes, line, place.signature);
            if matching != 0 {
                self.states.prefetch(state_of(line, matching.trailing_zeros()));
            }
        }
    }
}

/// One key.
struct Find<'a, K, V> {
    table: &'a LineHash<K, V>,
    key: &'a K,
    hash: u64,
}

impl<K: TableKey, V> Kernel for Find<'_, K, V> {
    type Output = Option<FlowId>;

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Option<FlowId> {
        let Self { table, key, hash } = self;
        let Place { home, signature } = table.place_of_hash(hash);
        let found = table.verify(home, table.lanes_with(lanes, home, signature), key);
        if found.is_some() || table.lines[home as usize].is_plain() {
            return found;
        }
        table.find_outside(key, hash)
    }
}

/// One key, whose home line does not have it.
struct FindElsewhere<'a, K, V>(Find<'a, K, V>);

impl<K: TableKey, V> Kernel for FindElsewhere<'_, K, V> {
    type Output = Option<FlowId>;

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Option<FlowId> {
        let Find { table, key, hash } = self.0;
        table.find_elsewhere(lanes, key, hash)
    }
}

/// The empty lanes of a line.
struct FindEmpty<'a>(&'a Line);

impl Kernel for FindEmpty<'_> {
    type Output = u32;

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> u32 {
        lanes.equal_halves(self.0, 0) & ALL_LANES
    }
}

/// The lanes of a line that hold a signature, and those that are empty.
struct MatchingAndEmpty<'a>(&'a Line, u16);

impl Kernel for MatchingAndEmpty<'_> {
    type Output = (u32, u32);

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> (u32, u32) {
        (lanes.equal_halves(self.0, self.1) & ALL_LANES, lanes.equal_halves(self.0, 0) & ALL_LANES)
    }
}

impl<K: TableKey, V> LineHash<K, V> {
    fn empty_lanes(&self, line: u32) -> u32 {
        self.backend.run_one(FindEmpty(&self.lines[line as usize]))
    }

    /// Returns the state of a new flow whose home line is full.
    #[inline(never)]
    fn vacancy_elsewhere(&self, place: Place, hash: u64) -> Result<u32, FullReason> {
        let home = &self.lines[place.home as usize];
        if self.line_count > 1 && home.away() < DISPLACED_MAX {
            let [first, second] = [Way::First, Way::Second].map(|way| {
                let line = place.alternate(hash, self.line_count, way);
                (line, self.empty_lanes(line))
            });
            let (line, empty) = if second.1.count_ones() > first.1.count_ones() { second } else { first };
            if empty != 0 {
                return Ok(state_of(line, empty.trailing_zeros()));
            }
        }
        if home.stashed() == DISPLACED_MAX {
            return Err(FullReason::ListCap);
        }
        self.stash.vacancy(place.home / LINES_PER_LIST).map(|number| self.pool_start() + number)
    }
}

impl<K: TableKey, V> LineHash<K, V> {
    /// Links a flow that is not in its home line, and marks its state with the home that must hear of its end.
    #[inline(never)]
    fn link_elsewhere(&mut self, slot: u32, place: Place, hash: u64) {
        self.states.set_mark(slot, place.home + 1);
        if let Some(number) = slot.checked_sub(self.pool_start()) {
            self.stash.link(number, place.home / LINES_PER_LIST, Self::stash_signature(hash));
            self.lines[place.home as usize].stash();
            return;
        }
        let (line, lane) = place_of(slot);
        self.lines[line as usize].0[lane as usize] = place.signature;
        let first = place.alternate(hash, self.line_count, Way::First);
        let way = if line == first { Way::First } else { Way::Second };
        self.lines[place.home as usize].send_away(filter_bit(hash, way));
        self.away += 1;
    }

    #[inline(never)]
    fn unlink_elsewhere(&mut self, slot: u32) {
        let home = self.states.mark(slot) as usize - 1;
        self.states.set_mark(slot, 0);
        if let Some(number) = slot.checked_sub(self.pool_start()) {
            self.stash.unlink(number);
            self.lines[home].unstash();
            return;
        }
        let (line, lane) = place_of(slot);
        self.lines[line as usize].0[lane as usize] = 0;
        self.lines[home].call_back();
        self.away -= 1;
    }
}

impl<K: TableKey, V> Indexed for LineHash<K, V> {
    type Key = K;
    type Value = V;

    #[inline(always)]
    fn states(&self) -> &States<K, V> {
        &self.states
    }

    #[inline(always)]
    fn states_mut(&mut self) -> &mut States<K, V> {
        &mut self.states
    }

    #[inline(always)]
    fn prefetch_index(&self, hash: u64) {
        prefetch::read_at(&self.lines, self.place_of_hash(hash).home as usize);
    }

    #[inline]
    fn find(&self, key: &K, hash: u64) -> Option<FlowId> {
        self.backend.run_one(Find { table: self, key, hash })
    }

    #[inline]
    fn find_batch(&self, keys: &[K], hashes: &[u64], ids: &mut [Option<FlowId>]) {
        self.backend.run(FindBatch { table: self, keys, hashes, ids });
    }

    #[inline]
    fn find_or_vacancy(&self, key: &K, hash: u64) -> Result<FlowId, Result<u32, FullReason>> {
        let place = self.place_of_hash(hash);
        let home = &self.lines[place.home as usize];
        let (matching, empty) = self.backend.run_one(MatchingAndEmpty(home, place.signature));
        let mut found = self.verify(place.home, matching, key);
        if found.is_none() && !home.is_plain() {
            found = self.find_outside(key, hash);
        }
        match (found, empty) {
            (Some(id), _) => Ok(id),
            (None, 0) => Err(self.vacancy_elsewhere(place, hash)),
            (None, empty) => Err(Ok(state_of(place.home, empty.trailing_zeros()))),
        }
    }

    #[inline]
    fn vacancy(&self, _key: &K, hash: u64) -> Result<u32, FullReason> {
        let place = self.place_of_hash(hash);
        match self.empty_lanes(place.home) {
            0 => self.vacancy_elsewhere(place, hash),
            empty => Ok(state_of(place.home, empty.trailing_zeros())),
        }
    }

    #[inline]
    fn link(&mut self, slot: u32, _key: &K, hash: u64) {
        let place = self.place_of_hash(hash);
        let lane = slot.wrapping_sub(state_of(place.home, 0));
        if lane < LANES {
            self.lines[place.home as usize].0[lane as usize] = place.signature;
        } else {
            self.link_elsewhere(slot, place, hash);
        }
    }

    #[inline]
    fn unlink(&mut self, slot: u32) {
        // Only a flow that is not at home has a mark.
        if self.states.mark(slot) == 0 {
            let (line, lane) = place_of(slot);
            self.lines[line as usize].0[lane as usize] = 0;
        } else {
            self.unlink_elsewhere(slot);
        }
    }

    fn next_linked(&self, slot: u32) -> u32 {
        let mut slot = slot;
        while slot < self.pool_start() {
            let (line, lane) = place_of(slot);
            let taken = !self.empty_lanes(line) & ALL_LANES & (u32::MAX << lane);
            if taken != 0 {
                return state_of(line, taken.trailing_zeros());
            }
            slot = state_of(line + 1, 0);
        }
        slot
    }

    fn visit_rivals(&self, hash: u64, visit: &mut dyn FnMut(u32) -> bool) {
        let start = state_of(self.place_of_hash(hash).home, 0);
        for slot in start..start + LANES {
            if !visit(slot) {
                return;
            }
        }
    }

    fn complete_stats(&self, stats: &mut TableStats) {
        stats.stashed = self.stash.used();
        stats.displaced = self.away + stats.stashed;
        stats.list_length_max = self.stash.length_max();
        stats.pool_size = self.stash.pool_size();
    }

    fn complete_memory(&self, memory: &mut MemoryReport) {
        memory.index_bytes = self.lines.pages().bytes;
        memory.list_bytes = self.stash.bytes();
        memory.pages = memory.pages.and(self.lines.pages());
    }
}

impl<K, V> fmt::Debug for LineHash<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineHash")
            .field("lines", &self.line_count)
            .field("states", &self.states)
            .field("backend", &self.backend)
            .finish_non_exhaustive()
    }
}
