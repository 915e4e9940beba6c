//! Arbitrary filters and packets cause no panic, and the operators follow the rules of logic.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use flowloom_filter::PacketFilter;
use flowloom_packet::LinkType;
use proptest::prelude::*;

const LINKS: [LinkType; 7] = [
    LinkType::ETHERNET,
    LinkType::RAW,
    LinkType::NULL,
    LinkType::LOOP,
    LinkType::LINUX_SLL,
    LinkType(276),
    LinkType::PPP,
];

/// Words of filters, in any order.
fn soup() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "and", "or", "not", "(", ")", "!", "tcp", "udp", "ip", "ip6", "arp", "host", "net", "port",
        "portrange", "src", "dst", "proto", "vlan", "mpls", "pppoes", "less", "greater", "len", "[", "]",
        ":", "=", "!=", ">", "<", "&", "|", "+", "-", "*", "/", "%", "<<", "10.0.0.1", "10", "fe80::/10",
        "80", "0xffffffff", "1-2", "\\tcp", "ether", "00:11:22:33:44:55", "multicast", "mask", "icmp",
        "tcpflags", "tcp-syn", "inbound", "&&", "||",
    ]);
    prop::collection::vec(words, 0..24).prop_map(|words| words.join(" "))
}

/// Primitives that are valid on every link type and do not move the offsets of later ones.
fn primitive() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "tcp", "udp", "ip", "ip6", "arp", "icmp", "port 80", "src port 53", "portrange 1-1023",
        "host 10.0.0.1", "net 10.0.0.0/8", "ip6 net fe80::/10", "less 80", "greater 40", "ip proto 47",
        "len & 1 = 0",
    ])
}

fn matches(filter: &str, link: LinkType, bytes: &[u8]) -> bool {
    let wire_bytes = u32::try_from(bytes.len()).unwrap();
    PacketFilter::parse(filter).unwrap().matches(link, bytes, wire_bytes).unwrap()
}

proptest! {
    #[test]
    fn any_expression_and_packet_are_handled_without_a_panic(filter in prop_oneof![soup(), any::<String>()], bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        match PacketFilter::parse(&filter) {
            Err(error) => prop_assert!(error.at <= filter.len()),
            Ok(mut parsed) => for link in LINKS {
                let _ = parsed.matches(link, &bytes, 9);
            },
        }
    }

    #[test]
    fn operators_follow_boolean_logic(
        a in primitive(),
        b in primitive(),
        c in primitive(),
        mut bytes in prop::collection::vec(any::<u8>(), 120),
        ether_type in prop::sample::select(vec![[8, 0], [0x86, 0xDD], [8, 6]]),
        protocol in prop::sample::select(vec![1_u8, 6, 17, 47]),
    ) {
        bytes[12..14].copy_from_slice(&ether_type);
        bytes[14] = if ether_type == [8, 0] { 0x45 } else { 0x60 };
        bytes[20] = if ether_type == [8, 0] { 0 } else { protocol };
        bytes[21] = 0;
        bytes[23] = protocol;
        // A packet that is long enough: none of these reads beyond its end.
        let ask = |filter: &str| matches(filter, LinkType::ETHERNET, &bytes);
        prop_assert_eq!(ask(&format!("not ({a})")), !ask(a));
        prop_assert_eq!(ask(&format!("{a} and {b}")), ask(a) && ask(b));
        prop_assert_eq!(ask(&format!("({a}) || ({b})")), ask(a) || ask(b));
        // Both bind equally, from the left.
        prop_assert_eq!(ask(&format!("{a} or {b} and {c}")), (ask(a) || ask(b)) && ask(c));
        prop_assert_eq!(ask(&format!("{a} or ({b} and {c})")), ask(a) || (ask(b) && ask(c)));
    }
}

#[test]
fn errors_name_the_place_and_what_to_do() {
    for (filter, at, what) in [
        ("tcp prot 80", 4, "expected 'and', 'or'"),
        ("port 70000", 5, "expected a port"),
        ("host example.com", 5, "names are not resolved"),
        ("net 10.0.0.1/8", 14, "bits outside its network"),
        ("tcp host 10.0.0.1", 9, "only 'ip', 'arp' and 'rarp'"),
        ("icmp port 80", 10, "only 'tcp', 'udp' and 'sctp'"),
        ("tcp[0:3] = 1", 6, "1, 2 or 4 bytes"),
        ("ip[0] / 0 = 1", 6, "division by zero"),
        ("(tcp or udp", 11, "expected ')'"),
        ("tcp and", 7, "expected a primitive"),
        ("ip broadcast", 3, "expected 'and', 'or'"),
        ("gateway 10.0.0.1", 0, "not supported"),
        ("vlan 5000", 5, "at most 4095"),
        ("hots 10.0.0.1", 0, "not a primitive"),
        ("tcp \u{fc}ber", 4, "expected 'and', 'or'"),
        ("99999999999 > 1", 0, "not a number of 32 bits"),
    ] {
        let error = PacketFilter::parse(filter).unwrap_err();
        assert!(error.to_string().contains(what), "{filter}: {error}");
        assert_eq!(error.at, at, "{filter}: {error}");
    }
    let deep = "(".repeat(5000) + "tcp" + &")".repeat(5000);
    assert!(PacketFilter::parse(&deep).unwrap_err().to_string().contains("nested too deeply"));
    let deep = "not ".repeat(5000) + "tcp";
    assert!(PacketFilter::parse(&deep).unwrap_err().to_string().contains("nested too deeply"));
    let long = vec!["tcp"; 9000].join(" or ");
    assert!(PacketFilter::parse(&long).unwrap().matches(LinkType::RAW, &[0x45; 60], 60).is_ok());
    let mut ethernet = PacketFilter::parse("ether host 00:11:22:33:44:55").unwrap();
    let error = ethernet.matches(LinkType::RAW, &[0x45; 60], 60).unwrap_err();
    assert!(error.to_string().contains("needs Ethernet"), "{error}");
}
