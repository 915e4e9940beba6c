//! Names of interfaces, as small numbers that packets carry.
//!
//! A process has one list of names, so that a number means the same name in every capture, on every
//! thread and in every part of a file. The list only grows, up to 1,048,575 names.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Number of names in a part of the list.
const PART: usize = 256;
const PARTS: usize = (1 << InterfaceName::BITS) / PART;

type Part = [OnceLock<&'static str>; PART];

/// The numbers that are given, by name.
static NUMBERS: Mutex<BTreeMap<&'static str, u32>> = Mutex::new(BTreeMap::new());
/// The names by number. A part is allocated with its first name.
static NAMES: [OnceLock<Box<Part>>; PARTS] = [const { OnceLock::new() }; PARTS];

/// The name of the interface that captured a packet, as its number in the list of this process.
///
/// Equal names have equal numbers. The numbers differ from run to run.
///
/// # Examples
///
/// ```
/// use flowloom_packet::InterfaceName;
/// let name = InterfaceName::new("eth0");
/// assert_eq!((name.as_str(), name), (Some("eth0"), InterfaceName::new("eth0")));
/// assert_eq!(InterfaceName::UNKNOWN.as_str(), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InterfaceName(pub u32);

impl InterfaceName {
    /// The interface of a packet whose source names none.
    pub const UNKNOWN: Self = Self(0);

    /// Bits of the largest number.
    pub const BITS: u32 = 20;

    /// Maximum length of a name, in bytes.
    pub const BYTES_MAX: usize = 255;

    /// Returns the number of a name, which gets the next number at its first call. The memory of a
    /// new name is never freed.
    ///
    /// Returns [`UNKNOWN`](Self::UNKNOWN) for a name that is empty or longer than
    /// [`BYTES_MAX`](Self::BYTES_MAX), and for a new name when the list is full. Takes a lock, and
    /// logarithmic time in the number of names.
    #[must_use]
    pub fn new(name: &str) -> Self {
        if name.is_empty() || name.len() > Self::BYTES_MAX {
            return Self::UNKNOWN;
        }
        let mut numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&number) = numbers.get(name) {
            return Self(number);
        }
        let number = u32::try_from(numbers.len() + 1).unwrap_or(u32::MAX);
        if number >> Self::BITS != 0 {
            return Self::UNKNOWN;
        }
        let name: &'static str = Box::leak(name.into());
        let (part, place) = (number as usize / PART, number as usize % PART);
        let names = NAMES[part].get_or_init(|| Box::new([const { OnceLock::new() }; PART]));
        names[place].get_or_init(|| name);
        numbers.insert(name, number);
        Self(number)
    }

    /// Returns the name, without a lock. `None` if it is unknown.
    #[must_use]
    pub fn as_str(self) -> Option<&'static str> {
        let (part, place) = (self.0 as usize / PART, self.0 as usize % PART);
        NAMES.get(part)?.get()?[place].get().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_name_has_one_number_in_all_threads() {
        let numbers = || -> Vec<_> {
            (0..600).map(|nth| InterfaceName::new(&format!("vlan{}", nth % 300))).collect()
        };
        let all = std::thread::scope(|scope| {
            [(); 4].map(|()| scope.spawn(numbers)).map(|thread| thread.join().unwrap())
        });
        assert!(all.iter().all(|one| *one == all[0]));
        for (nth, name) in all[0].iter().enumerate() {
            assert_eq!(name.as_str(), Some(format!("vlan{}", nth % 300).as_str()));
        }
        assert_ne!(all[0][0], all[0][1]);
    }

    #[test]
    fn invalid_interface_name_is_unknown() {
        let long = "x".repeat(InterfaceName::BYTES_MAX + 1);
        assert_eq!([InterfaceName::new(""), InterfaceName::new(&long)], [InterfaceName::UNKNOWN; 2]);
        assert_eq!(InterfaceName::new(&long[1..]).as_str(), Some(&long[1..]));
        assert_eq!(
            [u32::MAX, 1_000_000].map(|number| InterfaceName(number).as_str()),
            [None; 2],
            "a number that was not given"
        );
    }
}
