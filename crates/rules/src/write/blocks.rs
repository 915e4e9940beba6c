//! Entries that skip others, as chains that return.
//!
//! A range that an entry skips becomes a chain, in which that entry returns:
//!
//! ```text
//!  0 a            chain 0: a, jump chain 1, d
//!  1 skip to 3    chain 1: return, c
//!  2 c
//!  3 d
//! ```
//!
//! Where entries skip others in part, the range is cut, and its chains go on with each other.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::Unwritable;
use crate::firewall::{Entry, Outcome, Policy};
use crate::rule::Action;

/// Maximum number of chains on a path, fewer than `nf_tables` allows.
const DEPTH_MAX: usize = 14;

/// A chain.
#[derive(Debug, Default)]
pub(super) struct Block<'a> {
    pub(super) steps: Vec<Step<'a>>,
    /// Number of chains that lead to it.
    depth: usize,
}

/// A rule of a chain.
#[derive(Debug)]
pub(super) enum Step<'a> {
    Decide(&'a Entry, Action, u32),
    Return(&'a Entry),
    Jump(usize),
    /// Another chain goes on: for packets that match an entry, or for all.
    Goto(Option<&'a Entry>, usize),
}

/// Entries that become a chain.
struct Range {
    block: usize,
    start: usize,
    /// The end of this chain.
    end: usize,
    /// The chains that go on, by their first entries.
    later: Vec<(usize, usize)>,
    /// The entry that follows when the chain returns.
    back: usize,
}

/// Returns the chains of entries, starting with the one that packets enter.
pub(super) fn blocks<'a>(policy: &Policy, entries: &'a [Entry]) -> Result<Vec<Block<'a>>, Unwritable> {
    let mut blocks = Vec::from([Block::default()]);
    let all = Range { block: 0, start: 0, end: entries.len(), later: Vec::new(), back: entries.len() };
    let mut open = Vec::from([all]);
    while let Some(Range { block, start, end, later, back }) = open.pop() {
        let follows = |to: usize| later.iter().find(|one| one.0 == to).map(|one| one.1);
        let mut at = start;
        while at < end {
            let entry = &entries[at];
            let unwritable = |text: &str| Unwritable {
                line: policy.sources().get(entry.source as usize).map_or(0, |source| source.line),
                text: text.into(),
            };
            match entry.outcome {
                Outcome::Decide { action: Some(action), value } => {
                    blocks[block].steps.push(Step::Decide(entry, action, value));
                    at += 1;
                }
                Outcome::Decide { action: None, .. } => {
                    return Err(unwritable("it has no action; state one in TOML first"));
                }
                // RETURN leads to the end of a chain that was jumped to.
                Outcome::Skip { to } if to as usize == back && block != 0 => {
                    blocks[block].steps.push(Step::Return(entry));
                    at += 1;
                }
                Outcome::Skip { to } if follows(to as usize).is_some() => {
                    let other = follows(to as usize).unwrap_or_default();
                    blocks[block].steps.push(Step::Goto(Some(entry), other));
                    at += 1;
                }
                Outcome::Skip { to } => {
                    let to = reach(entries, at, to as usize);
                    let depth = blocks[block].depth + 1;
                    let cuts = cuts(entries, at, to);
                    if depth + cuts.len() > DEPTH_MAX {
                        return Err(unwritable(
                            "chains would nest too deep for the kernel; reorder the rules",
                        ));
                    }
                    let first = blocks.len();
                    blocks[block].steps.push(Step::Jump(first));
                    let later: Vec<(usize, usize)> = cuts.iter().copied().zip(first + 1..).collect();
                    let starts: Vec<usize> = core::iter::once(at).chain(cuts).collect();
                    for (index, &start) in starts.iter().enumerate() {
                        blocks.push(Block { steps: Vec::new(), depth: depth + index });
                        let end = starts.get(index + 1).copied().unwrap_or(to);
                        open.push(Range {
                            block: first + index,
                            start,
                            end,
                            later: later.clone(),
                            back: to,
                        });
                    }
                    at = to;
                }
            }
        }
        if let Some(other) = follows(end) {
            blocks[block].steps.push(Step::Goto(None, other));
        }
    }
    Ok(blocks)
}

/// Returns where a range is cut into chains that go on with each other, because entries skip others
/// in part. No entry between two cuts leads elsewhere than to a cut or to the end.
fn cuts(entries: &[Entry], start: usize, end: usize) -> BTreeSet<usize> {
    let mut cuts = BTreeSet::new();
    let skips = |at: usize| match entries[at].outcome {
        Outcome::Skip { to } => Some(to as usize),
        Outcome::Decide { .. } => None,
    };
    let mut open: Vec<usize> = Vec::new();
    for at in start..end {
        open.retain(|&to| to > at);
        if let Some(to) = skips(at) {
            cuts.extend(open.iter().copied().filter(|&other| other < to));
            open.push(to);
        }
    }
    loop {
        let count = cuts.len();
        for at in start..end {
            if let Some(to) = skips(at).filter(|&to| to < end)
                && cuts.range(at + 1..to).next().is_some()
            {
                cuts.insert(to);
            }
        }
        if cuts.len() == count {
            return cuts;
        }
    }
}

/// Returns how far the entries of a range lead, including those that begin inside and lead further.
fn reach(entries: &[Entry], from: usize, to: usize) -> usize {
    let mut end = to;
    let mut at = from;
    while at < end {
        if let Outcome::Skip { to } = entries[at].outcome {
            end = end.max(to as usize);
        }
        at += 1;
    }
    end
}
