//! The names of numbers in iptables.

use crate::firewall::{FLAG_NAMES, Ranges};

/// ICMP types by name: the name, the type, and the code if the name implies one.
const ICMP: [(&str, u8, Option<u8>); 40] = [
    ("echo-reply", 0, None),
    ("pong", 0, None),
    ("destination-unreachable", 3, None),
    ("network-unreachable", 3, Some(0)),
    ("host-unreachable", 3, Some(1)),
    ("protocol-unreachable", 3, Some(2)),
    ("port-unreachable", 3, Some(3)),
    ("fragmentation-needed", 3, Some(4)),
    ("source-route-failed", 3, Some(5)),
    ("network-unknown", 3, Some(6)),
    ("host-unknown", 3, Some(7)),
    ("network-prohibited", 3, Some(9)),
    ("host-prohibited", 3, Some(10)),
    ("TOS-network-unreachable", 3, Some(11)),
    ("TOS-host-unreachable", 3, Some(12)),
    ("communication-prohibited", 3, Some(13)),
    ("host-precedence-violation", 3, Some(14)),
    ("precedence-cutoff", 3, Some(15)),
    ("source-quench", 4, None),
    ("redirect", 5, None),
    ("network-redirect", 5, Some(0)),
    ("host-redirect", 5, Some(1)),
    ("TOS-network-redirect", 5, Some(2)),
    ("TOS-host-redirect", 5, Some(3)),
    ("echo-request", 8, None),
    ("ping", 8, None),
    ("router-advertisement", 9, None),
    ("router-solicitation", 10, None),
    ("time-exceeded", 11, None),
    ("ttl-exceeded", 11, None),
    ("ttl-zero-during-transit", 11, Some(0)),
    ("ttl-zero-during-reassembly", 11, Some(1)),
    ("parameter-problem", 12, None),
    ("ip-header-bad", 12, Some(0)),
    ("required-option-missing", 12, Some(1)),
    ("timestamp-request", 13, None),
    ("timestamp-reply", 14, None),
    ("info-request", 15, None),
    ("address-mask-request", 17, None),
    ("address-mask-reply", 18, None),
];

/// `ICMPv6` types by name.
const ICMPV6: [(&str, u8, Option<u8>); 32] = [
    ("destination-unreachable", 1, None),
    ("no-route", 1, Some(0)),
    ("communication-prohibited", 1, Some(1)),
    ("beyond-scope", 1, Some(2)),
    ("address-unreachable", 1, Some(3)),
    ("port-unreachable", 1, Some(4)),
    ("failed-policy", 1, Some(5)),
    ("reject-route", 1, Some(6)),
    ("packet-too-big", 2, None),
    ("time-exceeded", 3, None),
    ("ttl-exceeded", 3, None),
    ("ttl-zero-during-transit", 3, Some(0)),
    ("ttl-zero-during-reassembly", 3, Some(1)),
    ("parameter-problem", 4, None),
    ("bad-header", 4, Some(0)),
    ("unknown-header-type", 4, Some(1)),
    ("unknown-option", 4, Some(2)),
    ("echo-request", 128, None),
    ("ping", 128, None),
    ("echo-reply", 129, None),
    ("pong", 129, None),
    ("router-solicitation", 133, None),
    ("router-advertisement", 134, None),
    ("neighbour-solicitation", 135, None),
    ("neighbor-solicitation", 135, None),
    ("neighbour-advertisement", 136, None),
    ("neighbor-advertisement", 136, None),
    ("redirect", 137, None),
    ("mld-listener-query", 130, None),
    ("mld-listener-report", 131, None),
    ("mld-listener-done", 132, None),
    ("mld-listener-reduction", 132, None),
];

/// Reads an ICMP type: a name, a type, or a type and a code. The type is in the upper byte of the
/// result.
pub(crate) fn icmp(text: &str, is_v6: bool) -> Option<Ranges> {
    let icmp = |kind: u8, code: Option<u8>| {
        let kind = u128::from(kind) << 8;
        code.map_or_else(
            || Ranges::new([(kind, kind | 0xff)]),
            |code| Ranges::exact(kind | u128::from(code)),
        )
    };
    if text == "any" {
        return Some(Ranges::up_to(0xffff));
    }
    let names = if is_v6 { &ICMPV6[..] } else { &ICMP[..] };
    if let Some(&(_, kind, code)) = names.iter().find(|(name, ..)| name.eq_ignore_ascii_case(text)) {
        return Some(icmp(kind, code));
    }
    let (kind, code) = text.split_once('/').map_or((text, None), |(kind, code)| (kind, Some(code)));
    let kind: u8 = crate::rule::decimal(kind)?;
    match code {
        Some(code) => Some(icmp(kind, Some(crate::rule::decimal(code)?))),
        None => Some(icmp(kind, None)),
    }
}

/// Reads TCP flags: comma-separated names, ALL or NONE.
#[must_use]
pub fn tcp_flags(text: &str) -> Option<u8> {
    let one = |name: &str| match name {
        "ALL" => Some(0x3f),
        "NONE" => Some(0),
        _ => FLAG_NAMES.iter().position(|flag| flag.eq_ignore_ascii_case(name)).map(|bit| 1_u8 << bit),
    };
    text.split(',').map(one).try_fold(0, |flags, flag| Some(flags | flag?))
}

/// Reads a class of differentiated services.
pub(crate) fn dscp_class(text: &str) -> Option<u8> {
    let text = text.to_ascii_uppercase();
    let digit = |text: &str, at: usize| text.as_bytes().get(at).map(|byte| byte.wrapping_sub(b'0'));
    match text.as_str() {
        "EF" => Some(46),
        "BE" => Some(0),
        _ if text.starts_with("CS") && text.len() == 3 => digit(&text, 2).filter(|&c| c < 8).map(|c| 8 * c),
        _ if text.starts_with("AF") && text.len() == 4 => {
            let (class, drop) = (digit(&text, 2)?, digit(&text, 3)?);
            ((1..=4).contains(&class) && (1..=3).contains(&drop)).then_some(8 * class + 2 * drop)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_agree() {
        for (name, number) in [("echo-request", "8"), ("fragmentation-needed", "3/4"), ("PONG", "0")] {
            assert_eq!(icmp(name, false), icmp(number, false), "{name}");
        }
        assert_eq!(icmp("neighbor-solicitation", true), icmp("135", true));
        assert_eq!(icmp("255", false), Some(Ranges::new([(0xff00, 0xffff)])));
        assert_eq!((icmp("256", false), icmp("8/", false), icmp("+8", false)), (None, None, None));
        assert_eq!(
            (tcp_flags("SYN,ACK"), tcp_flags("ALL"), tcp_flags("SYM")),
            (Some(0x12), Some(0x3f), None)
        );
        assert_eq!((dscp_class("EF"), dscp_class("af41"), dscp_class("CS9")), (Some(46), Some(34), None));
    }
}
