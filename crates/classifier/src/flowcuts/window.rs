//! Which bits to cut at a node.

use alloc::vec;
use alloc::vec::Vec;

use super::cell::{Cell, Known};
use crate::key::{Key, Span};
use crate::rule_set::Flat;

/// Some adjacent bits of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) dimension: usize,
    /// Lowest bit.
    pub(super) shift: u32,
    /// Bits.
    pub(super) width: u32,
}

impl Window {
    /// Returns the number of values that the bits can have.
    pub(super) fn cells(self) -> usize {
        1 << self.width
    }

    /// Returns whether packets of the cell can have that value in the bits.
    pub(super) fn is_possible(self, known: Known, value: usize) -> bool {
        let bits = ((value as u64) << self.shift) as u32;
        let mask = (((self.cells() - 1) as u64) << self.shift) as u32 & known.mask;
        if (bits ^ known.value) & mask != 0 {
            return false;
        }
        // Only where all bits above are known do the bounds bear on the window.
        let above = u32::MAX.checked_shl(self.shift + self.width).unwrap_or(0);
        let bounds = known.bounds();
        if (bounds.low ^ bounds.high) & above != 0 {
            return true;
        }
        let ones = (1_u32 << self.shift).wrapping_sub(1);
        let low = bounds.low & above | bits;
        low <= bounds.high && bounds.low <= low | ones
    }

    /// Returns the values that packets of a span can have in the bits: from the first to the second, round the end.
    #[inline(always)]
    pub(super) fn project(self, bounds: Span, span: Span) -> (usize, usize) {
        let low = span.low.max(bounds.low) >> self.shift;
        let high = span.high.min(bounds.high) >> self.shift;
        let mask = self.cells() - 1;
        if (high.wrapping_sub(low)) as usize >= mask {
            (0, mask)
        } else {
            (low as usize & mask, high as usize & mask)
        }
    }
}

/// How good a window is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Score {
    /// Less is better.
    pub(super) cost: f64,
    /// Entries of the children's lists together, over those of this list.
    pub(super) growth: f64,
}

/// Room for the counts of a window, used again and again.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Rules that begin less rules that end at each value.
    counts: Vec<i32>,
    /// The same weighted by one over the rule's values.
    weights: Vec<i64>,
    /// Whether some rule begins here or ended just before.
    edges: Vec<bool>,
    projected: Vec<(u32, u32)>,
}

/// One, as a weight.
const UNIT: i64 = 1 << 20;

/// What the choice of a window is weighed by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weighing {
    /// Rules that a leaf may hold.
    pub(super) leaf_rules: usize,
    /// Children's entries a rule may cost.
    pub(super) growth_max: f64,
}

/// Rules looked at to compare windows; of a longer list every n-th.
const SAMPLE: usize = 1024;

/// Returns the best window for a list, `None` where none makes progress within the growth allowed; and the steps taken.
pub(super) fn choose<K: Key>(
    rules: &[Flat<K>],
    list: &[u32],
    cell: &Cell,
    weighing: Weighing,
    scratch: &mut Scratch,
) -> (Option<Window>, u64) {
    let stride = list.len().div_ceil(SAMPLE);
    let width_max = (usize::BITS - list.len().leading_zeros() + 1).clamp(4, 12);
    let mut steps = 0;
    let mut best: Option<(Window, f64)> = None;
    for dimension in 0..K::DIMENSIONS {
        let known = cell.known[dimension];
        let bits = K::bits(dimension);
        let open = !known.mask & (u32::MAX >> (32 - bits));
        let bounds = known.bounds();
        if known.is_done
            || open == 0
            || list.iter().all(|&rule| known.is_within(rules[rule as usize].span(dimension)))
        {
            continue;
        }
        let top = 32 - open.leading_zeros();
        let bottom = open.trailing_zeros();
        for width in [4, 6, 8, 10, 12] {
            if width > width_max || width > bits {
                break;
            }
            let step = (width / 2).min(3);
            let mut shift = top.saturating_sub(width);
            loop {
                let window = Window { dimension, shift, width };
                let score = score(rules, list, stride, known, bounds, window, weighing, scratch);
                steps += (list.len() / stride + window.cells()) as u64;
                if let Some(score) = score
                    && score.growth <= weighing.growth_max
                    && best.is_none_or(|(_, cost)| score.cost < cost)
                {
                    best = Some((window, score.cost));
                }
                if shift <= bottom {
                    break;
                }
                shift = shift.saturating_sub(step).max(bottom.min(bits - width));
                if shift + width <= bottom {
                    break;
                }
            }
            if top - bottom <= width {
                break;
            }
        }
    }
    (best.map(|(window, _)| window), steps)
}

/// Weighs a window: `None` where every packet would go the same way.
#[expect(clippy::too_many_arguments, reason = "one step of a loop, apart to be read")]
fn score<K: Key>(
    rules: &[Flat<K>],
    list: &[u32],
    stride: usize,
    known: Known,
    bounds: Span,
    window: Window,
    weighing: Weighing,
    scratch: &mut Scratch,
) -> Option<Score> {
    let cells = window.cells();
    let Scratch { counts, weights, edges, .. } = scratch;
    counts.clear();
    counts.resize(cells + 1, 0);
    weights.clear();
    weights.resize(cells + 1, 0);
    edges.clear();
    edges.resize(cells + 1, false);
    let mut sampled = 0_usize;
    for &rule in list.iter().step_by(stride) {
        let (first, last) = window.project(bounds, rules[rule as usize].span(window.dimension));
        sampled += 1;
        let values = if first <= last { last - first + 1 } else { cells - first + last + 1 };
        let weight = UNIT / values as i64;
        counts[first] += 1;
        weights[first] += weight;
        counts[last + 1] -= 1;
        weights[last + 1] -= weight;
        if first > last {
            counts[0] += 1;
            weights[0] += weight;
            counts[cells] -= 1;
            weights[cells] -= weight;
        }
        edges[first] = true;
        edges[last + 1] = true;
    }
    let (mut count, mut weight) = (0_i64, 0_i64);
    let (mut expected, mut entries, mut runs) = (0.0, 0_i64, 0_u32);
    edges[0] = true;
    let mut fresh = false;
    let all_possible = known.mask == 0;
    for value in 0..cells {
        count += i64::from(counts[value]);
        weight += weights[value];
        fresh |= edges[value];
        if !all_possible && !window.is_possible(known, value) {
            continue;
        }
        if fresh {
            entries += count;
            runs += 1;
            fresh = false;
        }
        expected += weight as f64 * count as f64;
    }
    if runs < 2 {
        return None;
    }
    let sampled = sampled as f64;
    let scale = list.len() as f64 / sampled;
    let expected = expected * scale / (UNIT as f64 * sampled);
    if expected > 0.98 * list.len() as f64 {
        return None;
    }
    let growth = entries as f64 / sampled;
    let expected = expected.max(weighing.leaf_rules as f64 / 2.0);
    let room = growth + cells as f64 / (8.0 * list.len() as f64);
    Some(Score { cost: expected * expected * expected * room.max(1.0), growth })
}

/// The runs of a window: neighbouring values with equal lists, which share a child.
#[derive(Debug)]
pub(super) struct Runs {
    /// The run that each value belongs to.
    pub(super) of_value: Vec<u32>,
    /// First and last possible value of each run.
    pub(super) ends: Vec<(u32, u32)>,
    /// Where each run's list begins in `lists`, and one past the last.
    pub(super) starts: Vec<usize>,
    /// All lists, one after the other; each ascends.
    pub(super) lists: Vec<u32>,
}

/// Divides a list. Values that no packet has belong to the run before them.
pub(super) fn divide<K: Key>(
    rules: &[Flat<K>],
    list: &[u32],
    known: Known,
    window: Window,
    scratch: &mut Scratch,
) -> Runs {
    let cells = window.cells();
    let bounds = known.bounds();
    let Scratch { edges, projected, .. } = scratch;
    edges.clear();
    edges.resize(cells + 1, false);
    projected.clear();
    for &rule in list {
        let (first, last) = window.project(bounds, rules[rule as usize].span(window.dimension));
        edges[first] = true;
        edges[last + 1] = true;
        projected.push((first as u32, last as u32));
    }
    let mut of_value = vec![0; cells];
    let mut ends: Vec<(u32, u32)> = Vec::new();
    let mut fresh = true;
    for value in 0..cells {
        fresh |= edges[value];
        if window.is_possible(known, value) {
            if fresh || ends.is_empty() {
                ends.push((value as u32, value as u32));
                fresh = false;
            } else if let Some(run) = ends.last_mut() {
                run.1 = value as u32;
            }
        }
        of_value[value] = (ends.len() as u32).saturating_sub(1);
    }
    // A value before the first possible one counts to run 0 as well. Two passes: how long each list is, then the lists.
    let each_run = |&(first, last): &(u32, u32), found: &mut dyn FnMut(usize)| {
        let stretch = |from: u32, to: u32, found: &mut dyn FnMut(usize)| {
            for run in of_value[from as usize]..=of_value[to as usize] {
                let (run_first, run_last) = ends[run as usize];
                if run_first <= to && from <= run_last {
                    found(run as usize);
                }
            }
        };
        if first <= last {
            stretch(first, last, found);
        } else {
            // Round the end. A run may lie on both sides only if the rule has every value, which is no such stretch.
            stretch(0, last, found);
            stretch(first, cells as u32 - 1, found);
        }
    };
    let mut starts = vec![0_usize; ends.len() + 1];
    for projection in projected.iter() {
        each_run(projection, &mut |run| starts[run + 1] += 1);
    }
    for run in 0..ends.len() {
        starts[run + 1] += starts[run];
    }
    let mut next = starts.clone();
    let mut lists = vec![0; *starts.last().unwrap_or(&0)];
    for (projection, &rule) in projected.iter().zip(list) {
        each_run(projection, &mut |run| {
            lists[next[run]] = rule;
            next[run] += 1;
        });
    }
    Runs { of_value, ends, starts, lists }
}
