//! Verdicts that Linux 6.18 gave with rulesets that nft 1.0.6 loaded.

use super::*;

fn action(policy: &Policy, packet: &Packet<'_>) -> Option<Action> {
    let found = policy.first_match(packet, Assume::NoMatch)?;
    policy.set().get(found)?.action
}

fn table(family: &str, policy: &str, rules: &str) -> String {
    format!(
        "table {family} t_{family} {{\n chain forward {{\n type filter hook forward priority 0; policy {policy};\n{rules}\n }}\n}}\n"
    )
}

fn forwarding(tables: &[String]) -> Policy {
    let options = Options { chain: "hook forward", ..Options::default() };
    load(&tables.concat(), &options).unwrap_or_else(|errors| panic!("{tables:?}\n{errors}"))
}

fn v6(port: u16, protocol: u8) -> Packet<'static> {
    Packet::new(FiveTuple::v6([1; 16], [2; 16], 1024, port, protocol))
}

fn tcp(flags: u8) -> Packet<'static> {
    Packet { tcp_flags: Some(flags), ..packet([10, 0, 0, 1], 22, 6) }
}

#[test]
fn accepted_packets_continue_only_with_chains_of_their_family() {
    let v4 = |port| packet([10, 0, 0, 1], port, 6);
    let ip = || table("ip", "drop", "tcp dport 22 accept");
    let ip6 = || table("ip6", "drop", "tcp dport 53 accept");
    let inet = |rules| table("inet", "accept", rules);
    let (accept, deny) = (Some(Action::Accept), Some(Action::Deny));
    for tables in [
        vec![ip(), ip6()],
        vec![ip6(), ip()],
        vec![inet(""), ip(), ip6()],
        vec![ip6(), inet("tcp dport 7 jump { tcp dport 7 return; }"), ip()],
        vec![ip(), ip6(), inet("tcp dport { 22, 53 } accept")],
    ] {
        let policy = forwarding(&tables);
        let found = [v4(22), v4(53), v6(22, 6), v6(53, 6)].map(|packet| action(&policy, &packet));
        assert_eq!(found, [accept, deny, deny, accept], "{tables:?}");
    }
    let policy = forwarding(&[inet("tcp dport 9 drop\nip saddr 10.0.0.9 accept"), ip()]);
    let found = [v6(9, 6), v6(10, 6), v4(22), v4(9)].map(|packet| action(&policy, &packet));
    assert_eq!(found, [deny, accept, accept, deny]);
    let nine = packet([10, 0, 0, 9], 23, 6);
    assert_eq!(action(&policy, &nine), deny, "the second chain decides on what the first accepts");
}

#[test]
fn later_fragments_meet_the_rules_of_their_family() {
    let v4 = Packet { fragment: Fragment::Later, ..packet([10, 0, 0, 1], 0, 6) };
    let v6 = Packet { fragment: Fragment::Later, ..v6(0, 17) };
    let ip = table("ip", "drop", "ip saddr 10.0.0.2 accept");
    let ip6 = table("ip6", "accept", "");
    let policy = forwarding(core::slice::from_ref(&ip));
    assert_eq!([v4, v6].map(|packet| action(&policy, &packet)), [Some(Action::Deny), None]);
    let policy = forwarding(&[ip, ip6]);
    let found = [v4, v6].map(|packet| action(&policy, &packet));
    assert_eq!(found, [Some(Action::Deny), Some(Action::Accept)]);
}

#[test]
fn set_that_rules_change_is_undecided() {
    for (attributes, rule) in [
        ("", "add @bad { ip saddr }"),
        ("size 65535;", "update @bad { ip saddr timeout 1m }"),
        ("", "tcp dport 99 delete @bad { ip saddr }"),
        ("", "set add ip saddr @bad"),
        ("timeout 1h;", ""),
    ] {
        let set = format!("set bad {{ type ipv4_addr; {attributes} }}\n set badly {{ type ipv4_addr; }}");
        let rules = format!("{rule}\nip saddr @badly drop\nip saddr @bad drop\naccept");
        let text = chain(&rules).replacen("chain input", &format!("{set}\n chain input"), 1);
        let policy = load(&text, &Options::default()).unwrap();
        let found = policy.first_match_or_open(&packet([10, 0, 0, 1], 22, 6), Assume::NoMatch);
        assert!(found.1, "{text}");
    }
    let json = r#"{"nftables": [{"table": {"family": "ip", "name": "f"}},
        {"chain": {"family": "ip", "table": "f", "name": "c", "type": "filter", "hook": "input", "prio": 0}},
        {"set": {"family": "ip", "name": "bad", "table": "f", "type": "ipv4_addr"}},
        {"rule": {"family": "ip", "table": "f", "chain": "c", "expr": [{"set": {"op": "add",
            "elem": {"payload": {"protocol": "ip", "field": "saddr"}}, "set": "@bad"}}]}},
        {"rule": {"family": "ip", "table": "f", "chain": "c", "expr": [{"match": {"op": "==",
            "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": "@bad"}}, {"drop": null}]}}]}"#;
    let policy = load(json, &Options::default()).unwrap();
    assert!(policy.first_match_or_open(&packet([10, 0, 0, 1], 22, 6), Assume::NoMatch).1);
}

#[test]
fn packet_equals_one_state_and_has_one_of_a_list() {
    use crate::firewall::ConnectionState;
    for (comparison, holds) in [
        ("new,established", true),
        ("{ new, established }", true),
        ("== new", true),
        ("!= established", true),
        ("!= { established, related }", true),
        ("== new,established", false),
        ("== (new | established)", false),
        ("!= new,established", true),
        ("!= established,related", true),
        ("!= new", false),
    ] {
        let policy = policy(&format!("ct state {comparison} accept"));
        let packet = Packet { state: Some(ConnectionState::New), ..packet([10, 0, 0, 1], 22, 6) };
        let expected = if holds { Action::Accept } else { Action::Deny };
        assert_eq!(action(&policy, &packet), Some(expected), "{comparison}");
    }
    let policy = policy("ct state vmap { new | established : accept }");
    let packet = Packet { state: Some(ConnectionState::New), ..packet([10, 0, 0, 1], 22, 6) };
    assert_eq!(action(&policy, &packet), Some(Action::Deny));
}

#[test]
fn flags_in_braces_are_alternatives() {
    let (syn, ack, fin) = (2, 0x10, 1);
    assert!(load(&chain("tcp flags & (fin, syn) == syn accept"), &Options::default()).is_err());
    for (comparison, accepted) in [
        ("{ syn | ack, fin }", vec![syn | ack, fin]),
        ("{ (syn | ack), fin }", vec![syn | ack, fin]),
        ("!= { syn | ack, fin }", vec![syn, ack, syn | fin, 0]),
        ("& (syn | ack) == { syn, ack }", vec![syn, ack, syn | fin]),
        ("& (syn | ack) != { syn, ack }", vec![syn | ack, fin, 0]),
        ("& (syn | ack) == { syn }", vec![syn, syn | fin]),
        ("{ syn }", vec![syn, syn | ack, syn | fin]),
        ("!= { syn }", vec![syn | ack, fin, ack, syn | fin, 0]),
        ("syn,ack", vec![syn, ack, syn | ack, syn | fin]),
        ("! syn,ack", vec![0, fin]),
        ("! ack", vec![0, fin, syn, syn | fin]),
    ] {
        let policy = policy(&format!("tcp flags {comparison} accept"));
        for flags in [0, fin, syn, ack, syn | ack, syn | fin] {
            let found = action(&policy, &tcp(flags)) == Some(Action::Accept);
            assert_eq!(found, accepted.contains(&flags), "{comparison}: {flags:#x}");
        }
    }
}

#[test]
fn rule_ends_at_a_map_without_the_key() {
    let port = |port| packet([10, 0, 0, 1], port, 6);
    for (rule, accepted) in [
        ("tcp dport vmap { 80 : drop } accept", vec![]),
        ("tcp dport vmap { 80 : continue } accept", vec![80]),
        ("tcp dport vmap { 22 : continue, 80 : drop, 443 : continue } accept", vec![22, 443]),
        ("tcp dport vmap { 80 : continue } tcp dport vmap { 80 : accept, 22 : accept }", vec![80]),
        ("tcp dport vmap { 80 : drop, * : continue } accept", vec![22, 443]),
        ("tcp dport vmap { 80 : continue } counter log accept", vec![80]),
    ] {
        let policy = policy(rule);
        for number in [22, 80, 443] {
            let found = action(&policy, &port(number)) == Some(Action::Accept);
            assert_eq!(found, accepted.contains(&number), "{rule}: {number}");
        }
    }
    let policy = policy("meta mark set tcp dport map { 80 : 0x1 } accept");
    assert!(policy.first_match_or_open(&port(22), Assume::NoMatch).1);
}

#[test]
fn headers_that_a_packet_lacks_meet_no_comparison() {
    let plain = packet([10, 0, 0, 1], 22, 6);
    let tagged = |vlan| Packet { vlan: Some(vlan), ..plain };
    for (comparison, holds) in
        [("!= 5", [false, false, true]), ("< 6", [false, true, false]), ("5", [false, true, false])]
    {
        let policy = policy(&format!("vlan id {comparison} accept"));
        let found = [0, 5, 9].map(|vlan| action(&policy, &tagged(vlan)) == Some(Action::Accept));
        assert_eq!(found, holds, "{comparison}");
    }
    let zero = policy("vlan id 0 accept");
    assert!(zero.first_match_or_open(&tagged(0), Assume::NoMatch).1);
    // An IPv6 packet that is whole and has a fragment header.
    let atomic = Packet { next_header: Some(44), ..v6(22, 6) };
    let whole = Packet { next_header: Some(6), ..v6(22, 6) };
    for (comparison, holds) in [
        ("exthdr frag exists", [true, false]),
        ("exthdr frag missing", [false, true]),
        ("frag frag-off 0", [true, false]),
    ] {
        let policy = policy(&format!("{comparison} accept"));
        let found = [atomic, whole].map(|packet| action(&policy, &packet) == Some(Action::Accept));
        assert_eq!(found, holds, "{comparison}");
    }
}

#[test]
fn transport_header_is_that_of_any_protocol() {
    let bytes = [0x45, 0, 0, 24, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 1, 192, 0, 2, 1, 8, 0, 0, 53];
    let network =
        crate::firewall::NetworkBytes { captured: &bytes, length: 24, transport: 20, is_forwarded: false };
    let echo = Packet { has_ports: false, network: Some(network), ..packet([10, 0, 0, 1], 0, 1) };
    let udp = packet([10, 0, 0, 1], 53, 17);
    let mut ports_of_icmp = Conditions::default();
    ports_of_icmp.ask_protocol(&Ranges::exact(1));
    assert!(!ports_of_icmp.is_empty());
    ports_of_icmp.ask_port(true, &Ranges::exact(53));
    assert!(ports_of_icmp.is_empty(), "only some protocols have ports");
    for (rule, holds) in [
        ("th dport 53 accept", [true, true]),
        ("th dport != { 22, 53 } accept", [false, false]),
        ("meta l4proto { tcp, udp } th dport 53 accept", [false, true]),
        ("th sport 0x800 accept", [true, false]),
        ("th dport vmap { 53 : accept }", [true, true]),
        ("meta l4proto udp th dport vmap { 53 : accept }", [false, true]),
    ] {
        let policy = policy(rule);
        let found = [echo, udp].map(|packet| action(&policy, &packet) == Some(Action::Accept));
        assert_eq!(found, holds, "{rule}");
    }
}

#[test]
fn variable_is_defined_once_and_ends_with_its_table() {
    let text = |before: &str, inside: &str, port: &str| {
        let base = chain(&format!("tcp dport {port} accept"));
        format!("{before}\n{}", base.replacen("\tchain", &format!("{inside}\n\tchain"), 1))
    };
    let reads = |text: &str| load(text, &Options::default()).is_ok();
    assert!(reads(&text("define p = 22", "define p = 80", "$p")));
    assert!(reads(&text("define p = 22\nredefine p = 80", "", "$p")));
    assert!(reads(&text("define p = 22\nundefine p\ndefine p = 80", "", "$p")));
    assert!(!reads(&text("define p = 22\ndefine p = 80", "", "$p")));
    assert!(!reads(&text("", "define p = 22\ndefine p = 80", "$p")));
    let again = format!(
        "{}{}",
        text("define p = 22", "redefine p = 80", "9"),
        "table inet late {\n chain c { tcp dport $p drop\n }\n}\n"
    );
    let policy = load(&again, &Options { chain: "chain c", ..Options::default() }).unwrap();
    assert_eq!(policy.len(), 1);
    assert_eq!(action(&policy, &packet([1; 4], 22, 6)), Some(Action::Deny), "the value before the table");
    let other = "table inet other {\n define p = 22\n}";
    assert!(!reads(&text(other, "", "$p")), "the variable of another table");
}
