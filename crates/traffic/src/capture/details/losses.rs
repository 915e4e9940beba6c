//! What the interfaces of a capture lost, according to the capture itself.
//!
//! A pcapng states losses in two ways: in blocks of statistics, whose counters run from the start
//! of the capture, and in options of packets, which count the packets lost since the previous
//! one of the interface.

use std::collections::BTreeMap;

use flowloom_packet::InterfaceName;

use crate::capture::annotations::Words;

/// Number of interfaces with counts of their own. A larger number would be an attack on memory.
const INTERFACES_MAX: usize = 1 << 16;
/// The index shared by undeclared interfaces and those beyond the limit.
const OTHERS: u32 = u32::MAX;

/// The losses of an interface. Interfaces of several sections with one number and name count
/// together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InterfaceLosses {
    /// Its name, if it has one.
    pub name: InterfaceName,
    /// Its number in its section; `u32::MAX` for undeclared interfaces.
    pub number: u32,
    /// Packets that it received (`isb_ifrecv`).
    pub received: Option<u64>,
    /// Packets that it dropped (`isb_ifdrop`).
    pub dropped_by_interface: Option<u64>,
    /// Packets that the operating system dropped (`isb_osdrop`).
    pub dropped_by_system: Option<u64>,
    /// Packets that were lost before packets of the capture (`epb_dropcount`).
    pub dropped_before_packets: Option<u64>,
}

impl InterfaceLosses {
    /// Returns the counters of a block of statistics: interface, time stamp, options.
    pub(crate) fn of_statistics(words: Words, body: &[u8]) -> Self {
        let mut found = Self::default();
        for (code, value) in words.options(body, 12) {
            match code {
                4 => found.received = words.counter(value),
                5 => found.dropped_by_interface = words.counter(value),
                7 => found.dropped_by_system = words.counter(value),
                _ => {}
            }
        }
        found
    }

    /// Returns the packets lost before one whose options begin at this offset, if it says so.
    #[cold]
    pub(crate) fn of_options(words: Words, body: &[u8], begin: usize) -> Option<Self> {
        const DROP_COUNT: u16 = 4;
        let (_, value) = words.options(body, begin).find(|(code, _)| *code == DROP_COUNT)?;
        Some(Self::before_packet(words.counter(value)?))
    }

    /// Returns the packets lost before one in an obsolete block. All bits of its count are set if
    /// the count is unknown.
    pub(crate) fn of_obsolete(drops: u32) -> Option<Self> {
        (drops != 0 && drops != 0xFFFF).then(|| Self::before_packet(drops.into()))
    }

    fn before_packet(packets: u64) -> Self {
        Self { dropped_before_packets: Some(packets), ..Self::default() }
    }

    /// Returns how many packets were lost. The statistics and the packets count the same losses.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let [interface, system, packets] =
            [self.dropped_by_interface, self.dropped_by_system, self.dropped_before_packets]
                .map(Option::unwrap_or_default);
        interface.saturating_add(system).max(packets)
    }

    fn counters(&mut self) -> [&mut Option<u64>; 3] {
        [&mut self.received, &mut self.dropped_by_interface, &mut self.dropped_by_system]
    }

    /// Adds what later blocks of the same section say.
    fn continue_with(&mut self, mut later: Self) {
        add(&mut self.dropped_before_packets, later.dropped_before_packets);
        for (counter, later) in self.counters().into_iter().zip(later.counters()) {
            *counter = later.or(*counter);
        }
    }

    /// Adds another section.
    fn add(&mut self, mut other: Self) {
        add(&mut self.dropped_before_packets, other.dropped_before_packets);
        for (counter, other) in self.counters().into_iter().zip(other.counters()) {
            add(counter, *other);
        }
    }
}

fn add(sum: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or_default().saturating_add(more));
    }
}

/// By number and name.
type Interfaces = BTreeMap<(u32, InterfaceName), InterfaceLosses>;

fn entry(interfaces: &mut Interfaces, number: u32, name: InterfaceName) -> &mut InterfaceLosses {
    let mut key = (number, name);
    if interfaces.len() >= INTERFACES_MAX && !interfaces.contains_key(&key) {
        key = (OTHERS, InterfaceName::UNKNOWN);
    }
    let (number, name) = key;
    interfaces.entry(key).or_insert(InterfaceLosses { name, number, ..InterfaceLosses::default() })
}

/// The losses that a walk has found. It may have begun and ended inside a section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    /// Of the section in which the walk began.
    first: Interfaces,
    /// Sums of the sections between the first and the last.
    between: Interfaces,
    /// Of the section in which the walk ended, if another.
    last: Option<Interfaces>,
}

impl Losses {
    /// Another section begins.
    pub(crate) fn section(&mut self) {
        self.end_with(Interfaces::new());
    }

    fn end_with(&mut self, last: Interfaces) {
        for losses in self.last.replace(last).into_iter().flat_map(BTreeMap::into_values) {
            entry(&mut self.between, losses.number, losses.name).add(losses);
        }
    }

    /// Adds what a block says about an interface, which is undeclared if it has no number.
    #[cold]
    pub(crate) fn note(&mut self, number: Option<u32>, name: InterfaceName, found: InterfaceLosses) {
        let open = self.last.as_mut().unwrap_or(&mut self.first);
        entry(open, number.unwrap_or(OTHERS), name).continue_with(found);
    }

    /// Adds what a walk from the end of this one has found.
    pub(crate) fn append(&mut self, later: Self) {
        for losses in later.first.into_values() {
            let open = self.last.as_mut().unwrap_or(&mut self.first);
            entry(open, losses.number, losses.name).continue_with(losses);
        }
        if let Some(last) = later.last {
            self.end_with(last);
            for losses in later.between.into_values() {
                entry(&mut self.between, losses.number, losses.name).add(losses);
            }
        }
    }

    /// Returns the sums over all sections, by the numbers of the interfaces.
    pub(crate) fn sums(&self) -> Vec<InterfaceLosses> {
        let mut sums = self.first.clone();
        for losses in self.between.values().chain(self.last.iter().flat_map(BTreeMap::values)) {
            entry(&mut sums, losses.number, losses.name).add(*losses);
        }
        sums.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics(received: u64, dropped: u64) -> InterfaceLosses {
        InterfaceLosses {
            received: Some(received),
            dropped_by_interface: Some(dropped),
            ..InterfaceLosses::default()
        }
    }

    #[test]
    fn last_interface_statistics_of_each_section_count_in_every_split() {
        let name = InterfaceName::new("eth0");
        // A section begins at each `None`.
        let found = [
            None,
            Some(statistics(10, 1)),
            Some(InterfaceLosses::before_packet(2)),
            Some(statistics(20, 3)),
            None,
            Some(statistics(5, 1)),
            Some(InterfaceLosses::before_packet(7)),
            None,
            Some(statistics(100, 10)),
        ];
        let walk = |found: &[Option<InterfaceLosses>]| {
            let mut losses = Losses::default();
            for found in found {
                match found {
                    Some(found) => losses.note(Some(0), name, *found),
                    None => losses.section(),
                }
            }
            losses
        };
        for cut in 0..=found.len() {
            for other in cut..=found.len() {
                let mut losses = walk(&found[..cut]);
                losses.append(walk(&found[cut..other]));
                losses.append(walk(&found[other..]));
                let [sum] = losses.sums()[..] else { panic!("{losses:?}") };
                assert_eq!(
                    (sum.received, sum.dropped_by_interface),
                    (Some(125), Some(14)),
                    "{cut} {other}"
                );
                assert_eq!((sum.dropped_before_packets, sum.lost()), (Some(9), 14));
                assert_eq!(sum.name, name);
            }
        }
    }

    #[test]
    fn losses_of_interfaces_beyond_the_limit_are_added_up() {
        let mut losses = Losses::default();
        for number in 0..u32::try_from(INTERFACES_MAX).unwrap() + 3 {
            losses.note(Some(number), InterfaceName::UNKNOWN, InterfaceLosses::before_packet(1));
        }
        losses.note(None, InterfaceName::UNKNOWN, InterfaceLosses::before_packet(1));
        let sums = losses.sums();
        assert_eq!(sums.len(), INTERFACES_MAX + 1);
        assert_eq!(sums.last().map(|sum| (sum.number, sum.lost())), Some((OTHERS, 4)));
    }
}
