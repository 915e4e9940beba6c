//! Sums of records by a common key, in bounded memory.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use flowloom::apps::accounting::AccountingRecord;
use flowloom::flow_key::FlowKey;

use crate::args::top::{GroupBy, SortBy};
use crate::flow_name::{begins_low, has_ports, name_of_key, protocol_alone};

/// The common key of the records of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Group {
    Host(IpAddr),
    Source(IpAddr),
    /// The lower address first.
    Pair(IpAddr, IpAddr),
    /// Protocol and port.
    Port(u8, u16),
    Protocol(u8),
    /// The words of a key.
    Conversation([u64; 6]),
    /// Whether it is IPv6, the protocol within it, and the port within that.
    Layer(bool, Option<u8>, Option<u16>),
    /// The protocol label.
    Label(Option<&'static str>),
}

impl Group {
    /// Returns the depth of a group in the hierarchy.
    pub(super) fn depth(&self) -> usize {
        match self {
            Self::Layer(_, protocol, port) => usize::from(protocol.is_some()) + usize::from(port.is_some()),
            _ => 0,
        }
    }

    /// Returns the name of the group, by which `extract --flow` selects it; the name of a pair or a
    /// conversation begins with the initiator.
    pub(super) fn name(&self, totals: &Totals) -> String {
        let protocol = |number: u8| totals.protocol.map_or_else(|| number.to_string(), str::to_owned);
        let family = |is_v6: bool| if is_v6 { "ipv6" } else { "ipv4" };
        match *self {
            Self::Host(address) | Self::Source(address) => address.to_string(),
            Self::Pair(low, high) => {
                let is_low = totals.initiator.is_none_or(|(_, initiator)| initiator.ip() == low);
                let (one, other) = if is_low { (low, high) } else { (high, low) };
                format!("{one} > {other}")
            }
            Self::Port(number, port) if has_ports(number) => format!("{}/{port}", protocol(number)),
            Self::Port(number, _) | Self::Protocol(number) => protocol_alone(number),
            Self::Conversation(words) => {
                let key = FlowKey::from_words(words);
                name_of_key(&key, totals.is_low_first(&key), totals.tells_vlan)
            }
            Self::Label(label) => label.unwrap_or("unidentified").to_owned(),
            Self::Layer(is_v6, None, _) => family(is_v6).to_owned(),
            Self::Layer(is_v6, Some(number), None) => format!("{}/{}", family(is_v6), protocol(number)),
            Self::Layer(is_v6, Some(number), Some(port)) => {
                format!("{}/{}/{port}", family(is_v6), protocol(number))
            }
        }
    }
}

/// The sums of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) flows: u64,
    /// Packets in each direction: from the host or the lower end, from the source, and the reverse.
    packets: [u64; 2],
    bytes: [u64; 2],
    /// Packets and bytes that a host has sent to itself, which it has also received.
    looped: [u64; 2],
    pub(super) ip_bytes: u64,
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
    /// The source of the first record, and its start time.
    initiator: Option<(u64, SocketAddr)>,
    protocol: Option<&'static str>,
    /// Whether another group has the same key but for a VLAN or tunnel.
    tells_vlan: bool,
    /// Distinct destinations of a source, and their ports by protocol.
    pub(super) peers: u64,
    pub(super) ports: u64,
    /// Whether there may be more of them, because the limit was reached.
    pub(super) has_more: bool,
    /// The sum of each additional figure, and the number of records that have it.
    figures: [(u64, u64); 3],
}

/// A figure that not every record has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    Retransmissions,
    Resets,
    HandshakeRtt,
}

impl Figure {
    pub(super) const ALL: [Self; 3] = [Self::Retransmissions, Self::Resets, Self::HandshakeRtt];
}

/// The additional figures of a record, in the order of [`Figure::ALL`]: of each, that of its source
/// and that of its destination.
pub(super) type Figures = [[Option<u64>; 2]; 3];

impl Totals {
    pub(super) fn packets(&self) -> u64 {
        self.packets[0].saturating_add(self.packets[1])
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes[0].saturating_add(self.bytes[1])
    }

    /// Returns the time from the first to the last packet.
    pub(super) fn duration_ns(&self) -> u64 {
        self.last_ns.saturating_sub(self.first_ns)
    }

    /// Returns an additional figure, if a record has it: a sum, or the mean of the times.
    pub(super) fn additional(&self, figure: Figure) -> Option<u64> {
        let (sum, records) = self.figures[figure as usize];
        let mean = sum.checked_div(records)?;
        Some(if figure == Figure::HandshakeRtt { mean } else { sum })
    }

    pub(super) fn figure(&self, sort: SortBy) -> u64 {
        match sort {
            SortBy::Duration => self.duration_ns(),
            SortBy::Rate => {
                let bits = u128::from(self.bytes()) * 8_000_000_000;
                let rate = bits.checked_div(self.duration_ns().into()).unwrap_or(0);
                u64::try_from(rate).unwrap_or(u64::MAX)
            }
            SortBy::Retransmissions => self.additional(Figure::Retransmissions).unwrap_or(0),
            SortBy::Resets => self.additional(Figure::Resets).unwrap_or(0),
            SortBy::HandshakeRtt => self.additional(Figure::HandshakeRtt).unwrap_or(0),
            SortBy::Bytes => self.bytes(),
            SortBy::Sent => self.bytes[0],
            SortBy::IpBytes => self.ip_bytes,
            SortBy::Packets => self.packets(),
            SortBy::Flows => self.flows,
            SortBy::Peers => self.peers,
            SortBy::Ports => self.ports,
        }
    }

    /// Returns the packets and bytes of both directions; the initiator's come first if the group
    /// has one.
    pub(super) fn oriented(&self, group: &Group) -> ([u64; 2], [u64; 2]) {
        let is_reversed = match (group, self.initiator) {
            (Group::Pair(low, _), Some((_, initiator))) => initiator.ip() != *low,
            (Group::Conversation(words), Some(_)) => {
                let key = FlowKey::from_words(*words);
                !begins_low(&key, self.is_low_first(&key))
            }
            _ => false,
        };
        let oriented = |[there, back]: [u64; 2], looped| {
            let [sent, received] = if is_reversed { [back, there] } else { [there, back] };
            [sent, received.saturating_add(looped)]
        };
        (oriented(self.packets, self.looped[0]), oriented(self.bytes, self.looped[1]))
    }

    /// Returns whether the lower end of the group's key is the initiator.
    fn is_low_first(&self, key: &FlowKey) -> bool {
        let low = SocketAddr::new(key.low_address(), key.low_port());
        self.initiator.is_none_or(|(_, initiator)| initiator == low)
    }

    fn add(&mut self, record: &AccountingRecord, direction: Direction) {
        let packets = direction.apply([record.packets, record.reverse_packets]);
        let bytes = direction.apply([record.bytes, record.reverse_bytes]);
        if direction == Direction::Looped {
            let more = [packets[0], bytes[0]];
            self.looped = [0, 1].map(|of| self.looped[of].saturating_add(more[of]));
        }
        for way in 0..2 {
            self.packets[way] = self.packets[way].saturating_add(packets[way]);
            self.bytes[way] = self.bytes[way].saturating_add(bytes[way]);
        }
        self.ip_bytes =
            self.ip_bytes.saturating_add(record.ip_bytes).saturating_add(record.reverse_ip_bytes);
        let is_first = self.flows == 0;
        self.flows += 1;
        self.first_ns = if is_first { record.start_ns } else { self.first_ns.min(record.start_ns) };
        self.last_ns = self.last_ns.max(record.end_ns);
        // Records arrive in the order in which flows end, so the first record is the one with the
        // earliest start.
        let initiator = (record.start_ns, ends(record)[0]);
        self.initiator = Some(self.initiator.map_or(initiator, |before| before.min(initiator)));
        self.protocol = record.protocol_name();
    }

    fn merge(&mut self, other: &Self) {
        for way in 0..2 {
            self.packets[way] = self.packets[way].saturating_add(other.packets[way]);
            self.bytes[way] = self.bytes[way].saturating_add(other.bytes[way]);
        }
        self.ip_bytes = self.ip_bytes.saturating_add(other.ip_bytes);
        self.flows += other.flows;
        for ((sum, records), other) in self.figures.iter_mut().zip(&other.figures) {
            (*sum, *records) = (sum.saturating_add(other.0), *records + other.1);
        }
    }

    /// Adds the additional figures of a record.
    fn add_figures(&mut self, group: &Group, figures: Figures, direction: Direction) {
        let is_one_sided =
            matches!(group, Group::Host(_) | Group::Source(_)) && direction != Direction::Looped;
        for (figure, mut of_ends) in Figure::ALL.into_iter().zip(figures) {
            if direction == Direction::Reversed {
                of_ends.reverse();
            }
            let own = match (of_ends, figure) {
                ([own, _], _) if is_one_sided => own,
                ([Some(own), Some(other)], Figure::Retransmissions) => Some(own.saturating_add(other)),
                ([own, other], _) => own.max(other),
            };
            if let Some(own) = own {
                let (sum, records) = &mut self.figures[figure as usize];
                (*sum, *records) = (sum.saturating_add(own), *records + 1);
            }
        }
    }
}

/// How the directions of a record lie in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Reversed,
    /// The group's host is both ends, so that it has sent all packets.
    Looped,
}

impl Direction {
    fn reversed_if(is_reversed: bool) -> Self {
        if is_reversed { Self::Reversed } else { Self::Forward }
    }

    fn apply(self, [there, back]: [u64; 2]) -> [u64; 2] {
        match self {
            Self::Forward => [there, back],
            Self::Reversed => [back, there],
            Self::Looped => [there.saturating_add(back), 0],
        }
    }
}

/// Returns source and destination as in the key; for ICMP the ports are an identifier.
fn ends(record: &AccountingRecord) -> [SocketAddr; 2] {
    let key = &record.key;
    let low = SocketAddr::new(key.low_address(), key.low_port());
    let high = SocketAddr::new(key.high_address(), key.high_port());
    let is_low = if key.low_address() == key.high_address() {
        record.source_port == key.low_port()
    } else {
        record.source == key.low_address()
    };
    if is_low { [low, high] } else { [high, low] }
}

/// What a source sends to: a host, or a port of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Target {
    Peer(IpAddr),
    Port(u8, u16),
}

/// The sums of all groups.
#[derive(Debug)]
pub(super) struct Groups {
    by: GroupBy,
    count_max: u64,
    sums: HashMap<Group, Totals>,
    /// The destinations and the ports of sources.
    targets: HashSet<(IpAddr, Target)>,
    /// The sums of all records beyond the limit of groups.
    untold: Totals,
    total: Totals,
}

/// A record, and its additional figures.
type Figured<'a> = (&'a AccountingRecord, Figures);

/// Groups with their sums, the largest first.
pub(super) type Sorted = Vec<(Group, Totals)>;

impl Groups {
    /// Returns sums for at most `count_max` groups.
    pub(super) fn new(by: GroupBy, count_max: u64) -> Self {
        let (untold, total) = (Totals::default(), Totals::default());
        Self { by, count_max, sums: HashMap::new(), targets: HashSet::new(), untold, total }
    }

    /// Adds a record to each group that contains it. `label` is its protocol label.
    pub(super) fn add(&mut self, record: &AccountingRecord, label: Option<&'static str>, figures: Figures) {
        let both = (record, figures);
        self.total.add(record, Direction::Forward);
        let (source, destination, protocol) = (record.source, record.destination, record.protocol);
        let from_source = if source == destination { Direction::Looped } else { Direction::Forward };
        match self.by {
            GroupBy::Host => {
                self.add_to(Group::Host(source), both, from_source);
                if destination != source {
                    self.add_to(Group::Host(destination), both, Direction::Reversed);
                }
            }
            GroupBy::Source => {
                self.add_to(Group::Source(source), both, from_source);
                self.add_target(source, Target::Peer(destination));
                if has_ports(protocol) {
                    self.add_target(source, Target::Port(protocol, record.destination_port));
                }
            }
            GroupBy::Pair => {
                let (low, high) = (source.min(destination), source.max(destination));
                self.add_to(Group::Pair(low, high), both, Direction::reversed_if(source != low));
            }
            GroupBy::Port => {
                self.add_to(Group::Port(protocol, record.destination_port), both, Direction::Forward);
            }
            GroupBy::Protocol => self.add_to(Group::Protocol(protocol), both, Direction::Forward),
            GroupBy::L7 => self.add_to(Group::Label(label), both, Direction::Forward),
            GroupBy::Conversation => {
                let low = SocketAddr::new(record.key.low_address(), record.key.low_port());
                let is_reversed = ends(record)[0] != low;
                self.add_to(
                    Group::Conversation(*record.key.words()),
                    both,
                    Direction::reversed_if(is_reversed),
                );
            }
            GroupBy::Hierarchy => {
                let is_v6 = source.is_ipv6();
                self.add_to(Group::Layer(is_v6, None, None), both, Direction::Forward);
                self.add_to(Group::Layer(is_v6, Some(protocol), None), both, Direction::Forward);
                if has_ports(protocol) {
                    let port = Some(record.destination_port);
                    self.add_to(Group::Layer(is_v6, Some(protocol), port), both, Direction::Forward);
                }
            }
        }
    }

    fn add_to(&mut self, group: Group, (record, figures): Figured<'_>, direction: Direction) {
        if self.sums.len() as u64 >= self.count_max && !self.sums.contains_key(&group) {
            self.untold.add(record, direction);
            return;
        }
        let totals = self.sums.entry(group).or_default();
        totals.add(record, direction);
        totals.add_figures(&group, figures, direction);
    }

    /// Counts a destination or a port of a source that has a group, once.
    fn add_target(&mut self, source: IpAddr, target: Target) {
        let Some(totals) = self.sums.get_mut(&Group::Source(source)) else { return };
        if self.targets.len() as u64 >= self.count_max {
            totals.has_more |= !self.targets.contains(&(source, target));
        } else if self.targets.insert((source, target)) {
            match target {
                Target::Peer(_) => totals.peers += 1,
                Target::Port(..) => totals.ports += 1,
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.sums.len()
    }

    /// Returns the sums of the groups beyond the limit.
    pub(super) fn untold(&self) -> Totals {
        self.untold
    }

    /// Returns the sums of all records.
    pub(super) fn total(&self) -> Totals {
        self.total
    }

    fn sorted(mut self, figure: &impl Fn(&Totals) -> u64) -> Sorted {
        let in_zones = self.sums.keys().filter_map(|group| match group {
            Group::Conversation(words) => Some(FlowKey::from_words(*words)).filter(|key| key.zone() != 0),
            _ => None,
        });
        let without: Vec<FlowKey> = in_zones.map(|key| key.with_zone(0)).collect();
        for key in without {
            if let Some(totals) = self.sums.get_mut(&Group::Conversation(*key.words())) {
                totals.tells_vlan = true;
            }
        }
        let mut groups: Sorted = self.sums.into_iter().collect();
        groups.sort_unstable_by_key(|(group, totals)| (Reverse(figure(totals)), *group));
        groups
    }

    /// Returns the `count` largest groups, and the number and the sums of the others.
    pub(super) fn largest(self, count: usize, figure: impl Fn(&Totals) -> u64) -> (Sorted, (u64, Totals)) {
        let mut groups = self.sorted(&figure);
        let others = groups.split_off(count.min(groups.len()));
        let mut rest = Totals::default();
        for (_, totals) in &others {
            rest.merge(totals);
        }
        (groups, (others.len() as u64, rest))
    }

    /// Returns the groups of a hierarchy in depth-first order, at most `count` per level. Also
    /// returns the number and the sums of the groups omitted below visible ones.
    pub(super) fn tree(self, count: usize, figure: impl Fn(&Totals) -> u64) -> (Sorted, (u64, Totals)) {
        let groups = self.sorted(&figure);
        let mut inner: HashMap<Group, Sorted> = HashMap::new();
        let mut roots = Sorted::new();
        for (group, totals) in groups {
            let parent = match group {
                Group::Layer(is_v6, Some(protocol), Some(_)) => Group::Layer(is_v6, Some(protocol), None),
                Group::Layer(is_v6, Some(_), None) => Group::Layer(is_v6, None, None),
                _ => {
                    roots.push((group, totals));
                    continue;
                }
            };
            inner.entry(parent).or_default().push((group, totals));
        }
        let (mut shown, mut hidden, mut rest) = (Sorted::new(), 0, Totals::default());
        // A stack; the next group is last.
        let mut waiting: Sorted = roots.into_iter().rev().collect();
        while let Some((group, totals)) = waiting.pop() {
            shown.push((group, totals));
            let mut children = inner.remove(&group).unwrap_or_default();
            let others = children.split_off(count.min(children.len()));
            hidden += others.len() as u64;
            for (_, totals) in &others {
                rest.merge(totals);
            }
            waiting.extend(children.into_iter().rev());
        }
        (shown, (hidden, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom::apps::accounting::{Accounted, EndedBy};

    fn record(source: u32, destination: u32, ports: (u16, u16), figures: [u64; 4]) -> AccountingRecord {
        let (key, _) = FlowKey::from_v4(source, destination, ports.0, ports.1, 6);
        let mut record = AccountingRecord::new(&key, &Accounted::default(), EndedBy::EndOfInput);
        (record.source, record.destination) = (IpAddr::V4(source.into()), IpAddr::V4(destination.into()));
        (record.source_port, record.destination_port) = ports;
        [record.packets, record.reverse_packets, record.bytes, record.reverse_bytes] = figures;
        record
    }

    fn groups_by(by: GroupBy, count_max: u64) -> Groups {
        Groups::new(by, count_max)
    }

    /// Records of four hosts, whose figures are all different.
    fn records() -> Vec<AccountingRecord> {
        let mut records = Vec::new();
        for (i, (source, destination)) in
            [(1, 2), (2, 1), (3, 1), (4, 2), (1, 4), (2, 2), (4, 3)].into_iter().enumerate()
        {
            let i = i as u64;
            let figures = [i + 1, 2 * i + 1, 100 * i + 7, 1000 * i + 3];
            let mut record = record(source, destination, (1000 + i as u16, 80 + (i % 3) as u16), figures);
            (record.start_ns, record.end_ns) = (100 - i, 200 + i);
            records.push(record);
        }
        records
    }

    #[test]
    fn totals_of_hosts_match_a_plain_sum() {
        let mut groups = groups_by(GroupBy::Host, 100);
        for record in &records() {
            groups.add(record, None, Figures::default());
        }
        let (shown, rest) = groups.largest(10, Totals::bytes);
        assert_eq!((shown.len(), rest), (4, (0, Totals::default())));
        assert!(shown.is_sorted_by_key(|(_, totals)| Reverse(totals.bytes())));
        for (group, totals) in shown {
            let Group::Host(host) = group else { panic!("{group:?}") };
            let mut sums = [0; 5];
            for record in records() {
                // A host that is both ends has sent and received all packets.
                if record.source == host {
                    sums[1] += record.packets;
                    sums[2] += record.reverse_packets;
                    sums[3] += record.bytes;
                    sums[4] += record.reverse_bytes;
                }
                if record.destination == host {
                    sums[1] += record.reverse_packets;
                    sums[2] += record.packets;
                    sums[3] += record.reverse_bytes;
                    sums[4] += record.bytes;
                }
                sums[0] += u64::from(record.source == host || record.destination == host);
            }
            let (packets, bytes) = totals.oriented(&group);
            assert_eq!([totals.flows, packets[0], packets[1], bytes[0], bytes[1]], sums, "{host}");
        }
    }

    #[test]
    fn a_source_has_its_distinct_destinations_and_ports_up_to_the_limit() {
        let scan = |groups_max| {
            let mut groups = groups_by(GroupBy::Source, groups_max);
            for _ in 0..2 {
                for (destination, port) in (10..60).flat_map(|host| [(host, 22), (host, 80)]) {
                    groups.add(
                        &record(1, destination, (5000, port), [1, 0, 40, 0]),
                        None,
                        Figures::default(),
                    );
                    groups.add(
                        &record(2, 10, (6000, port + destination as u16), [1, 0, 40, 0]),
                        None,
                        Figures::default(),
                    );
                }
            }
            let (shown, _) = groups.largest(10, |totals| totals.figure(SortBy::Peers));
            shown.iter().map(|(_, one)| (one.flows, one.peers, one.ports, one.has_more)).collect::<Vec<_>>()
        };
        // The second source reaches the ports from 32 to 81 and from 90 to 139.
        assert_eq!(scan(1000), [(200, 50, 2, false), (200, 1, 100, false)]);
        let bounded = scan(30);
        assert_eq!(bounded.iter().map(|one| one.1 + one.2).sum::<u64>(), 30);
        assert!(bounded.iter().all(|one| one.3));
    }

    #[test]
    fn a_pair_and_a_conversation_begin_with_the_initiator_of_the_first_record() {
        let mut pairs = groups_by(GroupBy::Pair, 100);
        let (early, late) = (record(2, 1, (9, 80), [1, 2, 10, 20]), record(1, 2, (7, 80), [4, 8, 40, 80]));
        let mut late = late;
        late.start_ns = 5;
        pairs.add(&late, None, Figures::default());
        pairs.add(&early, None, Figures::default());
        let (shown, _) = pairs.largest(10, Totals::bytes);
        let (group, totals) = &shown[0];
        assert_eq!(group.name(totals), "0.0.0.2 > 0.0.0.1");
        assert_eq!(totals.oriented(group), ([1 + 8, 2 + 4], [10 + 80, 20 + 40]));
        let mut conversations = groups_by(GroupBy::Conversation, 100);
        conversations.add(&early, None, Figures::default());
        let (shown, _) = conversations.largest(10, Totals::bytes);
        let (group, totals) = &shown[0];
        assert_eq!(group.name(totals), "tcp 0.0.0.2:9 > 0.0.0.1:80");
        assert_eq!(totals.oriented(group), ([1, 2], [10, 20]));
    }

    #[test]
    fn a_hierarchy_adds_up_at_each_level() {
        let mut groups = groups_by(GroupBy::Hierarchy, 100);
        for record in &records() {
            groups.add(record, None, Figures::default());
        }
        let total = groups.total();
        let (shown, (hidden, rest)) = groups.tree(2, Totals::bytes);
        let names: Vec<String> = shown.iter().map(|(group, totals)| group.name(totals)).collect();
        assert_eq!(names[..2], ["ipv4", "ipv4/tcp"]);
        assert_eq!((shown.len(), hidden), (4, 1), "two of three ports");
        assert!(shown[..2].iter().all(|(_, totals)| totals.bytes() == total.bytes()));
        let ports: u64 = shown[2..].iter().map(|(_, totals)| totals.bytes()).sum();
        assert_eq!(ports + rest.bytes(), total.bytes());
    }

    #[test]
    fn figures_of_a_host_are_its_own_and_those_of_a_pair_are_of_both() {
        let sorted = |by, sort, all: &[[Option<u64>; 2]]| {
            let mut groups = Groups::new(by, 100);
            for figures in all {
                groups.add(&record(1, 2, (9, 80), [1, 1, 40, 40]), None, [*figures; 3]);
            }
            let (shown, _) = groups.largest(10, |totals| totals.figure(sort));
            shown
                .iter()
                .map(|(group, totals)| (group.name(totals), totals.figure(sort)))
                .collect::<Vec<_>>()
        };
        let named = |rows: &[(&str, u64)]| {
            rows.iter().map(|(name, n)| (String::from(*name), *n)).collect::<Vec<_>>()
        };
        let all = [[Some(1), Some(4)], [Some(2), Some(0)], [None, None]];
        assert_eq!(
            sorted(GroupBy::Host, SortBy::Retransmissions, &all),
            named(&[("0.0.0.2", 4), ("0.0.0.1", 3)])
        );
        let pair = "0.0.0.1 > 0.0.0.2";
        assert_eq!(sorted(GroupBy::Pair, SortBy::Retransmissions, &all), named(&[(pair, 7)]));
        assert_eq!(
            sorted(GroupBy::Pair, SortBy::Resets, &[[Some(1), Some(1)], [Some(0), Some(0)]]),
            named(&[(pair, 1)])
        );
        let times = [[Some(10), Some(10)], [Some(20), Some(20)], [None, None]];
        assert_eq!(sorted(GroupBy::Pair, SortBy::HandshakeRtt, &times), named(&[(pair, 15)]));
    }
}
