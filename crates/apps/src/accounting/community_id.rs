//! Community ID: a flow id that other tools also compute.
//!
//! Specification: <https://github.com/corelight/community-id-spec>, version 1, seed 0.

use flowloom_flow_key::protocol::{ICMP, ICMPV6, SCTP, TCP, UDP};
use std::net::IpAddr;

use flowloom_record::CommunityId;
use sha1::{Digest, Sha1};

use super::AccountingRecord;

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
    use std::collections::HashMap;

    use flowloom_packet::{DecodeOptions, LinkType, PacketView, decode};

    use super::super::{Accounted, EndedBy};
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

    /// For ICMP of both versions of IP, by 16 types: the first bytes of the SHA-1 of all IDs that
    /// the reference implementation (the Python package `communityid` 1.5) computes: of each type
    /// with the codes 0 and 1, from one end to the other, back, and from the first end to itself.
    #[rustfmt::skip]
    const REFERENCE: [[u32; 16]; 2] = [
        [0x9f15_bebf, 0x9a8c_d4cd, 0xe066_0dd7, 0x71eb_e3e1, 0x5d26_dde9, 0x399c_5330,
         0xd2e5_4ee8, 0x1dc5_d098, 0xf755_792f, 0x9210_3353, 0x902a_7a58, 0x8dae_e4a4,
         0x4eb2_7118, 0xa79c_e0a7, 0x8e67_53d7, 0x8fdd_1408],
        [0xa594_ad5b, 0x1eac_327d, 0xb191_fde2, 0x9a67_5662, 0x9cbd_021c, 0xcf58_b6dd,
         0x77da_f83b, 0x70ca_1235, 0x6a1d_ac20, 0x3f19_7236, 0xf7e9_3b76, 0x65e8_596c,
         0xc71c_6abd, 0xa4ce_fc53, 0x9f2d_15cb, 0x895e_2ef9],
    ];

    #[test]
    fn ids_of_every_icmp_type_are_those_of_the_reference() {
        let ends = [(ICMP, "192.0.2.9", "192.0.2.10"), (ICMPV6, "2001:db8::9", "2001:db8::10")];
        for ((protocol, one, other), reference) in ends.into_iter().zip(REFERENCE) {
            for (block, expected) in reference.into_iter().enumerate() {
                let mut hash = Sha1::new();
                for kind in 16 * block..16 * (block + 1) {
                    for (code, (from, to)) in [0, 1]
                        .into_iter()
                        .flat_map(|code| [(one, other), (other, one), (one, one)].map(|way| (code, way)))
                    {
                        hash.update(id(
                            from,
                            0,
                            to,
                            0,
                            protocol,
                            Some([u8::try_from(kind).unwrap(), code]),
                        ));
                    }
                }
                let digest: [u8; 20] = hash.finalize().into();
                let first = u32::from_be_bytes(*digest.first_chunk().unwrap());
                assert_eq!(first, expected, "protocol {protocol}, types {}..", 16 * block);
            }
        }
    }

    /// Extended echo and mobile prefixes are queries to the decoder, and unknown to the
    /// specification.
    #[test]
    fn icmp_messages_share_a_flow_exactly_if_they_share_an_id() {
        let unknown =
            |v6: bool, kind| matches!((v6, kind), (false, 42 | 43) | (true, 160 | 161 | 146 | 147));
        for v6 in [false, true] {
            let (mut by_key, mut by_id) = (HashMap::new(), HashMap::new());
            for kind in (0..=255).filter(|kind| !unknown(v6, *kind)) {
                for (code, is_back) in [(0, false), (1, false), (0, true), (1, true)] {
                    let mut packet = if v6 {
                        vec![0x60, 0, 0, 0, 0, 8, 58, 64]
                    } else {
                        vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0]
                    };
                    let ends = if is_back { [2, 1] } else { [1, 2] };
                    for end in ends {
                        packet.extend(vec![end; if v6 { 16 } else { 4 }]);
                    }
                    packet.extend([kind, code, 0, 0, 0, 7, 0, 1]);
                    let headers = decode(LinkType::RAW, &packet, DecodeOptions::new()).unwrap();
                    let mut flow = Accounted::default();
                    flow.add_packet(&PacketView::new(&packet, headers, 1, 60));
                    let record = AccountingRecord::new(&headers.key, &flow, EndedBy::EndOfInput);
                    let id = record.community_id();
                    assert_eq!(
                        *by_id.entry(headers.key).or_insert(id),
                        id,
                        "{} {kind} {code}",
                        headers.key
                    );
                    assert_eq!(*by_key.entry(id).or_insert(headers.key), headers.key, "{id} {kind} {code}");
                }
            }
            // 4 messages of each type are 4 flows, or 2 with those of the type that answers.
            assert_eq!(by_id.len(), if v6 { 4 * (252 - 12) + 12 } else { 4 * (254 - 10) + 10 });
        }
    }

    #[test]
    fn protocols_without_ports_are_identified_by_their_addresses() {
        let there = id("192.0.2.1", 0, "192.0.2.2", 0, 47, None);
        assert_eq!(id("192.0.2.2", 0, "192.0.2.1", 0, 47, None), there);
        assert_ne!(id("192.0.2.2", 0, "192.0.2.1", 0, 50, None), there);
    }
}
