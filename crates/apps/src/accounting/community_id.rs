//! Community ID: a flow id that other tools also compute.
//!
//! Specification: <https://github.com/corelight/community-id-spec>, version 1, seed 0.

use std::net::IpAddr;

use flowloom_record::CommunityId;
use sha1::{Digest, Sha1};

use super::AccountingRecord;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;

/// Pairs of ICMP messages that answer each other, according to the specification.
const PAIRS_V4: [(u8, u8); 5] = [(8, 0), (13, 14), (15, 16), (10, 9), (17, 18)];
/// The same pairs for ICMP for IPv6.
const PAIRS_V6: [(u8, u8); 6] = [(128, 129), (130, 131), (133, 134), (135, 136), (139, 140), (144, 145)];

/// Returns the ID of a flow between two endpoints. For ICMP, pass the type and code of a
/// message from the first to the second. Both directions have the same ID, except for ICMP
/// messages without an answer.
///
/// # Examples
///
/// ```
/// use flowloom_apps::accounting::community_id;
/// let (client, server) = ([128, 232, 110, 120].into(), [66, 35, 250, 204].into());
/// let id = community_id((client, 34855), (server, 80), 6, None);
/// assert_eq!(id.to_string(), "1:LQU9qZlK+B5F3KDmev6m5PMibrg=");
/// ```
#[must_use]
pub fn community_id(
    source: (IpAddr, u16),
    destination: (IpAddr, u16),
    protocol: u8,
    icmp: Option<[u8; 2]>,
) -> CommunityId {
    let (mut from, mut to, mut is_one_way) = (source, destination, false);
    if let (ICMP | ICMPV6, Some([kind, code])) = (protocol, icmp) {
        let pairs: &[(u8, u8)] = if protocol == ICMP { &PAIRS_V4 } else { &PAIRS_V6 };
        let answer = pairs.iter().find_map(|&(one, other)| match kind {
            kind if kind == one => Some(other),
            kind if kind == other => Some(one),
            _ => None,
        });
        is_one_way = answer.is_none();
        (from.1, to.1) = (kind.into(), answer.unwrap_or(code).into());
    }
    if !is_one_way && from > to {
        (from, to) = (to, from);
    }
    let mut hash = Sha1::new();
    hash.update([0, 0]);
    for (address, _) in [from, to] {
        match address {
            IpAddr::V4(v4) => hash.update(v4.octets()),
            IpAddr::V6(v6) => hash.update(v6.octets()),
        }
    }
    hash.update([protocol, 0]);
    if matches!(protocol, ICMP | TCP | UDP | ICMPV6 | SCTP) {
        hash.update(from.1.to_be_bytes());
        hash.update(to.1.to_be_bytes());
    }
    CommunityId::from_digest(hash.finalize().into())
}

impl AccountingRecord {
    /// Returns the Community ID of the record's flow.
    #[must_use]
    pub fn community_id(&self) -> CommunityId {
        let (source, destination) =
            ((self.source, self.source_port), (self.destination, self.destination_port));
        community_id(source, destination, self.protocol, self.icmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(
        from: &str,
        from_port: u16,
        to: &str,
        to_port: u16,
        protocol: u8,
        icmp: Option<[u8; 2]>,
    ) -> String {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        community_id((address(from), from_port), (address(to), to_port), protocol, icmp).to_string()
    }

    #[test]
    fn ids_are_those_of_the_specification() {
        let there = id("128.232.110.120", 34855, "66.35.250.204", 80, TCP, None);
        assert_eq!(there, "1:LQU9qZlK+B5F3KDmev6m5PMibrg=");
        assert_eq!(id("66.35.250.204", 80, "128.232.110.120", 34855, TCP, None), there);
        assert_eq!(id("192.168.1.52", 54585, "8.8.8.8", 53, UDP, None), "1:d/FP5EW3wiY1vCndhwleRRKHowQ=");
        assert_eq!(
            id("192.168.170.8", 7, "192.168.170.56", 80, SCTP, None),
            "1:jQgCxbku+pNGw8WPbEc/TS/uTpQ="
        );
        let icmp = |from, to, message| id(from, 0, to, 0, ICMP, Some(message));
        let echo = "1:X0snYXpgwiv9TZtqg64sgzUn6Dk=";
        assert_eq!(icmp("192.168.0.89", "192.168.0.1", [8, 0]), echo);
        assert_eq!(icmp("192.168.0.1", "192.168.0.89", [0, 20]), echo);
        assert_eq!(icmp("192.168.0.89", "192.168.0.1", [20, 0]), "1:3o2RFccXzUgjl7zDpqmY7yJi8rI=");
        assert_eq!(icmp("192.168.0.89", "192.168.0.1", [20, 1]), "1:tz/fHIDUHs19NkixVVoOZywde+I=");
        let (one, other) = ("fe80::200:86ff:fe05:80da", "fe80::260:97ff:fe07:69ea");
        let neighbour = "1:dGHyGvjMfljg6Bppwm3bg0LO8TY=";
        assert_eq!(id(one, 0, other, 0, ICMPV6, Some([135, 0])), neighbour);
        assert_eq!(id(other, 0, one, 0, ICMPV6, Some([136, 0])), neighbour);
    }

    #[test]
    fn protocols_without_ports_are_identified_by_their_addresses() {
        let there = id("192.0.2.1", 0, "192.0.2.2", 0, 47, None);
        assert_eq!(id("192.0.2.2", 0, "192.0.2.1", 0, 47, None), there);
        assert_ne!(id("192.0.2.2", 0, "192.0.2.1", 0, 50, None), there);
    }
}
