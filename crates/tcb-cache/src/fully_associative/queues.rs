//! Queues of keys with constant-time find, move and remove.

use super::key_map::KeyMap;

/// No node: the end of a queue.
pub(crate) const END: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    key: u64,
    /// The neighbour towards the front, where keys enter.
    newer: u32,
    /// The neighbour towards the back, where keys leave.
    older: u32,
    queue: u8,
    mark: u8,
}

/// `N` queues over one set of keys; a key is in one of them, or in none.
#[derive(Clone, Debug)]
pub(crate) struct Queues<const N: usize> {
    map: KeyMap,
    nodes: Vec<Node>,
    free: Vec<u32>,
    fronts: [u32; N],
    backs: [u32; N],
    lens: [usize; N],
}

impl<const N: usize> Queues<N> {
    /// Returns empty queues for this many keys in total.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            map: KeyMap::new(capacity),
            nodes: Vec::with_capacity(capacity),
            free: Vec::new(),
            fronts: [END; N],
            backs: [END; N],
            lens: [0; N],
        }
    }

    #[inline(always)]
    pub(crate) fn find(&self, key: u64) -> Option<u32> {
        self.map.get(key)
    }

    #[inline(always)]
    pub(crate) fn len(&self, queue: usize) -> usize {
        self.lens[queue]
    }

    #[inline(always)]
    pub(crate) fn queue_of(&self, node: u32) -> usize {
        usize::from(self.nodes[node as usize].queue)
    }

    #[inline(always)]
    pub(crate) fn key(&self, node: u32) -> u64 {
        self.nodes[node as usize].key
    }

    #[inline(always)]
    pub(crate) fn mark(&self, node: u32) -> u8 {
        self.nodes[node as usize].mark
    }

    #[inline(always)]
    pub(crate) fn set_mark(&mut self, node: u32, mark: u8) {
        self.nodes[node as usize].mark = mark;
    }

    /// Returns the node at the back of a queue, or [`END`].
    #[inline(always)]
    pub(crate) fn back(&self, queue: usize) -> u32 {
        self.backs[queue]
    }

    /// Returns the next node in the direction of the front, or [`END`].
    #[inline(always)]
    pub(crate) fn newer(&self, node: u32) -> u32 {
        self.nodes[node as usize].newer
    }

    /// Inserts a key that is in no queue at the front, with mark 0.
    #[inline]
    pub(crate) fn push(&mut self, queue: usize, key: u64) -> u32 {
        let fresh = Node { key, newer: END, older: END, queue: queue as u8, mark: 0 };
        let node = if let Some(node) = self.free.pop() {
            self.nodes[node as usize] = fresh;
            node
        } else {
            self.nodes.push(fresh);
            (self.nodes.len() - 1) as u32
        };
        self.map.set(key, node);
        self.link(queue, node);
        node
    }

    #[inline(always)]
    fn link(&mut self, queue: usize, node: u32) {
        let front = self.fronts[queue];
        let it = &mut self.nodes[node as usize];
        (it.queue, it.newer, it.older) = (queue as u8, END, front);
        if front == END {
            self.backs[queue] = node;
        } else {
            self.nodes[front as usize].newer = node;
        }
        self.fronts[queue] = node;
        self.lens[queue] += 1;
    }

    #[inline(always)]
    fn unlink(&mut self, node: u32) {
        let Node { newer, older, queue, .. } = self.nodes[node as usize];
        let queue = usize::from(queue);
        if newer == END {
            self.fronts[queue] = older;
        } else {
            self.nodes[newer as usize].older = older;
        }
        if older == END {
            self.backs[queue] = newer;
        } else {
            self.nodes[older as usize].newer = newer;
        }
        self.lens[queue] -= 1;
    }

    /// Moves a node to the front of a queue.
    #[inline(always)]
    pub(crate) fn move_to(&mut self, queue: usize, node: u32) {
        if self.fronts[queue] == node {
            return;
        }
        self.unlink(node);
        self.link(queue, node);
    }

    /// Removes a node, and returns its key.
    #[inline]
    pub(crate) fn remove(&mut self, node: u32) -> u64 {
        self.unlink(node);
        let key = self.nodes[node as usize].key;
        self.map.remove(key);
        self.free.push(node);
        key
    }

    /// Removes the back of a queue, if the queue is not empty.
    #[inline]
    pub(crate) fn pop(&mut self, queue: usize) -> Option<u64> {
        let node = self.backs[queue];
        (node != END).then(|| self.remove(node))
    }

    /// Returns the keys of a queue, from front to back.
    pub(crate) fn keys(&self, queue: usize) -> impl Iterator<Item = u64> {
        let mut at = self.fronts[queue];
        core::iter::from_fn(move || {
            let node = (at != END).then(|| self.nodes[at as usize])?;
            at = node.older;
            Some(node.key)
        })
    }
}
