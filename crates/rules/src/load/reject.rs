//! What a rule that rejects packets answers, as the number of its target.

/// The answer that iptables and nftables choose: a port is unreachable.
pub(crate) const DEFAULT: u32 = 2;

/// Other answers: the number, the word of iptables if it has one, and the words of nft.
pub(crate) const KINDS: [(u32, &str, &str); 18] = [
    (4, "tcp-reset", "tcp reset"),
    (0x100, "icmp-net-unreachable", "icmp type net-unreachable"),
    (0x101, "icmp-host-unreachable", "icmp type host-unreachable"),
    (0x102, "icmp-proto-unreachable", "icmp type prot-unreachable"),
    (0x103, "icmp-port-unreachable", "icmp type port-unreachable"),
    (0x109, "icmp-net-prohibited", "icmp type net-prohibited"),
    (0x10a, "icmp-host-prohibited", "icmp type host-prohibited"),
    (0x10d, "icmp-admin-prohibited", "icmp type admin-prohibited"),
    (0x200, "icmp6-no-route", "icmpv6 type no-route"),
    (0x201, "icmp6-adm-prohibited", "icmpv6 type admin-prohibited"),
    (0x203, "icmp6-addr-unreachable", "icmpv6 type addr-unreachable"),
    (0x204, "icmp6-port-unreachable", "icmpv6 type port-unreachable"),
    (0x205, "icmp6-policy-fail", "icmpv6 type policy-fail"),
    (0x206, "icmp6-reject-route", "icmpv6 type reject-route"),
    (0x300, "", "icmpx type no-route"),
    (0x301, "", "icmpx type port-unreachable"),
    (0x302, "", "icmpx type host-unreachable"),
    (0x303, "", "icmpx type admin-prohibited"),
];

/// Returns the number of an answer in the words of iptables.
pub(crate) fn of_iptables(name: &str) -> Option<u32> {
    let name = match name {
        "tcp-rst" => "tcp-reset",
        "net-unreach" => "icmp-net-unreachable",
        "host-unreach" => "icmp-host-unreachable",
        "proto-unreach" => "icmp-proto-unreachable",
        "port-unreach" => "icmp-port-unreachable",
        "net-prohib" => "icmp-net-prohibited",
        "host-prohib" => "icmp-host-prohibited",
        "admin-prohib" => "icmp-admin-prohibited",
        "no-route" => "icmp6-no-route",
        "adm-prohibited" => "icmp6-adm-prohibited",
        "addr-unreach" => "icmp6-addr-unreachable",
        name => name,
    };
    let kind = KINDS.iter().find(|kind| kind.1 == name && !name.is_empty())?;
    Some(if matches!(kind.0, 0x103 | 0x204) { DEFAULT } else { kind.0 })
}

/// Returns the number of an answer in the words of nft, with or without `type`.
#[cfg(feature = "std")]
pub(crate) fn of_nft(words: &str) -> Option<u32> {
    let is_named = |kind: &&(u32, &str, &str)| kind.2 == words || kind.2.replace(" type", "") == words;
    KINDS.iter().find(is_named).map(|kind| if kind.0 == 0x301 { DEFAULT } else { kind.0 })
}
