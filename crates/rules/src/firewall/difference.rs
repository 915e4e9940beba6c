//! Packets that two policies decide differently.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use flowloom_flow_key::FiveTuple;

use flowloom_flow_key::protocol::has_ports;

use super::conditions::protocol_name;
use super::cutting::Cutting;
use super::entries::{Outcome, Policy};
use super::packet::{ConnectionState, Fragment, Packet};
use super::ranges::address_text;
use super::region::{
    DESTINATION, DESTINATION_PORT, FRAGMENT, ICMP, INPUT, MAC, Names, OUTPUT, PROTOCOL, Region, SOURCE,
    SOURCE_PORT, TooMuch, Variables, interval,
};
use super::test::{HeaderField, flags_text};
use crate::rule::{Action, RuleId};

/// The decisions that the rules leave open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompareDefaults {
    /// The decision about packets that no rule matches.
    pub unmatched: Action,
    /// The decision about packets whose rule has no action.
    pub no_action: Action,
}

impl Default for CompareDefaults {
    /// Returns the defaults of the firewall: deny without a matching rule, accept for a rule
    /// without an action.
    fn default() -> Self {
        Self { unmatched: Action::Deny, no_action: Action::Accept }
    }
}

/// A completely specified packet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Witness {
    /// Addresses, ports and protocol.
    pub tuple: FiveTuple,
    /// The part of a datagram.
    pub fragment: Fragment,
    /// TCP flags.
    pub tcp_flags: Option<u8>,
    /// ICMP type and code.
    pub icmp: Option<(u8, u8)>,
    /// State of its connection.
    pub state: ConnectionState,
    /// Interface by which it enters.
    pub input: String,
    /// Interface by which it leaves.
    pub output: String,
    /// The numbers in the headers, in the order of [`HeaderField::ALL`].
    pub numbers: [u32; HeaderField::ALL.len()],
    /// Sender's MAC address.
    pub source_mac: [u8; 6],
    /// Conditions on data that packets do not contain, and whether they hold.
    pub supposed: Vec<(String, bool)>,
    /// Fields beyond the five-tuple on which one of the policies depends here.
    told: Told,
}

#[expect(clippy::struct_excessive_bools, reason = "a set of fields, by name")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Told {
    flags: bool,
    icmp: bool,
    state: bool,
    input: bool,
    output: bool,
    numbers: [bool; HeaderField::ALL.len()],
    mac: bool,
}

impl Witness {
    /// Returns the packet.
    #[must_use]
    pub fn packet(&self) -> Packet<'_> {
        let mut packet = Packet::new(self.tuple).with_fragment(self.fragment);
        packet.tcp_flags = self.tcp_flags;
        packet.icmp = self.icmp;
        packet.state = Some(self.state);
        packet.input = Some(&self.input);
        packet.output = Some(&self.output);
        let number = |field: HeaderField| self.numbers[field as usize];
        packet.vlan = Some(number(HeaderField::Vlan) as u16);
        packet.dscp = Some(number(HeaderField::Dscp) as u8);
        packet.ecn = Some(number(HeaderField::Ecn) as u8);
        packet.length = Some(number(HeaderField::Length));
        packet.ttl = Some(number(HeaderField::Ttl) as u8);
        packet.next_header =
            Some(number(HeaderField::NextHeader) as u8).filter(|_| self.tuple.source.is_ipv6());
        packet.has_later_bytes = self.fragment.is_later();
        packet.source_mac = Some(self.source_mac);
        packet
    }

    fn in_region(region: &Region, names: &Names, variables: &Variables) -> Self {
        let low = |field: usize| region.intervals[field].0;
        // An arbitrary address is less readable than a host's: choose the first one that is not the
        // network's.
        let host = |field: usize| {
            let (low, high) = region.intervals[field];
            if low < high { low + 1 } else { low }
        };
        let address = |value: u128| {
            if region.is_v6 {
                IpAddr::V6(Ipv6Addr::from_bits(value))
            } else {
                IpAddr::V4(Ipv4Addr::from_bits(value as u32))
            }
        };
        let (first, last) = region.intervals[PROTOCOL];
        // Choose a well-known protocol if possible.
        let known = [6, 17, if region.is_v6 { 58 } else { 1 }];
        let protocol = known.into_iter().find(|p| (first..=last).contains(p)).unwrap_or(first) as u8;
        let fragment = match region.sets[FRAGMENT].trailing_zeros() {
            0 => Fragment::Whole,
            1 => Fragment::First,
            2 => Fragment::Later,
            _ => Fragment::Second,
        };
        let ports = has_ports(protocol);
        let port = |field: usize| if ports { host(field).min(region.intervals[field].1) as u16 } else { 0 };
        let flags = (0..=255_u8).filter(|&f| region.flags[usize::from(f >> 6)] >> (f & 63) & 1 == 1);
        // Choose a flag that opens a connection if possible.
        let flags: Vec<u8> = flags.collect();
        let flags = [2, 16].into_iter().find(|f| flags.contains(f)).or(flags.first().copied()).unwrap_or(0);
        let code = low(ICMP);
        let is_icmp = matches!(protocol, 1 | 58);
        let state = ConnectionState::ALL[region.sets[1].trailing_zeros() as usize % 5];
        let mac = (low(MAC) as u64).to_be_bytes();
        let number = |field: HeaderField| match field {
            HeaderField::Length => host(interval(field)) as u32,
            // A packet without extension headers, if possible.
            HeaderField::NextHeader => {
                let (low, high) = region.intervals[interval(field)];
                u128::from(protocol).clamp(low, high) as u32
            }
            field => low(interval(field)) as u32,
        };
        Self {
            tuple: FiveTuple {
                source: address(host(SOURCE)),
                destination: address(host(DESTINATION)),
                source_port: port(SOURCE_PORT),
                destination_port: port(DESTINATION_PORT),
                protocol,
            },
            fragment,
            tcp_flags: (protocol == 6).then_some(flags),
            icmp: is_icmp.then_some(((code >> 8) as u8, code as u8)),
            state,
            input: String::from(names.name(region.sets[INPUT])),
            output: String::from(names.name(region.sets[OUTPUT])),
            numbers: HeaderField::ALL.map(number),
            source_mac: [mac[2], mac[3], mac[4], mac[5], mac[6], mac[7]],
            supposed: region
                .variables
                .iter()
                .map(|&(variable, holds)| (String::from(variables.text(variable)), holds))
                .collect(),
            told: {
                let all = Region::all(region.is_v6, names);
                Told {
                    flags: region.flags != all.flags,
                    icmp: region.intervals[ICMP] != all.intervals[ICMP],
                    state: region.sets[1] != all.sets[1],
                    input: region.sets[INPUT] != all.sets[INPUT],
                    output: region.sets[OUTPUT] != all.sets[OUTPUT],
                    numbers: HeaderField::ALL
                        .map(|field| region.intervals[interval(field)] != all.intervals[interval(field)]),
                    mac: region.intervals[MAC] != all.intervals[MAC],
                }
            },
        }
    }
}

impl fmt::Display for Witness {
    /// Writes the packet, with the fields that affect the decision.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tuple = &self.tuple;
        let is_v6 = tuple.source.is_ipv6();
        let side = |address: IpAddr, port: u16| {
            let text = address_text(super::conditions::bits_of(address), is_v6);
            match (has_ports(tuple.protocol) && !self.fragment.is_later(), is_v6) {
                (false, _) => text,
                (true, false) => alloc::format!("{text}:{port}"),
                (true, true) => alloc::format!("[{text}]:{port}"),
            }
        };
        write!(
            f,
            "{} > {} {}",
            side(tuple.source, tuple.source_port),
            side(tuple.destination, tuple.destination_port),
            protocol_name(tuple.protocol)
        )?;
        match self.fragment {
            Fragment::Whole => {}
            Fragment::First => f.write_str(", first fragment")?,
            Fragment::Later => f.write_str(", later fragment")?,
            Fragment::Second => f.write_str(", later fragment at byte 8")?,
        }
        if let Some(flags) = self.tcp_flags.filter(|_| self.told.flags) {
            write!(f, ", flags {}", flags_text(flags))?;
        }
        if let Some((kind, code)) = self.icmp.filter(|_| self.told.icmp) {
            write!(f, ", type {kind}/{code}")?;
        }
        let fields = [
            (self.told.state, "state", String::from(self.state.name())),
            (self.told.input, "in", self.input.clone()),
            (self.told.output, "out", self.output.clone()),
            (self.told.mac, "mac", {
                let parts: Vec<String> =
                    self.source_mac.iter().map(|byte| alloc::format!("{byte:02x}")).collect();
                parts.join(":")
            }),
        ];
        for (_, name, value) in fields.iter().filter(|(is_told, ..)| *is_told) {
            write!(f, ", {name} {value}")?;
        }
        for field in HeaderField::ALL.into_iter().filter(|&field| self.told.numbers[field as usize]) {
            write!(f, ", {} {}", field.name(), self.numbers[field as usize])?;
        }
        for (text, holds) in &self.supposed {
            write!(f, ", if {text} {}", if *holds { "holds" } else { "does not hold" })?;
        }
        Ok(())
    }
}

/// Packets that two policies decide differently.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// An example of these packets.
    pub witness: Witness,
    /// The box of the deciding rule of the first policy, and its action.
    pub first: (Option<RuleId>, Action),
    /// The box of the deciding rule of the second policy, and its action.
    pub second: (Option<RuleId>, Action),
}

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Comparison {
    /// Differences, one for each pair of rules that decide differently, up to the requested number.
    pub differences: Vec<Difference>,
    /// The policies decide at different hooks, so they see different packets.
    pub other_hooks: bool,
    /// The policies ask for the state of connections, and leave different packets untracked.
    pub other_untracked: bool,
    /// The work reached its limit before all packets were compared.
    pub is_undecided: bool,
}

impl Comparison {
    /// Returns whether both policies decide every packet equally; `None` if that is not known.
    #[must_use]
    pub fn are_equivalent(&self) -> Option<bool> {
        match (self.differences.is_empty() && !self.other_hooks && !self.other_untracked, self.is_undecided)
        {
            (false, _) => Some(false),
            (true, false) => Some(true),
            (true, true) => None,
        }
    }
}

/// A subset of all packets on its path through both policies.
struct Way {
    region: Region,
    next: [usize; 2],
    /// The entry that decides in each policy; the number of entries if none does.
    decided: [Option<usize>; 2],
}

impl Policy {
    /// Compares every packet's verdict with that of another policy, within `steps_max` steps.
    /// Conditions on data that packets do not contain are assumed to hold and not to hold. Those
    /// with the same text in both policies hold together. Policies of different hooks are not
    /// equivalent.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_rules::load::{LoadLimits, toml};
    /// use flowloom_rules::firewall::CompareDefaults;
    /// let load = |text: &str| toml::load(text, LoadLimits::default());
    /// let one = load("[[rule]]\nsource = '10.0.0.0/8'\naction = 'accept'\n")?;
    /// let two = load("[[rule]]\nsource = ['10.0.0.0/9', '10.128.0.0/9']\naction = 'accept'\n")?;
    /// let other = load("[[rule]]\nsource = '10.0.0.0/9'\naction = 'accept'\n")?;
    /// let compare = |policy| one.compare(policy, CompareDefaults::default(), 1 << 20, 10);
    /// assert_eq!(compare(&two).are_equivalent(), Some(true));
    /// assert_eq!(compare(&other).differences[0].witness.tuple.source.to_string(), "10.128.0.1");
    /// # Ok::<(), flowloom_rules::load::LoadErrors>(())
    /// ```
    #[must_use]
    pub fn compare(
        &self,
        other: &Self,
        defaults: CompareDefaults,
        steps_max: u64,
        differences_max: usize,
    ) -> Comparison {
        let policies = [self, other];
        let [mut one, mut two] = policies.map(|policy| {
            let names: BTreeSet<&str> = policy.hooks().iter().map(|hook| hook.name.as_str()).collect();
            names
        });
        // A chain that only jumps lead to may be entered from any hook.
        one.remove("");
        two.remove("");
        let other_hooks = !one.is_empty() && !two.is_empty() && one != two;
        let mut comparison = Comparison { other_hooks, ..Comparison::default() };
        let [one, two] = policies.map(Self::untracked);
        let tracks_all = Self::default();
        for index in 0..one.len().max(two.len()) {
            let [one, two] = [one, two].map(|ways| ways.get(index).or(ways.last()).unwrap_or(&tracks_all));
            let all = CompareDefaults { unmatched: Action::Accept, ..defaults };
            let of_way = one.compare(two, all, steps_max, 1);
            comparison.other_untracked |= !of_way.differences.is_empty();
            comparison.is_undecided |= of_way.is_undecided;
        }
        let conditions: Vec<_> =
            policies.iter().flat_map(|policy| policy.entries()).map(|entry| entry.conditions).collect();
        let Ok(names) = Names::collect(conditions.iter().map(|conditions| &**conditions)) else {
            comparison.is_undecided = true;
            return comparison;
        };
        let mut variables = Variables::default();
        let cuttings = policies.map(|policy| Cutting::new(policy, &names, &mut variables, 0));
        if cuttings.iter().any(|cutting| cutting.entries.iter().any(|part| part.regions.is_none())) {
            comparison.is_undecided = true;
            return comparison;
        }
        let boxes = policies.map(Self::first_boxes);
        let mut seen: Vec<[usize; 2]> = Vec::new();
        let mut steps = steps_max;
        let way = |(is_v6, fragments)| {
            let mut region = Region::all(is_v6, &names);
            region.sets[FRAGMENT] = fragments;
            Way { region, next: [0, 0], decided: [None, None] }
        };
        // Whole packets come first, from the end of the list, because they are typical.
        let mut ways = Vec::from([(true, 14), (false, 14), (true, 1), (false, 1)].map(way));
        while let Some(mut way) = ways.pop() {
            if go(&cuttings, &mut way, &mut ways, &mut steps).is_err() {
                comparison.is_undecided = true;
                return comparison;
            }
            let [Some(first), Some(second)] = way.decided else { continue };
            let action = |side: usize, entry: usize| match cuttings[side]
                .entries
                .get(entry)
                .map(|part| part.outcome)
            {
                Some(Outcome::Decide { action, .. }) => action.unwrap_or(defaults.no_action),
                _ => defaults.unmatched,
            };
            let (one, two) = (action(0, first), action(1, second));
            if one == two || seen.contains(&[first, second]) {
                continue;
            }
            if comparison.differences.len() == differences_max {
                return comparison;
            }
            seen.push([first, second]);
            let id = |side: usize, entry: usize| boxes[side].get(entry).copied().flatten();
            let mut witness = Witness::in_region(&way.region, &names, &variables);
            // Packets come with one more than they have at the hook forward.
            let is_forwarded = policies.iter().any(|p| p.hooks().iter().any(|hook| hook.name == "forward"));
            let ttl = &mut witness.numbers[HeaderField::Ttl as usize];
            *ttl = (*ttl + u32::from(is_forwarded)).min(255);
            comparison.differences.push(Difference {
                witness,
                first: (id(0, first), one),
                second: (id(1, second), two),
            });
        }
        comparison
    }
}

/// Takes a subset of all packets through both policies; parts that branch off continue separately.
fn go(cuttings: &[Cutting; 2], way: &mut Way, ways: &mut Vec<Way>, steps: &mut u64) -> Result<(), TooMuch> {
    for (side, cutting) in cuttings.iter().enumerate() {
        let entries = &cutting.entries;
        while way.decided[side].is_none() {
            let at = way.next[side];
            let Some(part) = entries.get(at) else {
                way.decided[side] = Some(entries.len());
                break;
            };
            let regions = part.regions.as_deref().unwrap_or_default();
            *steps = steps.checked_sub(regions.len() as u64 + 1).ok_or(TooMuch)?;
            let Some((index, common)) = regions
                .iter()
                .enumerate()
                .find_map(|(i, region)| Some((i, way.region.intersection(region)?)))
            else {
                way.next[side] = at + 1;
                continue;
            };
            // The rest meets the same entry again, for its other regions.
            let mut rest = Vec::new();
            core::mem::replace(&mut way.region, common).subtract(&regions[index], &mut rest);
            *steps = steps.checked_sub(rest.len() as u64).ok_or(TooMuch)?;
            ways.extend(rest.into_iter().map(|region| Way {
                region,
                next: way.next,
                decided: way.decided,
            }));
            match part.outcome {
                Outcome::Decide { .. } => way.decided[side] = Some(at),
                Outcome::Skip { to } => way.next[side] = to as usize,
            }
        }
    }
    Ok(())
}
