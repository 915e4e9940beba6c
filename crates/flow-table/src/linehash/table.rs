//! [`LineHash`]: find, add, delete.

use core::fmt;

use flowloom_cpu::features::Isa;
use flowloom_cpu::pages::LineArray;

use super::lanes::Empty;
use super::layout::{
    ALL_LANES, AWAY, Counts, DISPLACED_MAX, Filter, LANES, Line, LinePlace, STASH_BIT, STASHED, Way,
    filter_bit, lane_to_take, place_of, state_of,
};
use super::sizes::{LINES_PER_LIST, Sizes};
use super::walk::{Flows, FlowsMut, TakenSlots};
use crate::arch::{Backend, Kernel, Lanes};
use crate::conflict::ConflictLists;
use crate::error::{BuildError, check_size};
use crate::indexed::Indexed;
use crate::options::TableOptions;
use crate::probe::Probe;
use crate::state::States;
use crate::table::{FlowId, FullReason, TableKey};
use flowloom_flow_key::TableHash;

/// Maximum number of flows in one list of the stash, unless an option sets it; eight lines share a
/// list.
const LIST_CAP: u32 = 64;

/// The recommended table. See the [module](super).
pub struct LineHash<K, V> {
    pub(super) lines: LineArray<Line>,
    pub(super) line_count: u32,
    /// The first state after those of lanes.
    pool_start: u32,
    /// [`LANES`], hidden from the compiler: a multiplication takes one instruction, but the shifts
    /// that replace multiplication by a constant take three.
    pub(super) line_states: u32,
    /// The number of displaced flows of each line, which only insertions and removals of such flows
    /// read.
    pub(super) counts: LineArray<Counts>,
    pub(super) stash: ConflictLists,
    /// Number of flows in alternate lines.
    pub(super) away: u32,
    pub(super) states: States<K, V>,
    pub(super) backend: Backend,
}

impl<K: TableKey, V> LineHash<K, V> {
    /// Returns an empty table.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError`] for invalid options, or a table that exceeds the memory.
    pub fn try_new(options: &TableOptions) -> Result<Self, BuildError> {
        let sizes = Sizes::new(options);
        let places = check_size(options, sizes.places(), sizes.bytes::<K, V>(options))?;
        let mut table = Self::with_sizes(options, sizes, places)?;
        if options.prefault {
            table.lines.prefault();
            table.counts.prefault();
            table.stash.prefault();
            table.states.prefault();
        }
        Ok(table)
    }

    /// Returns a table without lines, which allocates nothing and refuses each flow.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError::IsaUnavailable`].
    pub(crate) fn try_empty(options: &TableOptions) -> Result<Self, BuildError> {
        Self::with_sizes(&TableOptions { flows: 0, ..*options }, Sizes::NONE, 0)
    }

    fn with_sizes(options: &TableOptions, sizes: Sizes, places: u32) -> Result<Self, BuildError> {
        let isa = options.isa.unwrap_or_else(Isa::detect);
        let backend = Backend::new(isa).ok_or(BuildError::IsaUnavailable { isa })?;
        let Sizes { lines, lists, pool } = sizes;
        Ok(Self {
            lines: LineArray::try_new(lines as usize, options.huge_pages)?,
            line_count: lines,
            pool_start: lines * LANES,
            line_states: LANES,
            counts: LineArray::try_new(lines as usize, options.huge_pages)?,
            stash: ConflictLists::try_new(lists, pool, options.list_cap.unwrap_or(LIST_CAP))?,
            away: 0,
            states: States::try_new(places, options)?,
            backend,
        })
    }

    /// Returns the bytes that a table with these options reserves.
    pub fn bytes_needed(options: &TableOptions) -> u64 {
        Sizes::new(options).bytes::<K, V>(options)
    }

    /// Returns the number of lines.
    pub fn line_count(&self) -> u32 {
        self.line_count
    }

    /// Returns the favourite state of a hash, which a single lookup prefetches.
    pub fn favourite_of(&self, hash: TableHash) -> u32 {
        LinePlace::favourite_of(hash, self.pool_start)
    }

    /// Returns the flow of a key lane by lane, in plain code, and reports each step to `probe`.
    ///
    /// It returns the result of [`FlowTable::lookup`](crate::FlowTable::lookup), slowly. It serves
    /// to measure the quality of a hash.
    pub fn find_counting(&self, key: &K, hash: TableHash, probe: &mut impl Probe) -> Option<FlowId> {
        let place = self.place_of_hash(hash);
        let found = self
            .search_line(place.home, place.signature, key, probe)
            .or_else(|| self.search_elsewhere(place, key, hash, probe));
        if found.is_some_and(|id| id.slot() == state_of(place.home, 0)) {
            probe.first_hit();
        }
        probe.done(found.is_some());
        found
    }

    fn search_elsewhere(
        &self,
        place: LinePlace,
        key: &K,
        hash: TableHash,
        probe: &mut impl Probe,
    ) -> Option<FlowId> {
        let home = &self.lines[place.home as usize];
        if !home.may_be_elsewhere(hash) {
            return None;
        }
        for way in [Way::First, Way::Second] {
            let line = place.alternate(hash, self.line_count, way);
            let found = self.search_line(line, place.signature, key, probe);
            if found.is_some() {
                return found;
            }
        }
        if !home.may_have_stashed() || self.counts[place.home as usize][STASHED] == 0 {
            return None;
        }
        for (number, stored) in self.stash.list(place.home / LINES_PER_LIST) {
            probe.line();
            probe.list_step();
            probe.comparison();
            if stored == Self::stash_signature(hash) {
                probe.line();
                let found = self.states.verify(self.pool_start + number, key);
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
                    return found;
                }
                probe.false_match();
            }
        }
        None
    }

    #[inline(always)]
    pub(super) fn place_of_hash(&self, hash: TableHash) -> LinePlace {
        LinePlace::new(hash, self.line_count)
    }

    /// Returns the value that a list of the stash compares: all bits that do not select the line.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
    fn stash_signature(hash: TableHash) -> u32 {
        hash.bits() as u32
    }

    /// Returns the lanes of a line that contain a half-word.
    ///
    /// Use no closure here or below: a closure is compiled for the baseline processor, and calls
    /// inside it do not inline.
    #[inline(always)]
    pub(super) fn lanes_with<L: Lanes>(&self, lanes: L, line: u32, half: u16) -> u32 {
        match self.lines.get(line as usize) {
            Some(line) => lanes.equal_lanes(line, half),
            None => 0,
        }
    }

    /// Compares the keys of all matching lanes.
    #[inline(always)]
    fn verify(&self, line: u32, matching: u32, key: &K) -> Option<FlowId> {
        let mut matching = matching;
        while matching != 0 {
            let found = self.states.verify(state_of(line, matching.trailing_zeros()), key);
            if found.is_some() {
                return found;
            }
            matching &= matching - 1;
        }
        None
    }

    /// Searches the stash for a flow, if its home line's filter says that it may be there.
    #[inline(never)]
    pub(super) fn find_stashed(&self, home: u32, key: &K, hash: TableHash) -> Option<FlowId> {
        if self.counts.get(home as usize)?[STASHED] == 0 {
            return None;
        }
        self.stash
            .list(home / LINES_PER_LIST)
            .filter(|&(_, stored)| stored == Self::stash_signature(hash))
            .find_map(|(number, _)| self.states.verify(self.pool_start + number, key))
    }

    /// Looks up a key wherever it may be. This function is not inlined, so that the path of most
    /// keys stays short. On that path, the first lane of the home line with the signature holds the
    /// key, or no lane does. It is cold, so that a loop around that path does not keep registers
    /// free for a call.
    #[cold]
    #[inline(never)]
    pub(super) fn find_anywhere(&self, key: &K, hash: TableHash) -> Option<FlowId> {
        self.backend.run(FindAnywhere { table: self, key, hash })
    }

    /// Looks up a key wherever it may be, with its value. Not inlined either; otherwise the common
    /// path would compute the address of the value twice.
    #[cold]
    #[inline(never)]
    pub(super) fn find_value_anywhere(&self, key: &K, hash: TableHash) -> Option<(FlowId, &V)> {
        let id = self.find_anywhere(key, hash)?;
        Some((id, self.states.get(id)?))
    }

    /// Prefetches the state that a flow of this hash most likely has, so that it arrives together
    /// with the line.
    #[inline(always)]
    pub(super) fn prefetch_favourite(&self, hash: TableHash) {
        self.states.prefetch(LinePlace::favourite_of(hash, self.pool_start));
    }

    /// Returns the state that a new flow gets in its home line.
    #[inline(always)]
    pub(super) fn state_to_take(&self, home: u32, empty: u32, hash: TableHash) -> u32 {
        state_of(home, lane_to_take(empty, LinePlace::favourite_lane_of(hash, self.line_count)))
    }

    /// Looks for a key in its home line, where most keys are.
    #[inline(always)]
    pub(super) fn look_at_home(&self, key: &K, hash: TableHash) -> AtHome<'_, V> {
        let Some(lanes) = self.backend.plain() else { return AtHome::Unsure };
        self.prefetch_favourite(hash);
        let LinePlace { home, signature } = self.place_of_hash(hash);
        let Some(line) = self.lines.get(home as usize) else { return AtHome::Nowhere };
        let matching = lanes.equal_lanes(line, signature);
        if matching != 0 {
            let slot = home * self.line_states + matching.trailing_zeros();
            match self.states.tenants().verify_value(slot, key) {
                Some((id, value)) => AtHome::Found(id, value),
                None => AtHome::Unsure,
            }
        } else if line.may_be_elsewhere(hash) {
            AtHome::Unsure
        } else {
            AtHome::Nowhere
        }
    }

    /// Returns the flow of a key if its home line has it.
    #[inline(always)]
    pub(crate) fn find_at_home(&self, key: &K, hash: TableHash) -> Option<FlowId> {
        match self.look_at_home(key, hash) {
            AtHome::Found(id, _) => Some(id),
            AtHome::Nowhere | AtHome::Unsure => None,
        }
    }

    /// Looks for a key in both alternates of its home line, and in the stash if `home` says that it
    /// may be there.
    ///
    /// Both are compared before either is chosen, because a branch on the first would be
    /// mispredicted every other time.
    #[inline(always)]
    fn find_away<L: Lanes>(
        &self,
        lanes: L,
        home: &Line,
        place: LinePlace,
        key: &K,
        hash: TableHash,
    ) -> Option<FlowId> {
        let lines = [
            place.alternate(hash, self.line_count, Way::First),
            place.alternate(hash, self.line_count, Way::Second),
        ];
        let first = self.lanes_with(lanes, lines[0], place.signature);
        let second = self.lanes_with(lanes, lines[1], place.signature);
        let (line, matching) = if first == 0 { (lines[1], second) } else { (lines[0], first) };
        let mut found = self.verify(line, matching, key);
        if found.is_none() && first != 0 {
            found = self.verify(lines[1], second, key);
        }
        if found.is_none() && home.may_have_stashed() {
            found = self.find_stashed(place.home, key, hash);
        }
        found
    }
}

/// The result of a lookup in a key's home line.
pub(super) enum AtHome<'a, V> {
    /// The flow exists; its id and its value.
    Found(FlowId, &'a V),
    /// The flow does not exist.
    Nowhere,
    /// The signature is there but belongs to another flow, or the flow may be elsewhere.
    Unsure,
}

/// The lookup of one key, wherever it is.
struct FindAnywhere<'a, K, V> {
    table: &'a LineHash<K, V>,
    key: &'a K,
    hash: TableHash,
}

impl<K: TableKey, V> Kernel for FindAnywhere<'_, K, V> {
    type Output = Option<FlowId>;

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Option<FlowId> {
        let Self { table, key, hash } = self;
        let place = table.place_of_hash(hash);
        let home = table.lines.get(place.home as usize)?;
        let matching = table.lanes_with(lanes, place.home, place.signature);
        if matching != 0 {
            let found = table.verify(place.home, matching, key);
            if found.is_some() {
                return found;
            }
        }
        if home.may_be_elsewhere(hash) { table.find_away(lanes, home, place, key, hash) } else { None }
    }
}

impl<K: TableKey, V> LineHash<K, V> {
    /// Returns the first slot from `slot` on that may have a flow. All states after those of lanes
    /// may have one.
    pub(super) fn next_taken(&self, slot: u32) -> u32 {
        let mut slot = slot;
        while slot < self.pool_start {
            let (line, lane) = place_of(slot);
            let taken = !self.empty_lanes(line) & ALL_LANES & (u32::MAX << lane);
            if taken != 0 {
                return state_of(line, taken.trailing_zeros());
            }
            slot = state_of(line + 1, 0);
        }
        slot
    }

    /// Returns all flows.
    pub(crate) fn flows(&self) -> Flows<'_, K, V> {
        let Self { lines, backend, pool_start, states, .. } = self;
        let pool = *pool_start..states.slot_count();
        let slots = TakenSlots { lines: lines.iter(), backend: *backend, taken: 0, line_end: 0, pool };
        Flows { slots, states: states.tenants() }
    }

    /// Returns all flows, mutably.
    pub(crate) fn flows_mut(&mut self) -> FlowsMut<'_, K, V> {
        let Self { lines, backend, pool_start, states, .. } = self;
        let pool = *pool_start..states.slot_count();
        let slots = TakenSlots { lines: lines.iter(), backend: *backend, taken: 0, line_end: 0, pool };
        FlowsMut { slots, states: states.walk_mut() }
    }

    pub(super) fn empty_lanes(&self, line: u32) -> u32 {
        self.backend.run_one(Empty(&self.lines[line as usize]))
    }

    /// Returns the state of a new flow whose home line is full.
    #[inline(never)]
    pub(super) fn vacancy_elsewhere(&self, place: LinePlace, hash: TableHash) -> Result<u32, FullReason> {
        let counts = self.counts[place.home as usize];
        if self.line_count > 1 && counts[AWAY] < DISPLACED_MAX {
            let [first, second] = [Way::First, Way::Second].map(|way| {
                let line = place.alternate(hash, self.line_count, way);
                (line, self.empty_lanes(line))
            });
            let (line, empty) = if second.1.count_ones() > first.1.count_ones() { second } else { first };
            if empty != 0 {
                return Ok(state_of(line, empty.trailing_zeros()));
            }
        }
        if counts[STASHED] == DISPLACED_MAX {
            return Err(FullReason::ListCap);
        }
        self.stash.vacancy(place.home / LINES_PER_LIST).map(|number| self.pool_start + number)
    }
}

impl<K: TableKey, V> LineHash<K, V> {
    /// Links a flow outside its home line, and marks its state with the home line, whose filter
    /// must learn of the flow's end.
    #[inline(never)]
    pub(super) fn link_elsewhere(&mut self, slot: u32, place: LinePlace, hash: TableHash) {
        self.states.set_mark(slot, place.home + 1);
        let bits = if let Some(number) = slot.checked_sub(self.pool_start) {
            self.stash.link(number, place.home / LINES_PER_LIST, Self::stash_signature(hash));
            self.counts[place.home as usize][STASHED] += 1;
            filter_bit(hash) | STASH_BIT
        } else {
            let (line, lane) = place_of(slot);
            self.lines[line as usize].0[lane as usize] = place.signature;
            self.counts[place.home as usize][AWAY] += 1;
            self.away += 1;
            filter_bit(hash)
        };
        let home = &mut self.lines[place.home as usize];
        home.set_filter(home.filter() | bits);
    }

    /// Removes the flow of a key wherever it is.
    #[inline(never)]
    pub(super) fn take_anywhere(&mut self, key: &K, hash: TableHash) -> Option<(K, V)> {
        let id = self.find_anywhere(key, hash)?;
        let flow = self.states.vacate(id)?;
        self.unlink(id.slot());
        Some(flow)
    }

    /// Unlinks a flow outside its home line. The filter of the home line forgets such flows only
    /// when none is left.
    #[inline(never)]
    pub(super) fn unlink_elsewhere(&mut self, slot: u32) {
        let home = self.states.mark(slot) as usize - 1;
        self.states.set_mark(slot, 0);
        if let Some(number) = slot.checked_sub(self.pool_start) {
            self.stash.unlink(number);
            self.counts[home][STASHED] -= 1;
        } else {
            let (line, lane) = place_of(slot);
            self.lines[line as usize].0[lane as usize] = 0;
            self.counts[home][AWAY] -= 1;
            self.away -= 1;
        }
        if self.counts[home] == [0, 0] {
            self.lines[home].set_filter(0);
        }
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
