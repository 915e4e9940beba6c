//! Belady's MIN, which looks ahead at each miss.

use crate::access::Access;

/// Returns the number of misses of an optimal, fully associative cache of `lines` lines, access by
/// access.
///
/// `lines` is at least 1. Costs lines × accesses per miss. With `drops_closed`, a session that ends
/// is removed, and the next access of its key belongs to another session.
#[must_use]
pub fn misses_of_min(accesses: &[Access], lines: usize, drops_closed: bool) -> Vec<bool> {
    let mut cache: Vec<u64> = Vec::new();
    let mut missed = Vec::with_capacity(accesses.len());
    for (now, access) in accesses.iter().enumerate() {
        let key = access.key();
        let hit = cache.contains(&key);
        missed.push(!hit);
        if drops_closed && access.closes() {
            cache.retain(|k| *k != key);
        } else if !hit {
            if cache.len() == lines {
                // The next access of a resident key; no closing access comes before it, or the key
                // would have been removed.
                let next = |key: u64| {
                    accesses[now + 1..].iter().position(|later| later.key() == key).unwrap_or(usize::MAX)
                };
                if let Some(far) = (0..lines).max_by_key(|&at| next(cache[at])) {
                    cache.remove(far);
                }
            }
            cache.push(key);
        }
    }
    missed
}
