//! Histories of operations on one key, and the check that some order explains them.

/// An operation of a history and its answer, with the moments before and after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) what: What,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    /// The value seen, or 0 for none.
    Get(u64),
    /// A value written.
    Insert(u64),
    /// The value to be written if there is none, and the value that is present afterwards.
    TryInsert(u64, u64),
    /// The removed value, or 0 for none.
    Remove(u64),
}

/// Returns whether some order of the operations that is consistent with their times explains all
/// answers.
pub(crate) fn is_linearizable(events: &[Event], value: u64, done: u32) -> bool {
    if done.count_ones() as usize == events.len() {
        return true;
    }
    let open = |i: &usize| done & 1 << i == 0;
    let first_end = (0..events.len()).filter(open).map(|i| events[i].ended).min().unwrap_or(0);
    (0..events.len()).filter(open).any(|i| {
        let after = match events[i].what {
            What::Get(seen) | What::Remove(seen) if seen != value => return false,
            What::Get(_) => value,
            What::Remove(_) => 0,
            What::Insert(new) => new,
            What::TryInsert(new, seen) => {
                let after = if value == 0 { new } else { value };
                if after != seen {
                    return false;
                }
                after
            }
        };
        events[i].began <= first_end && is_linearizable(events, after, done | 1 << i)
    })
}
