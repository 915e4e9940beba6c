//! A subset under construction, and the assertions that decide its members.

use std::mem;

use regex_automata::util::look::{Look, LookMatcher};

use super::bytes::Bytes;
use super::nodes::{Node, Nodes};
use crate::table::NONE;

/// The kind of a byte, as far as assertions distinguish kinds, or the end of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteKind {
    Other,
    Word,
    Newline,
    Return,
    None,
}

impl ByteKind {
    const ALL: [Self; 5] = [Self::Other, Self::Word, Self::Newline, Self::Return, Self::None];
    /// The kinds of bytes, without the end of the input.
    pub(super) const BYTES: [Self; 4] = [Self::Other, Self::Word, Self::Newline, Self::Return];
    /// The kind of the preceding byte.
    pub(super) const LAST: Bytes = {
        let mut last = Bytes::NONE;
        let mut byte = 0;
        while byte < u8::MAX {
            if Self::from_byte(byte) as u8 != Self::from_byte(byte + 1) as u8 {
                last = last.with(byte);
            }
            byte += 1;
        }
        last
    };

    pub(super) const fn from_byte(byte: u8) -> Self {
        match byte {
            b'\n' => Self::Newline,
            b'\r' => Self::Return,
            b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => Self::Word,
            _ => Self::Other,
        }
    }

    /// Returns a byte of this kind.
    fn example(self) -> u8 {
        match self {
            Self::Other | Self::None => b' ',
            Self::Word => b'a',
            Self::Newline => b'\n',
            Self::Return => b'\r',
        }
    }
}

/// Returns whether an assertion holds between two bytes.
fn holds(look: Look, behind: ByteKind, ahead: ByteKind) -> bool {
    let text = [behind.example(), ahead.example()];
    let (begin, end) = (usize::from(behind == ByteKind::None), 2 - usize::from(ahead == ByteKind::None));
    LookMatcher::new().matches(look, &text[begin..end], 1 - begin)
}

/// A subset under construction.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    nodes: &'a Nodes,
    /// The round in which each node was last reached.
    seen: Vec<u32>,
    round: u32,
    stack: Vec<u32>,
    /// The nodes that wait for a byte or for an assertion about the next byte, and candidates.
    list: Vec<u32>,
    /// The best pattern that has matched.
    label: u16,
    key: Vec<u32>,
    /// Nodes visited since the last call of [`looked_at`](Self::looked_at).
    looked_at: u64,
}

impl<'a> Draft<'a> {
    pub(super) fn new(nodes: &'a Nodes) -> Self {
        let seen = vec![0; nodes.count()];
        Self {
            nodes,
            seen,
            round: 0,
            stack: Vec::new(),
            list: Vec::new(),
            label: NONE,
            key: Vec::new(),
            looked_at: 0,
        }
    }

    /// Returns the nodes visited since the last call.
    pub(super) fn looked_at(&mut self) -> u64 {
        mem::take(&mut self.looked_at)
    }

    /// Begins another subset; `label` is the best pattern that has matched.
    pub(super) fn begin(&mut self, label: u16) {
        self.list.clear();
        self.label = label;
        self.round = self.round.checked_add(1).unwrap_or_else(|| {
            self.seen.fill(0);
            1
        });
    }

    /// Adds a node and all nodes that follow from it without a byte. While the next byte is
    /// unknown, assertions stay unresolved.
    pub(super) fn add(&mut self, node: u32, behind: ByteKind, ahead: Option<ByteKind>) {
        self.stack.push(node);
        while let Some(at) = self.stack.pop() {
            self.looked_at += 1;
            if mem::replace(&mut self.seen[at as usize], self.round) == self.round {
                continue;
            }
            match self.nodes.get(at) {
                Node::Bytes { .. } | Node::Candidate { .. } => self.list.push(at),
                Node::Split { begin, end } => self.stack.extend_from_slice(self.nodes.splits(begin, end)),
                Node::Match(id) => self.label = self.label.min(id),
                Node::Look { look, to } => match ahead {
                    // The beginning of the input does not depend on the next byte.
                    _ if look == Look::Start && behind == ByteKind::None => self.stack.push(to),
                    None if look != Look::Start => self.list.push(at),
                    Some(ahead) if holds(look, behind, ahead) => self.stack.push(to),
                    _ => {}
                },
            }
        }
    }

    /// Resolves a subset's assertions for a known next byte. Returns the best pattern that then
    /// matches, and the nodes that wait for a byte.
    pub(super) fn resume(&mut self, key: &[u32], ahead: ByteKind) -> (u16, &[u32]) {
        self.begin(NONE);
        for &node in nodes(key) {
            self.add(node, behind(key), Some(ahead));
        }
        (self.label, &self.list)
    }

    /// Returns the subset in canonical form: the data that decides how it continues, and then, in
    /// order, its nodes without those that cannot lead to a better pattern.
    pub(super) fn finish(&mut self, behind: ByteKind) -> &[u32] {
        let Self { nodes, list, label, key, .. } = self;
        key.clear();
        key.push(0);
        key.extend(list.iter().filter(|&&at| nodes.best(at) < *label));
        key[1..].sort_unstable();
        // The preceding byte matters only if an unresolved assertion depends on it.
        let asked = nodes.asks() && nodes.waits(&key[1..]);
        key[0] = u32::from(*label) << 8 | if asked { behind as u32 } else { 0 };
        key
    }
}

/// Returns the nodes of a subset, in ascending order.
pub(super) fn nodes(key: &[u32]) -> &[u32] {
    &key[1..]
}

/// Returns the best pattern that has matched on entering a subset.
pub(super) fn label(key: &[u32]) -> u16 {
    u16::try_from(key[0] >> 8).unwrap_or(NONE)
}

/// Returns the kind of the byte before a subset, if it matters.
fn behind(key: &[u32]) -> ByteKind {
    ByteKind::ALL[(key[0] & 0xff) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assertions_see_one_byte_on_each_side() {
        assert!(holds(Look::WordAscii, ByteKind::None, ByteKind::Word));
        assert!(!holds(Look::WordAscii, ByteKind::Word, ByteKind::Word));
        assert!(holds(Look::WordAscii, ByteKind::Word, ByteKind::None));
        assert!(
            holds(Look::EndLF, ByteKind::Word, ByteKind::Newline)
                && holds(Look::EndLF, ByteKind::Word, ByteKind::None)
        );
        assert!(
            holds(Look::StartLF, ByteKind::Newline, ByteKind::Word)
                && holds(Look::StartLF, ByteKind::None, ByteKind::None)
        );
        assert!(!holds(Look::StartCRLF, ByteKind::Return, ByteKind::Newline));
        assert!(holds(Look::StartCRLF, ByteKind::Return, ByteKind::Other));
        assert!(!holds(Look::EndCRLF, ByteKind::Return, ByteKind::Newline));
    }

    #[test]
    fn bytes_of_one_kind_are_one_run() {
        for byte in 0..u8::MAX {
            let ends = ByteKind::LAST.iter().any(|last| last == byte);
            assert_eq!(ends, ByteKind::from_byte(byte) != ByteKind::from_byte(byte + 1), "{byte}");
        }
    }
}
