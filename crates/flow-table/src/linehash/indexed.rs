//! The operations of a [`LineHash`] that the shared code of all tables uses.

use flowloom_cpu::pages::PageReport;
use flowloom_cpu::prefetch;

use super::batch::{AskStates, FindBatch};
use super::lanes::{Empty, Matching};
use super::layout::{
    ALL_LANES, AWAY, DISPLACED_MAX, Filter, LANES, LinePlace, Way, lane_to_take, place_of, state_of,
    visit_line,
};
use super::table::{AtHome, LineHash};
use crate::arch::Lanes;
use crate::indexed::Indexed;
use crate::state::States;
use crate::table::{FlowId, FullReason, MemoryReport, TableKey, TableStats, Tick, TimeoutClass};
use flowloom_flow_key::TableHash;

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
    fn prefetch_index(&self, hash: TableHash) {
        prefetch::read_later_at(&self.lines, self.place_of_hash(hash).home as usize);
    }

    #[inline]
    fn prefetch_found(&self, hashes: &[TableHash]) {
        self.backend.run(AskStates { table: self, hashes });
    }

    #[inline]
    fn find(&self, key: &K, hash: TableHash) -> Option<FlowId> {
        match self.look_at_home(key, hash) {
            AtHome::Found(id, _) => Some(id),
            AtHome::Nowhere => None,
            AtHome::Unsure => self.find_anywhere(key, hash),
        }
    }

    #[inline]
    fn find_value(&self, key: &K, hash: TableHash) -> Option<(FlowId, &V)> {
        // Handle each path separately, so that no comparison is repeated.
        match self.look_at_home(key, hash) {
            AtHome::Found(id, value) => Some((id, value)),
            AtHome::Nowhere => None,
            AtHome::Unsure => self.find_value_anywhere(key, hash),
        }
    }

    #[inline]
    fn find_batch<const PREFETCHED: bool>(
        &self,
        keys: &[K],
        hashes: &[TableHash],
        ids: &mut [Option<FlowId>],
    ) {
        self.find_batch_values::<PREFETCHED>(keys, hashes, ids, |_, _| {});
    }

    #[inline]
    fn find_batch_values<const PREFETCHED: bool>(
        &self,
        keys: &[K],
        hashes: &[TableHash],
        ids: &mut [Option<FlowId>],
        on_flow: impl FnMut(usize, &V),
    ) {
        self.backend.run(FindBatch::<_, _, _, PREFETCHED> { table: self, keys, hashes, ids, on_flow });
    }

    #[inline]
    fn find_or_vacancy(&self, key: &K, hash: TableHash) -> Result<FlowId, Result<u32, FullReason>> {
        let place = self.place_of_hash(hash);
        let Some(home) = self.lines.get(place.home as usize) else { return Err(Err(FullReason::Capacity)) };
        let matching = self.backend.run_one(Matching(home, place.signature));
        if matching != 0 || home.may_be_elsewhere(hash) {
            let found = self.find_anywhere(key, hash);
            if let Some(id) = found {
                return Ok(id);
            }
        }
        match self.backend.run_one(Empty(home)) {
            0 => Err(self.vacancy_elsewhere(place, hash)),
            empty => Err(Ok(self.state_to_take(place.home, empty, hash))),
        }
    }

    #[inline(always)]
    fn enter_at_once<F: FnOnce() -> V>(
        &mut self,
        key: &K,
        hash: TableHash,
        class: TimeoutClass,
        now: Tick,
        make: F,
    ) -> Result<FlowId, F> {
        let Some(lanes) = self.backend.plain() else { return Err(make) };
        let LinePlace { home, signature } = self.place_of_hash(hash);
        let favourite = LinePlace::favourite_lane_of(hash, self.line_count);
        let Some(line) = self.lines.get_mut(home as usize) else { return Err(make) };
        if lanes.equal_lanes(line, signature) != 0 || line.may_be_elsewhere(hash) {
            return Err(make);
        }
        let empty = !lanes.top_bits(line) & ALL_LANES;
        if empty == 0 || !self.states.has_space() {
            return Err(make);
        }
        let lane = lane_to_take(empty, favourite);
        let value = make();
        line.0[lane as usize] = signature;
        let state = home * self.line_states + lane;
        Ok(self.states.occupy(state, Self::KEEPS_MARKS, (*key, value), class, now))
    }

    #[inline]
    fn vacancy(&self, _key: &K, hash: TableHash) -> Result<u32, FullReason> {
        let place = self.place_of_hash(hash);
        if self.line_count == 0 {
            return Err(FullReason::Capacity);
        }
        match self.empty_lanes(place.home) {
            0 => self.vacancy_elsewhere(place, hash),
            empty => Ok(self.state_to_take(place.home, empty, hash)),
        }
    }

    #[inline]
    fn link(&mut self, slot: u32, _key: &K, hash: TableHash) {
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
        // Only a flow outside its home line has a mark.
        if self.states.mark(slot) == 0 {
            let (line, lane) = place_of(slot);
            self.lines[line as usize].0[lane as usize] = 0;
        } else {
            self.unlink_elsewhere(slot);
        }
    }

    #[inline]
    fn take(&mut self, key: &K, hash: TableHash) -> Option<(K, V)> {
        let Some(lanes) = self.backend.plain() else { return self.take_anywhere(key, hash) };
        let LinePlace { home, signature } = self.place_of_hash(hash);
        self.prefetch_favourite(hash);
        let line = self.lines.get_mut(home as usize)?;
        let matching = lanes.equal_lanes(line, signature);
        if matching != 0 {
            // A key is looked up in its own home line, so this flow is at home and has no mark.
            let lane = matching.trailing_zeros();
            if let Some(flow) = self.states.vacate_key(home * self.line_states + lane, key) {
                line.0[lane as usize] = 0;
                return Some(flow);
            }
        } else if !line.may_be_elsewhere(hash) {
            return None;
        }
        self.take_anywhere(key, hash)
    }

    fn next_linked(&self, slot: u32) -> u32 {
        self.next_taken(slot)
    }

    fn visit_rivals(&self, hash: TableHash, visit: &mut dyn FnMut(u32) -> bool) {
        visit_line(self.place_of_hash(hash).home, visit);
    }

    fn visit_further(&self, hash: TableHash, visit: &mut dyn FnMut(u32) -> bool) {
        let place = self.place_of_hash(hash);
        if self.line_count <= 1 {
            return;
        }
        if self.empty_lanes(place.home) == 0 && self.counts[place.home as usize][AWAY] == DISPLACED_MAX {
            return;
        }
        let lines = [Way::First, Way::Second].map(|way| place.alternate(hash, self.line_count, way));
        let _ = visit_line(lines[0], visit) && visit_line(lines[1], visit);
    }

    fn complete_stats(&self, stats: &mut TableStats) {
        stats.displaced = self.away;
        self.stash.complete_stats(stats);
    }

    fn complete_memory(&self, memory: &mut MemoryReport) {
        let index = self.lines.pages().and(self.counts.pages());
        memory.index_bytes = index.bytes;
        memory.list_bytes = self.stash.bytes();
        memory.pages = memory.pages.and(index);
    }

    fn index_pages_obtained(&self) -> PageReport {
        self.lines.pages_obtained().and(self.counts.pages_obtained())
    }
}
