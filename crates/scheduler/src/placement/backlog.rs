//! Estimates the backlog of each worker from what the dispatcher knows.
//!
//! The work of a packet is unknown until the packet is completed. The dispatcher knows how many
//! items and bytes it has sent, how many are completed (one batch late), and in some cases how long
//! each worker was busy. During the run, it fits a line `time = a·items + b·bytes` to these numbers
//! and expresses backlogs in terms of it. Without measured times, an item counts as its bytes plus
//! a constant.

use super::{LoadView, WorkItem, WorkerId};
use crate::topology::{CAPACITY_FULL, Topology};

/// Cost of an item in addition to its bytes, in bytes, until times have been measured.
const ITEM_BYTES: u64 = 256;
/// Fractional bits of the two coefficients.
const FRACTION: u32 = 8;
/// Measurements after which the line is fitted again.
const FIT_EVERY: u32 = 256;
/// Share of the sums that is kept after a new fit.
const KEEP: f64 = 0.75;

/// The cost of an item: `item + byte · bytes`.
#[derive(Clone, Debug)]
pub(super) struct Cost {
    item: u64,
    byte: u64,
    /// Sums over the measurements: items², items·bytes, bytes², items·time, bytes·time.
    sums: [f64; 5],
    measured: u32,
    /// Whether the line has changed, so that earlier estimates must be recomputed.
    refitted: bool,
    /// Whether the line is never fitted.
    is_fixed: bool,
}

impl Cost {
    pub(super) fn new() -> Self {
        Self {
            item: ITEM_BYTES << FRACTION,
            byte: 1 << FRACTION,
            sums: [0.0; 5],
            measured: 0,
            refitted: false,
            is_fixed: false,
        }
    }

    #[inline]
    fn cost(&self, items: u64, bytes: u64) -> u64 {
        (self.item.wrapping_mul(items).wrapping_add(self.byte.wrapping_mul(bytes))) >> FRACTION
    }

    /// Returns a line with the given coefficients.
    #[cfg(test)]
    pub(super) fn drawn(item: u64, byte: u64) -> Self {
        Self { item, byte, ..Self::new() }
    }

    /// Returns the cost of an item and of a byte, in the same arbitrary unit.
    pub(super) fn line(&self) -> (u64, u64) {
        (self.item, self.byte)
    }

    #[expect(clippy::cast_precision_loss, reason = "differences of counters over one batch are small")]
    pub(super) fn measure(&mut self, items: u64, bytes: u64, time: u64) {
        if self.is_fixed {
            return;
        }
        let (x, y, t) = (items as f64, bytes as f64, time as f64);
        for (sum, term) in self.sums.iter_mut().zip([x * x, x * y, y * y, x * t, y * t]) {
            *sum += term;
        }
        self.measured += 1;
        if self.measured == FIT_EVERY {
            self.measured = 0;
            self.fit();
            self.sums.iter_mut().for_each(|sum| *sum *= KEEP);
        }
    }

    /// Least squares through the origin. If the measurements cannot separate the two coefficients,
    /// the cost per item accounts for all of the time.
    #[expect(clippy::cast_sign_loss, reason = "negative slopes were replaced above")]
    fn fit(&mut self) {
        let [xx, xy, yy, xt, yt] = self.sums;
        if xx <= 0.0 {
            return;
        }
        let determinant = xx * yy - xy * xy;
        let alone = (xt / xx, 0.0);
        let (item, byte) = if determinant > 1e-4 * xx * yy {
            match ((xt * yy - yt * xy) / determinant, (yt * xx - xt * xy) / determinant) {
                (_, byte) if byte < 0.0 => alone,
                (item, _) if item < 0.0 && yy > 0.0 => (0.0, yt / yy),
                both => both,
            }
        } else {
            alone
        };
        let fixed = |value: f64| ((value * f64::from(1 << FRACTION)) as u64).min(1 << 40);
        (self.item, self.byte, self.refitted) = (fixed(item), fixed(byte), true);
        if self.item + self.byte == 0 {
            self.item = 1;
        }
    }
}

/// Counters and estimated backlog of each worker.
#[derive(Clone)]
pub(crate) struct Backlog {
    sent: Vec<u64>,
    completed: Vec<u64>,
    completed_bytes: Vec<u64>,
    busy: Vec<u64>,
    waiting: Vec<u32>,
    /// 2¹⁶ divided by the worker's capacity, relative to an ordinary worker.
    scale: Vec<u64>,
    cost: Cost,
    /// Mean cost of an item, ×16, averaged over about 256 items.
    mean: u64,
}

impl core::fmt::Debug for Backlog {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Backlog").field("workers", &self.sent.len()).finish_non_exhaustive()
    }
}

impl Backlog {
    pub(crate) fn new(topology: &Topology) -> Self {
        let level = topology.levels() - 1;
        let count = topology.nodes(level);
        let scale = (0..count)
            .map(|worker| (u64::from(CAPACITY_FULL) << 16) / u64::from(topology.capacity(level, worker)))
            .collect();
        Self {
            sent: vec![0; count],
            completed: vec![0; count],
            completed_bytes: vec![0; count],
            busy: vec![0; count],
            waiting: vec![0; count],
            scale,
            cost: Cost::new(),
            mean: 0,
        }
    }

    /// Returns the backlog in bytes, ignoring the cost of items and the speed of workers. Where the
    /// counters have no bytes, an item counts as a mean one.
    pub(crate) fn in_bytes(topology: &Topology) -> Self {
        let own = Self::new(topology);
        let cost = Cost { item: 0, byte: 1 << FRACTION, is_fixed: true, ..Cost::new() };
        Self { scale: vec![1 << 16; own.scale.len()], cost, ..own }
    }

    pub(crate) fn workers(&self) -> usize {
        self.waiting.len()
    }

    /// Reads the dispatcher's counters. Costs a few operations per worker, once per batch.
    pub(crate) fn refresh(&mut self, load: &LoadView<'_>) {
        let count = self.waiting.len();
        if load.sent.len() < count || load.completed.len() < count {
            return; // Without counters, the sum of the assigned items is the estimate.
        }
        let has_bytes = load.sent_bytes.len() >= count && load.completed_bytes.len() >= count;
        let has_time = load.busy.len() >= count;
        let refitted = std::mem::take(&mut self.cost.refitted);
        for worker in 0..count {
            let (sent, completed) = (load.sent[worker], load.completed[worker]);
            if sent == self.sent[worker] && completed == self.completed[worker] && !refitted {
                continue; // All assigned items have arrived and none is completed: the estimate remains valid.
            }
            if completed != self.completed[worker] && has_time {
                let bytes = if has_bytes { load.completed_bytes[worker] } else { 0 };
                self.cost.measure(
                    completed.wrapping_sub(self.completed[worker]),
                    bytes.wrapping_sub(self.completed_bytes[worker]),
                    load.busy[worker].wrapping_sub(self.busy[worker]),
                );
                self.completed_bytes[worker] = bytes;
                self.busy[worker] = load.busy[worker];
            }
            self.completed[worker] = completed;
            self.sent[worker] = sent;
            let items = sent.saturating_sub(completed);
            let bytes = if has_bytes {
                load.sent_bytes[worker].saturating_sub(load.completed_bytes[worker])
            } else if self.cost.is_fixed {
                items.saturating_mul(self.mean >> 4)
            } else {
                0
            };
            self.waiting[worker] = self.scaled(worker, self.cost.cost(items, bytes));
        }
    }

    #[inline]
    fn scaled(&self, worker: usize, cost: u64) -> u32 {
        u32::try_from(cost.saturating_mul(self.scale[worker]) >> 16).unwrap_or(u32::MAX)
    }

    /// Counts an item for a worker. Returns its position in the worker's queue and its cost.
    #[inline]
    pub(crate) fn assign(&mut self, worker: usize, item: WorkItem) -> (u64, u32) {
        let cost = self.cost.cost(1, u64::from(item.bytes));
        self.mean = self.mean - (self.mean >> 8) + (cost >> 4);
        let added = self.scaled(worker, cost);
        self.waiting[worker] = self.waiting[worker].saturating_add(added);
        self.sent[worker] += 1;
        (self.sent[worker], added)
    }

    /// Returns whether the item at a position of a worker's queue, and therefore every earlier one,
    /// is completed.
    ///
    /// A position beyond `sent` belongs to an item that was dropped before it reached the worker.
    /// It counts as completed when the queue is empty.
    #[inline]
    pub(crate) fn is_done(&self, worker: usize, place: u64) -> bool {
        self.completed[worker] >= place.min(self.sent[worker])
    }

    /// Returns the estimated backlog of each worker, divided by its capacity.
    #[inline]
    pub(crate) fn waiting(&self) -> &[u32] {
        &self.waiting
    }

    /// Returns the estimated cost of an item on an ordinary worker.
    #[inline]
    pub(crate) fn cost(&self, item: WorkItem) -> u32 {
        u32::try_from(self.cost.cost(1, u64::from(item.bytes))).unwrap_or(u32::MAX)
    }

    /// Returns the mean cost of the items so far.
    #[inline]
    pub(crate) fn mean_cost(&self) -> u32 {
        u32::try_from(self.mean >> 4).unwrap_or(u32::MAX)
    }

    /// Returns a worker's id from its index.
    #[inline]
    pub(crate) fn id(worker: usize) -> WorkerId {
        WorkerId::from(worker as u16)
    }
}

/// Returns the index of the smallest value. Of several smallest values, bits of `digest` choose
/// one, so that they share the work.
///
/// Compares value and index as one number, in four independent lanes, without a branch that the
/// processor would have to predict.
#[inline]
pub(crate) fn least_by(values: &[u32], digest: u32) -> usize {
    // Indices are below 1024, and an exclusive or with such a number permutes them.
    let order = u64::from(digest >> 7) & 0x3FF;
    let key = |place: usize, value: u32| (u64::from(value) << 16) | (place as u64 ^ order);
    let mut least = [u64::MAX; 4];
    let (chunks, rest) = values.as_chunks::<4>();
    for (at, chunk) in chunks.iter().enumerate() {
        for (lane, &value) in chunk.iter().enumerate() {
            least[lane] = least[lane].min(key(4 * at + lane, value));
        }
    }
    for (at, &value) in rest.iter().enumerate() {
        least[at] = least[at].min(key(4 * chunks.len() + at, value));
    }
    let best = least[0].min(least[1]).min(least[2].min(least[3]));
    ((best & 0xFFFF) ^ order) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Backlog {
        Backlog::new(&"2,1=50".parse().unwrap())
    }

    #[test]
    fn without_a_view_assignments_count_and_slow_workers_count_double() {
        let mut backlog = two();
        backlog.refresh(&LoadView::idle());
        let item = WorkItem { digest: 0, bytes: 44 };
        assert_eq!(backlog.assign(0, item), (1, 300));
        assert_eq!(backlog.assign(1, item), (1, 600));
        assert_eq!(backlog.waiting(), [300, 600]);
        assert!(!backlog.is_done(0, 1));
    }

    #[test]
    fn dropped_item_is_forgotten_when_its_queue_is_empty() {
        let mut backlog = two();
        let view = |sent: &[u64], completed: &[u64], backlog: &mut Backlog| {
            backlog.refresh(&LoadView { sent, completed, ..LoadView::idle() });
        };
        view(&[5, 0], &[3, 0], &mut backlog);
        let (place, _) = backlog.assign(0, WorkItem { digest: 0, bytes: 1 });
        assert_eq!(place, 6);
        // The item was dropped: the queue never grew.
        view(&[5, 0], &[4, 0], &mut backlog);
        assert!(!backlog.is_done(0, place));
        view(&[5, 0], &[5, 0], &mut backlog);
        assert!(backlog.is_done(0, place));
    }

    #[test]
    fn least_squares_line_is_found_if_item_sizes_differ() {
        let mut backlog = two();
        let mut state = 7;
        let (mut sent, mut bytes, mut busy) = ([0_u64; 2], [0_u64; 2], [0_u64; 2]);
        for round in 0..2000 {
            let worker = round % 2;
            let size = 64 + flowloom_flow_key::hash::fold::split_mix(&mut state) % 1400;
            sent[worker] += 1;
            bytes[worker] += size;
            busy[worker] += 500 + 18 * size;
            backlog.refresh(&LoadView {
                sent: &sent,
                completed: &sent,
                sent_bytes: &bytes,
                completed_bytes: &bytes,
                busy: &busy,
            });
        }
        assert_eq!(backlog.cost(WorkItem { digest: 0, bytes: 0 }).abs_diff(500) / 20, 0);
        assert_eq!(backlog.cost(WorkItem { digest: 0, bytes: 1000 }).abs_diff(18_500) / 100, 0);
    }

    /// Returns the cost of an item of zero bytes and of one of a thousand bytes, learnt from
    /// measured times.
    fn learnt(time: impl Fn(u64, u64) -> u64, bytes: impl Fn(u64, u64) -> u64) -> (u64, u64) {
        let mut cost = Cost::new();
        let mut state = 7;
        for _ in 0..FIT_EVERY {
            let (items, word) = (1 + flowloom_flow_key::hash::fold::split_mix(&mut state) % 8, state);
            let bytes = bytes(items, word);
            cost.measure(items, bytes, time(items, bytes));
        }
        assert!(cost.refitted);
        (cost.cost(1, 0), cost.cost(1, 1000))
    }

    #[test]
    fn negative_slopes_and_intercepts_are_clamped() {
        let any = |items: u64, word: u64| items * (64 + word % 1400);
        assert_eq!(learnt(|items, bytes| 512 * items + 2 * bytes, any), (512, 2512));
        // More bytes take less time, so the whole cost belongs to the items.
        let (item, large) = learnt(|items, bytes| (9000 * items).saturating_sub(2 * bytes), any);
        assert!(item == large && (7000..9000).contains(&item), "{item} {large}");
        // More items take less time, so the whole cost belongs to the bytes.
        let (item, large) = learnt(|items, bytes| (20 * bytes).saturating_sub(300 * items), any);
        assert!(item == 0 && (19_000..20_000).contains(&large), "{item} {large}");
        // Items of one size: the fit cannot separate the coefficients.
        assert_eq!(learnt(|items, bytes| 500 * items + 2 * bytes, |items, _| 100 * items), (700, 700));
    }

    #[test]
    fn counters_for_some_workers_only_are_ignored() {
        let mut backlog = two();
        backlog.refresh(&LoadView { completed: &[3, 3], ..LoadView::idle() });
        backlog.refresh(&LoadView { sent: &[3, 3], completed: &[1], ..LoadView::idle() });
        assert_eq!(backlog.waiting(), [0, 0]);
        let items = LoadView { sent: &[3, 3], completed: &[1, 2], ..LoadView::idle() };
        backlog.refresh(&LoadView { sent_bytes: &[900, 900], ..items });
        assert_eq!(
            backlog.waiting(),
            [2 * 256, 2 * 256],
            "items alone count, twice as much at the slow worker"
        );
        let bytes = LoadView { sent_bytes: &[900, 900], completed_bytes: &[300, 800], ..items };
        backlog.refresh(&LoadView { completed: &[1, 1], ..bytes });
        assert_eq!(backlog.waiting()[1], 2 * (2 * 256 + 100));
    }

    #[test]
    fn least_loaded_worker_is_found_and_ties_alternate() {
        let mut state = 1;
        for count in [1, 2, 3, 4, 5, 16, 63, 1024] {
            let mut ties = vec![0_u32; count];
            for _ in 0..500 {
                let word = flowloom_flow_key::hash::fold::split_mix(&mut state);
                let values: Vec<u32> = (0..count).map(|i| (word >> (i % 60)) as u32 & 7).collect();
                let least = least_by(&values, word as u32);
                assert_eq!(values[least], *values.iter().min().unwrap());
                ties[least_by(&vec![u32::MAX; count], word as u32)] += 1;
            }
            assert!(count > 64 || ties.iter().all(|&tie| tie > 0), "{count}: {ties:?}");
        }
    }
}
