//! Names of patterns that live as long as the program: results hold words, not strings.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::plan::L7Error;

/// The most names of a program's life. Each is at most 64 bytes where a loader read it.
pub(super) const NAMES_MAX: usize = 1 << 16;

/// A name, in one word.
pub(super) type Name = &'static &'static str;

static KNOWN: Mutex<BTreeMap<&'static str, Name>> = Mutex::new(BTreeMap::new());

/// Returns a name for ever: the same one for the same text.
pub(super) fn intern(name: &str) -> Result<Name, L7Error> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(&name) = known.get(name) {
        return Ok(name);
    }
    if known.len() >= NAMES_MAX {
        return Err(L7Error::TooManyNames { names_max: NAMES_MAX });
    }
    let text: &'static str = Box::leak(String::from(name).into_boxed_str());
    let name: Name = Box::leak(Box::new(text));
    known.insert(text, name);
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_leaked_once() {
        let first = intern("a-name-of-this-test").expect("there is room");
        let again = intern("a-name-of-this-test").expect("it is known");
        assert!(std::ptr::eq(first, again));
    }
}
