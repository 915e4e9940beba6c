//! Many queues of tokens in one allocation.

const NIL: u32 = u32::MAX;

/// The links of all queues.
#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    /// The token, its cost, and the next node.
    nodes: Vec<((u32, u32), u32)>,
    free: Vec<u32>,
}

/// One queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fifo {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for Fifo {
    fn default() -> Self {
        Self { head: NIL, tail: NIL, len: 0 }
    }
}

impl Fifo {
    pub(super) fn len(self) -> u32 {
        self.len
    }

    pub(super) fn is_empty(self) -> bool {
        self.len == 0
    }

    pub(super) fn push(&mut self, links: &mut Links, token: u32, cost: u32) {
        let node = if let Some(node) = links.free.pop() {
            links.nodes[node as usize] = ((token, cost), NIL);
            node
        } else {
            links.nodes.push(((token, cost), NIL));
            (links.nodes.len() - 1) as u32
        };
        if self.tail == NIL {
            self.head = node;
        } else {
            links.nodes[self.tail as usize].1 = node;
        }
        self.tail = node;
        self.len += 1;
    }

    pub(super) fn pop(&mut self, links: &mut Links) -> Option<(u32, u32)> {
        if self.head == NIL {
            return None;
        }
        let (token, next) = links.nodes[self.head as usize];
        links.free.push(self.head);
        self.head = next;
        if next == NIL {
            self.tail = NIL;
        }
        self.len -= 1;
        Some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn queues_keep_their_order_and_share_their_memory() {
        let mut links = Links::default();
        let mut queues = [Fifo::default(); 3];
        let mut oracle = [const { VecDeque::new() }; 3];
        let mut state = 1;
        for token in 0..5000 {
            let word = flowloom_flow_key::hash::fold::split_mix(&mut state);
            let at = (word >> 40) as usize % 3;
            if word.is_multiple_of(2) {
                queues[at].push(&mut links, token, at as u32);
                oracle[at].push_back((token, at as u32));
            } else {
                assert_eq!(queues[at].pop(&mut links), oracle[at].pop_front());
            }
            assert_eq!(queues[at].len() as usize, oracle[at].len());
        }
        assert!(links.nodes.len() < 1000);
    }
}
