//! Types and codes of ICMP by their names in nft.

use super::super::iptables::icmp;
use super::ast::Value;
use super::lower::number;
use crate::firewall::Ranges;

/// Returns the types and codes of a value.
pub(super) fn icmp_types(value: &Value, is_v6: bool) -> Option<Ranges> {
    // Names that nft has but iptables does not.
    let one = |word: &str| {
        let word = match word {
            "nd-neighbor-solicit" => "135",
            "nd-neighbor-advert" => "136",
            "nd-router-solicit" => "133",
            "nd-router-advert" => "134",
            "nd-redirect" => "137",
            "mld-listener-query" => "130",
            "mld-listener-report" => "131",
            "mld-listener-done" | "mld-listener-reduction" => "132",
            "mld2-listener-report" => "143",
            "ind-neighbor-solicit" => "141",
            "ind-neighbor-advert" => "142",
            "router-renumbering" => "138",
            "info-reply" => "16",
            word => word,
        };
        if word.contains('/') { None } else { icmp(word, is_v6) }
    };
    match value {
        Value::Word(word) => one(word).or_else(|| {
            let (low, high) = word.split_once('-')?;
            let (low, high) = (one(low)?.hull()?.0, one(high)?.hull()?.1);
            (low <= high).then(|| Ranges::new([(low, high)]))
        }),
        Value::Range(low, high) => Some(Ranges::new([(one(low)?.hull()?.0, one(high)?.hull()?.1)])),
        _ => None,
    }
}

/// Returns the number of a code.
pub(super) fn icmp_code(word: &str, is_v6: bool) -> Option<u128> {
    let names: &[(&str, u128)] = if is_v6 {
        &[
            ("no-route", 0),
            ("admin-prohibited", 1),
            ("addr-unreachable", 3),
            ("port-unreachable", 4),
            ("policy-fail", 5),
            ("reject-route", 6),
        ]
    } else {
        &[
            ("net-unreachable", 0),
            ("host-unreachable", 1),
            ("prot-unreachable", 2),
            ("port-unreachable", 3),
            ("frag-needed", 4),
            ("net-prohibited", 9),
            ("host-prohibited", 10),
            ("admin-prohibited", 13),
        ]
    };
    number(word).or_else(|| names.iter().find(|(name, _)| *name == word).map(|&(_, code)| code))
}
