//! The distinct link types of a capture. A file may declare every link type many times.

use flowloom_packet::LinkType;

/// Link types in the order of their first occurrence.
#[derive(Debug, Default)]
pub(crate) struct Links {
    list: Vec<LinkType>,
    /// One bit per number, used when the list is too long for a linear search.
    seen: Vec<u64>,
}

/// The longest list that is searched linearly.
const GLANCE: usize = 8;

impl Links {
    /// Adds a link type, unless the list has it. The cost is independent of the length of the list.
    pub(crate) fn add(&mut self, link: LinkType) {
        if self.list.len() < GLANCE {
            if !self.list.contains(&link) {
                self.list.push(link);
            }
            return;
        }
        if self.seen.is_empty() {
            self.seen = vec![0; (1 << u16::BITS) / u64::BITS as usize];
            for &link in &self.list {
                note(&mut self.seen, link);
            }
        }
        if note(&mut self.seen, link) {
            self.list.push(link);
        }
    }

    pub(crate) fn as_slice(&self) -> &[LinkType] {
        &self.list
    }
}

/// Sets a link type's bit. Returns whether it was clear.
fn note(seen: &mut [u64], link: LinkType) -> bool {
    let (word, bit) = (usize::from(link.0) / 64, 1 << (link.0 % 64));
    let is_new = seen[word] & bit == 0;
    seen[word] |= bit;
    is_new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_types_are_listed_once_by_first_occurrence() {
        let mut links = Links::default();
        for round in 0..3_u16 {
            for number in 0..20 {
                links.add(LinkType(number * 3277 + (round * number) % 2));
            }
        }
        let numbers: Vec<u16> = links.as_slice().iter().map(|link| link.0).collect();
        let odd = (0..20).filter(|number| number % 2 == 1).map(|number| number * 3277 + 1);
        let expected: Vec<u16> = (0..20).map(|number| number * 3277).chain(odd).collect();
        assert_eq!(numbers, expected);
    }
}
