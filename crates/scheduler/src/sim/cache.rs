//! Tracks where a flow's state is cached, by the number of flow changes since its last use.

use super::machine::CacheModel;

const NOWHERE: u16 = u16::MAX;

/// The cache or memory from which a state had to be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fetch {
    Private,
    Shared,
    Remote,
    Memory,
}

#[derive(Clone, Copy, Debug)]
struct LastUse {
    core_changes: u32,
    all_changes: u32,
    core: u16,
}

/// The location of each flow's state.
#[derive(Clone, Debug)]
pub(super) struct Caches {
    model: CacheModel,
    places: Vec<LastUse>,
    core_changes: Vec<u32>,
    all_changes: u32,
    /// The flow that each worker processed last.
    current: Vec<u32>,
    core_of: Vec<u16>,
}

impl Caches {
    pub(super) fn new(model: CacheModel, flows: usize, core_of: Vec<u16>) -> Self {
        let cores = core_of.iter().map(|&core| usize::from(core) + 1).max().unwrap_or(1);
        Self {
            model,
            places: vec![LastUse { core_changes: 0, all_changes: 0, core: NOWHERE }; flows],
            core_changes: vec![0; cores],
            all_changes: 0,
            current: vec![u32::MAX; core_of.len()],
            core_of,
        }
    }

    /// Records that a worker uses a flow's state. Returns the source and the cost of the fetch.
    #[inline]
    pub(super) fn touch(&mut self, worker: usize, flow: u32) -> (Fetch, u32) {
        let core = self.core_of[worker];
        if self.current[worker] != flow {
            self.current[worker] = flow;
            self.core_changes[usize::from(core)] += 1;
            self.all_changes += 1;
        }
        let own_changes = self.core_changes[usize::from(core)];
        let place = &mut self.places[flow as usize];
        let is_shared = self.all_changes.wrapping_sub(place.all_changes) < self.model.shared_flows;
        let fetch = if place.core == NOWHERE {
            Fetch::Memory
        } else if place.core != core {
            if is_shared { Fetch::Remote } else { Fetch::Memory }
        } else if own_changes.wrapping_sub(place.core_changes) < self.model.private_flows {
            Fetch::Private
        } else if is_shared {
            Fetch::Shared
        } else {
            Fetch::Memory
        };
        *place = LastUse { core_changes: own_changes, all_changes: self.all_changes, core };
        let cycles = match fetch {
            Fetch::Private => 0,
            Fetch::Shared => self.model.shared_cycles,
            Fetch::Remote => self.model.remote_cycles,
            Fetch::Memory => self.model.memory_cycles,
        };
        (fetch, cycles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_state_ages_with_each_other_flow() {
        let model = CacheModel {
            shared_cycles: 1,
            remote_cycles: 2,
            memory_cycles: 3,
            private_flows: 3,
            shared_flows: 6,
        };
        let mut caches = Caches::new(model, 20, vec![0, 0, 1]);
        assert_eq!(caches.touch(0, 0), (Fetch::Memory, 3));
        assert_eq!(caches.touch(0, 0), (Fetch::Private, 0));
        // A sibling shares the cache, but another core does not.
        assert_eq!(caches.touch(1, 0), (Fetch::Private, 0));
        assert_eq!(caches.touch(2, 0), (Fetch::Remote, 2));
        for flow in 1..4 {
            caches.touch(2, flow);
        }
        assert_eq!(caches.touch(2, 0), (Fetch::Shared, 1));
        for flow in 4..12 {
            caches.touch(2, flow);
        }
        assert_eq!(caches.touch(2, 0), (Fetch::Memory, 3));
    }
}
