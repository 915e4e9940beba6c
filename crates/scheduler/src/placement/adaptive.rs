//! The adaptive feedback of Table I: the tree's hash decides, unless the chosen queue is too long
//! [HRWTREE §3.3, Table I].
//!
//! The printed table cannot be executed as it is, so there are three interpretations of it, each
//! with its own name:
//!
//! | form | what it is | order |
//! | --- | --- | --- |
//! | [`AdaptiveForm::Corrected`] | indices corrected, threshold with a minimum, ties to the highest bid | none |
//! | [`AdaptiveForm::OrderSafe`] | the same, and a flow moves only while none of its packets is in flight | per flow |
//! | [`AdaptiveForm::Printed`] | what can be kept of the print: an overruled thread changes the *core*, queue lengths of threads are updated only when overruled, a threshold of nothing when a node is empty | none |
//!
//! In all three the length of a queue is that of the table: the sum of the bytes that wait below a
//! core, a pipeline or a thread, to which the item's own bytes are added undivided.
//! [`Adaptive::with_fitted_costs`] is Flowloom's own measure.

use super::flows::{FlowSlots, SLOTS_MAX, Whereabouts};
use super::hrw_tree::HrwTree;
use super::tree::{Lengths, TreeLoad};
use super::{Decision, LoadView, OrderGuarantee, Placement, SetupError, WorkItem, WorkerId, bounded};
use crate::topology::{LEVELS_MAX, Topology};

/// The interpretation of Table I.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdaptiveForm {
    /// With its mistakes corrected.
    Corrected,
    /// Corrected; in addition, flows with packets in flight do not move.
    OrderSafe,
    /// As close to the printed table as can be executed.
    Printed,
}

/// The difference at which queue lengths override the hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// Amount by which the chosen queue may exceed the shortest one, in thousandths of the shortest
    /// one. `None` means no limit.
    pub permille: Option<u32>,
    /// Amount by which it may exceed the shortest one in any case, in thousandths of a mean item:
    /// the cost of a move.
    pub least_permille: u32,
}

impl Threshold {
    /// A tenth of the shortest queue, as in the paper.
    pub const PAPER: Self = Self { permille: Some(100), least_permille: 250 };

    /// Returns the threshold of a percentage of the shortest queue: of 0, the shortest queue always
    /// gets the item. `None` leaves all to the hash.
    #[must_use]
    pub const fn from_percent(percent: Option<u32>) -> Self {
        let permille = match percent {
            Some(percent) => Some(percent.saturating_mul(10)),
            None => None,
        };
        let least_permille = if matches!(percent, Some(0)) { 0 } else { Self::PAPER.least_permille };
        Self { permille, least_permille }
    }
}

/// Places items by the tree's hash, corrected by queue lengths at each level.
#[derive(Clone, Debug)]
pub struct Adaptive {
    form: AdaptiveForm,
    threshold: Threshold,
    tree: HrwTree,
    lengths: Lengths,
    load: TreeLoad,
    flows: FlowSlots,
    /// In the printed form, the bytes counted for each thread: those of items for which the hash
    /// was overridden.
    overruled: Vec<u64>,
}

impl Adaptive {
    /// Default size of the table, as a power of two.
    pub const BITS: u32 = 16;

    /// Returns the policy over a topology with 2^`bits` slots of eight bytes.
    ///
    /// # Errors
    ///
    /// Returns [`SetupError::Parameter`] for more than 2²⁴ slots.
    pub fn new(
        topology: &Topology,
        form: AdaptiveForm,
        threshold: Threshold,
        bits: u32,
    ) -> Result<Self, SetupError> {
        bounded("table bits", u64::from(bits), 0, u64::from(SLOTS_MAX.ilog2()))?;
        Ok(Self {
            form,
            threshold,
            tree: HrwTree::new(topology),
            lengths: Lengths::Bytes,
            load: TreeLoad::new(topology, Lengths::Bytes),
            flows: FlowSlots::new(bits),
            overruled: vec![0; usize::from(topology.workers().get())],
        })
    }

    /// Unlike the paper, measures a queue by the estimated time of its items, and divides the queue
    /// of a node by its capacity, so that workers and packets may differ. `topology` is that of
    /// [`new`](Self::new).
    #[must_use]
    pub fn with_fitted_costs(self, topology: &Topology) -> Self {
        Self { lengths: Lengths::Fitted, load: TreeLoad::new(topology, Lengths::Fitted), ..self }
    }

    /// Returns the child of a node that an item goes to: the one that the hash chose, or the one
    /// with the shortest queue.
    fn child(&self, node: u32, item: WorkItem) -> (u32, bool) {
        let hashed = self.tree.winner(node, item.digest);
        let children = self.load.nodes.children(node);
        let least = self.load.row(children.clone()).iter().copied().min().unwrap_or(0);
        let Some(permille) = self.threshold.permille else { return (hashed, false) };
        let mut allowed = u64::from(least) * u64::from(permille) / 1000;
        if self.form != AdaptiveForm::Printed {
            let mean = self.load.at(hashed, self.load.backlog.mean_cost());
            allowed = allowed.max(u64::from(mean) * u64::from(self.threshold.least_permille) / 1000);
        }
        let added = self.load.at(hashed, self.load.backlog.cost(item));
        let own = u64::from(self.load.waiting(hashed)) + u64::from(added);
        if own - u64::from(least) <= allowed {
            return (hashed, false);
        }
        let mut shortest = children.filter(|&child| self.load.waiting(child) == least);
        let chosen = if self.form == AdaptiveForm::Printed {
            shortest.next()
        } else {
            shortest.min_by_key(|&child| self.tree.offer(node, child, item.digest))
        };
        (chosen.unwrap_or(hashed), true)
    }

    fn descend(&self, item: WorkItem) -> usize {
        let mut node = 0;
        while node < self.load.nodes.first_worker {
            node = self.child(node, item).0;
        }
        (node - self.load.nodes.first_worker) as usize
    }

    /// Table I with its errors: if the hash is overridden for a thread, the item goes to the same
    /// position below the shortest core.
    fn as_printed(&mut self, item: WorkItem, load: &LoadView<'_>) -> usize {
        let first = self.load.nodes.first_worker;
        let mut node = 0;
        while self.load.nodes.children(node).start < first {
            node = self.child(node, item).0;
        }
        let hashed = self.tree.winner(node, item.digest);
        let threads = self.load.nodes.children(node);
        let worker = |thread: u32| (thread - first) as usize;
        // Only items for which the hash was overridden count towards a thread's queue, but every
        // completion shortens it.
        let length = |thread: u32| {
            let completed = load.completed_bytes.get(worker(thread)).copied().unwrap_or(0);
            self.overruled[worker(thread)].saturating_sub(completed)
        };
        let Some(permille) = self.threshold.permille else { return worker(hashed) };
        let least = threads.clone().map(length).min().unwrap_or(0);
        let allowed = least.saturating_mul(u64::from(permille)) / 1000;
        if length(hashed) + u64::from(item.bytes) - least <= allowed {
            return worker(hashed);
        }
        // From the thread up to its core.
        let (mut path, mut levels) = ([hashed; LEVELS_MAX], 1);
        loop {
            let parent = self.load.nodes.parent(path[levels - 1]);
            if parent == 0 {
                break;
            }
            path[levels] = parent;
            levels += 1;
        }
        let cores = self.load.nodes.children(0);
        let mut chosen = cores.start;
        for core in cores {
            if self.load.waiting(core) < self.load.waiting(chosen) {
                chosen = core;
            }
        }
        for pair in path[..levels].windows(2).rev() {
            let place = pair[0] - self.load.nodes.children(pair[1]).start;
            let children = self.load.nodes.children(chosen);
            chosen = (children.start + place).min(children.end - 1);
        }
        let thread = worker(chosen);
        self.overruled[thread] += u64::from(item.bytes);
        thread
    }
}

impl Placement for Adaptive {
    fn place(&mut self, items: &[WorkItem], load: &LoadView<'_>, decisions: &mut [Decision]) {
        self.flows.request(items);
        self.load.refresh(load);
        for (&item, decision) in items.iter().zip(decisions) {
            let slot = self.flows.slot(item);
            let worker = match self.form {
                AdaptiveForm::Printed => self.as_printed(item, load),
                AdaptiveForm::Corrected => self.descend(item),
                AdaptiveForm::OrderSafe => match self.flows.find(slot, &self.load.backlog) {
                    Whereabouts::InFlight(worker) => worker,
                    Whereabouts::Unseen | Whereabouts::Idle(_) => self.descend(item),
                },
            };
            let place = self.load.assign(worker, item);
            self.flows.sent(slot, worker, place);
            *decision = Decision::To(WorkerId(worker as u16));
        }
    }

    fn workers(&self) -> Option<usize> {
        Some(self.load.backlog.workers())
    }

    fn order(&self) -> OrderGuarantee {
        match self.form {
            AdaptiveForm::OrderSafe => OrderGuarantee::PerFlow,
            AdaptiveForm::Corrected | AdaptiveForm::Printed => OrderGuarantee::None,
        }
    }

    fn name(&self) -> &'static str {
        match self.form {
            AdaptiveForm::OrderSafe if self.lengths == Lengths::Fitted => "adaptive-fitted",
            AdaptiveForm::OrderSafe => "adaptive",
            AdaptiveForm::Corrected => "adaptive-racy",
            AdaptiveForm::Printed => "adaptive-2009",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(shape: &str, form: AdaptiveForm, threshold: Threshold) -> Adaptive {
        Adaptive::new(&shape.parse().unwrap(), form, threshold, Adaptive::BITS).unwrap()
    }

    #[test]
    fn printed_form_chooses_existing_workers() {
        // The last thread of the last core has no counterpart below it.
        for (shape, workers) in [("8x2x4,-0", 63), ("2x1x2,-3", 3)] {
            let mut printed = policy(shape, AdaptiveForm::Printed, Threshold::PAPER);
            let items: Vec<WorkItem> = (0..5000_u32)
                .map(|i| WorkItem { digest: i.wrapping_mul(0x9E37_79B9), bytes: 700 })
                .collect();
            let mut decisions = vec![Decision::Drop; items.len()];
            printed.place(&items, &LoadView::idle(), &mut decisions);
            assert!(decisions.iter().all(|to| matches!(to, Decision::To(w) if w.index() < workers)));
        }
    }

    /// Table I as printed in plain code, for cores of `pipelines` with `threads` each: returns the
    /// thread of an item and whether the hash was overruled for it, by the bytes that wait for each
    /// thread, and those of them for which it was.
    fn as_printed(
        tree: &HrwTree,
        [cores, pipelines, threads]: [usize; 3],
        permille: u64,
        (waiting, overruled): (&[u64], &[u64]),
        item: WorkItem,
    ) -> (usize, bool) {
        let is_longer =
            |length: u64, least: u64| length + u64::from(item.bytes) - least > least * permille / 1000;
        let below_core = pipelines * threads;
        let level = |node: usize, base: usize, first: usize, ways: usize, width: usize| {
            let length = |child: usize| waiting[first + child * width..][..width].iter().sum::<u64>();
            let hashed = tree.winner(node as u32, item.digest) as usize - base - first / width;
            let shortest = (0..ways).min_by_key(|&child| length(child)).unwrap();
            if is_longer(length(hashed), length(shortest)) { shortest } else { hashed }
        };
        let core = level(0, 1, 0, cores, below_core);
        let pipeline = level(1 + core, 1 + cores, core * below_core, pipelines, threads);
        let first = core * below_core + pipeline * threads;
        let node = 1 + cores + first / threads;
        let hashed = tree.winner(node as u32, item.digest) as usize - 1 - cores - cores * pipelines;
        let least = overruled[first..][..threads].iter().min().unwrap();
        if !is_longer(overruled[hashed], *least) {
            return (hashed, false);
        }
        let bytes = |core: &usize| waiting[core * below_core..][..below_core].iter().sum::<u64>();
        ((0..cores).min_by_key(bytes).unwrap() * below_core + hashed % below_core, true)
    }

    #[test]
    fn printed_form_makes_the_decisions_of_the_paper() {
        let mut state = 5;
        for (shape, text) in [([4, 2, 2], "4x2x2"), ([2, 3, 2], "2x3x2")] {
            let tree = HrwTree::new(&text.parse().unwrap());
            for (round, permille) in [100, 1000].repeat(20).into_iter().enumerate() {
                let mut draw = |below: u64| flowloom_flow_key::hash::fold::split_mix(&mut state) % below;
                let threads = shape.iter().product();
                let mut waiting: Vec<u64> = (0..threads).map(|_| 4000 + draw(3000)).collect();
                let (items, zero) = (vec![1; threads], vec![0; threads]);
                let load = LoadView {
                    sent: &items,
                    completed: &zero,
                    sent_bytes: &waiting.clone(),
                    completed_bytes: &zero,
                    busy: &[],
                };
                let batch: Vec<WorkItem> = (0..96)
                    .map(|_| WorkItem { digest: draw(1 << 32) as u32, bytes: 1 + draw(900) as u32 })
                    .collect();
                let mut decisions = [Decision::Drop; 96];
                let threshold = Threshold { permille: Some(permille), least_permille: 0 };
                policy(text, AdaptiveForm::Printed, threshold).place(&batch, &load, &mut decisions);
                let mut overruled = zero.clone();
                for (item, decision) in batch.iter().zip(decisions) {
                    let lengths = (&waiting[..], &overruled[..]);
                    let (thread, is_overruled) =
                        as_printed(&tree, shape, u64::from(permille), lengths, *item);
                    assert_eq!(decision, Decision::To(WorkerId(thread as u16)), "{text}, round {round}");
                    waiting[thread] += u64::from(item.bytes);
                    overruled[thread] += u64::from(item.bytes) * u64::from(is_overruled);
                }
            }
        }
    }

    /// Table I in plain code, for three levels of which all nodes have as many children: returns
    /// the thread of an item, by the bytes that wait for each thread.
    fn table_1(tree: &HrwTree, shape: [usize; 3], waiting: &[u64], item: WorkItem) -> usize {
        let (mut node, mut first, mut width) = (0, 0, waiting.len());
        let mut base = 1;
        for ways in shape {
            width /= ways;
            let length = |child: usize| waiting[first + child * width..][..width].iter().sum::<u64>();
            let number = |child: usize| (base + first / width + child) as u32;
            let hashed = (tree.winner(node, item.digest) - number(0)) as usize;
            let least = (0..ways).map(length).min().unwrap();
            let mut chosen = hashed;
            if 10 * (length(hashed) + u64::from(item.bytes) - least) > least {
                let shortest = (0..ways).filter(|&child| length(child) == least);
                chosen =
                    shortest.min_by_key(|&child| tree.offer(node, number(child), item.digest)).unwrap();
            }
            node = number(chosen);
            base += waiting.len() / width;
            first += chosen * width;
        }
        first
    }

    /// The threshold of the paper, and nothing else.
    const TENTH: Threshold = Threshold { least_permille: 0, ..Threshold::PAPER };

    #[test]
    fn an_item_goes_where_table_1_sends_it() {
        let mut state = 3;
        for (shape, text) in [([8, 2, 4], "8x2x4"), ([2, 2, 2], "2x2x2"), ([3, 1, 5], "3x1x5")] {
            let topology: Topology = text.parse().unwrap();
            let tree = HrwTree::new(&topology);
            let threads = usize::from(topology.workers().get());
            let zero = vec![0; threads];
            let mut overruled = 0;
            for round in 0..300_u64 {
                let mut draw = |below: u64| flowloom_flow_key::hash::fold::split_mix(&mut state) % below;
                // Sums and means, bytes and items, a tenth and more of the shortest queue all
                // decide otherwise somewhere.
                let mut waiting: Vec<u64> = (0..threads).map(|_| 4000 + draw(100 + 10 * round)).collect();
                let items = vec![1 + draw(3); threads];
                let load = LoadView {
                    sent: &items,
                    completed: &zero,
                    sent_bytes: &waiting.clone(),
                    completed_bytes: &zero,
                    busy: &[],
                };
                let digest = draw(1 << 32) as u32;
                let batch: Vec<WorkItem> = (0..8_u32)
                    .map(|item| WorkItem {
                        digest: digest.wrapping_add(item << 28),
                        bytes: 1 + draw(2000) as u32,
                    })
                    .collect();
                for form in [AdaptiveForm::Corrected, AdaptiveForm::OrderSafe] {
                    let mut decisions = [Decision::Drop; 8];
                    policy(text, form, TENTH).place(&batch, &load, &mut decisions);
                    let mut waiting = waiting.clone();
                    for (item, decision) in batch.iter().zip(decisions) {
                        let thread = table_1(&tree, shape, &waiting, *item);
                        assert_eq!(
                            decision,
                            Decision::To(WorkerId(thread as u16)),
                            "{text}, round {round}"
                        );
                        waiting[thread] += u64::from(item.bytes);
                    }
                }
                waiting.fill(4000);
                let free = table_1(&tree, shape, &waiting, WorkItem { digest, bytes: 1 });
                overruled += u32::from(policy_of(text, digest, &load) != free);
            }
            assert!((30..290).contains(&overruled), "{text}: {overruled}");
        }
    }

    /// Returns the thread that the corrected form gives to an item of 700 bytes.
    fn policy_of(shape: &str, digest: u32, load: &LoadView<'_>) -> usize {
        let mut decision = [Decision::Drop];
        policy(shape, AdaptiveForm::Corrected, TENTH).place(
            &[WorkItem { digest, bytes: 700 }],
            load,
            &mut decision,
        );
        let [Decision::To(worker)] = decision else { panic!("{decision:?}") };
        worker.index()
    }

    #[test]
    fn item_length_is_added_at_each_level() {
        // The thread that the hash chooses has 1050 bytes and the other one 1000. An item of 50
        // bytes exceeds a tenth of these by nothing, one of 51 bytes does.
        for shape in ["2x1x1", "1x2x1", "1x1x2"] {
            for digest in [9, 0x5555_5555, 0xDEAD_BEEF] {
                let hashed = policy_of(shape, digest, &LoadView::idle());
                let mut waiting = [1000, 1000];
                waiting[hashed] = 1050;
                let load = LoadView {
                    sent: &[1, 1],
                    completed: &[0, 0],
                    sent_bytes: &waiting,
                    completed_bytes: &[0, 0],
                    busy: &[],
                };
                for (bytes, expected) in [(50, hashed), (51, 1 - hashed)] {
                    for form in [AdaptiveForm::Corrected, AdaptiveForm::OrderSafe] {
                        let mut decision = [Decision::Drop];
                        policy(shape, form, TENTH).place(
                            &[WorkItem { digest, bytes }],
                            &load,
                            &mut decision,
                        );
                        assert_eq!(decision, [Decision::To(WorkerId(expected as u16))], "{shape}, {bytes}");
                    }
                }
            }
        }
    }

    #[test]
    fn small_load_difference_overrides_the_hash_only_in_the_printed_form() {
        let hashed = policy_of("2x1x1", 9, &LoadView::idle());
        let mut waiting = [0, 0];
        waiting[hashed] = 100;
        let load = LoadView {
            sent: &[1, 1],
            completed: &[0, 0],
            sent_bytes: &waiting,
            completed_bytes: &[0, 0],
            busy: &[],
        };
        // The mean of the items so far is a thousand bytes but for its rounding.
        let learnt = vec![WorkItem { digest: 9, bytes: 1000 }; 4096];
        for (form, bytes, stays) in [
            (AdaptiveForm::Corrected, 100, true),
            (AdaptiveForm::Corrected, 200, false),
            (AdaptiveForm::Printed, 100, false),
        ] {
            let mut adaptive = policy("2x1x1", form, Threshold::PAPER);
            adaptive.place(&learnt, &LoadView::idle(), &mut vec![Decision::Drop; 4096]);
            adaptive.load.refresh(&load);
            let chosen = adaptive.child(0, WorkItem { digest: 9, bytes }).0 as usize - 1;
            assert_eq!(chosen == hashed, stays, "{form:?}, {bytes}");
        }
    }

    #[test]
    fn fitted_costs_divide_item_and_queue_by_the_capacity_of_a_node() {
        // Four threads below a node: the item counts a quarter there, as what waits does.
        let topology: Topology = "2x1x4".parse().unwrap();
        let mut fitted = policy("2x1x4", AdaptiveForm::OrderSafe, TENTH).with_fitted_costs(&topology);
        assert_eq!(fitted.name(), "adaptive-fitted");
        let item = |bytes| WorkItem { digest: 9, bytes };
        let hashed = fitted.child(0, item(1)).0;
        let first = if hashed == 1 { 0 } else { 4 };
        let mut bytes = [1000_u64; 8];
        bytes[first] = 1100;
        let zero = [0; 8];
        fitted.load.refresh(&LoadView {
            sent: &[1; 8],
            completed: &zero,
            sent_bytes: &bytes,
            completed_bytes: &zero,
            busy: &[],
        });
        // An item costs its bytes and 256: 1281 wait below the hashed node, 1256 below the other,
        // and 125 more are allowed.
        assert_eq!(
            [1, 2].map(|node| fitted.load.waiting(node)),
            if first == 0 { [1281, 1256] } else { [1256, 1281] }
        );
        assert_eq!(fitted.child(0, item(4 * 100 - 256)).0, hashed);
        assert_ne!(fitted.child(0, item(4 * 101 - 256)).0, hashed);
    }

    #[test]
    fn node_queue_length_is_the_sum_of_bytes_below_it() {
        let topology: Topology = "2x2x2,-0,5=200".parse().unwrap();
        let mut load = TreeLoad::new(&topology, Lengths::Bytes);
        let bytes = [100, 200, 300, 400, 500, 600, 700];
        let zero = [0; 7];
        let view = LoadView { sent: &[1; 7], completed: &zero, ..LoadView::idle() };
        load.refresh(&LoadView { sent_bytes: &bytes, completed_bytes: &zero, ..view });
        let lengths = |load: &TreeLoad| (1..7).map(|node| load.waiting(node)).collect::<Vec<_>>();
        assert_eq!(lengths(&load), [600, 2200, 100, 500, 900, 1300]);
        load.assign(6, WorkItem { digest: 0, bytes: 1000 });
        assert_eq!(lengths(&load), [600, 3200, 100, 500, 900, 2300]);
        // A completion shortens the queue at every level.
        let done = [0, 0, 0, 400, 0, 0, 1600];
        load.refresh(&LoadView {
            sent: &[1, 1, 1, 1, 1, 1, 2],
            completed: &[0, 0, 0, 1, 0, 0, 1],
            sent_bytes: &[100, 200, 300, 400, 500, 600, 1700],
            completed_bytes: &done,
            busy: &[9; 7],
        });
        assert_eq!(lengths(&load), [600, 1200, 100, 500, 500, 700]);
    }

    #[test]
    fn printed_form_without_byte_counters_counts_nothing_as_completed() {
        let topology: Topology = "2x1x1".parse().unwrap();
        for digest in (0..16).map(|flow: u32| flow.wrapping_mul(0x9E37_79B9)) {
            let items = [WorkItem { digest, bytes: 1 }; 3];
            // As much as the shortest queue is allowed: once both cores have an item, the hash
            // decides.
            let mut printed = policy(
                "2x1x1",
                AdaptiveForm::Printed,
                Threshold { permille: Some(1000), least_permille: 0 },
            );
            let (mut ours, mut hashed) = ([Decision::Drop; 3], [Decision::Drop; 3]);
            printed.place(&items, &LoadView::idle(), &mut ours);
            HrwTree::new(&topology).place(&items, &LoadView::idle(), &mut hashed);
            assert_eq!(ours, [Decision::To(WorkerId(0)), Decision::To(WorkerId(1)), hashed[2]]);
        }
    }

    #[test]
    fn a_threshold_without_bound_leaves_the_decision_to_the_hash() {
        let free = Threshold { permille: None, least_permille: 0 };
        for form in [AdaptiveForm::Corrected, AdaptiveForm::OrderSafe, AdaptiveForm::Printed] {
            let mut adaptive = policy("2x2x2", form, free);
            let mut tree = HrwTree::new(&"2x2x2".parse().unwrap());
            let items: Vec<WorkItem> =
                (0..3000_u32).map(|i| WorkItem { digest: (i % 40) << 26, bytes: 700 }).collect();
            let (mut ours, mut theirs) = (vec![Decision::Drop; 3000], vec![Decision::Drop; 3000]);
            adaptive.place(&items, &LoadView::idle(), &mut ours);
            tree.place(&items, &LoadView::idle(), &mut theirs);
            assert_eq!(ours, theirs, "{form:?}");
        }
    }

    #[test]
    fn any_threshold_accepts_items_of_any_size() {
        for permille in [None, Some(0), Some(u32::MAX)] {
            for form in [AdaptiveForm::Corrected, AdaptiveForm::OrderSafe, AdaptiveForm::Printed] {
                let mut adaptive = policy("2x2x2", form, Threshold { permille, least_permille: u32::MAX });
                let items: Vec<WorkItem> = (0..64_u32)
                    .map(|i| WorkItem { digest: i.wrapping_mul(0x9E37_79B9), bytes: u32::MAX })
                    .collect();
                let mut decisions = vec![Decision::Drop; items.len()];
                for _ in 0..8 {
                    adaptive.place(&items, &LoadView::idle(), &mut decisions);
                }
                assert!(decisions.iter().all(|d| matches!(d, Decision::To(w) if w.index() < 8)));
            }
        }
    }

    #[test]
    fn only_the_safe_form_keeps_a_flow_in_flight_on_its_worker() {
        let items = [WorkItem { digest: 9, bytes: 1000 }; 64];
        let workers_used = |form| {
            let mut decisions = [Decision::Drop; 64];
            policy("2x2x2", form, Threshold::PAPER).place(&items, &LoadView::idle(), &mut decisions);
            let mut used: Vec<String> = decisions.iter().map(|d| format!("{d:?}")).collect();
            used.sort();
            used.dedup();
            used.len()
        };
        assert_eq!(workers_used(AdaptiveForm::OrderSafe), 1);
        assert_eq!(workers_used(AdaptiveForm::Corrected), 8);
        assert!(workers_used(AdaptiveForm::Printed) > 1);
    }
}
