//! Names of patterns that live as long as the program, so that results contain words, not strings.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Maximum number of names during a program's life. A loader limits each to 64 bytes.
pub(super) const NAMES_MAX: usize = 1 << 16;

/// A name, in one word.
pub(super) type Name = &'static &'static str;

static KNOWN: Mutex<BTreeMap<&'static str, Name>> = Mutex::new(BTreeMap::new());

/// Returns a name that lives as long as the program: the same one for the same text. Returns
/// `None` after [`NAMES_MAX`] different names.
pub(super) fn intern(name: &str) -> Option<Name> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(&name) = known.get(name) {
        return Some(name);
    }
    if known.len() >= NAMES_MAX {
        return None;
    }
    let text: &'static str = Box::leak(String::from(name).into_boxed_str());
    let name: Name = Box::leak(Box::new(text));
    known.insert(text, name);
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_distinct_name_is_leaked_once() {
        let first = intern("a-name-of-this-test").expect("few names are known");
        let again = intern("a-name-of-this-test").expect("it is known");
        assert!(std::ptr::eq(first, again));
    }
}
