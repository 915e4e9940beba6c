//! The nodes of a topology in one array, the root first, and the backlog below each node.

use std::ops::Range;

use super::backlog::Backlog;
use super::{LoadView, WorkItem};
use crate::topology::{CAPACITY_FULL, Topology};

/// Fractional bits of the factor for an item's cost. They suffice for a node with the maximum
/// number of workers of the largest capacity, and products still fit into 64 bits.
const FRACTION: u32 = 24;

/// Nodes of all levels, numbered from the root. The nodes of a level follow those of the level
/// above; workers come last.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    /// First child of each node; the next entry is the end of its children. Workers have no
    /// children.
    first_child: Vec<u32>,
    parent: Vec<u32>,
    capacity: Vec<u32>,
    /// The number of the first worker.
    pub(crate) first_worker: u32,
}

impl Nodes {
    pub(crate) fn new(topology: &Topology) -> Self {
        let levels = topology.levels();
        let mut nodes = Self { first_child: vec![1], parent: vec![0], capacity: vec![1], first_worker: 0 };
        nodes.parent.resize(1 + topology.nodes(0), 0);
        let mut number = nodes.parent.len() as u32;
        for level in 0..levels {
            for node in 0..topology.nodes(level) {
                let own = nodes.first_child.len() as u32;
                let children = topology.children(level, node).len();
                nodes.first_child.push(number);
                nodes.parent.resize(nodes.parent.len() + children, own);
                nodes.capacity.push(topology.capacity(level, node));
                number += children as u32;
            }
        }
        nodes.first_child.push(number);
        nodes.first_worker = number - u32::from(topology.workers().get());
        nodes
    }

    #[inline]
    pub(crate) fn children(&self, node: u32) -> Range<u32> {
        self.first_child[node as usize]..self.first_child[node as usize + 1]
    }

    #[inline]
    pub(crate) fn parent(&self, node: u32) -> u32 {
        self.parent[node as usize]
    }

    pub(crate) fn capacity(&self, node: u32) -> u32 {
        self.capacity[node as usize]
    }

    pub(crate) fn workers(&self) -> usize {
        (self.count() - self.first_worker) as usize
    }

    /// Returns the number of nodes.
    pub(crate) fn count(&self) -> u32 {
        self.parent.len() as u32
    }
}

/// What the length of a queue is, and how the lengths below a node add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lengths {
    /// Bytes; those of a node are the sum of its threads' [HRWTREE §3.3].
    Bytes,
    /// Unlike the paper, the time that items and their bytes are found to take, divided by a node's
    /// capacity: a pipeline of four threads with one item counts a quarter of it.
    Fitted,
}

/// The backlog below each node.
#[derive(Clone, Debug)]
pub(crate) struct TreeLoad {
    pub(crate) nodes: Nodes,
    pub(crate) backlog: Backlog,
    /// Backlog by node number.
    waiting: Vec<u32>,
    /// What the backlog of each node is divided by.
    divisor: Vec<u32>,
    /// 2²⁴ divided by that of each node, relative to an ordinary worker.
    scale: Vec<u64>,
}

impl TreeLoad {
    pub(crate) fn new(topology: &Topology, lengths: Lengths) -> Self {
        let nodes = Nodes::new(topology);
        let (backlog, whole, divisor) = match lengths {
            Lengths::Bytes => (Backlog::in_bytes(topology), 1, vec![1; nodes.count() as usize]),
            Lengths::Fitted => (Backlog::new(topology), CAPACITY_FULL, nodes.capacity.clone()),
        };
        let scale = divisor.iter().map(|&of| (u64::from(whole) << FRACTION) / u64::from(of)).collect();
        let waiting = vec![0; nodes.count() as usize];
        Self { nodes, backlog, waiting, divisor, scale }
    }

    /// Reads the dispatcher's counters, once per batch.
    pub(crate) fn refresh(&mut self, load: &LoadView<'_>) {
        self.backlog.refresh(load);
        let first = self.nodes.first_worker as usize;
        self.waiting[first..].copy_from_slice(self.backlog.waiting());
        for node in (1..first).rev() {
            let children = self.nodes.children(node as u32);
            let sum: u64 = children
                .map(|child| {
                    u64::from(self.waiting[child as usize]) * u64::from(self.divisor[child as usize])
                })
                .sum();
            let own = sum / u64::from(self.divisor[node]);
            self.waiting[node] = u32::try_from(own).unwrap_or(u32::MAX);
        }
    }

    /// Counts an item for a worker. Returns its position in the worker's queue.
    #[inline]
    pub(crate) fn assign(&mut self, worker: usize, item: WorkItem) -> u64 {
        let (place, added) = self.backlog.assign(worker, item);
        let cost = self.backlog.cost(item);
        let mut node = self.nodes.first_worker + worker as u32;
        self.waiting[node as usize] = self.waiting[node as usize].saturating_add(added);
        loop {
            node = self.nodes.parent(node);
            if node == 0 {
                return place;
            }
            let added = self.at(node, cost);
            self.waiting[node as usize] = self.waiting[node as usize].saturating_add(added);
        }
    }

    /// Returns what a cost adds to the backlog of a node.
    #[inline]
    pub(crate) fn at(&self, node: u32, cost: u32) -> u32 {
        let added = (u64::from(cost) * self.scale[node as usize]) >> FRACTION;
        u32::try_from(added).unwrap_or(u32::MAX)
    }

    /// Returns the backlog below a node.
    #[inline]
    pub(crate) fn waiting(&self, node: u32) -> u32 {
        self.waiting[node as usize]
    }

    /// Returns the backlogs below neighbouring nodes.
    #[inline]
    pub(crate) fn row(&self, nodes: Range<u32>) -> &[u32] {
        &self.waiting[nodes.start as usize..nodes.end as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_numbered_level_by_level() {
        let nodes = Nodes::new(&"2x2x2,-0".parse().unwrap());
        assert_eq!((nodes.count(), nodes.first_worker), (1 + 2 + 4 + 7, 7));
        assert_eq!((nodes.children(0), nodes.children(1), nodes.children(3)), (1..3, 3..5, 7..8));
        assert_eq!((nodes.parent(1), nodes.parent(3), nodes.parent(7), nodes.parent(13)), (0, 1, 3, 6));
        assert_eq!((nodes.capacity(3), nodes.capacity(4), nodes.capacity(7)), (100, 200, 100));
        assert!((7..14).all(|worker| nodes.children(worker).is_empty()));
    }

    #[test]
    fn assigned_and_reported_loads_agree() {
        let topology: Topology = "2x2x2,-0,5=200".parse().unwrap();
        let (mut assigned, mut reported) =
            [(); 2].map(|()| TreeLoad::new(&topology, Lengths::Fitted)).into();
        let (mut sent, mut bytes) = ([0_u64; 7], [0_u64; 7]);
        for (worker, size) in [(0, 100), (3, 400), (4, 1000), (4, 44), (6, 1400)] {
            assigned.assign(worker, WorkItem { digest: 0, bytes: size });
            sent[worker] += 1;
            bytes[worker] += u64::from(size);
        }
        let zero = [0; 7];
        reported.refresh(&LoadView {
            sent: &sent,
            completed: &zero,
            sent_bytes: &bytes,
            completed_bytes: &zero,
            busy: &[],
        });
        for node in 1..14 {
            let (a, b) = (assigned.waiting(node), reported.waiting(node));
            assert!(a.abs_diff(b) <= 3, "node {node}: {a} and {b}");
        }
        assert_eq!(reported.waiting(7), 356);
    }

    #[test]
    fn load_of_a_large_node_is_the_mean_of_its_workers() {
        // Nodes of 512 and of 24 workers, and workers of a hundred times the ordinary capacity.
        for shape in
            ["2x512", "2x24", "2x8,0=10000,1=10000,2=10000,3=10000,4=10000,5=10000,6=10000,7=10000"]
        {
            let topology: Topology = shape.parse().unwrap();
            let workers = usize::from(topology.workers().get());
            let mut load = TreeLoad::new(&topology, Lengths::Fitted);
            let (sent, zero) = (vec![1000; workers], vec![0; workers]);
            load.refresh(&LoadView { sent: &sent, completed: &zero, ..LoadView::idle() });
            for node in 1..=2 {
                let below = load.nodes.children(node);
                let capacity = f64::from(load.nodes.capacity(node));
                let mean: f64 = below
                    .map(|child| f64::from(load.waiting(child)) * f64::from(load.nodes.capacity(child)))
                    .sum::<f64>()
                    / capacity;
                let waiting = f64::from(load.waiting(node));
                assert!((waiting - mean).abs() <= 1.0, "{shape}, node {node}: {waiting} and {mean}");
            }
        }
    }
}
