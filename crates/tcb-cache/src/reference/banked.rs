//! The caches with banks as the papers describe them: a list of ways per set, counters that are
//! swept, and no tables.
//!
//! Random choices are drawn in the same order as in production: one number per choice, with
//! candidates in order from bank 0, way 0.

use crate::access::Access;
use crate::banked::access_count::Counted;
use crate::banked::fewer_on::Tie;
use crate::banked::flow_lru_coarse::uses_per_period;
use crate::banked::ship::signature;
use crate::counts::Counts;
use crate::geometry::Geometry;
use crate::index::Indexing;
use crate::lifetime::LifetimeArray;
use crate::policy::Policy;
use crate::random::Random;
use crate::simulator::Simulator;
use crate::spec::{CacheSpec, SpecError};

/// The contents of a way.
#[derive(Clone, Copy, Debug)]
struct Line {
    key: u64,
    /// Numbers of the accesses that filled the line and last touched it.
    filled: u64,
    touched: u64,
    /// A wrapping time stamp.
    stamp: u64,
    /// Whether it was used since the bits were last cleared (ENRU), or since it entered (`SHiP`).
    used: bool,
    /// Predicted re-reference interval.
    interval: u8,
    signature: u16,
    /// Sweeps since the last access, up to 255.
    age: u8,
}

/// The place of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    bank: usize,
    set: usize,
    way: usize,
}

/// A cache with banks, in a simple implementation.
#[derive(Debug)]
pub struct ReferenceCache {
    spec: CacheSpec,
    geometry: Geometry,
    index: Indexing,
    /// Lines by bank, set and way.
    banks: Vec<Vec<Vec<Option<Line>>>>,
    lifetime: LifetimeArray,
    set_accesses: Vec<Vec<u64>>,
    random: Random,
    turn: usize,
    counter: u64,
    hit_counters: Vec<u8>,
    selector: i32,
    rare_fills: u32,
    uses: u64,
    latest_ms: u64,
    counts: Counts,
}

impl ReferenceCache {
    /// Returns the empty cache of a specification with banks.
    ///
    /// # Errors
    ///
    /// Returns [`SpecError`] in the same cases as [`CacheSpec::build`]. Fully associative policies
    /// are not supported.
    pub fn new(spec: &CacheSpec) -> Result<Self, SpecError> {
        let geometry = spec.geometry;
        if spec.policy.is_fully_associative() || spec.policy.needs_future() {
            return Err(SpecError::NeedsFuture { policy: spec.policy });
        }
        let set = vec![None; geometry.ways() as usize];
        Ok(Self {
            spec: *spec,
            geometry,
            index: spec.indexing()?,
            banks: vec![vec![set; geometry.sets() as usize]; geometry.banks() as usize],
            lifetime: LifetimeArray::new(geometry.lines() as usize),
            set_accesses: vec![vec![0; geometry.sets() as usize]; geometry.banks() as usize],
            random: Random::new(spec.seed ^ 0x5EED_C401_CE00_0000),
            turn: 0,
            counter: 0,
            hit_counters: vec![1; 1 << 14],
            selector: 511,
            rare_fills: 0,
            uses: 0,
            latest_ms: 0,
            counts: Counts::default(),
        })
    }

    fn line(&self, place: Place) -> Option<Line> {
        self.banks[place.bank][place.set][place.way]
    }

    fn line_mut(&mut self, place: Place) -> &mut Option<Line> {
        &mut self.banks[place.bank][place.set][place.way]
    }

    /// Returns the line's number in the Lifetime array.
    fn number(&self, place: Place) -> usize {
        let Geometry { sets, ways, .. } = self.geometry;
        (place.bank * sets as usize + place.set) * ways as usize + place.way
    }

    fn is_on(&self, place: Place) -> bool {
        self.lifetime.is_on(self.number(place))
    }

    /// Returns the places of a session's own sets, bank by bank.
    fn own(&self, key: u64) -> Vec<Place> {
        self.places(|bank| self.index.set(key, bank))
    }

    /// Returns the places of its auxiliary sets.
    fn auxiliary(&self, key: u64) -> Vec<Place> {
        self.places(|bank| self.index.auxiliary_set(key, bank))
    }

    fn places(&self, set: impl Fn(u32) -> u32) -> Vec<Place> {
        let mut places = Vec::new();
        for bank in 0..self.geometry.banks() {
            for way in 0..self.geometry.ways() as usize {
                places.push(Place { bank: bank as usize, set: set(bank) as usize, way });
            }
        }
        places
    }

    /// Returns the place with the lowest value. Empty places come first; of equal ones, the first
    /// wins.
    fn least(&self, places: &[Place], value: impl Fn(&Line) -> u64) -> Place {
        *places
            .iter()
            .min_by_key(|place| self.line(**place).map_or(0, |line| value(&line) + 1))
            .expect("a set has a way")
    }

    fn oldest(&self, places: &[Place]) -> Place {
        self.least(places, |line| line.touched)
    }

    fn age(&self, place: Place) -> u64 {
        self.line(place).map_or(0, |line| line.touched + 1)
    }

    fn hits(&mut self, place: Place, access: Access) {
        self.counts.hits += 1;
        if self.spec.uses_closing() && access.closes() {
            self.counts.closed += 1;
            *self.line_mut(place) = None;
            let number = self.number(place);
            self.lifetime.clear(number);
            return;
        }
        let now = self.counts.accesses;
        let stamp = self.next_stamp();
        self.count_use(place);
        self.sweep_ages();
        let line = self.line_mut(place).as_mut().expect("a hit is on a line");
        line.touched = now;
        line.age = 0;
        line.stamp = stamp;
        line.used = true;
        line.interval = 0;
        let signature = usize::from(line.signature);
        self.hit_counters[signature] = (self.hit_counters[signature] + 1).min(7);
        let number = self.number(place);
        self.lifetime.touch(number);
    }

    /// Counts a hit or fill, and ages all lines at the end of a period.
    fn sweep_ages(&mut self) {
        self.uses += 1;
        if self.uses.is_multiple_of(uses_per_period(self.geometry.lines() as usize)) {
            for line in self.banks.iter_mut().flatten().flatten().flatten() {
                line.age = line.age.saturating_add(1);
            }
        }
    }

    fn count_use(&mut self, place: Place) {
        if self.spec.policy == (Policy::AccessCount { counted: Counted::Uses }) {
            self.set_accesses[place.bank][place.set] += 1;
        }
    }

    fn next_stamp(&mut self) -> u64 {
        let stamp = self.counter;
        if let Policy::Timestamp { bits } | Policy::TimestampDistance { bits } = self.spec.policy {
            self.counter = (self.counter + 1) % (1 << bits);
        }
        stamp
    }

    fn access(&mut self, access: Access) {
        self.latest_ms = self.latest_ms.max(access.time_ms());
        self.lifetime.advance(self.latest_ms);
        self.counts.accesses += 1;
        let key = access.key();
        if self.spec.policy == (Policy::AccessCount { counted: Counted::Searches }) {
            for bank in 0..self.geometry.banks() {
                let set = self.index.set(key, bank) as usize;
                self.set_accesses[bank as usize][set] += 1;
            }
        }
        let holds = |place: &&Place| self.line(**place).is_some_and(|line| line.key == key);
        if let Some(place) = self.own(key).iter().find(holds) {
            return self.hits(*place, access);
        }
        let searches_on = matches!(
            self.spec.policy,
            Policy::Speculative { .. } | Policy::Zcache | Policy::FlowLru | Policy::FlowLruCoarse
        );
        if searches_on && let Some(place) = self.auxiliary(key).iter().find(holds) {
            self.counts.auxiliary_hits += 1;
            return self.hits(*place, access);
        }
        self.counts.misses += 1;
        if self.spec.uses_closing() && access.closes() {
            self.counts.not_filled += 1;
            return;
        }
        self.sweep_ages();
        let place = self.free_place(key);
        self.counts.evictions += u64::from(self.line(place).is_some());
        self.fill(place, key);
    }

    fn fill(&mut self, place: Place, key: u64) {
        let now = self.counts.accesses;
        let stamp = self.next_stamp();
        let signature = signature(key);
        let interval = match self.spec.policy {
            Policy::Ship if self.hit_counters[usize::from(signature)] == 0 => 3,
            Policy::Drrip => self.duel(key),
            _ => 2,
        };
        // SHiP needs to know whether a line was hit, ENRU whether it was used at all.
        let used = self.spec.policy == Policy::Enru;
        self.count_use(place);
        *self.line_mut(place) =
            Some(Line { key, filled: now, touched: now, stamp, used, interval, signature, age: 0 });
        let number = self.number(place);
        self.lifetime.touch(number);
    }

    /// Returns the interval that DRRIP gives to a new line.
    fn duel(&mut self, key: u64) -> u8 {
        let rare = match self.index.set(key, 0) % 32 {
            0 => {
                self.selector = (self.selector + 1).min(1023);
                false
            }
            1 => {
                self.selector = (self.selector - 1).max(0);
                true
            }
            _ => self.selector > 511,
        };
        if !rare {
            return 2;
        }
        self.rare_fills += 1;
        if self.rare_fills.is_multiple_of(32) { 2 } else { 3 }
    }

    fn free_place(&mut self, key: u64) -> Place {
        let own = self.own(key);
        let empty = own.iter().copied().find(|place| self.line(*place).is_none());
        match self.spec.policy {
            Policy::Lru => self.oldest(&own),
            Policy::Fifo => self.least(&own, |line| line.filled),
            Policy::Enru => empty.unwrap_or_else(|| self.enru(&own)),
            Policy::RoundRobin => {
                let bank = self.turn;
                self.turn = (self.turn + 1) % self.geometry.banks() as usize;
                self.oldest_in(&own, bank)
            }
            Policy::AccessCount { .. } => {
                let banks = 0..self.geometry.banks() as usize;
                let set = |bank: usize| self.index.set(key, bank as u32) as usize;
                let bank = banks.min_by_key(|&bank| self.set_accesses[bank][set(bank)]).expect("a bank");
                self.oldest_in(&own, bank)
            }
            Policy::Timestamp { .. } => empty.unwrap_or_else(|| self.least(&own, |line| line.stamp)),
            Policy::TimestampDistance { bits } => empty.unwrap_or_else(|| {
                let all = 1_u64 << bits;
                let now = self.counter;
                self.least(&own, |line| all - 1 - (now + all - line.stamp) % all)
            }),
            Policy::NoMigrate { tie } => self.fewer_on(&own, tie),
            Policy::Speculative { tie } => {
                let victim = self.fewer_on(&own, tie);
                if self.is_on(victim) { self.migrate(victim) } else { victim }
            }
            Policy::Srrip | Policy::Drrip => empty.unwrap_or_else(|| self.most_distant(&own)),
            Policy::Ship => empty.unwrap_or_else(|| {
                let place = self.most_distant(&own);
                let line = self.line(place).expect("no place is empty");
                if !line.used {
                    let counter = &mut self.hit_counters[usize::from(line.signature)];
                    *counter = counter.saturating_sub(1);
                }
                place
            }),
            Policy::Zcache => self.zcache(key),
            Policy::FlowLru => self.flow_lru(&own, |line| line.touched + 1),
            Policy::FlowLruCoarse => self.flow_lru(&own, |line| 256 - u64::from(line.age)),
            policy => unreachable!("'{policy}' has no banks, which the constructor checks"),
        }
    }

    fn oldest_in(&self, places: &[Place], bank: usize) -> Place {
        let inside: Vec<Place> = places.iter().copied().filter(|place| place.bank == bank).collect();
        self.oldest(&inside)
    }

    fn enru(&mut self, own: &[Place]) -> Place {
        let unused = |cache: &Self| -> Vec<Place> {
            own.iter().copied().filter(|place| cache.line(*place).is_some_and(|line| !line.used)).collect()
        };
        if unused(self).is_empty() {
            for place in own {
                if let Some(line) = self.line_mut(*place) {
                    line.used = false;
                }
            }
        }
        let unused = unused(self);
        unused[self.random.below(unused.len() as u64) as usize]
    }

    fn fewer_on(&mut self, own: &[Place], tie: Tie) -> Place {
        let banks = self.geometry.banks() as usize;
        let on = |bank| own.iter().filter(|place| place.bank == bank && self.is_on(**place)).count();
        let fewest = (0..banks).map(on).min().unwrap_or(0);
        let tied: Vec<usize> = (0..banks).filter(|&bank| on(bank) == fewest).collect();
        match tie {
            Tie::Left => self.oldest_in(own, tied[0]),
            Tie::Older => {
                let oldest: Vec<Place> = tied.iter().map(|&bank| self.oldest_in(own, bank)).collect();
                self.oldest(&oldest)
            }
            Tie::RoundRobin => {
                let bank =
                    (0..banks).map(|step| (self.turn + step) % banks).find(|bank| tied.contains(bank));
                let chosen = self.oldest_in(own, bank.expect("one of them has the fewest"));
                self.turn = (self.turn + usize::from(tied.len() > 1)) % banks;
                chosen
            }
        }
    }

    /// Moves a random migratable line of the victim's set away, or evicts the victim.
    fn migrate(&mut self, victim: Place) -> Place {
        let mut migratable = Vec::new();
        for way in 0..self.geometry.ways() as usize {
            let from = Place { way, ..victim };
            let line = self.line(from).expect("all lines of the set are ON");
            let off: Vec<Place> = self
                .auxiliary(line.key)
                .into_iter()
                .filter(|place| (place.bank, place.set) != (victim.bank, victim.set) && !self.is_on(*place))
                .collect();
            if !off.is_empty() {
                migratable.push((from, self.oldest(&off)));
            }
        }
        if migratable.is_empty() {
            return victim;
        }
        let (from, to) = migratable[self.random.below(migratable.len() as u64) as usize];
        self.relocate(from, to);
        from
    }

    fn relocate(&mut self, from: Place, to: Place) {
        self.counts.moves += 1;
        self.counts.evictions += u64::from(self.line(to).is_some());
        let (from_number, to_number) = (self.number(from), self.number(to));
        self.lifetime.copy(from_number, to_number);
        self.lifetime.clear(from_number);
        *self.line_mut(to) = self.line_mut(from).take();
    }

    fn most_distant(&mut self, own: &[Place]) -> Place {
        loop {
            let interval = |place: &&Place| self.line(**place).is_some_and(|line| line.interval == 3);
            if let Some(place) = own.iter().find(interval) {
                return *place;
            }
            for place in own {
                if let Some(line) = self.line_mut(*place) {
                    line.interval += 1;
                }
            }
        }
    }

    fn zcache(&mut self, key: u64) -> Place {
        let first: Vec<Place> = self.own(key).into_iter().chain(self.auxiliary(key)).collect();
        let mut best = (self.oldest(&first), None);
        if self.line(best.0).is_none() {
            return best.0;
        }
        for place in &first {
            let line = self.line(*place).expect("none of the first level is empty");
            for behind in self.own(line.key).into_iter().chain(self.auxiliary(line.key)) {
                if (behind.bank, behind.set) != (place.bank, place.set)
                    && self.age(behind) < self.age(best.0)
                {
                    best = (behind, Some(*place));
                }
            }
        }
        match best {
            (place, None) => place,
            (to, Some(from)) => {
                self.relocate(from, to);
                from
            }
        }
    }

    /// Frees a place by one step of relocation; `youth` is lower for older lines, and above 0.
    fn flow_lru(&mut self, own: &[Place], youth: impl Fn(&Line) -> u64) -> Place {
        let victim = self.least(own, &youth);
        let Some(line) = self.line(victim) else { return victim };
        let others: Vec<Place> = self
            .own(line.key)
            .into_iter()
            .chain(self.auxiliary(line.key))
            .filter(|place| (place.bank, place.set) != (victim.bank, victim.set))
            .collect();
        if !others.is_empty() {
            let oldest = self.least(&others, &youth);
            if self.line(oldest).map_or(0, |line| youth(&line)) < youth(&line) {
                self.relocate(victim, oldest);
            }
        }
        victim
    }
}

impl Simulator for ReferenceCache {
    fn run(&mut self, accesses: &[Access]) {
        for access in accesses {
            self.access(*access);
        }
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn resident(&self) -> Vec<u64> {
        self.banks.iter().flatten().flatten().flatten().map(|line| line.key).collect()
    }
}
