//! The choice of the bits to cut at a node.

use alloc::vec;
use alloc::vec::Vec;

use super::cell::{Cell, Known};
use crate::key::{Key, Span};
use crate::rule_set::Flat;

/// Adjacent bits of a dimension.
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

    /// Returns the values that packets of the cell can have in the bits.
    pub(super) fn possible(self, known: Known) -> Possible {
        let all = (self.cells() - 1) as u32;
        // The bounds restrict the window only if all bits above it are known.
        let above = u32::MAX.checked_shl(self.shift + self.width).unwrap_or(0);
        let bounds = known.bounds();
        let (first, last) = if (bounds.low ^ bounds.high) & above == 0 {
            (bounds.low >> self.shift & all, bounds.high >> self.shift & all)
        } else {
            (0, all)
        };
        Possible {
            mask: known.mask >> self.shift & all,
            value: known.value >> self.shift & all,
            first,
            last,
        }
    }

    /// Returns the values that packets of a span can have in the bits: from the first to the
    /// second, possibly wrapping.
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

/// Values of a window that packets of a cell can have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Possible {
    mask: u32,
    value: u32,
    first: u32,
    last: u32,
}

impl Possible {
    /// Returns whether a value is one of them.
    #[inline(always)]
    fn has(self, value: usize) -> bool {
        let value = value as u32;
        (value ^ self.value) & self.mask == 0 && self.first <= value && value <= self.last
    }
}

/// The quality of a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Score {
    /// The cost; lower is better.
    pub(super) cost: f64,
    /// Entries of the children's lists together, divided by those of this list.
    pub(super) growth: f64,
}

/// The rules that begin or end at a value of a window.
#[derive(Clone, Copy, Debug, Default)]
struct Edge {
    /// Number of rules that begin here, minus those that ended just before.
    count: i32,
    /// The same, weighted by the inverse of the number of the rule's values.
    weight: i32,
    /// Not zero if some rule begins here or ended just before.
    any: u32,
}

impl Edge {
    #[inline(always)]
    fn add(&mut self, count: i32, weight: i32) {
        self.count += count;
        self.weight += weight;
        self.any = 1;
    }
}

/// Reusable memory for the edges of a window.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    edges: Vec<Edge>,
    projected: Vec<(u32, u32)>,
}

/// One, as a weight: the sum over all sampled rules stays below 2³¹.
const UNIT: u32 = 1 << 20;

/// The parameters for choosing a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weighing {
    /// Maximum number of rules in a leaf.
    pub(super) leaf_rules: usize,
    /// Maximum number of entries that a rule may become, here and below.
    pub(super) growth_max: f64,
}

/// Number of rules examined to compare windows; for longer lists every n-th rule.
const SAMPLE: usize = 512;

/// Returns the best window for a list, and the steps taken; `None` if none makes progress within
/// the allowed growth.
pub(super) fn choose<K: Key>(
    rules: &[Flat<K>],
    list: &[u32],
    cell: &Cell,
    weighing: Weighing,
    scratch: &mut Scratch,
) -> (Option<Window>, u64) {
    let stride = list.len().div_ceil(SAMPLE);
    let width_max = (usize::BITS - list.len().leading_zeros() + 1).clamp(4, 14);
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
        for width in [4, 6, 8, 10, 12, 14] {
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

/// Rates a window; `None` if every packet would go the same way.
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
    let edges = &mut scratch.edges;
    edges.clear();
    edges.resize(cells + 1, Edge::default());
    let mut sampled = 0_usize;
    for &rule in list.iter().step_by(stride) {
        let (first, last) = window.project(bounds, rules[rule as usize].span(window.dimension));
        sampled += 1;
        let values = if first <= last { last - first + 1 } else { cells - first + last + 1 };
        let weight = (UNIT / values as u32) as i32;
        edges[first].add(1, weight);
        edges[last + 1].add(-1, -weight);
        if first > last {
            edges[0].add(1, weight);
        }
    }
    let (mut count, mut weight) = (0_i32, 0_i32);
    let (mut expected, mut entries, mut runs) = (0_u64, 0_u64, 0_u32);
    let mut fresh = true;
    let possible = window.possible(known);
    for (value, edge) in edges[..cells].iter().enumerate() {
        count += edge.count;
        weight += edge.weight;
        fresh |= edge.any != 0;
        if !possible.has(value) {
            continue;
        }
        if fresh {
            entries += u64::from(count.cast_unsigned());
            runs += 1;
            fresh = false;
        }
        expected += u64::from(weight.cast_unsigned()) * u64::from(count.cast_unsigned());
    }
    if runs < 2 {
        return None;
    }
    let sampled = sampled as f64;
    let scale = list.len() as f64 / sampled;
    let expected = expected as f64 * scale / (f64::from(UNIT) * sampled);
    if expected > 0.98 * list.len() as f64 {
        return None;
    }
    let growth = entries as f64 / sampled;
    let expected = expected.max(weighing.leaf_rules as f64 / 2.0);
    let slack = (growth + cells as f64 / (8.0 * list.len() as f64)).max(1.0);
    // Copies are expensive if few are left for the path to the leaves.
    let way = list.len() as f64 / weighing.leaf_rules as f64;
    let left = weighing.growth_max * weighing.growth_max;
    let price = if left * left < way { slack * slack * slack } else { slack };
    Some(Score { cost: expected * expected * expected * price, growth })
}

/// The runs of a window: neighbouring values with equal lists, which share a child.
#[derive(Debug)]
pub(super) struct Runs {
    /// The run that each value belongs to.
    pub(super) of_value: Vec<u32>,
    /// First and last possible value of each run.
    pub(super) ends: Vec<(u32, u32)>,
    /// The start of each run's list in `lists`, and the end of the last.
    pub(super) starts: Vec<usize>,
    /// All lists, one after another, each ascending.
    pub(super) lists: Vec<u32>,
}

/// Divides a list. Values that no packet has belong to the preceding run.
pub(super) fn divide<K: Key>(
    rules: &[Flat<K>],
    list: &[u32],
    known: Known,
    window: Window,
    scratch: &mut Scratch,
) -> Runs {
    let cells = window.cells();
    let bounds = known.bounds();
    let Scratch { edges, projected } = scratch;
    edges.clear();
    edges.resize(cells + 1, Edge::default());
    projected.clear();
    for &rule in list {
        let (first, last) = window.project(bounds, rules[rule as usize].span(window.dimension));
        edges[first].any = 1;
        edges[last + 1].any = 1;
        projected.push((first as u32, last as u32));
    }
    let mut of_value = vec![0; cells];
    let mut ends: Vec<(u32, u32)> = Vec::new();
    let mut fresh = true;
    let possible = window.possible(known);
    for (value, run) in of_value.iter_mut().enumerate() {
        fresh |= edges[value].any != 0;
        if possible.has(value) {
            if fresh {
                ends.push((value as u32, value as u32));
                fresh = false;
            } else if let Some(last) = ends.last_mut() {
                last.1 = value as u32;
            }
        }
        *run = (ends.len() as u32).saturating_sub(1);
    }
    // Returns the runs from one value to another. An end may be an impossible value, which was
    // assigned to a neighbouring run; a run that lies outside the range is removed.
    let stretch = |from: u32, to: u32| {
        let (mut first, mut last) = (of_value[from as usize] as usize, of_value[to as usize] as usize + 1);
        while first < last && ends[first].1 < from {
            first += 1;
        }
        while first < last && ends[last - 1].0 > to {
            last -= 1;
        }
        first..last
    };
    // A wrapping rule leaves out at least one value, so no run lies on both sides.
    let runs_of = |&(first, last): &(u32, u32)| {
        if first <= last {
            [stretch(first, last), 0..0]
        } else {
            [stretch(0, last), stretch(first, cells as u32 - 1)]
        }
    };
    let mut starts = vec![0_usize; ends.len() + 1];
    for projection in projected.iter() {
        for run in runs_of(projection).into_iter().flatten() {
            starts[run + 1] += 1;
        }
    }
    for run in 0..ends.len() {
        starts[run + 1] += starts[run];
    }
    let mut next = starts.clone();
    let mut lists = vec![0; starts[ends.len()]];
    for (projection, &rule) in projected.iter().zip(list) {
        for run in runs_of(projection).into_iter().flatten() {
            lists[next[run]] = rule;
            next[run] += 1;
        }
    }
    Runs { of_value, ends, starts, lists }
}
