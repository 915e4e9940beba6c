//! The names of IP protocols.

use crate::Word;

/// IANA's names of IP protocols, in lower case. The code of a word is the protocol.
pub const PROTOCOL_NAMES: &[Word] = &[
    Word::new("hopopt", 0),
    Word::new("icmp", 1),
    Word::new("igmp", 2),
    Word::new("ipv4", 4),
    Word::new("tcp", 6),
    Word::new("egp", 8),
    Word::new("igp", 9),
    Word::new("udp", 17),
    Word::new("rdp", 27),
    Word::new("dccp", 33),
    Word::new("ipv6", 41),
    Word::new("ipv6-route", 43),
    Word::new("ipv6-frag", 44),
    Word::new("rsvp", 46),
    Word::new("gre", 47),
    Word::new("esp", 50),
    Word::new("ah", 51),
    Word::new("ipv6-icmp", 58),
    Word::new("ipv6-nonxt", 59),
    Word::new("ipv6-opts", 60),
    Word::new("eigrp", 88),
    Word::new("ospfigp", 89),
    Word::new("ipip", 94),
    Word::new("etherip", 97),
    Word::new("pim", 103),
    Word::new("ipcomp", 108),
    Word::new("vrrp", 112),
    Word::new("l2tp", 115),
    Word::new("sctp", 132),
    Word::new("mobility-header", 135),
    Word::new("udplite", 136),
    Word::new("mpls-in-ip", 137),
    Word::new("hip", 139),
    Word::new("shim6", 140),
    Word::new("ethernet", 143),
];

/// Returns IANA's name of an IP protocol, in lower case.
#[must_use]
pub fn protocol_name(protocol: u8) -> Option<&'static str> {
    match protocol {
        6 => Some("tcp"),
        17 => Some("udp"),
        other => PROTOCOL_NAMES.iter().find(|word| word.code == other).map(|word| word.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_by_its_number() {
        for word in PROTOCOL_NAMES {
            assert_eq!(protocol_name(word.code), Some(word.name));
        }
        assert_eq!(protocol_name(255), None);
    }
}
