//! One network policy: the packets that it allows, and the pods that it isolates.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::ipset;
use super::super::yaml::Yaml;
use super::Wrong;
use super::cluster::{Cluster, Pod, addresses, name_of, protocol};
use crate::firewall::{Conditions, Note, Ranges};
use crate::rule::decimal;

/// Conditions at a line of the text, and whether they apply to packets that leave a pod.
type At = (bool, usize, Conditions);

/// The contents of a policy.
#[derive(Debug, Default)]
pub(super) struct NetworkPolicy {
    /// Packets that may leave or reach a selected pod.
    pub(super) allowed: Vec<At>,
    /// All packets of the selected pods; those that are not allowed are denied.
    pub(super) isolated: Vec<At>,
    pub(super) notes: Vec<Note>,
}

/// The other endpoints of packets.
#[derive(Debug)]
enum Peers<'a> {
    All,
    Pods(Vec<&'a Pod>),
    /// IPv4 and IPv6 addresses.
    Block([Ranges; 2]),
}

/// Ports of one item.
#[derive(Debug)]
enum Ports<'a> {
    Every,
    Range(u16, u16),
    Named(&'a str),
}

/// Reads a policy.
pub(super) fn read(object: &Yaml, cluster: &Cluster) -> Result<NetworkPolicy, Vec<Wrong>> {
    let one = |wrong: Wrong| Vec::from([wrong]);
    let version = object.text_of("apiVersion").unwrap_or("");
    if !version.starts_with("networking.k8s.io/") {
        let message = format!("unsupported apiVersion '{version}': use networking.k8s.io/v1");
        return Err(one(Wrong::new(object.line, message)));
    }
    let name = name_of(object).map_err(one)?;
    let namespace = object.get("metadata").and_then(|metadata| metadata.text_of("namespace"));
    let reader = Reader { cluster, namespace: namespace.unwrap_or("default"), name: &name };
    let Some(spec) = object.get("spec") else {
        return Err(one(Wrong::new(object.line, format!("policy '{name}' has no spec"))));
    };
    let known = ["podSelector", "policyTypes", "ingress", "egress"];
    Wrong::unless_known(spec, "a policy", &known).map_err(one)?;
    let selector_line =
        spec.fields().iter().find(|(key, ..)| key == "podSelector").map(|&(_, line, _)| line);
    let pods = reader.pods(spec.line, spec.get("podSelector"), None).map_err(one)?;
    let mut policy = NetworkPolicy::default();
    let mut errors = Vec::new();
    let types: Vec<&str> = spec.list("policyTypes").iter().filter_map(Yaml::text).collect();
    for (direction, is_egress) in [("Ingress", false), ("Egress", true)] {
        let key = if is_egress { "egress" } else { "ingress" };
        // Without types a policy applies to ingress, and to egress if it has egress rules.
        let applies =
            if types.is_empty() { !is_egress || spec.has(key) } else { types.contains(&direction) };
        if !applies {
            continue;
        }
        let line = selector_line.unwrap_or(spec.line);
        for conditions in between(is_egress, &addresses(&pods), None) {
            policy.isolated.push((is_egress, line, conditions));
        }
        for item in spec.list(key) {
            if let Err(wrong) = reader.item(item, is_egress, &pods, &mut policy) {
                errors.push(wrong);
            }
        }
    }
    if let Some(other) = types.iter().find(|other| !["Ingress", "Egress"].contains(other)) {
        let message = format!("'{other}' is not a policy type: write Ingress or Egress");
        errors.push(Wrong::new(spec.line, message));
    }
    if pods.is_empty() {
        let text = format!("policy '{name}' selects no pod of the address map");
        policy.notes.push(Note { line: selector_line.unwrap_or(spec.line), text });
    }
    if errors.is_empty() { Ok(policy) } else { Err(errors) }
}

struct Reader<'a> {
    cluster: &'a Cluster,
    namespace: &'a str,
    name: &'a str,
}

impl<'a> Reader<'a> {
    /// Returns the pods that selectors select.
    fn pods(
        &self,
        line: usize,
        pods: Option<&Yaml>,
        namespaces: Option<&Yaml>,
    ) -> Result<Vec<&'a Pod>, Wrong> {
        if self.cluster.pods.is_empty() {
            let message = format!(
                "policy '{}' selects pods whose addresses are not known; pass the output of 'kubectl \
                 get namespaces,pods -A -o yaml' with --addresses FILE",
                self.name
            );
            return Err(Wrong::new(line, message));
        }
        self.cluster.select(pods, namespaces, self.namespace)
    }

    /// Reads an item of ingress or egress: each of its peers with each of its ports.
    fn item(
        &self,
        item: &Yaml,
        is_egress: bool,
        subjects: &[&'a Pod],
        policy: &mut NetworkPolicy,
    ) -> Result<(), Wrong> {
        let side = if is_egress { "to" } else { "from" };
        Wrong::unless_known(item, "a rule", &[side, "ports"])?;
        // An empty or missing list allows every peer, or every port.
        let mut peers = Vec::new();
        for peer in item.list(side) {
            peers.push((peer.line, self.peer(peer)?));
        }
        if peers.is_empty() {
            peers.push((item.line, Peers::All));
        }
        let mut ports = Vec::new();
        for port in item.list("ports") {
            ports.push(Some(self.ports(port)?));
        }
        if ports.is_empty() {
            ports.push(None);
        }
        for (line, peer) in &peers {
            for port in &ports {
                let before = policy.allowed.len();
                self.allow(is_egress, *line, subjects, peer, port.as_ref(), policy);
                if policy.allowed.len() == before && !subjects.is_empty() {
                    let text =
                        format!("policy '{}': this rule selects no pod of the address map", self.name);
                    policy.notes.push(Note { line: *line, text });
                }
            }
        }
        Ok(())
    }

    fn allow(
        &self,
        is_egress: bool,
        line: usize,
        subjects: &[&'a Pod],
        peers: &Peers<'a>,
        port: Option<&(u8, Ports<'_>)>,
        policy: &mut NetworkPolicy,
    ) {
        // A named port belongs to the receiver; each number that it has becomes a separate rule.
        if let Some(&(protocol, Ports::Named(name))) = port {
            let receivers: Vec<&Pod> = match (is_egress, peers) {
                (false, _) => subjects.to_vec(),
                (true, Peers::Pods(pods)) => pods.clone(),
                (true, Peers::All) => self.cluster.pods.iter().collect(),
                // Address blocks have no named ports.
                (true, Peers::Block(_)) => Vec::new(),
            };
            let mut numbers: Vec<u16> =
                receivers.iter().filter_map(|pod| pod.port(name, protocol)).collect();
            numbers.sort_unstable();
            numbers.dedup();
            for number in numbers {
                let some: Vec<&Pod> = receivers
                    .iter()
                    .copied()
                    .filter(|pod| pod.port(name, protocol) == Some(number))
                    .collect();
                let range = (protocol, Ports::Range(number, number));
                let (subjects, peers) = if is_egress {
                    (subjects.to_vec(), Some(addresses(&some)))
                } else {
                    (some, peers.addresses())
                };
                let all = between(is_egress, &addresses(&subjects), peers.as_ref());
                push(policy, is_egress, line, all, Some(&range));
            }
            return;
        }
        let all = between(is_egress, &addresses(subjects), peers.addresses().as_ref());
        push(policy, is_egress, line, all, port);
    }

    fn peer(&self, peer: &Yaml) -> Result<Peers<'a>, Wrong> {
        Wrong::unless_known(peer, "a peer", &["podSelector", "namespaceSelector", "ipBlock"])?;
        let (pods, namespaces) = (peer.get("podSelector"), peer.get("namespaceSelector"));
        match peer.get("ipBlock") {
            Some(_) if pods.is_some() || namespaces.is_some() => {
                Err(Wrong::new(peer.line, "a peer has an ipBlock or selectors; write two peers"))
            }
            Some(block) => Ok(Peers::Block(ip_block(block)?)),
            None if pods.is_some() || namespaces.is_some() => {
                Ok(Peers::Pods(self.pods(peer.line, pods, namespaces)?))
            }
            None => Err(Wrong::new(peer.line, "a peer without podSelector, namespaceSelector or ipBlock")),
        }
    }

    fn ports<'p>(&self, port: &'p Yaml) -> Result<(u8, Ports<'p>), Wrong> {
        Wrong::unless_known(port, "a port", &["protocol", "port", "endPort"])?;
        let protocol = protocol(port, port.text_of("protocol"))?;
        let number = |key: &str| port.text_of(key).map(decimal::<u16>);
        let wrong = |what: &str| {
            Wrong::new(port.line, format!("policy '{}': {what} must be from 1 to 65535", self.name))
        };
        let ports = match (port.text_of("port"), number("port").flatten(), number("endPort")) {
            (None, _, None) => Ports::Every,
            (Some(_), Some(low), None) => Ports::Range(low, low),
            (Some(_), Some(low), Some(Some(high))) if low <= high => Ports::Range(low, high),
            (Some(name), None, None)
                if !name.starts_with(|c: char| c.is_ascii_digit()) || name.parse::<u64>().is_err() =>
            {
                Ports::Named(name)
            }
            (_, _, Some(_)) => {
                return Err(wrong("endPort needs a numeric port that does not exceed it, and"));
            }
            _ => return Err(wrong("port")),
        };
        Ok((protocol, ports))
    }
}

impl Peers<'_> {
    /// Returns the IPv4 and IPv6 addresses; `None` means every address.
    fn addresses(&self) -> Option<[Ranges; 2]> {
        match self {
            Self::All => None,
            Self::Pods(pods) => Some(addresses(pods)),
            Self::Block(ranges) => Some(ranges.clone()),
        }
    }
}

/// Returns conditions for packets between pods and their peers, for each family that both have.
fn between(is_egress: bool, subjects: &[Ranges; 2], peers: Option<&[Ranges; 2]>) -> Vec<Conditions> {
    let mut all = Vec::new();
    for (family, is_v6) in [(0, false), (1, true)] {
        let peers = peers.map(|peers| &peers[family]);
        if subjects[family].is_empty() || peers.is_some_and(Ranges::is_empty) {
            continue;
        }
        let mut conditions = Conditions::default();
        conditions.ask_address(!is_egress, is_v6, &subjects[family]);
        if let Some(peers) = peers {
            conditions.ask_address(is_egress, is_v6, peers);
        }
        all.push(conditions);
    }
    all
}

fn push(
    policy: &mut NetworkPolicy,
    is_egress: bool,
    line: usize,
    all: Vec<Conditions>,
    port: Option<&(u8, Ports<'_>)>,
) {
    for mut conditions in all {
        if let Some((protocol, ports)) = port {
            conditions.ask_protocol(&Ranges::exact(u128::from(*protocol)));
            if let Ports::Range(low, high) = ports {
                conditions.ask_port(true, &Ranges::new([(u128::from(*low), u128::from(*high))]));
            }
        }
        policy.allowed.push((is_egress, line, conditions));
    }
}

/// Returns the addresses of a block without its exceptions.
fn ip_block(block: &Yaml) -> Result<[Ranges; 2], Wrong> {
    Wrong::unless_known(block, "an ipBlock", &["cidr", "except"])?;
    let prefix = |node: Option<&Yaml>, line: usize| {
        let text = node.and_then(Yaml::text).unwrap_or_default();
        let is_v6 = text.contains(':');
        let range = ipset::addresses(text, is_v6).filter(|_| text.contains('/'));
        range.map(|range| (is_v6, range)).ok_or_else(|| {
            Wrong::new(line, format!("'{text}' is not a prefix such as 192.0.2.0/24 or 2001:db8::/32"))
        })
    };
    let (is_v6, all) = prefix(block.get("cidr"), block.line)?;
    let max = if is_v6 { u128::MAX } else { 0xffff_ffff };
    let mut without = Vec::new();
    for one in block.list("except") {
        let (other, range) = prefix(Some(one), one.line)?;
        if other != is_v6 || range.0 < all.0 || all.1 < range.1 {
            let text = String::from(one.text().unwrap_or_default());
            return Err(Wrong::new(one.line, format!("'{text}' is outside the block that excepts it")));
        }
        without.push(range);
    }
    let ranges = Ranges::new([all]).intersection(&Ranges::new(without).complement(max));
    let none = || Ranges::new([]);
    Ok(if is_v6 { [none(), ranges] } else { [ranges, none()] })
}
