//! The machine as seen by policies: a tree whose leaves are workers.
//!
//! ```text
//!  8x2x4      core 0 ─┬─ pipeline 0 ─ threads 0–3     nodes of a level are numbered in order,
//!                     └─ pipeline 1 ─ threads 4–7     so those below a node are neighbours
//!             core 1 ─┬─ pipeline 2 ─ threads 8–11
//!               ⋮     ⋮
//! ```

use core::fmt;
use core::ops::Range;
use core::str::FromStr;

pub use crate::placement::{CAPACITY_FULL, CAPACITY_MAX, LEVELS_MAX};
use crate::placement::{SetupError, WORKERS_MAX, WorkerCount, WorkerId};

/// Demand of a thread that uses all of a pipeline, in thousandths.
const DEMAND_FULL: u32 = 1000;

/// One level of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Level {
    /// Capacity of each node: the sum of its workers' capacities.
    capacity: Vec<u32>,
    /// First child of each node in the level below, followed by the number of nodes there; empty
    /// for workers.
    first_child: Vec<u16>,
    /// First worker of each node, followed by the number of workers.
    first_worker: Vec<u16>,
    /// The node of each worker.
    node_of: Vec<u16>,
}

/// A tree of sockets, cores, pipelines and threads with capacities. Its leaves are the workers.
///
/// # Examples
///
/// ```
/// use flowloom_scheduler::Topology;
/// let niagara: Topology = "8x2x4,-0".parse()?;
/// assert_eq!((niagara.workers().get(), niagara.levels()), (63, 3));
/// // The dispatcher has thread 0: the first pipeline has three quarters of the capacity.
/// assert_eq!((niagara.capacity(1, 0), niagara.capacity(1, 1)), (300, 400));
/// # Ok::<(), flowloom_scheduler::SetupError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// From the outermost level to the workers.
    levels: Vec<Level>,
    /// The share of a pipeline that one thread can use, in thousandths.
    thread_demand_permille: u32,
}

impl Topology {
    /// Returns a topology of equal workers on one level.
    #[must_use]
    pub fn flat(workers: WorkerCount) -> Self {
        let count = workers.get();
        Self {
            levels: vec![Level {
                capacity: vec![CAPACITY_FULL; usize::from(count)],
                first_child: Vec::new(),
                first_worker: (0..=count).collect(),
                node_of: (0..count).collect(),
            }],
            thread_demand_permille: DEMAND_FULL,
        }
    }

    /// Returns a tree of workers with known places. A place lists the numbers of the nodes that
    /// contain the worker, from the outermost one (for example a socket) to the worker itself. The
    /// capacity is in hundredths of an ordinary worker.
    ///
    /// Workers are numbered in the order of their places. Use this to describe the topology that
    /// the system reports.
    ///
    /// # Errors
    ///
    /// Returns [`SetupError`] for zero or too many workers, zero or too many levels, places of
    /// unequal depth, a place that occurs twice, and a capacity of zero or above [`CAPACITY_MAX`].
    pub fn from_places(mut places: Vec<(Vec<u32>, u32)>) -> Result<Self, SetupError> {
        WorkerCount::new(places.len())?;
        let depth = places[0].0.len();
        if depth == 0 || depth > LEVELS_MAX {
            return Err(SetupError::Levels { levels: depth });
        }
        places.sort();
        for (worker, (place, capacity)) in places.iter().enumerate() {
            if place.len() != depth {
                return Err(SetupError::Levels { levels: place.len() });
            }
            if *capacity == 0 || *capacity > CAPACITY_MAX {
                return Err(SetupError::Capacity { worker, capacity: *capacity });
            }
            if worker > 0 && places[worker - 1].0 == *place {
                return Err(SetupError::SamePlace { worker });
            }
        }
        let levels = (1..=depth).map(|prefix| level(&places, prefix)).collect();
        Ok(Self { levels, thread_demand_permille: DEMAND_FULL })
    }

    /// Sets the share of its pipeline that one thread can use, in thousandths. At 250, four threads
    /// do not slow each other down. By default, a thread alone on a pipeline uses all of it.
    #[must_use]
    pub fn with_thread_demand(mut self, permille: u32) -> Self {
        self.thread_demand_permille = permille.clamp(1, DEMAND_FULL);
        self
    }

    /// Returns whether the workers of a pipeline slow each other down when all of them run.
    #[must_use]
    pub fn is_contended(&self, pipeline: usize) -> bool {
        let workers = self.workers_of(self.pipeline_level(), pipeline).len() as u64;
        workers * u64::from(self.thread_demand_permille) > u64::from(DEMAND_FULL)
    }

    /// Returns the number of levels, including that of the workers.
    #[must_use]
    pub fn levels(&self) -> usize {
        self.levels.len()
    }

    /// Returns the number of workers.
    ///
    /// # Panics
    ///
    /// Does not panic: a topology has 1 to [`WORKERS_MAX`] workers.
    #[must_use]
    pub fn workers(&self) -> WorkerCount {
        WorkerCount::new(self.nodes(self.levels.len() - 1))
            .expect("the constructors have checked the count")
    }

    /// Returns the number of nodes of a level; the outermost level is 0.
    #[must_use]
    pub fn nodes(&self, level: usize) -> usize {
        self.levels[level].capacity.len()
    }

    /// Returns the capacity of a node in hundredths of an ordinary worker.
    #[must_use]
    pub fn capacity(&self, level: usize, node: usize) -> u32 {
        self.levels[level].capacity[node]
    }

    /// Returns the children of a node, which are nodes of the level below. Empty for workers.
    #[must_use]
    pub fn children(&self, level: usize, node: usize) -> Range<usize> {
        range(&self.levels[level].first_child, node)
    }

    /// Returns the workers of a node.
    #[must_use]
    pub fn workers_of(&self, level: usize, node: usize) -> Range<usize> {
        range(&self.levels[level].first_worker, node)
    }

    /// Returns the node that a worker belongs to.
    #[must_use]
    pub fn node_of(&self, level: usize, worker: WorkerId) -> usize {
        usize::from(self.levels[level].node_of[worker.index()])
    }

    /// Returns the level whose nodes share execution units among their workers: the one above the
    /// workers, or that of the workers if there is no other.
    #[must_use]
    pub fn pipeline_level(&self) -> usize {
        self.levels.len().saturating_sub(2)
    }

    /// Returns the level whose nodes share a private cache: in a tree of three or more levels the
    /// one above the pipelines, in a tree of two levels that of the pipelines, otherwise that of
    /// the workers.
    #[must_use]
    pub fn cache_level(&self) -> usize {
        self.levels.len().saturating_sub(3)
    }

    /// Returns the name of a level's nodes.
    #[must_use]
    pub fn level_name(&self, level: usize) -> &'static str {
        const NAMES: [&str; LEVELS_MAX] = ["socket", "core", "pipeline", "thread"];
        match (self.levels.len(), level) {
            (2, 0) => "core",
            (depth, level) => NAMES.get(level + LEVELS_MAX - depth).copied().unwrap_or("node"),
        }
    }
}

fn range(offsets: &[u16], node: usize) -> Range<usize> {
    match (offsets.get(node), offsets.get(node + 1)) {
        (Some(&first), Some(&end)) => usize::from(first)..usize::from(end),
        _ => 0..0,
    }
}

/// Builds one level from sorted places: one node per distinct prefix of length `prefix`.
fn level(places: &[(Vec<u32>, u32)], prefix: usize) -> Level {
    let mut made = Level {
        capacity: Vec::new(),
        first_child: Vec::new(),
        first_worker: Vec::new(),
        node_of: Vec::new(),
    };
    let mut children = 0_u16;
    let mut node = 0_u16;
    for (worker, (place, capacity)) in (0_u16..).zip(places) {
        let before = worker.checked_sub(1).map(|before| &places[usize::from(before)].0);
        let is_new = |length: usize| before.is_none_or(|before| before[..length] != place[..length]);
        if is_new(prefix) {
            made.capacity.push(0);
            made.first_worker.push(worker);
            if prefix < place.len() {
                made.first_child.push(children);
            }
            node = (made.capacity.len() - 1) as u16;
        }
        if prefix < place.len() && is_new(prefix + 1) {
            children += 1;
        }
        made.capacity[usize::from(node)] += capacity;
        made.node_of.push(node);
    }
    made.first_worker.push(places.len() as u16);
    if !made.first_child.is_empty() {
        made.first_child.push(children);
    }
    made
}

impl FromStr for Topology {
    type Err = SetupError;

    /// Parses `8x2x4`: nodes per level, starting from the outermost. Parts after commas change
    /// threads, which are numbered from 0 in the whole tree. `-0` removes one (for example because
    /// a dispatcher runs there), and `5=50` gives one half of the ordinary capacity.
    ///
    /// # Errors
    ///
    /// Returns [`SetupError::Text`] for any other text, and the errors of
    /// [`Topology::from_places`].
    fn from_str(text: &str) -> Result<Self, SetupError> {
        let malformed = |part: &'static str| SetupError::Text { part };
        let mut parts = text.trim().split(',');
        let shape = parts.next().unwrap_or_default();
        let mut fan_outs = Vec::new();
        let mut leaves = 1_usize;
        for part in shape.split('x') {
            let fan_out: usize = decimal(part.trim()).ok_or(malformed("nodes per level"))?;
            leaves = leaves.saturating_mul(fan_out);
            fan_outs.push(fan_out);
            if leaves > WORKERS_MAX || fan_out == 0 {
                return Err(SetupError::Workers { workers: leaves });
            }
            if fan_outs.len() > LEVELS_MAX {
                return Err(SetupError::Levels { levels: shape.split('x').count() });
            }
        }
        let mut capacities = vec![Some(CAPACITY_FULL); leaves];
        for part in parts {
            let part = part.trim();
            let (thread, capacity) = if let Some(thread) = part.strip_prefix('-') {
                (thread, None)
            } else {
                let (thread, capacity) = part.split_once('=').ok_or(malformed("change of a thread"))?;
                (thread, Some(decimal(capacity.trim()).ok_or(malformed("capacity of a thread"))?))
            };
            let thread: usize = decimal(thread.trim()).ok_or(malformed("number of a thread"))?;
            *capacities.get_mut(thread).ok_or(malformed("number of a thread"))? = capacity;
        }
        let places = capacities.into_iter().enumerate().filter_map(|(leaf, capacity)| {
            let mut rest = leaf;
            let mut place: Vec<u32> = fan_outs
                .iter()
                .rev()
                .map(|fan_out| {
                    let digit = rest % fan_out;
                    rest /= fan_out;
                    digit as u32
                })
                .collect();
            place.reverse();
            capacity.map(|capacity| (place, capacity))
        });
        Self::from_places(places.collect())
    }
}

/// Parses decimal digits only. The standard library would also accept a plus sign.
fn decimal<T: FromStr>(digits: &str) -> Option<T> {
    digits.parse().ok().filter(|_| !digits.starts_with('+'))
}

impl fmt::Display for Topology {
    /// Writes the number of nodes of each level: `8 cores, 16 pipelines, 64 threads`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for level in 0..self.levels() {
            let (count, name) = (self.nodes(level), self.level_name(level));
            let (comma, plural) = (if level == 0 { "" } else { ", " }, if count == 1 { "" } else { "s" });
            write!(f, "{comma}{count} {name}{plural}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_and_workers_of_a_node_are_contiguous() {
        let tree: Topology = "8x2x4".parse().unwrap();
        assert_eq!([tree.nodes(0), tree.nodes(1), tree.nodes(2)], [8, 16, 64]);
        assert_eq!((tree.children(0, 3), tree.children(1, 7), tree.children(2, 9)), (6..8, 28..32, 0..0));
        assert_eq!((tree.workers_of(0, 3), tree.workers_of(1, 15)), (24..32, 60..64));
        for level in 0..3 {
            for node in 0..tree.nodes(level) {
                for worker in tree.workers_of(level, node) {
                    assert_eq!(tree.node_of(level, WorkerId::from(worker as u16)), node);
                }
            }
        }
        assert_eq!(tree.to_string(), "8 cores, 16 pipelines, 64 threads");
    }

    #[test]
    fn threads_can_be_removed_and_slowed_down() {
        let tree: Topology = "2x2x2, -0, -1, 5=50".parse().unwrap();
        assert_eq!(tree.workers().get(), 6);
        // The pipeline without threads is gone.
        assert_eq!([tree.nodes(0), tree.nodes(1)], [2, 3]);
        assert_eq!([tree.capacity(0, 0), tree.capacity(0, 1)], [200, 350]);
        assert_eq!((tree.children(0, 0), tree.children(0, 1)), (0..1, 1..3));
    }

    #[test]
    fn impossible_topology_is_refused_by_kind() {
        let error = |text: &str| text.parse::<Topology>().unwrap_err();
        assert_eq!(error("0"), SetupError::Workers { workers: 0 });
        assert_eq!(error("64x64"), SetupError::Workers { workers: 4096 });
        assert_eq!(error("1x1x1x1x1"), SetupError::Levels { levels: 5 });
        assert_eq!(error(""), SetupError::Text { part: "nodes per level" });
        assert_eq!(error("8x"), SetupError::Text { part: "nodes per level" });
        assert_eq!(error("2x+2"), SetupError::Text { part: "nodes per level" });
        assert_eq!(error("2,-+1"), SetupError::Text { part: "number of a thread" });
        assert_eq!(error("2,+1=50"), SetupError::Text { part: "number of a thread" });
        assert_eq!(error("2,1=+50"), SetupError::Text { part: "capacity of a thread" });
        assert_eq!(error("2,-2"), SetupError::Text { part: "number of a thread" });
        assert_eq!(error("2,1"), SetupError::Text { part: "change of a thread" });
        assert_eq!(error("2,1=0"), SetupError::Capacity { worker: 1, capacity: 0 });
        assert_eq!(error("2,1=10001"), SetupError::Capacity { worker: 1, capacity: 10_001 });
        assert_eq!("2,1=10000".parse::<Topology>().unwrap().capacity(0, 1), CAPACITY_MAX);
        assert_eq!(error("2,-0,-1"), SetupError::Workers { workers: 0 });
        assert_eq!(
            Topology::from_places(vec![(vec![1, 2], 100), (vec![1, 2], 100)]),
            Err(SetupError::SamePlace { worker: 1 })
        );
        assert_eq!(
            Topology::from_places(vec![(vec![1, 2], 100), (vec![1], 100)]),
            Err(SetupError::Levels { levels: 1 })
        );
    }

    #[test]
    fn a_flat_tree_matches_its_text() {
        assert_eq!(Topology::flat(WorkerCount::new(7).unwrap()), "7".parse().unwrap());
    }
}
