//! Backlogs of workers and pipelines, indexed for one decision per packet.
//!
//! The estimates are those of [`Backlog`](super::backlog::Backlog); the representation differs. A
//! backlog is counted in small parts of a packet, so that it fits into a 32-bit word together with
//! the number of its node. The smallest word identifies the least loaded node, and several words
//! are compared at once. Once per batch, all words are recomputed from the counters in loops
//! without branches. Between batches, a decision reads a few words and adds to two of them.

use super::backlog::Cost;
use super::flows::FlowSlots;
use super::{Decision, LoadView, WORKERS_MAX, WorkItem, WorkerId};
use crate::topology::{CAPACITY_FULL, Topology};

/// Low bits of a word, which contain the number of its node, below 1024.
const PLACE_BITS: u32 = 10;
const PLACES: u32 = (1 << PLACE_BITS) - 1;
/// Maximum backlog that a word can represent.
const WAITING_MAX: u32 = (1 << 21) - 2;
/// Words without a node, which are greater than any node's word and fill the last group.
const NO_NODE: u32 = (WAITING_MAX + 1) << PLACE_BITS;
/// Number of words that are compared in a loop without branches.
const GROUP: usize = 8;
/// A mean packet counts less than two to this power, and at least half of that.
const PACKET_BITS: u32 = 7;
/// Packets over which the mean is averaged, as a power of two; also its fractional bits.
const MEMORY: u32 = 8;
/// Quarters of a packet by which a thread may exceed the mean of its pipeline, or another of its
/// threads, and keep a flow. The pipeline's throughput does not depend on which of its threads
/// work.
const THREAD_QUARTERS: u32 = 8;
/// Maximum number of quarters of a packet by which a pipeline may exceed the shortest one and keep
/// a flow.
const PIPELINE_QUARTERS: u32 = 8;
/// Mean size of a packet in bytes, until the first packets have been seen.
const BYTES: u64 = 700;

/// The cost of packets in parts of a mean packet: `(item · items + byte · bytes) >> shift`, where
/// both factors are below 2³¹.
#[derive(Clone, Copy, Debug)]
struct Line {
    item: u32,
    byte: u32,
    shift: u32,
}

impl Line {
    /// Returns the cost of a number of items and bytes, both taken modulo 2³².
    #[inline(always)]
    fn cost(self, items: u64, bytes: u64) -> u64 {
        let [items, bytes] = [items, bytes].map(|count| u64::from(count as u32));
        (items * u64::from(self.item) + bytes * u64::from(self.byte)) >> self.shift
    }

    /// Like [`of`](Self::cost) for any numbers, limited to the maximum of a word.
    fn bounded(self, items: u64, bytes: u64) -> u32 {
        let [items, bytes] = [items, bytes].map(u128::from);
        let cost = (items * u128::from(self.item) + bytes * u128::from(self.byte)) >> self.shift;
        cost.min(u128::from(WAITING_MAX)) as u32
    }
}

/// Constant properties of a worker.
#[derive(Clone, Copy, Debug)]
struct Home {
    pipeline: u16,
    /// 2¹⁶ divided by the capacity of the worker and of its pipeline, relative to ordinary workers.
    scale: u32,
    pipeline_scale: u32,
}

/// The tables that decisions read and write, in one allocation. Their fixed length makes bounds
/// checks unnecessary.
#[derive(Clone, Debug)]
struct Tables {
    sent: [u64; WORKERS_MAX],
    completed: [u64; WORKERS_MAX],
    /// Words of workers, per capacity.
    threads: [u32; WORKERS_MAX],
    /// Words of pipelines, per capacity, followed by [`NO_NODE`].
    pipelines: [u32; WORKERS_MAX],
}

/// Counters, and estimated backlogs as words.
#[derive(Clone)]
pub(super) struct LoadIndex {
    workers: usize,
    tables: Box<Tables>,
    completed_bytes: Vec<u64>,
    busy: Vec<u64>,
    cost: Cost,
    mean_bytes: u64,
    line: Line,
    /// Number of pipelines, rounded up to whole groups.
    groups: usize,
    homes: Vec<Home>,
    /// First worker of each pipeline, followed by the number of workers.
    first_worker: Vec<u16>,
    /// Threads per pipeline, if all pipelines have the same number and it is 1, 2, 4, or 8.
    width: Option<usize>,
    /// A quarter of a mean packet, as a word.
    slack: u32,
    /// The highest word with which a pipeline may keep its flows, derived from the shortest
    /// pipeline at the last search. No pipeline becomes shorter before the next batch, because
    /// backlogs only grow.
    limit: u32,
}

impl core::fmt::Debug for LoadIndex {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("LoadIndex").field("workers", &self.workers).finish_non_exhaustive()
    }
}

impl LoadIndex {
    pub(super) fn new(topology: &Topology) -> Self {
        let (level, leaf) = (topology.pipeline_level(), topology.levels() - 1);
        let (workers, pipelines) = (topology.nodes(leaf), topology.nodes(level));
        let scale = |level: usize, node: usize| (CAPACITY_FULL << 16) / topology.capacity(level, node);
        let homes: Vec<Home> = topology
            .workers()
            .workers()
            .map(|worker| {
                let pipeline = topology.node_of(level, worker);
                Home {
                    pipeline: pipeline as u16,
                    scale: scale(leaf, worker.index()),
                    pipeline_scale: scale(level, pipeline),
                }
            })
            .collect();
        let mut first_worker: Vec<u16> =
            (0..pipelines).map(|pipeline| topology.workers_of(level, pipeline).start as u16).collect();
        first_worker.push(workers as u16);
        let width = workers / pipelines;
        let is_even = homes.iter().all(|home| home.scale == 1 << 16)
            && first_worker.windows(2).all(|bounds| usize::from(bounds[1] - bounds[0]) == width);
        let mut index = Self {
            workers,
            tables: Box::new(Tables {
                sent: [0; WORKERS_MAX],
                completed: [0; WORKERS_MAX],
                threads: [0; WORKERS_MAX],
                pipelines: [NO_NODE; WORKERS_MAX],
            }),
            completed_bytes: vec![0; workers],
            busy: vec![0; workers],
            cost: Cost::new(),
            mean_bytes: BYTES << MEMORY,
            line: Line { item: 0, byte: 0, shift: 0 },
            groups: pipelines.next_multiple_of(GROUP),
            homes,
            first_worker,
            width: Some(width).filter(|width| is_even && [1, 2, 4, 8].contains(width)),
            slack: 0,
            limit: 0,
        };
        index.draw_line();
        index.tables.threads.iter_mut().zip(0..).for_each(|(word, place)| *word = place);
        index.finish_words();
        index
    }

    pub(super) fn workers(&self) -> usize {
        self.workers
    }

    /// Reads the dispatcher's counters. Costs a few operations per worker, once per batch.
    fn refresh(&mut self, load: &LoadView<'_>) {
        let count = self.workers;
        if load.sent.len() < count || load.completed.len() < count {
            return; // Without counters, the sum of the assigned items is the estimate.
        }
        let (sent, completed) = (&load.sent[..count], &load.completed[..count]);
        let has_bytes = load.sent_bytes.len() >= count && load.completed_bytes.len() >= count;
        // With equal counters, bytes contribute nothing.
        let (sent_bytes, completed_bytes) = if has_bytes {
            (&load.sent_bytes[..count], &load.completed_bytes[..count])
        } else {
            (sent, sent)
        };
        if load.busy.len() >= count {
            self.measure(completed, has_bytes.then_some(completed_bytes), &load.busy[..count]);
        }
        self.draw_line();
        self.tables.sent[..count].copy_from_slice(sent);
        self.tables.completed[..count].copy_from_slice(completed);
        let line = self.line;
        let mut most = 0;
        let counters = sent.iter().zip(completed).zip(sent_bytes.iter().zip(completed_bytes));
        for (place, (word, ((sent, completed), (sent_bytes, completed_bytes)))) in
            self.tables.threads[..count].iter_mut().zip(counters).enumerate()
        {
            let waiting =
                line.cost(sent.wrapping_sub(*completed), sent_bytes.wrapping_sub(*completed_bytes));
            most |= waiting;
            *word = ((waiting as u32) << PLACE_BITS) | place as u32;
        }
        if most >= u64::from(WAITING_MAX) {
            // The backlog is very large, or a counter has decreased.
            for (worker, word) in self.tables.threads[..count].iter_mut().enumerate() {
                let items = sent[worker].saturating_sub(completed[worker]);
                let bytes = sent_bytes[worker].saturating_sub(completed_bytes[worker]);
                *word = (line.bounded(items, bytes) << PLACE_BITS) | worker as u32;
            }
        }
        self.finish_words();
    }

    /// Updates the fitted cost from the items that workers have completed since the last call, and
    /// their times.
    fn measure(&mut self, completed: &[u64], bytes: Option<&[u64]>, busy: &[u64]) {
        for worker in 0..completed.len() {
            if completed[worker] == self.tables.completed[worker] {
                continue;
            }
            let bytes = bytes.map_or(0, |bytes| bytes[worker]);
            self.cost.measure(
                completed[worker].wrapping_sub(self.tables.completed[worker]),
                bytes.wrapping_sub(self.completed_bytes[worker]),
                busy[worker].wrapping_sub(self.busy[worker]),
            );
            self.completed_bytes[worker] = bytes;
            self.busy[worker] = busy[worker];
        }
    }

    /// Chooses the parts of a packet in which backlogs are counted until the next batch.
    fn draw_line(&mut self) {
        let (item, byte) = self.cost.line();
        // Products with 32-bit counts must fit into 64 bits.
        let excess = (64 - (item | byte).leading_zeros()).saturating_sub(31);
        let (item, byte) = (item >> excess, byte >> excess);
        // At least one byte, so that the cost of an item stays far below 2⁶⁴ whatever its size, and
        // at most 16 MiB, so that this product does too.
        let mean_bytes = self.mean_bytes.clamp(1 << MEMORY, 1 << 32);
        let mean = item + ((byte * mean_bytes) >> MEMORY);
        let shift = (64 - mean.leading_zeros()).saturating_sub(PACKET_BITS);
        self.line = Line { item: item as u32, byte: byte as u32, shift };
        // A move costs about one or two cache misses, counted here as a quarter of a packet's cost.
        self.slack = ((mean >> shift) as u32 / 4) << PLACE_BITS;
    }

    /// Computes the words of pipelines from those of their workers.
    fn finish_words(&mut self) {
        let Tables { threads, pipelines, .. } = &mut *self.tables;
        let threads = &threads[..self.workers];
        match self.width {
            Some(1) => pipelines[..threads.len()].copy_from_slice(threads),
            Some(2) => mean_words::<2>(threads, pipelines),
            Some(4) => mean_words::<4>(threads, pipelines),
            Some(8) => mean_words::<8>(threads, pipelines),
            _ => self.finish_uneven_words(),
        }
        self.limit = limit(least_of(&self.tables.pipelines[..self.groups], 0), self.slack);
    }

    /// Computes the words if workers or pipelines differ, as the time until each would have
    /// completed one more packet.
    #[cold]
    fn finish_uneven_words(&mut self) {
        let one = self.line.cost(1, self.mean_bytes >> MEMORY);
        let word = |waiting: u64, scale: u32, place: usize| {
            let waiting = ((waiting + one) * u64::from(scale)) >> 16;
            ((waiting.min(u64::from(WAITING_MAX)) as u32) << PLACE_BITS) | place as u32
        };
        for (pipeline, bounds) in self.first_worker.windows(2).enumerate() {
            let workers = usize::from(bounds[0])..usize::from(bounds[1]);
            let scale = self.homes[workers.start].pipeline_scale;
            let mut sum = 0;
            for worker in workers {
                let waiting = u64::from(self.tables.threads[worker] >> PLACE_BITS);
                self.tables.threads[worker] = word(waiting, self.homes[worker].scale, worker);
                sum += waiting;
            }
            self.tables.pipelines[pipeline] = word(sum, scale, pipeline);
        }
    }

    /// Places a batch: a flow stays on its worker while it has packets in flight or no clearly
    /// better worker is available.
    pub(super) fn place(
        &mut self,
        flows: &mut FlowSlots,
        items: &[WorkItem],
        load: &LoadView<'_>,
        decisions: &mut [Decision],
    ) {
        flows.request(items);
        self.refresh(load);
        match self.width {
            Some(1) => self.place_over::<1>(flows, items, decisions),
            Some(2) => self.place_over::<2>(flows, items, decisions),
            Some(4) => self.place_over::<4>(flows, items, decisions),
            Some(8) => self.place_over::<8>(flows, items, decisions),
            _ => self.place_over::<0>(flows, items, decisions),
        }
    }

    /// Places a batch after all words are written, over pipelines of `WIDTH` threads, or of any
    /// number if `WIDTH` is 0.
    fn place_over<const WIDTH: usize>(
        &mut self,
        flows: &mut FlowSlots,
        items: &[WorkItem],
        decisions: &mut [Decision],
    ) {
        let Self { line, slack, limit, groups, .. } = *self;
        let mut assignment = Assignment::<'_, WIDTH> {
            tables: &mut self.tables,
            groups,
            homes: &self.homes,
            first_worker: &self.first_worker,
            slack,
            limit,
        };
        let mut bytes = 0;
        for (&item, decision) in items.iter().zip(decisions) {
            let slot = flows.entry(item);
            let worker = match slot.last() {
                Some((last, place)) => {
                    if assignment.may_keep(last, place) {
                        last
                    } else {
                        assignment.instead_of(last, item.digest)
                    }
                }
                None => assignment.shortest(item.digest),
            };
            bytes += u64::from(item.bytes);
            let place = assignment.assign(worker, line.cost(1, u64::from(item.bytes)));
            slot.set(worker, place);
            *decision = Decision::To(WorkerId::from(worker as u16));
        }
        self.limit = assignment.limit;
        self.note(items.len() as u64, bytes);
    }

    /// Updates the mean packet size with a batch.
    fn note(&mut self, items: u64, bytes: u64) {
        let remembered = (1_u64 << MEMORY).saturating_sub(items);
        let sum = (bytes.min(1 << 48) << MEMORY) + self.mean_bytes * remembered;
        self.mean_bytes = sum / items.max(1 << MEMORY);
    }
}

/// Writes the words of pipelines of `WIDTH` equal threads each.
#[inline(always)]
fn mean_words<const WIDTH: usize>(threads: &[u32], pipelines: &mut [u32]) {
    for (place, (word, threads)) in pipelines.iter_mut().zip(threads.as_chunks::<WIDTH>().0).enumerate() {
        let sum: u32 = threads.iter().map(|word| word >> PLACE_BITS).sum();
        *word = ((sum / WIDTH as u32) << PLACE_BITS) | place as u32;
    }
}

/// A [`LoadIndex`] while a batch is placed.
struct Assignment<'a, const WIDTH: usize> {
    tables: &'a mut Tables,
    groups: usize,
    homes: &'a [Home],
    first_worker: &'a [u16],
    slack: u32,
    limit: u32,
}

impl<const WIDTH: usize> Assignment<'_, WIDTH> {
    #[inline(always)]
    fn pipeline_of(&self, worker: usize) -> usize {
        match WIDTH {
            0 => usize::from(self.homes[worker].pipeline) % WORKERS_MAX,
            width => worker % WORKERS_MAX / width,
        }
    }

    /// Returns whether a worker may keep a flow, given the position of the flow's last item,
    /// without looking at other workers.
    #[inline(always)]
    fn may_keep(&self, worker: usize, place: u64) -> bool {
        let worker = worker % WORKERS_MAX;
        // A position beyond `sent` belongs to an item that was dropped before it reached the
        // worker. It counts as completed when the queue is empty.
        let done = self.tables.completed[worker].wrapping_sub(place.min(self.tables.sent[worker]));
        let is_in_flight = (done.cast_signed() >> 63).cast_unsigned() as u32;
        let pipeline = self.tables.pipelines[self.pipeline_of(worker)];
        let excess = pipeline.saturating_sub(self.limit)
            | self.tables.threads[worker].saturating_sub(pipeline + THREAD_QUARTERS * self.slack);
        // The three conditions share one branch: none of them is predictable, and separate `if`
        // statements would need three.
        excess & !is_in_flight == 0
    }

    /// Returns the worker for an idle flow that `last` may not keep without a comparison.
    #[inline(always)]
    fn instead_of(&mut self, last: usize, digest: u32) -> usize {
        let pipeline = self.pipeline_of(last);
        let own = self.tables.pipelines[pipeline];
        if own > self.limit {
            let best = self.search(digest);
            if own > self.limit {
                return self.shortest_of(best, digest);
            }
        }
        let near = self.shortest_of(pipeline, digest);
        if self.tables.threads[last] > self.tables.threads[near] + THREAD_QUARTERS * self.slack {
            near
        } else {
            last
        }
    }

    /// Returns the shortest thread of the shortest pipeline.
    #[inline(always)]
    fn shortest(&mut self, digest: u32) -> usize {
        let best = self.search(digest);
        self.shortest_of(best, digest)
    }

    #[inline(always)]
    fn search(&mut self, digest: u32) -> usize {
        let least = least_of(&self.tables.pipelines[..self.groups], order(digest));
        self.limit = limit(least, self.slack);
        (least & PLACES) as usize
    }

    #[inline(always)]
    fn shortest_of(&self, pipeline: usize, digest: u32) -> usize {
        let order = order(digest);
        let least = if WIDTH == 0 {
            let (first, end) = (self.first_worker[pipeline], self.first_worker[pipeline + 1]);
            self.tables.threads[usize::from(first)..usize::from(end)]
                .iter()
                .fold(u32::MAX, |least, &word| least.min(word ^ order))
        } else {
            let first = pipeline * WIDTH;
            let words = self.tables.threads[first..].first_chunk::<WIDTH>().copied().unwrap_or([0; WIDTH]);
            words.into_iter().fold(u32::MAX, |least, word| least.min(word ^ order))
        };
        ((least ^ order) & PLACES) as usize
    }

    /// Counts an item for a worker. Returns its position in the worker's queue.
    #[inline(always)]
    fn assign(&mut self, worker: usize, cost: u64) -> u64 {
        let worker = worker % WORKERS_MAX;
        let (own, shared) = if WIDTH == 0 {
            let home = &self.homes[worker];
            ((cost * u64::from(home.scale)) >> 16, (cost * u64::from(home.pipeline_scale)) >> 16)
        } else {
            (cost, cost / WIDTH as u64)
        };
        add(&mut self.tables.threads[worker], own);
        add(&mut self.tables.pipelines[self.pipeline_of(worker)], shared);
        self.tables.sent[worker] += 1;
        self.tables.sent[worker]
    }
}

/// Returns the smallest word of any pipeline. If several backlogs are equal, `order` chooses.
#[inline(always)]
fn least_of(pipelines: &[u32], order: u32) -> u32 {
    let mut least = [i32::MAX; GROUP];
    for group in pipelines.as_chunks::<GROUP>().0 {
        for (least, &word) in least.iter_mut().zip(group) {
            let word = (word ^ order).cast_signed();
            *least = if word < *least { word } else { *least };
        }
    }
    let mut width = GROUP;
    while width > 1 {
        width /= 2;
        for lane in 0..width {
            least[lane] = least[lane].min(least[lane + width]);
        }
    }
    least[0].cast_unsigned() ^ order
}

/// Returns the highest word with which a pipeline counts as good as the least loaded one.
#[inline(always)]
fn limit(least: u32, slack: u32) -> u32 {
    // Uses the backlog only, so that no later search finds a lower limit.
    let least = least | PLACES;
    // If no worker is about to become idle, staying costs little.
    least + (least >> 1).clamp(slack, PIPELINE_QUARTERS * slack)
}

/// Adds to the backlog of a word.
#[inline(always)]
fn add(word: &mut u32, waiting: u64) {
    let sum = u64::from(*word) + (waiting << PLACE_BITS);
    *word = if sum < u64::from(NO_NODE) { sum as u32 } else { full(*word) };
}

/// Returns the word of the maximum backlog.
#[cold]
#[inline(never)]
fn full(word: u32) -> u32 {
    (WAITING_MAX << PLACE_BITS) | (word & PLACES)
}

/// Returns the order in which a flow considers nodes with equal backlogs. Flows have different
/// orders, so they share these nodes.
#[inline(always)]
fn order(digest: u32) -> u32 {
    (digest >> 7) & PLACES
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_flow_key::hash::fold::split_mix;

    const SHAPES: [&str; 10] =
        ["1", "9", "4x2", "2x2x4", "3x8", "1x16", "3x3", "8x2x4,-0", "5,1=50,3=400", "2x2,3=25"];

    fn index(shape: &str) -> LoadIndex {
        LoadIndex::new(&shape.parse().unwrap())
    }

    /// Random counters of items sent to workers and completed by them.
    struct Counters {
        sent: Vec<u64>,
        completed: Vec<u64>,
        sent_bytes: Vec<u64>,
        completed_bytes: Vec<u64>,
    }

    impl Counters {
        fn draw(count: usize, most: u64, state: &mut u64) -> Self {
            let mut draw = |below: u64| (0..count).map(|_| split_mix(state) % below).collect::<Vec<u64>>();
            let (completed, waiting, completed_bytes) = (draw(1 << 40), draw(most), draw(1 << 44));
            let sizes = draw(1500);
            let sum = |a: &[u64], b: &[u64]| a.iter().zip(b).map(|(a, b)| a + b).collect::<Vec<u64>>();
            let bytes: Vec<u64> = waiting.iter().zip(&sizes).map(|(items, size)| items * size).collect();
            let (sent, sent_bytes) = (sum(&completed, &waiting), sum(&completed_bytes, &bytes));
            Self { sent, completed, sent_bytes, completed_bytes }
        }

        fn view(&self) -> LoadView<'_> {
            LoadView {
                sent: &self.sent,
                completed: &self.completed,
                sent_bytes: &self.sent_bytes,
                completed_bytes: &self.completed_bytes,
                busy: &[],
            }
        }
    }

    /// Returns the word for a backlog.
    fn expected(waiting: u128, scale: u32, one: u64, place: usize) -> u32 {
        let waiting = ((waiting + u128::from(one)) * u128::from(scale)) >> 16;
        ((waiting.min(u128::from(WAITING_MAX)) as u32) << PLACE_BITS) | place as u32
    }

    #[test]
    fn load_words_match_the_counters() {
        let mut state = 1;
        for shape in SHAPES {
            let mut index = index(shape);
            // Few items, the maximum number that a word can count, and far more.
            for most in [2, 60, 20_000, 1 << 20, 1 << 33] {
                let mut counters = Counters::draw(index.workers, most, &mut state);
                // A counter that runs backwards counts as an empty queue.
                counters.sent[0] = counters.completed[0] - (most & 4);
                counters.sent_bytes[0] = counters.completed_bytes[0] - (most & 4);
                index.refresh(&counters.view());
                let one = match index.width {
                    Some(_) => 0,
                    None => index.line.cost(1, index.mean_bytes >> MEMORY),
                };
                let costs: Vec<u128> = (0..index.workers)
                    .map(|worker| {
                        let Counters { sent, completed, sent_bytes, completed_bytes } = &counters;
                        let items = sent[worker].saturating_sub(completed[worker]);
                        let bytes = sent_bytes[worker].saturating_sub(completed_bytes[worker]);
                        u128::from(index.line.bounded(items, bytes))
                    })
                    .collect();
                for (worker, &cost) in costs.iter().enumerate() {
                    let word = expected(cost, index.homes[worker].scale, one, worker);
                    assert_eq!(index.tables.threads[worker], word, "{shape}, {most}, worker {worker}");
                }
                for (pipeline, bounds) in index.first_worker.windows(2).enumerate() {
                    let workers = usize::from(bounds[0])..usize::from(bounds[1]);
                    let scale = index.homes[workers.start].pipeline_scale;
                    let word = expected(costs[workers].iter().sum(), scale, one, pipeline);
                    assert_eq!(index.tables.pipelines[pipeline], word, "{shape}, {most}, {pipeline}");
                }
            }
        }
    }

    #[test]
    fn mean_packet_counts_a_hundred_units_at_any_cost() {
        let mut index = index("2");
        for (item, byte) in [(0, 1), (1, 0), (256, 1), (1 << 39, 0), (0, 1 << 39), (77, 1 << 31)] {
            index.cost = Cost::drawn(item, byte);
            for bytes in [0, 60, 9000, 1 << 24] {
                index.mean_bytes = bytes << MEMORY;
                index.draw_line();
                let one = index.line.cost(1, bytes.max(1));
                assert!(one < 1 << PACKET_BITS, "{item} {byte} {bytes}: {one}");
                let is_small = item + byte * bytes.max(1) < 1 << (PACKET_BITS - 1);
                assert!(is_small || one >= 1 << (PACKET_BITS - 2), "{item} {byte} {bytes}: {one}");
                // The largest cost of an item leaves headroom for the following shifts and scales.
                assert!(index.line.cost(1, u64::from(u32::MAX)) < 1 << 40);
            }
        }
    }

    #[test]
    fn least_load_word_is_found_and_ties_alternate() {
        let mut state = 3;
        for count in [1_usize, 3, 8, 16, 63, 1024] {
            let mut chosen = vec![0_u32; count];
            for _ in 0..400 {
                let word = split_mix(&mut state);
                let mut words = vec![NO_NODE; count.next_multiple_of(GROUP)];
                for (place, word) in words.iter_mut().enumerate().take(count) {
                    let waiting = (split_mix(&mut state) as u32) % 3 + WAITING_MAX - 2;
                    *word = (waiting << PLACE_BITS) | place as u32;
                }
                let order = order(word as u32);
                let least = words[..count].iter().copied().min_by_key(|word| word ^ order).unwrap();
                assert_eq!(least_of(&words, order), least);
                chosen[(least & PLACES) as usize] += 1;
            }
            assert!(count > 64 || chosen.iter().all(|&chosen| chosen > 0), "{count}: {chosen:?}");
        }
    }

    #[test]
    fn load_word_saturates() {
        let mut word = 5;
        add(&mut word, 7);
        assert_eq!(word, (7 << PLACE_BITS) | 5);
        add(&mut word, u64::from(WAITING_MAX) - 7);
        assert_eq!(word, (WAITING_MAX << PLACE_BITS) | 5);
        add(&mut word, 1 << 50);
        assert_eq!(word, (WAITING_MAX << PLACE_BITS) | 5);
        assert!(word < NO_NODE);
    }

    /// The same rule for one item at a time, which checks every pipeline and every thread.
    fn decided(index: &LoadIndex, flow: Option<(usize, u64)>, digest: u32) -> usize {
        let (order, slack) = (order(digest), index.slack);
        let pipelines = index.first_worker.len() - 1;
        let shortest_of = |pipeline: usize| {
            let workers =
                usize::from(index.first_worker[pipeline])..usize::from(index.first_worker[pipeline + 1]);
            workers.min_by_key(|&worker| index.tables.threads[worker] ^ order).unwrap()
        };
        let best = (0..pipelines).min_by_key(|&pipeline| index.tables.pipelines[pipeline] ^ order).unwrap();
        let Some((last, place)) = flow else { return shortest_of(best) };
        if index.tables.completed[last] < place.min(index.tables.sent[last]) {
            return last;
        }
        let own = usize::from(index.homes[last].pipeline);
        if index.tables.pipelines[own] > limit(index.tables.pipelines[best], slack) {
            return shortest_of(best);
        }
        let most = THREAD_QUARTERS * slack;
        let near = shortest_of(own);
        let is_long = index.tables.threads[last] > index.tables.pipelines[own] + most
            || index.tables.pipelines[own] > index.limit;
        if is_long && index.tables.threads[last] > index.tables.threads[near] + most { near } else { last }
    }

    #[test]
    fn decisions_follow_the_rule_of_the_paper() {
        let mut state = 5;
        for shape in SHAPES {
            let mut index = index(shape);
            let mut flows = FlowSlots::new(6);
            let (mut moved, mut kept) = (0, 0);
            for round in 0..300 {
                let counters = Counters::draw(index.workers, 1 + round % 40, &mut state);
                let view = counters.view();
                for at in 0..8 {
                    let word = split_mix(&mut state);
                    let item = WorkItem { digest: word as u32, bytes: (word >> 40) as u32 % 1500 };
                    let mut reference = index.clone();
                    let reported = if at == 0 { view } else { LoadView::idle() };
                    reference.refresh(&reported);
                    let last = flows.entry(item).last();
                    let expected = decided(&reference, last, item.digest);
                    let mut decision = [Decision::Drop];
                    index.place(&mut flows, &[item], &reported, &mut decision);
                    assert_eq!(decision, [Decision::To(WorkerId::from(expected as u16))], "{shape}");
                    if let Some((last, _)) = last {
                        *if last == expected { &mut kept } else { &mut moved } += 1;
                    }
                }
            }
            assert!(index.workers == 1 || (moved > 100 && kept > 100), "{shape}: {moved} {kept}");
        }
    }
}
