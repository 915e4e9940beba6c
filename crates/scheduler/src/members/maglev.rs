//! The lookup table of Maglev (Eisenbud and others, NSDI 2016, section 3.4), for comparison.

use flowloom_flow_key::hash::fold::split_mix;

use super::{Member, MemberId, Members};

/// Default number of entries: the smaller of the paper's two sizes.
const ENTRIES: u32 = 65_537;

/// A table that maps a flow's digest to its member. A lookup takes one read, independent of the
/// number of members.
///
/// Each member fills entries in its own order, in proportion to its weight. Unlike with
/// [`Members`], adding or removing a member also moves a few flows between other members, and the
/// table must be rebuilt.
///
/// # Examples
///
/// ```
/// use flowloom_scheduler::members::{MaglevTable, MemberId, Members};
/// let mut members = Members::new();
/// for id in 1..=4 {
///     members.set(MemberId(id), 1)?;
/// }
/// let table = MaglevTable::new(&members);
/// assert!(table.pick(0x1234_5678).is_some());
/// # Ok::<(), flowloom_scheduler::SetupError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MaglevTable {
    entries: Vec<MemberId>,
}

impl MaglevTable {
    /// Builds a table of 65,537 entries for the members that accept new flows.
    #[must_use]
    pub fn new(members: &Members) -> Self {
        Self::with_entries(members, ENTRIES)
    }

    /// Builds a table with at least `entries` entries: the next prime, up to 2²⁰. With a hundred
    /// entries per member, the shares of members are accurate to one or two percent.
    #[must_use]
    pub fn with_entries(members: &Members, entries: u32) -> Self {
        let size = (entries.clamp(2, 1 << 20)..2 << 20).find(|&size| is_prime(size)).unwrap_or(ENTRIES);
        let mut orders: Vec<Order> = members
            .iter()
            .filter(|member| !member.is_draining)
            .map(|member| Order::new(member, size))
            .collect();
        let Some(heaviest) = orders.iter().map(|order| order.weight).max() else {
            return Self { entries: Vec::new() };
        };
        let mut table = vec![None; size as usize];
        let mut left = size;
        while left > 0 {
            for order in &mut orders {
                order.credit += order.weight;
                if order.credit < heaviest || left == 0 {
                    continue;
                }
                order.credit -= heaviest;
                // The size is prime, so the order visits every entry and reaches an empty one.
                while table[order.next as usize].is_some() {
                    order.step(size);
                }
                table[order.next as usize] = Some(order.id);
                order.step(size);
                left -= 1;
            }
        }
        Self { entries: table.into_iter().flatten().collect() }
    }

    /// Returns the member for a new flow, chosen by the placement bits of its
    /// [hash](flowloom_flow_key::FlowHash::worker), or `None` if no member accepts new flows.
    #[inline]
    #[must_use]
    pub fn pick(&self, digest: u32) -> Option<MemberId> {
        let index = (u64::from(digest) * self.entries.len() as u64) >> 32;
        self.entries.get(index as usize).copied()
    }
}

/// The order in which a member fills entries.
struct Order {
    id: MemberId,
    weight: u32,
    credit: u32,
    next: u32,
    skip: u32,
}

impl Order {
    fn new(member: Member, size: u32) -> Self {
        let mut state = member.id.0;
        let next = (split_mix(&mut state) % u64::from(size)) as u32;
        let skip = (split_mix(&mut state) % u64::from(size - 1)) as u32 + 1;
        Self { id: member.id, weight: member.weight, credit: 0, next, skip }
    }

    fn step(&mut self, size: u32) {
        self.next = (self.next + self.skip) % size;
    }
}

fn is_prime(number: u32) -> bool {
    let mut factors = (2..number).take_while(|factor| factor * factor <= number);
    number >= 2 && factors.all(|factor| !number.is_multiple_of(factor))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{flows, members};
    use super::*;

    fn moved(before: &MaglevTable, after: &MaglevTable, changed: MemberId) -> (f64, f64) {
        let (mut own, mut others, mut all) = (0_u32, 0_u32, 0_u32);
        for flow in flows() {
            let (was, is) = (before.pick(flow).unwrap(), after.pick(flow).unwrap());
            if was == changed || is == changed {
                own += u32::from(was != is);
            } else {
                others += u32::from(was != is);
            }
            all += 1;
        }
        (f64::from(own) / f64::from(all), f64::from(others) / f64::from(all))
    }

    #[test]
    fn joining_or_leaving_member_moves_few_flows_of_others() {
        let four = members(&[(10, 1), (20, 1), (30, 1), (40, 1)]);
        let (mut three, mut five) = (four.clone(), four.clone());
        three.drain(MemberId(20));
        five.set(MemberId(50), 1).unwrap();
        let [three, four, five] = [three, four, five].map(|members| MaglevTable::new(&members));
        let (own, others) = moved(&four, &three, MemberId(20));
        assert!(cfg!(miri) || (own - 0.25).abs() < 0.01 && others > 0.0 && others < 0.06, "{own} {others}");
        println!("of one that goes: {own:.3}, of others: {others:.3}");
        let (own, others) = moved(&four, &five, MemberId(50));
        assert!(cfg!(miri) || (own - 0.2).abs() < 0.01 && others > 0.0 && others < 0.06, "{own} {others}");
        println!("to one that comes: {own:.3}, of others: {others:.3}");
    }

    #[test]
    fn entries_are_shared_by_weight() {
        let table = MaglevTable::with_entries(&members(&[(1, 1), (2, 3)]), 4001);
        assert_eq!(table.entries.len(), 4001);
        let heavy = table.entries.iter().filter(|id| **id == MemberId(2)).count();
        assert!(heavy.abs_diff(3001) <= 2, "{heavy}");
        assert_eq!(MaglevTable::new(&Members::new()).pick(7), None);
    }

    #[test]
    fn sizes_are_primes() {
        assert!([2, 3, 65_537].iter().all(|&number| is_prime(number)));
        assert!([0, 1, 4, 9, 65_539 * 3].iter().all(|&number| !is_prime(number)));
        let table = MaglevTable::with_entries(&members(&[(1, 1)]), 90);
        assert_eq!((table.entries.len(), table.pick(u32::MAX)), (97, Some(MemberId(1))));
    }
}
