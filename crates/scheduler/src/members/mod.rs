//! Backends of a load balancer: members that are added, drain and are removed, and the choice of
//! the member for a flow.
//!
//! The workers of a machine are numbered from zero. Backends have their own names, and any of them
//! may leave. The caller therefore chooses each [`MemberId`], and a flow's member depends only on
//! ids and weights, not on the order in which members were added.
//!
//! | | moved if one of four goes | moved if a fifth comes | cost of a choice |
//! | --- | --- | --- | --- |
//! | [`Members`], highest random weight | only its own flows | a fifth | one bid per member |
//! | [`MaglevTable`] of 65,537 entries | its own, and 3 % of the others | a fifth, and 4 % | one read |
//!
//! A hash cannot keep existing connections on their members. A load balancer therefore stores the
//! member of each connection in a flow table and calls `pick` for new connections only, as the
//! example `load_balancer` of the crate `flowloom` does.

mod maglev;

pub use maglev::MaglevTable;

use flowloom_flow_key::hash::fold::split_mix;

use crate::SetupError;
use crate::placement::rendezvous::NegativeLog;

/// The name of a member: any number that remains the same for the lifetime of the member, such as
/// its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemberId(pub u64);

/// A backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// Name of the backend.
    pub id: MemberId,
    /// Share of new flows, relative to those of the other members.
    pub weight: u32,
    /// Whether it accepts no new flows.
    pub is_draining: bool,
}

/// Maximum weight of a member.
pub const WEIGHT_MAX: u32 = 1 << 16;

/// Distributes flows over members by highest random weight: each member bids for a flow, and the
/// highest bid wins.
///
/// The flows of a member that is removed or drains are distributed over all others by weight, and
/// no other flow moves. A member that is added takes its share from all others. A choice computes
/// one bid per member.
///
/// # Examples
///
/// ```
/// use flowloom_scheduler::members::{MemberId, Members};
/// let mut members = Members::new();
/// for id in 1..=4 {
///     members.set(MemberId(id), 100)?;
/// }
/// let flows = || (0..1000_u32).map(|flow| flow.wrapping_mul(0x9E37_79B9));
/// let before: Vec<_> = flows().map(|flow| members.pick(flow)).collect();
/// members.remove(MemberId(2));
/// for (flow, before) in flows().zip(before) {
///     assert!(members.pick(flow) == before || before == Some(MemberId(2)));
/// }
/// # Ok::<(), flowloom_scheduler::SetupError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Members {
    /// Sorted by id.
    all: Vec<Member>,
    /// The members that accept new flows.
    bidders: Vec<Bidder>,
    logarithm: NegativeLog,
    /// Whether all bidders have the same weight, so that the highest bid wins unchanged.
    is_even: bool,
}

/// A member that accepts new flows.
#[derive(Clone, Copy, Debug)]
struct Bidder {
    id: MemberId,
    weight: u32,
    /// Two members whose ids differ in one bit bid independently.
    seed: u64,
}

impl Bidder {
    /// Returns the member's bid for a flow: 64 uniformly distributed bits.
    #[inline]
    fn bid(&self, digest: u32) -> u64 {
        let mut state = self.seed ^ u64::from(digest).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        split_mix(&mut state)
    }
}

impl Default for Members {
    fn default() -> Self {
        Self::new()
    }
}

impl Members {
    /// Returns an empty set of members.
    #[must_use]
    pub fn new() -> Self {
        Self { all: Vec::new(), bidders: Vec::new(), logarithm: NegativeLog::new(), is_even: true }
    }

    /// Adds a member, or changes the weight of an existing one. A draining member accepts new flows
    /// again.
    ///
    /// # Errors
    ///
    /// Returns [`SetupError::Parameter`] for a weight of 0 or above [`WEIGHT_MAX`]. To stop new
    /// flows to a member, [`drain`](Members::drain) it.
    pub fn set(&mut self, id: MemberId, weight: u32) -> Result<(), SetupError> {
        if weight == 0 || weight > WEIGHT_MAX {
            let (value, most) = (weight.into(), WEIGHT_MAX.into());
            return Err(SetupError::Parameter { name: "weight", value, least: 1, most });
        }
        let member = Member { id, weight, is_draining: false };
        match self.place_of(id) {
            Ok(place) => self.all[place] = member,
            Err(place) => self.all.insert(place, member),
        }
        self.invite();
        Ok(())
    }

    /// Stops new flows to a member. Returns whether the member exists.
    ///
    /// Afterwards, [`pick`](Members::pick) returns other members for its flows too, so the
    /// component that tracks connections must keep existing ones on their member. Remove the member
    /// after its last connection has ended.
    pub fn drain(&mut self, id: MemberId) -> bool {
        let Ok(place) = self.place_of(id) else { return false };
        self.all[place].is_draining = true;
        self.invite();
        true
    }

    /// Removes a member.
    pub fn remove(&mut self, id: MemberId) -> Option<Member> {
        let place = self.place_of(id).ok()?;
        let member = self.all.remove(place);
        self.invite();
        Some(member)
    }

    /// Returns a member, if it exists.
    #[must_use]
    pub fn get(&self, id: MemberId) -> Option<Member> {
        self.place_of(id).ok().map(|place| self.all[place])
    }

    /// Returns all members, sorted by id.
    pub fn iter(&self) -> impl Iterator<Item = Member> {
        self.all.iter().copied()
    }

    /// Returns the member for a new flow, chosen by the placement bits of its
    /// [hash](flowloom_flow_key::FlowHash::worker), or `None` if no member accepts new flows.
    #[inline]
    #[must_use]
    pub fn pick(&self, digest: u32) -> Option<MemberId> {
        self.pick_if(digest, |_| true)
    }

    /// Returns the member for a new flow such that no member exceeds its share of all flows times
    /// `percent` / 100, with a minimum of one flow. With 125, the busiest member has at most a
    /// quarter more flows than its share, and a few flows go to the member with the next-best bid.
    ///
    /// `flows_of` returns the present number of flows of a member. A percentage below 100 counts as
    /// 100.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_scheduler::members::{MemberId, Members};
    /// let mut members = Members::new();
    /// for id in 0..3 {
    ///     members.set(MemberId(id), 1)?;
    /// }
    /// let mut flows = [0_u64; 3];
    /// for flow in 0..3000_u32 {
    ///     let picked = members.pick_bounded(flow, 101, |id| flows[id.0 as usize]);
    ///     flows[picked.expect("there are members").0 as usize] += 1;
    /// }
    /// assert!(flows.iter().all(|flows| *flows <= 1010));
    /// # Ok::<(), flowloom_scheduler::SetupError>(())
    /// ```
    #[must_use]
    pub fn pick_bounded(
        &self,
        digest: u32,
        percent: u32,
        flows_of: impl Fn(MemberId) -> u64,
    ) -> Option<MemberId> {
        let flows: u64 = self.bidders.iter().map(|bidder| flows_of(bidder.id)).sum();
        let weights: u64 = self.bidders.iter().map(|bidder| u64::from(bidder.weight)).sum();
        let allowed = u128::from(flows + 1) * u128::from(percent.max(100));
        // The limits of all members add up to at least one flow more than there are, so one member
        // has space.
        self.pick_if(digest, |bidder| {
            let bound = (allowed * u128::from(bidder.weight)).div_ceil(u128::from(weights) * 100);
            u128::from(flows_of(bidder.id)) < bound
        })
    }

    /// Returns the highest bidder among those that satisfy `may`.
    #[inline]
    fn pick_if(&self, digest: u32, may: impl Fn(&Bidder) -> bool) -> Option<MemberId> {
        let bidders = self.bidders.iter().filter(|bidder| may(bidder));
        if self.is_even {
            // Of equal bids, the first wins; bidders are sorted by id.
            let bids = bidders.map(|bidder| (!bidder.bid(digest), bidder.id));
            return bids.min().map(|(_, id)| id);
        }
        let bids = bidders.map(|bidder| {
            let bid = bidder.bid(digest);
            // If weights and logarithms are equal, the higher bid wins. A change of one weight
            // therefore moves no flow between other members.
            ((self.logarithm.negative_log(bid) << 16) / u64::from(bidder.weight), !bid, bidder.id)
        });
        bids.min().map(|(_, _, id)| id)
    }

    fn place_of(&self, id: MemberId) -> Result<usize, usize> {
        self.all.binary_search_by_key(&id, |member| member.id)
    }

    /// Lists the members that accept new flows.
    fn invite(&mut self) {
        let open = self.all.iter().filter(|member| !member.is_draining);
        self.bidders.clear();
        self.bidders.extend(open.map(|&Member { id, weight, .. }| {
            let seed = split_mix(&mut id.0.clone());
            Bidder { id, weight, seed }
        }));
        self.is_even = self.bidders.windows(2).all(|pair| pair[0].weight == pair[1].weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Digests of a million flows.
    pub(super) fn flows() -> impl Iterator<Item = u32> {
        let count = if cfg!(miri) { 1000 } else { 1_000_000 };
        let mut state = 5;
        (0..count).map(move |_| split_mix(&mut state) as u32)
    }

    pub(super) fn members(weights: &[(u64, u32)]) -> Members {
        let mut members = Members::new();
        for &(id, weight) in weights {
            members.set(MemberId(id), weight).unwrap();
        }
        members
    }

    fn shares(members: &Members) -> Vec<f64> {
        let ids: Vec<_> = members.iter().map(|member| member.id).collect();
        let mut counts = vec![0_u32; ids.len()];
        for flow in flows() {
            let id = members.pick(flow).unwrap();
            counts[ids.binary_search(&id).unwrap()] += 1;
        }
        let all = f64::from(counts.iter().sum::<u32>());
        counts.iter().map(|&count| f64::from(count) / all).collect()
    }

    #[test]
    fn leaving_or_draining_member_moves_only_its_own_flows() {
        let four = members(&[(10, 1), (20, 1), (30, 1), (40, 1)]);
        let (mut gone, mut drained) = (four.clone(), four.clone());
        assert_eq!(gone.remove(MemberId(20)).map(|member| member.weight), Some(1));
        assert!(drained.drain(MemberId(20)) && drained.get(MemberId(20)).unwrap().is_draining);
        let mut heirs = [0_u32; 5];
        for flow in flows() {
            let (was, is) = (four.pick(flow).unwrap(), gone.pick(flow).unwrap());
            assert_eq!(drained.pick(flow), Some(is));
            if was == MemberId(20) {
                heirs[is.0 as usize / 10] += 1;
            } else {
                assert_eq!(was, is, "a survivor's flow stays");
            }
        }
        let all = f64::from(heirs.iter().sum::<u32>());
        for heir in [1, 3, 4] {
            let share = f64::from(heirs[heir]) / all;
            assert!(cfg!(miri) || (share - 1.0 / 3.0).abs() < 0.005, "{heirs:?}");
        }
    }

    #[test]
    fn fifth_member_takes_a_fifth_of_the_flows_and_moves_no_others() {
        let four = members(&[(10, 7), (20, 7), (30, 7), (40, 7)]);
        let five = members(&[(25, 7), (40, 7), (10, 7), (20, 7), (30, 7)]);
        let (mut moved, mut all) = (0_u32, 0_u32);
        for flow in flows() {
            let (was, is) = (four.pick(flow).unwrap(), five.pick(flow).unwrap());
            assert!(was == is || is == MemberId(25));
            moved += u32::from(was != is);
            all += 1;
        }
        let share = f64::from(moved) / f64::from(all);
        assert!(cfg!(miri) || (share - 0.2).abs() < 0.002, "{share}");
    }

    #[test]
    fn flows_are_shared_by_weight() {
        for (found, expected) in
            shares(&members(&[(1, 1), (2, 2), (3, 5)])).iter().zip([0.125, 0.25, 0.625])
        {
            assert!(cfg!(miri) || (found - expected).abs() < 0.002, "{found} instead of {expected}");
        }
    }

    #[test]
    fn no_member_gets_more_than_its_bound() {
        let members = members(&[(1, 1), (2, 2), (3, 1)]);
        let mut counts = [0_u64; 4];
        let mut off = 0_u64;
        for (number, flow) in (1_u64..).zip(flows().take(20_000)) {
            let id = members.pick_bounded(flow, 110, |id| counts[id.0 as usize]).unwrap();
            off += u64::from(members.pick(flow) != Some(id));
            counts[id.0 as usize] += 1;
            for (id, weight) in [(1, 1), (2, 2), (3, 1)] {
                assert!(counts[id] <= (number * 110 * weight).div_ceil(400), "{counts:?}");
            }
        }
        assert!(off < 1500, "most flows are where their bids are: {off}");
        // All members are full but one.
        let full = |id: MemberId| [0, 0, 11, 10][id.0 as usize];
        assert_eq!(members.pick_bounded(5, 100, full), Some(MemberId(1)));
    }

    #[test]
    fn empty_member_list_gives_no_choice() {
        let mut none = Members::default();
        assert_eq!((none.pick(1), none.pick_bounded(1, 125, |_| 0)), (None, None));
        assert!(!none.drain(MemberId(1)) && none.remove(MemberId(1)).is_none());
        assert!(none.set(MemberId(1), 0).is_err() && none.set(MemberId(1), WEIGHT_MAX + 1).is_err());
        none.set(MemberId(1), WEIGHT_MAX).unwrap();
        assert!(none.drain(MemberId(1)) && none.pick(1).is_none());
        none.set(MemberId(1), 1).unwrap();
        assert_eq!(none.pick(1), Some(MemberId(1)));
    }

    proptest! {
        #[test]
        fn a_weight_that_changes_moves_flows_to_or_from_its_member_only(
            weights in prop::collection::btree_map(any::<u64>(), 1..=WEIGHT_MAX, 1..9),
            which in any::<prop::sample::Index>(),
            weight in 1..=WEIGHT_MAX,
            digests in prop::collection::vec(any::<u32>(), 100),
        ) {
            let weights: Vec<_> = weights.into_iter().collect();
            let before = members(&weights);
            let (id, old) = weights[which.index(weights.len())];
            let mut after = before.clone();
            after.set(MemberId(id), weight).unwrap();
            for digest in digests {
                let (was, is) = (before.pick(digest).unwrap(), after.pick(digest).unwrap());
                let allowed = if weight >= old { is } else { was };
                prop_assert!(was == is || allowed == MemberId(id), "{was:?} to {is:?}");
            }
        }
    }
}
