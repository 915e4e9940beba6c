//! The fully associative policies over plain lists, front first: every step searches and shifts.

use crate::fully_associative::sketch::Sketch;
use crate::fully_associative::{Eviction, Full};

/// Removes a key from a list; returns whether the list contained it.
fn take(list: &mut Vec<u64>, key: u64) -> bool {
    let at = list.iter().position(|k| *k == key);
    at.map(|at| list.remove(at)).is_some()
}

fn join(lists: &[&Vec<u64>]) -> Vec<u64> {
    lists.iter().flat_map(|list| list.iter().copied()).collect()
}

#[derive(Debug)]
pub(super) struct Lru {
    keys: Vec<u64>,
    lines: usize,
}

impl Lru {
    pub(super) fn new(lines: usize) -> Self {
        Self { keys: Vec::new(), lines }
    }
}

impl Full for Lru {
    fn hit(&mut self, key: u64) -> bool {
        let hit = take(&mut self.keys, key);
        if hit {
            self.keys.insert(0, key);
        }
        hit
    }

    fn fill(&mut self, key: u64) -> Eviction {
        self.keys.insert(0, key);
        let full = self.keys.len() > self.lines;
        self.keys.truncate(self.lines);
        full.into()
    }

    fn close(&mut self, key: u64) {
        take(&mut self.keys, key);
    }

    fn resident(&self) -> Vec<u64> {
        self.keys.clone()
    }
}

#[derive(Debug)]
pub(super) struct Fifo(Lru);

impl Fifo {
    pub(super) fn new(lines: usize) -> Self {
        Self(Lru::new(lines))
    }
}

impl Full for Fifo {
    fn hit(&mut self, key: u64) -> bool {
        self.0.keys.contains(&key)
    }

    fn fill(&mut self, key: u64) -> Eviction {
        self.0.fill(key)
    }

    fn close(&mut self, key: u64) {
        self.0.close(key);
    }

    fn resident(&self) -> Vec<u64> {
        self.0.resident()
    }
}

/// A circle of keys with reference bits; the hand points to the oldest key.
#[derive(Debug)]
pub(super) struct Clock {
    keys: Vec<(u64, bool)>,
    lines: usize,
}

impl Clock {
    pub(super) fn new(lines: usize) -> Self {
        Self { keys: Vec::new(), lines }
    }
}

impl Full for Clock {
    fn hit(&mut self, key: u64) -> bool {
        let found = self.keys.iter_mut().find(|(k, _)| *k == key);
        found.map(|(_, used)| *used = true).is_some()
    }

    fn fill(&mut self, key: u64) -> Eviction {
        let full = self.keys.len() == self.lines;
        while self.keys.len() == self.lines {
            let (oldest, used) = self.keys.remove(0);
            if used {
                self.keys.push((oldest, false));
            }
        }
        self.keys.push((key, false));
        full.into()
    }

    fn close(&mut self, key: u64) {
        self.keys.retain(|(k, _)| *k != key);
    }

    fn resident(&self) -> Vec<u64> {
        self.keys.iter().map(|(key, _)| *key).collect()
    }
}

/// Keys, oldest first; the hand is the key that it points to.
#[derive(Debug)]
pub(super) struct Sieve {
    keys: Vec<(u64, bool)>,
    hand: Option<u64>,
    lines: usize,
}

impl Sieve {
    pub(super) fn new(lines: usize) -> Self {
        Self { keys: Vec::new(), hand: None, lines }
    }

    fn at_hand(&self) -> usize {
        self.hand.and_then(|hand| self.keys.iter().position(|(key, _)| *key == hand)).unwrap_or(0)
    }
}

impl Full for Sieve {
    fn hit(&mut self, key: u64) -> bool {
        let found = self.keys.iter_mut().find(|(k, _)| *k == key);
        found.map(|(_, used)| *used = true).is_some()
    }

    fn fill(&mut self, key: u64) -> Eviction {
        let full = self.keys.len() == self.lines;
        if full {
            let mut at = self.at_hand();
            while self.keys[at].1 {
                self.keys[at].1 = false;
                at = (at + 1) % self.keys.len();
            }
            self.keys.remove(at);
            self.hand = self.keys.get(at).map(|(key, _)| *key);
        }
        self.keys.push((key, false));
        full.into()
    }

    fn close(&mut self, key: u64) {
        let Some(at) = self.keys.iter().position(|(k, _)| *k == key) else { return };
        self.keys.remove(at);
        if self.hand == Some(key) {
            self.hand = self.keys.get(at).map(|(key, _)| *key);
        }
    }

    fn resident(&self) -> Vec<u64> {
        self.keys.iter().map(|(key, _)| *key).collect()
    }
}

#[derive(Debug)]
pub(super) struct S3Fifo {
    small: Vec<(u64, u8)>,
    main: Vec<(u64, u8)>,
    ghosts: Vec<u64>,
    lines: usize,
    has_evicted: bool,
}

impl S3Fifo {
    pub(super) fn new(lines: usize) -> Self {
        Self { small: Vec::new(), main: Vec::new(), ghosts: Vec::new(), lines, has_evicted: false }
    }

    fn evict(&mut self) {
        let small_max = (self.lines / 10).max(1);
        let ghosts_max = (self.lines * 9 / 10).max(1);
        self.has_evicted = true;
        let from_small = self.small.len() >= small_max || self.main.is_empty();
        while self.small.len() + self.main.len() == self.lines {
            if from_small && !self.small.is_empty() {
                let (key, uses) = self.small.pop().expect("it is not empty");
                if uses >= 2 {
                    self.main.insert(0, (key, 0));
                } else {
                    self.ghosts.insert(0, key);
                    self.ghosts.truncate(ghosts_max);
                }
            } else {
                let (key, uses) = self.main.pop().expect("every line is in one of the lists");
                if uses > 0 {
                    self.main.insert(0, (key, uses - 1));
                }
            }
        }
    }
}

impl Full for S3Fifo {
    fn hit(&mut self, key: u64) -> bool {
        let found = self.small.iter_mut().chain(&mut self.main).find(|(k, _)| *k == key);
        found.map(|(_, uses)| *uses = (*uses + 1).min(3)).is_some()
    }

    fn fill(&mut self, key: u64) -> Eviction {
        let known = take(&mut self.ghosts, key);
        let full = self.small.len() + self.main.len() == self.lines;
        if full {
            self.evict();
        }
        let fills_main = !self.has_evicted && self.small.len() >= (self.lines / 10).max(1);
        if known || fills_main { &mut self.main } else { &mut self.small }.insert(0, (key, 0));
        full.into()
    }

    fn close(&mut self, key: u64) {
        self.small.retain(|(k, _)| *k != key);
        self.main.retain(|(k, _)| *k != key);
    }

    fn resident(&self) -> Vec<u64> {
        self.small.iter().chain(&self.main).map(|(key, _)| *key).collect()
    }
}

#[derive(Debug)]
pub(super) struct TwoQ {
    once: Vec<u64>,
    often: Vec<u64>,
    ghosts: Vec<u64>,
    lines: usize,
}

impl TwoQ {
    pub(super) fn new(lines: usize) -> Self {
        Self { once: Vec::new(), often: Vec::new(), ghosts: Vec::new(), lines }
    }
}

impl Full for TwoQ {
    fn hit(&mut self, key: u64) -> bool {
        if take(&mut self.often, key) {
            self.often.insert(0, key);
            return true;
        }
        self.once.contains(&key)
    }

    fn fill(&mut self, key: u64) -> Eviction {
        let known = take(&mut self.ghosts, key);
        let full = self.once.len() + self.often.len() == self.lines;
        if full {
            if self.once.len() > (self.lines / 4).max(1) || self.often.is_empty() {
                let key = self.once.pop().expect("every line is in one of the lists");
                self.ghosts.insert(0, key);
                self.ghosts.truncate((self.lines / 2).max(1));
            } else {
                self.often.pop();
            }
        }
        if known { &mut self.often } else { &mut self.once }.insert(0, key);
        full.into()
    }

    fn close(&mut self, key: u64) {
        take(&mut self.once, key);
        take(&mut self.often, key);
    }

    fn resident(&self) -> Vec<u64> {
        join(&[&self.once, &self.often])
    }
}

/// T1, T2, B1 and B2 of the literature.
#[derive(Debug)]
pub(super) struct Arc {
    once: Vec<u64>,
    often: Vec<u64>,
    lost_once: Vec<u64>,
    lost_often: Vec<u64>,
    target: usize,
    lines: usize,
}

impl Arc {
    pub(super) fn new(lines: usize) -> Self {
        let list = Vec::new;
        Self { once: list(), often: list(), lost_once: list(), lost_often: list(), target: 0, lines }
    }

    fn is_full(&self) -> bool {
        self.once.len() + self.often.len() == self.lines
    }

    fn replace(&mut self, from_lost_often: bool) {
        let once = self.once.len();
        let over = once > self.target || (from_lost_often && once == self.target);
        if self.often.is_empty() || (once > 0 && over) {
            let key = self.once.pop().expect("it is not empty");
            self.lost_once.insert(0, key);
        } else {
            let key = self.often.pop().expect("it is not empty");
            self.lost_often.insert(0, key);
        }
    }
}

impl Full for Arc {
    fn hit(&mut self, key: u64) -> bool {
        let hit = take(&mut self.once, key) || take(&mut self.often, key);
        if hit {
            self.often.insert(0, key);
        }
        hit
    }

    fn fill(&mut self, key: u64) -> Eviction {
        let full = self.is_full();
        let (b1, b2) = (self.lost_once.len(), self.lost_often.len());
        if self.lost_once.contains(&key) {
            self.target = self.lines.min(self.target + (b2 / b1).max(1));
            if full {
                self.replace(false);
            }
            take(&mut self.lost_once, key);
            self.often.insert(0, key);
        } else if self.lost_often.contains(&key) {
            self.target = self.target.saturating_sub((b1 / b2).max(1));
            if full {
                self.replace(true);
            }
            take(&mut self.lost_often, key);
            self.often.insert(0, key);
        } else {
            if self.once.len() + b1 == self.lines {
                if self.once.len() < self.lines {
                    self.lost_once.pop();
                    if full {
                        self.replace(false);
                    }
                } else if full {
                    self.once.pop();
                }
            } else if full {
                if self.once.len() + self.often.len() + b1 + b2 >= 2 * self.lines {
                    self.lost_often.pop();
                }
                self.replace(false);
            }
            self.once.insert(0, key);
        }
        full.into()
    }

    fn close(&mut self, key: u64) {
        take(&mut self.once, key);
        take(&mut self.often, key);
    }

    fn resident(&self) -> Vec<u64> {
        join(&[&self.once, &self.often])
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Lir,
    Hir,
    Gone,
}

#[derive(Debug)]
pub(super) struct Lirs {
    /// Most recent key first.
    stack: Vec<(u64, Status)>,
    hir: Vec<u64>,
    /// Evicted keys, latest first.
    gone: Vec<u64>,
    lir: Vec<u64>,
    lines: usize,
}

impl Lirs {
    pub(super) fn new(lines: usize) -> Self {
        Self { stack: Vec::new(), hir: Vec::new(), gone: Vec::new(), lir: Vec::new(), lines }
    }

    fn lir_max(&self) -> usize {
        self.lines - (self.lines / 100).max(1).min(self.lines)
    }

    fn prune(&mut self) {
        while let Some((key, status)) = self.stack.last().copied() {
            if status == Status::Lir {
                break;
            }
            self.stack.pop();
            take(&mut self.gone, key);
        }
    }

    fn demote(&mut self) {
        self.prune();
        if let Some((key, _)) = self.stack.pop() {
            take(&mut self.lir, key);
            self.hir.insert(0, key);
            self.prune();
        }
    }

    fn raise(&mut self, key: u64, status: Status) {
        self.stack.retain(|(k, _)| *k != key);
        self.stack.insert(0, (key, status));
    }

    fn in_stack(&self, key: u64) -> bool {
        self.stack.iter().any(|(k, _)| *k == key)
    }
}

impl Full for Lirs {
    fn hit(&mut self, key: u64) -> bool {
        if self.lir.contains(&key) {
            self.raise(key, Status::Lir);
            self.prune();
            return true;
        }
        if !self.hir.contains(&key) {
            return false;
        }
        take(&mut self.hir, key);
        if self.in_stack(key) {
            self.raise(key, Status::Lir);
            self.lir.push(key);
            if self.lir.len() > self.lir_max() {
                self.demote();
            }
        } else {
            self.raise(key, Status::Hir);
            self.hir.insert(0, key);
        }
        true
    }

    fn fill(&mut self, key: u64) -> Eviction {
        let full = self.lir.len() + self.hir.len() == self.lines;
        if full {
            if self.hir.is_empty() {
                self.demote();
            }
            if let Some(victim) = self.hir.pop()
                && self.in_stack(victim)
            {
                for (key, status) in &mut self.stack {
                    if *key == victim {
                        *status = Status::Gone;
                    }
                }
                self.gone.insert(0, victim);
                if self.gone.len() > 2 * self.lines
                    && let Some(forgotten) = self.gone.pop()
                {
                    self.stack.retain(|(key, _)| *key != forgotten);
                }
            }
        }
        let known = self.in_stack(key);
        take(&mut self.gone, key);
        if self.lir.len() < self.lir_max() {
            self.raise(key, Status::Lir);
            self.lir.push(key);
        } else if known && self.lir_max() > 0 {
            self.raise(key, Status::Lir);
            self.lir.push(key);
            self.demote();
        } else {
            self.raise(key, Status::Hir);
            self.hir.insert(0, key);
            self.prune();
        }
        full.into()
    }

    fn close(&mut self, key: u64) {
        take(&mut self.hir, key);
        take(&mut self.lir, key);
        self.stack.retain(|(k, _)| *k != key);
        self.prune();
    }

    fn resident(&self) -> Vec<u64> {
        join(&[&self.lir, &self.hir])
    }
}

/// Shares the sketch with the production code; the queues are separate.
#[derive(Debug)]
pub(super) struct WTinyLfu {
    window: Vec<u64>,
    probation: Vec<u64>,
    protected: Vec<u64>,
    sketch: Sketch,
    lines: usize,
}

impl WTinyLfu {
    pub(super) fn new(lines: usize) -> Self {
        let list = Vec::new;
        Self { window: list(), probation: list(), protected: list(), sketch: Sketch::new(lines), lines }
    }
}

impl Full for WTinyLfu {
    fn hit(&mut self, key: u64) -> bool {
        if take(&mut self.window, key) {
            self.window.insert(0, key);
        } else if take(&mut self.probation, key) || take(&mut self.protected, key) {
            self.protected.insert(0, key);
            if self.protected.len() > (self.lines - (self.lines / 100).max(1)) * 4 / 5 {
                let demoted = self.protected.pop().expect("a key was just inserted there");
                self.probation.insert(0, demoted);
            }
        } else {
            return false;
        }
        self.sketch.add(key);
        true
    }

    fn fill(&mut self, key: u64) -> Eviction {
        self.sketch.add(key);
        self.window.insert(0, key);
        let window_max = (self.lines / 100).max(1);
        if self.window.len() <= window_max {
            return 0;
        }
        let candidate = self.window.pop().expect("a key was just inserted there");
        if self.probation.len() + self.protected.len() < self.lines - window_max {
            self.probation.insert(0, candidate);
            return 0;
        }
        let side = if self.probation.is_empty() { &mut self.protected } else { &mut self.probation };
        if let Some(victim) = side.last().copied()
            && self.sketch.estimate(candidate) > self.sketch.estimate(victim)
        {
            side.pop();
            self.probation.insert(0, candidate);
        }
        1
    }

    fn close(&mut self, key: u64) {
        take(&mut self.window, key);
        take(&mut self.probation, key);
        take(&mut self.protected, key);
    }

    fn resident(&self) -> Vec<u64> {
        join(&[&self.window, &self.probation, &self.protected])
    }
}
