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

use alloc::vec::Vec;

use super::Unwritable;
use crate::firewall::{Entry, Outcome, Policy};
use crate::rule::Action;

/// A chain.
#[derive(Debug, Default)]
pub(super) struct Block<'a> {
    pub(super) steps: Vec<Step<'a>>,
}

/// A rule of a chain.
#[derive(Debug)]
pub(super) enum Step<'a> {
    Decide(&'a Entry, Action, u32),
    Return(&'a Entry),
    Jump(usize),
}

/// Returns the chains of entries, starting with the one that packets enter.
pub(super) fn blocks<'a>(policy: &Policy, entries: &'a [Entry]) -> Result<Vec<Block<'a>>, Unwritable> {
    let mut blocks = Vec::from([Block::default()]);
    // Ranges that are still to be written: the chain, its next entry, and its end.
    let mut open = Vec::from([(0, 0, entries.len())]);
    while let Some((block, mut at, end)) = open.pop() {
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
                Outcome::Skip { to } if to as usize == end && block != 0 => {
                    blocks[block].steps.push(Step::Return(entry));
                    at += 1;
                }
                Outcome::Skip { to } => {
                    let to = reach(entries, at, to as usize);
                    if to > end {
                        return Err(unwritable("it skips rules that others skip in part; reorder them"));
                    }
                    // A range whose first entry does not reach its end has a chain within a chain.
                    if matches!(entry.outcome, Outcome::Skip { to: own } if own as usize != to) {
                        return Err(unwritable("it skips rules that others skip in part; reorder them"));
                    }
                    blocks.push(Block::default());
                    let inner = blocks.len() - 1;
                    blocks[block].steps.push(Step::Jump(inner));
                    open.push((inner, at, to));
                    at = to;
                }
            }
        }
    }
    Ok(blocks)
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
