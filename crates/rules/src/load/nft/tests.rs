use super::*;
use crate::firewall::{Assume, Entry, Fragment, Outcome, Packet};
use flowloom_flow_key::FiveTuple;

mod chains;
mod verdicts;

fn chain(rules: &str) -> String {
    format!(
        "table inet filter {{\n\tchain input {{\n\t\ttype filter hook input priority filter; policy drop;\n{rules}\n\t}}\n}}\n"
    )
}

fn policy(rules: &str) -> Policy {
    let text = chain(rules);
    load(&text, &Options::default()).unwrap_or_else(|errors| panic!("{text}\n{errors}"))
}

fn line(policy: &Policy, packet: &Packet<'_>) -> usize {
    let found = policy.first_match(packet, Assume::NoMatch);
    found.and_then(|id| policy.source(id)).map_or(0, |source| source.line)
}

fn packet(source: [u8; 4], port: u16, protocol: u8) -> Packet<'static> {
    Packet::new(FiveTuple::v4(source, [192, 0, 2, 1], 1024, port, protocol))
}

#[test]
fn sets_maps_and_policies_are_read() {
    let text = "table inet filter {\n  set worst { type ipv4_addr; flags interval\n    elements = { 192.0.2.0/24, 203.0.113.9-203.0.113.30,\n      198.51.100.7 } }\n\
        chain input {\n type filter hook input priority filter; policy drop;\n ip saddr @worst drop\n tcp dport { 22, 80-81, 443 } accept\n\
        meta l4proto vmap { icmp : accept, udp : drop }\n }\n}\n";
    let policy = load(text, &Options::default()).unwrap();
    assert_eq!(line(&policy, &packet([203, 0, 113, 30], 22, 6)), 7);
    assert_eq!(line(&policy, &packet([8, 8, 8, 8], 81, 6)), 8);
    assert_eq!(line(&policy, &packet([8, 8, 8, 8], 82, 6)), 6);
    assert_eq!(line(&policy, &packet([8, 8, 8, 8], 0, 1)), 9);
    let udp = policy.first_match(&packet([8, 8, 8, 8], 9, 17), Assume::NoMatch).unwrap();
    assert_eq!(policy.set().get(udp).unwrap().action, Some(Action::Deny));
    let six = Packet::new(FiveTuple::v6([1; 16], [2; 16], 9, 22, 6));
    assert_eq!(line(&policy, &six), 8);
}

#[test]
fn comparisons_have_the_semantics_of_nft() {
    for (rule, yes, no) in [
        ("ip saddr != 10.0.0.0/8 accept", packet([11, 0, 0, 1], 1, 6), packet([10, 0, 0, 1], 1, 6)),
        ("tcp dport != { 1-9, 20 } accept", packet([1; 4], 10, 6), packet([1; 4], 20, 6)),
        ("tcp dport >= 1024 accept", packet([1; 4], 1024, 6), packet([1; 4], 1023, 6)),
        ("tcp dport ssh accept", packet([1; 4], 22, 6), packet([1; 4], 22, 17)),
        ("meta l4proto { tcp, udp } th dport 53 accept", packet([1; 4], 53, 17), packet([1; 4], 53, 132)),
        (
            "ip saddr . tcp dport { 10.0.0.1 . 80, 10.0.0.0/24 . 90-99 } accept",
            packet([10, 0, 0, 7], 95, 6),
            packet([10, 0, 0, 7], 80, 6),
        ),
        (
            "ip saddr . tcp dport != { 10.0.0.1 . 80 } accept",
            packet([10, 0, 0, 2], 80, 6),
            packet([10, 0, 0, 1], 80, 6),
        ),
        ("ip protocol udp accept", packet([1; 4], 9, 17), packet([1; 4], 9, 6)),
        (
            "meta nfproto ipv6 drop\n\t\taccept",
            packet([1; 4], 9, 6),
            Packet::new(FiveTuple::v6([1; 16], [2; 16], 1, 2, 6)),
        ),
        (
            "ip saddr & 255.0.0.255 == 10.0.0.1 accept",
            packet([10, 9, 9, 1], 9, 6),
            packet([10, 9, 9, 2], 9, 6),
        ),
    ] {
        let policy = policy(&format!("\t\t{rule}"));
        let accepts = |packet: &Packet<'_>| {
            let id = policy.first_match(packet, Assume::NoMatch);
            id.and_then(|id| policy.set().get(id)).unwrap().action == Some(Action::Accept)
        };
        assert!(accepts(&yes) && !accepts(&no), "{rule}");
    }
}

#[test]
fn flags_states_types_and_interfaces_are_matched() {
    let policy = policy(
        "\t\tct state vmap { established : accept, related : accept, invalid : drop }\n\
        \t\tiifname \"lo\" accept\n\t\ttcp flags & (fin|syn|rst|ack) == syn tcp dport 22 accept\n\
        \t\ttcp flags syn / fin,syn,rst,ack tcp dport 23 accept\n\t\ttcp flags rst,fin tcp dport 24 accept\n\
        \t\ticmp type { echo-request, destination-unreachable } limit rate 5/second burst 10 packets accept\n\
        \t\tip frag-off & 0x1fff != 0 counter packets 0 bytes 0 accept\n\t\tiifname { \"eth*\", \"wl0\" } udp dport 5000-5010 accept",
    );
    let mut base = packet([1; 4], 22, 6);
    (base.input, base.state, base.tcp_flags) =
        (Some("wl0"), Some(crate::firewall::ConnectionState::New), Some(2));
    assert_eq!(line(&policy, &base), 6);
    assert_eq!(line(&policy, &Packet { tcp_flags: Some(0x12), ..base }), 3);
    assert_eq!(line(&policy, &Packet { input: Some("lo"), ..base }), 5);
    assert_eq!(
        line(&policy, &Packet { state: Some(crate::firewall::ConnectionState::Related), ..base }),
        4
    );
    let at = |port: u16, flags| {
        let mut one = base;
        (one.tuple.destination_port, one.tcp_flags) = (port, Some(flags));
        line(&policy, &one)
    };
    assert_eq!([at(23, 2), at(23, 0x12), at(24, 1), at(24, 0x14), at(24, 2)], [7, 3, 8, 8, 3]);
    let mut ping = packet([1; 4], 0, 1);
    (ping.icmp, ping.input, ping.state) = (Some((8, 0)), base.input, base.state);
    assert_eq!((line(&policy, &ping), policy.outcomes(&ping).deciders.len()), (3, 2), "a limit may hold");
    assert_eq!(line(&policy, &base.with_fragment(Fragment::Later)), 10);
    let mut udp = packet([1; 4], 5005, 17);
    (udp.input, udp.state) = (Some("eth7"), base.state);
    assert_eq!(line(&policy, &udp), 11);
}

#[test]
fn chains_jump_and_base_chains_run_in_sequence() {
    let text = "#!/usr/sbin/nft -f\nflush ruleset\ndefine lan = { 10.0.0.0/8, 172.16.0.0/12 }\n\
        table ip a {\n chain early {\n type filter hook input priority -10\n ip saddr $lan tcp dport 23 drop\n accept\n }\n}\n\
        table inet b {\n chain web {\n tcp dport 80 return\n tcp dport 1-1023 accept\n }\n\
        chain input {\n type filter hook input priority filter + 5; policy drop;\n ip saddr $lan jump web\n tcp dport vmap { 80 : goto web, 443 : accept }\n }\n}\n\
        add rule inet b input udp dport 53 accept\n";
    let policy = load(text, &Options::default()).unwrap();
    assert_eq!(line(&policy, &packet([10, 0, 0, 1], 23, 6)), 7);
    assert_eq!(line(&policy, &packet([10, 0, 0, 1], 22, 6)), 14);
    assert_eq!(line(&policy, &packet([10, 0, 0, 1], 80, 6)), 17);
    assert_eq!(line(&policy, &packet([8; 4], 443, 6)), 19);
    assert_eq!(line(&policy, &packet([8; 4], 53, 17)), 22);
    let six = Packet::new(FiveTuple::v6([1; 16], [2; 16], 9, 443, 6));
    assert_eq!(line(&policy, &six), 19, "the table of IPv4 does not see it");
    let one = Options { chain: "web", ..Options::default() };
    assert_eq!(load(text, &one).unwrap().sources().len(), 2);
}

#[test]
fn json_and_text_form_are_equivalent() {
    let text = r#"{"nftables": [{"metainfo": {"version": "1.0.6", "json_schema_version": 1}},
{"table": {"family": "inet", "name": "filter", "handle": 1}},
{"set": {"family": "inet", "name": "worst", "table": "filter", "type": "ipv4_addr", "handle": 2, "flags": ["interval"],
 "elem": [{"prefix": {"addr": "192.0.2.0", "len": 24}}, {"range": ["203.0.113.9", "203.0.113.30"]}]}},
{"chain": {"family": "inet", "table": "filter", "name": "input", "handle": 1, "type": "filter", "hook": "input", "prio": 0, "policy": "drop"}},
{"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 3, "expr": [{"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": "@worst"}}, {"drop": null}]}},
{"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 4, "expr": [{"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": {"set": [22, {"range": [80, 81]}]}}}, {"counter": {"packets": 0, "bytes": 0}}, {"accept": null}]}},
{"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 5, "expr": [{"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": ["established", "related"]}}, {"accept": null}]}},
{"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 6, "expr": [{"vmap": {"key": {"meta": {"key": "l4proto"}}, "data": {"set": [["icmp", {"accept": null}], ["udp", {"drop": null}]]}}}]}},
{"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 7, "expr": [{"match": {"op": "==", "left": {"&": [{"payload": {"protocol": "tcp", "field": "flags"}}, {"|": ["syn", "ack"]}]}, "right": "syn"}}, {"reject": null}]}}]}"#;
    assert!(is_nft(text));
    let policy = load(text, &Options::default()).unwrap();
    assert_eq!(line(&policy, &packet([203, 0, 113, 9], 22, 6)), 6);
    assert_eq!(line(&policy, &packet([8; 4], 81, 6)), 7);
    assert_eq!(line(&policy, &packet([8; 4], 0, 1)), 9);
    let mut syn = packet([8; 4], 9, 6);
    (syn.tcp_flags, syn.state) = (Some(2), Some(crate::firewall::ConnectionState::New));
    assert_eq!(line(&policy, &syn), 10);
    assert_eq!(line(&policy, &Packet { tcp_flags: Some(0x12), ..syn }), 5);
    let broken = load("{\"nftables\": [", &Options::default()).unwrap_err();
    assert!(broken.to_string().contains("no JSON"), "{broken}");
}

#[test]
fn invalid_statement_is_reported_with_its_line() {
    for (rule, part) in [
        ("tcp dport 70000 accept", "not a value of this field"),
        ("tcp dport { 22, nosuch } accept", "'nosuch'"),
        ("ip saddr @missing drop", "no set 'missing'"),
        ("ip saddr ::1 drop", "expected an address or a prefix of ip"),
        ("frobnicate 7 drop", "unsupported statement 'frobnicate'"),
        ("jump nowhere", "no chain 'nowhere'"),
        ("tcp dport", "value"),
    ] {
        let errors = load(&chain(&format!("\t\taccept\n\t\t{rule}")), &Options::default()).unwrap_err();
        assert_eq!(errors.errors[0].line, 5, "{rule}: {errors}");
        assert!(errors.to_string().contains(part), "{rule}: {errors}");
    }
    let both =
        load(&chain("\t\ttcp dport x accept\n\t\tudp dport y accept"), &Options::default()).unwrap_err();
    assert_eq!(both.errors.len(), 2, "{both}");
    let whole = chain("\t\taccept");
    for end in 1..whole.trim_end().len() {
        let cut = &whole[..end];
        if let Ok(policy) = load(cut, &Options::default()) {
            assert!(policy.is_empty(), "a file that is cut has no rules: {cut}");
        }
    }
}

/// Returns the texts of a rule's entries in the chain input, with the action of each.
fn entries(policy: &Policy) -> Vec<String> {
    let text = |entry: Entry| match entry.outcome {
        Outcome::Decide { action: Some(action), .. } => format!("{action} {}", entry.conditions),
        _ => format!("pass {}", entry.conditions),
    };
    let mut all: Vec<String> = policy.entries().map(text).collect();
    // The policy of the chain.
    all.pop();
    all
}

#[test]
fn unknowable_test_may_match_and_keeps_its_verdict() {
    for (rule, expected) in [
        ("tcp option sack-perm exists accept", &["accept all any > any [tcp option sack-perm]"][..]),
        ("tcp option maxseg size 1-500 drop", &["deny all any > any [tcp option maxseg size]"]),
        ("ip option rr exists drop", &["deny all any IPv4 > any [ip option rr]"]),
        ("sctp chunk init exists accept", &["accept sctp any > any [sctp chunk init]"]),
        ("@th,16,16 53 accept", &["accept all any > any [@th,16,16 0x35]"]),
        ("@nh,72,8 { 6, 17-20 } drop", &["deny all any > any [@nh,72,8 { 0x6, 0x11-0x14 }]"]),
        ("@th,0,16 >= 0xff00 drop", &["deny all any > any [@th,0,16 0xff00-0xffff]"]),
        ("@nh,4,4 != 5 drop", &["deny all any > any not [@nh,4,4 0x5]"]),
        ("@ll,48,48 0x20000000001 drop", &["deny all any > any mac 02:00:00:00:00:01"]),
        ("@ll,96,16 0x86dd drop", &["deny all any IPv6 > any"]),
        ("@ll,0,48 1 drop", &["deny all any > any [@ll,0,48]"]),
        ("@ih,0,8 1 drop", &["deny all any > any [@ih,0,8]"]),
        ("@nh,96,32 10.0.0.1 drop", &["deny all any > any [@nh,96,32]"]),
        ("@nh,8,8 & 0xfc == 4 drop", &["deny all any > any [@nh,8,8 under a mask]"]),
        ("vxlan ip saddr 10.0.0.1 drop", &["deny all any > any [vxlan ip saddr]"]),
        ("tcp flags ! syn drop", &["deny tcp any > any flags NONE of SYN"]),
        ("meta mark and 0xff == 1 accept", &["accept all any > any [mark 0x1/0xff]"]),
        ("last used never accept", &["accept all any > any"]),
        (
            "numgen random mod 2 vmap { 0 : accept, 1 : drop }",
            &["accept all any > any [numgen random mod 2]", "deny all any > any [numgen random mod 2]"],
        ),
        (
            "udp dport 53 queue num 0 bypass",
            &["accept udp any > any dport 53 [queue accepts]", "deny udp any > any dport 53"],
        ),
        ("synproxy mss 1460 wscale 7", &["deny all any > any [synproxy takes the packet]"]),
        (
            "add @s { ip saddr ct count over 5 } drop",
            &["deny all any > any [add @s { ip saddr ct count over 5 }]"],
        ),
        // Properties of an iptables rule that nft cannot express.
        (
            "meta l4proto tcp # xt_recent counter packets 1 bytes 2 drop",
            &["deny tcp any > any [xt recent]"],
        ),
        ("xt match \"addrtype\" counter xt target \"ACCEPT\"", &["accept all any > any [xt addrtype]"]),
    ] {
        let policy = load(&chain(&format!("\t\t{rule}")), &Options::default()).unwrap();
        assert_eq!(entries(&policy), expected, "{rule}");
    }
    let unknown = load(&chain("\t\ttcp dport 1 xt target \"HMARK2\""), &Options::default()).unwrap_err();
    assert!(unknown.to_string().contains("iptables-save"), "{unknown}");
}

#[test]
fn json_statements_decide_or_may_match() {
    for (statements, expected) in [
        (r#"{"queue": {"num": 0}}"#, &["accept all any > any [queue accepts]", "deny all any > any"][..]),
        (
            r#"{"xt": {"type": "match", "name": "recent"}}, {"drop": null}"#,
            &["deny all any > any [xt recent]"],
        ),
        (r#"{"synproxy": {"mss": 1460}}"#, &["deny all any > any [synproxy takes the packet]"]),
        (
            r#"{"last": {"used": 5}}, {"secmark": "x"}, {"reset": {"tcp option": {"name": "sack-perm"}}}, {"accept": null}"#,
            &["accept all any > any"],
        ),
        (
            r#"{"match": {"op": "==", "left": {"meta": {"key": "mark"}}, "right": {"ct": {"key": "mark"}}}}, {"drop": null}"#,
            &[r#"deny all any > any [match {""#],
        ),
        (
            r#"{"vmap": {"key": {"numgen": {"mode": "inc", "mod": 2}}, "data": {"set": [[0, {"accept": null}], [1, {"drop": null}]]}}}"#,
            &[r#"accept all any > any [numgen {""#, r#"deny all any > any [numgen {""#],
        ),
        (
            r#"{"set": {"op": "add", "elem": {"payload": {"protocol": "ip", "field": "saddr"}}, "set": "@s", "stmt": [{"ct count": {"val": 5}}]}}, {"drop": null}"#,
            &["deny all any > any [set {"],
        ),
    ] {
        let text = format!(
            r#"{{"nftables": [{{"table": {{"family": "inet", "name": "t"}}}},
            {{"chain": {{"family": "inet", "table": "t", "name": "input", "type": "filter", "hook": "input", "prio": 0, "policy": "accept"}}}},
            {{"rule": {{"family": "inet", "table": "t", "chain": "input", "expr": [{statements}]}}}}]}}"#
        );
        let policy = load(&text, &Options::default()).unwrap();
        let found = entries(&policy);
        // The beginning of the JSON form.
        let alike = found.iter().zip(expected).all(|(found, expected)| found.starts_with(expected));
        assert!(found.len() == expected.len() && alike, "{statements}: {found:?}");
    }
}

#[test]
fn json_errors_have_the_positions_and_commands_of_the_text_form() {
    let table = "{\"nftables\": [\n {\"metainfo\": {\"version\": \"1 \\\"{\"}},\n\
                 {\"table\": {\"family\": \"ip\", \"name\": \"f\"}},\n";
    let chain = |policy: &str| {
        format!(
            " {{\"chain\": {{\"family\": \"ip\", \"table\": \"f\", \"name\": \"input\", \"type\": \"filter\",\n\
             \"hook\": \"input\", \"prio\": 0, \"policy\": {policy}}}}}"
        )
    };
    let rule = |port: u16, verdict: &str| {
        format!(
            "{{\"rule\": {{\"family\": \"ip\", \"table\": \"f\", \"chain\": \"input\", \"comment\": \"rule\",\n\
             \"expr\": [{{\"match\": {{\"op\": \"==\", \"left\": {{\"payload\": {{\"protocol\": \"tcp\",\n\
             \"field\": \"dport\"}}}}, \"right\": {port}}}}}, {{\"{verdict}\": null}}]}}}}"
        )
    };
    let read =
        |rest: &str| load(&format!("{table}{}{rest}\n]}}\n", chain("\"drop\"")), &Options::default());
    let to = |port| packet([10, 0, 0, 1], port, 6);
    let policy = read(&format!(",\n{},\n{}", rule(22, "accept"), rule(23, "accept"))).unwrap();
    assert_eq!([22, 23, 24].map(|port| line(&policy, &to(port))), [6, 9, 4]);
    let inserted =
        read(&format!(",\n{},\n{{\"insert\": {}}}", rule(22, "accept"), rule(22, "drop"))).unwrap();
    assert_eq!(line(&inserted, &to(22)), 9);
    let flushed = read(",\n{\"flush\": {\"ruleset\": null}}").unwrap();
    assert!(flushed.is_empty());
    for (rest, at) in [
        (format!(",\n{},\n{}", rule(22, "accept"), rule(23, "frob")), 9),
        (String::from(",\n{\"delete\": {\"table\": {\"family\": \"ip\", \"name\": \"f\"}}}"), 6),
        (
            String::from(
                ",\n{\"set\": {\"family\": \"ip\", \"table\": \"f\", \"name\": \"s\", \"elem\": [{\"frob\": 1}]}}",
            ),
            6,
        ),
    ] {
        assert_eq!(read(&rest).unwrap_err().errors[0].line, at, "{rest}");
    }
    let wrong = load(&format!("{table}{}\n]}}", chain("\"queue\"")), &Options::default()).unwrap_err();
    assert_eq!(wrong.errors[0].line, 4, "{wrong}");
}

#[test]
fn rules_of_other_hooks_do_not_matter() {
    let text = "table ip nat {\n map back { type mark : ipv4_addr; elements = { 0x1 : 10.0.0.1, 0x2: 10.0.0.2 } }\n\
        map ports { typeof tcp dport : ip daddr . tcp dport; elements = { 80 : 10.0.0.1 . 8080,\n 81 : 10.0.0.2 . 81 } }\n\
        chain prerouting {\n type nat hook prerouting priority dstnat; policy accept;\n\
        ip protocol tcp dnat to ct mark map { 0x1 : 10.0.0.1,\n 0x2 : 10.0.0.2 } comment \"a\"\n dnat to ct mark map @back\n\
        dnat ip to ip saddr map @ports\n nonsense\n}\n}\ntable ip filter {\n chain input {\n\
        type filter hook input priority 0; policy drop;\n tcp dport 22 accept\n}\n}\n";
    let policy = load(text, &Options::default()).unwrap();
    assert_eq!((policy.len(), line(&policy, &packet([1; 4], 22, 6))), (2, 17));
    let errors = load(text, &Options { chain: "prerouting", ..Options::default() }).unwrap_err();
    assert!(errors.errors.len() == 1 && errors.to_string().contains("nonsense"), "{errors}");
    // A map of data is none of verdicts.
    let errors = load(&chain("tcp dport vmap { 22 : 10.0.0.1 }"), &Options::default()).unwrap_err();
    assert!(errors.to_string().contains("map of verdicts"), "{errors}");
}

#[test]
fn chains_in_braces_are_jumped_to() {
    let policy = policy(
        "ct state invalid jump {\n limit rate 10/second log prefix \"a\"\n drop\n}\n\
        tcp dport 22 jump {\n ip saddr 10.0.0.0/8 goto {\n accept\n }\n ip saddr 11.0.0.0/8 return\n drop\n}\n accept",
    );
    for (source, port, expected) in
        [([10, 0, 0, 1], 22, 10), ([11, 0, 0, 1], 22, 15), ([12, 0, 0, 1], 22, 13), ([12, 0, 0, 1], 23, 15)]
    {
        assert_eq!(line(&policy, &packet(source, port, 6)), expected, "{source:?} {port}");
    }
    for (depth, is_read) in [(10, true), (40, false), (100_000, false)] {
        let text = chain(&format!("{}accept\n{}", "jump {\n".repeat(depth), "}\n".repeat(depth)));
        assert_eq!(load(&text, &Options::default()).is_ok(), is_read, "{depth}");
    }
}

#[test]
fn condition_on_the_time_of_day_may_match() {
    for rule in [
        "tcp dport 22 hour \"16:00\" accept",
        "hour 18:00-19:00 accept",
        "meta day != \"Tuesday\" accept",
        "time >= \"2024-05-04 19:00\" day { \"Monday\", \"Friday\" } accept",
    ] {
        let policy = policy(rule);
        let tcp = packet([1; 4], 22, 6);
        let decides =
            |assume| policy.first_match(&tcp, assume).and_then(|id| policy.source(id)).unwrap().line;
        assert_eq!((decides(Assume::Match), decides(Assume::NoMatch)), (4, 3), "{rule}");
    }
}
