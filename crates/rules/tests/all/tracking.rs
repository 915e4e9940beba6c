//! Which packets rules leave untracked, before connection tracking and after it.
#![cfg(feature = "std")]

use flowloom_classifier::FiveTuple;
use flowloom_rules::firewall::{
    Assume, CompareDefaults, ConnectionState, Families, Knowledge, Packet, Policy, Truth,
};
use flowloom_rules::write;

const KNOWN: Knowledge =
    Knowledge { headers: true, state: true, input: false, output: true, frame: true, mac: true };

fn read(text: &str, chain: &str) -> Policy {
    super::netfilter::read(text, chain).unwrap_or_else(|errors| panic!("{text}: {errors}"))
}

/// Returns a file of iptables with rules of the chain PREROUTING of the table raw.
fn with_raw(raw: &str) -> String {
    format!(
        "*raw\n:PREROUTING ACCEPT [0:0]\n:own - [0:0]\n{raw}\nCOMMIT\n*filter\n:INPUT ACCEPT [0:0]\n\
         -A INPUT -m conntrack --ctstate NEW -j DROP\nCOMMIT\n"
    )
}

fn udp(port: u16) -> Packet<'static> {
    Packet::new(FiveTuple::v4([10, 0, 0, 1], [192, 0, 2, 1], 1024, port, 17))
}

#[test]
fn raw_table_rules_select_untracked_packets() {
    use Truth::{Maybe, No, Yes};
    for (raw, [at_53, at_54]) in [
        ("-A PREROUTING -p udp --dport 53 -j NOTRACK", [Yes, No]),
        ("-A PREROUTING -p udp --dport 53 -j CT --notrack", [Yes, No]),
        ("-A PREROUTING -p udp --dport 53 -j ACCEPT\n-A PREROUTING -j CT --notrack", [No, Yes]),
        ("-A PREROUTING -p udp --dport 53 -j CT --zone 1\n-A PREROUTING -j NOTRACK", [No, Yes]),
        ("-A PREROUTING -p udp -j own\n-A own -p udp --dport 54 -j RETURN\n-A own -j NOTRACK", [Yes, No]),
        ("-A PREROUTING -p tcp -j NOTRACK", [No, No]),
        ("-A PREROUTING -m limit --limit 1/s -j NOTRACK", [Maybe, Maybe]),
        ("-A OUTPUT -p udp -j NOTRACK", [No, No]),
        ("-A PREROUTING -j LOG", [No, No]),
        (":NOTRACK - [0:0]\n-A PREROUTING -j NOTRACK", [No, No]),
    ] {
        let policy = read(&with_raw(raw), "INPUT");
        assert_eq!([53, 54].map(|port| policy.untracks(&udp(port))), [at_53, at_54], "{raw}");
    }
    let main = "chain c {\n type filter hook forward priority 0\n ct state new drop\n }\n";
    for (chain, [at_53, at_54]) in [
        ("type filter hook prerouting priority raw\n udp dport 53 notrack", [Yes, No]),
        ("type filter hook prerouting priority raw\n udp dport 53 accept\n notrack", [No, Yes]),
        ("type filter hook prerouting priority raw\n udp dport vmap { 53 : jump n }", [Yes, No]),
        ("type filter hook prerouting priority -10\n notrack", [No, No]),
        ("type filter hook output priority raw\n notrack", [No, No]),
        ("type filter hook prerouting priority raw\n meta mark 1 notrack", [Maybe, Maybe]),
        ("type filter hook prerouting priority raw\n oifname \"a\" notrack", [No, No]),
    ] {
        let text =
            format!("table inet f {{\n chain n {{\n notrack\n }}\n chain b {{\n {chain}\n }}\n {main}}}\n");
        let policy = read(&text, "forward");
        assert_eq!([53, 54].map(|port| policy.untracks(&udp(port))), [at_53, at_54], "{chain}");
    }
    let without_states = with_raw("-A PREROUTING -j NOTRACK").replace("-m conntrack --ctstate NEW", "");
    assert_eq!(read(&without_states, "INPUT").untracks(&udp(53)), No);
}

#[test]
fn connection_states_may_depend_on_the_interface() {
    let policy = read(&with_raw("-A PREROUTING -i lo -j NOTRACK"), "INPUT");
    let open = policy.undecidable(KNOWN);
    assert_eq!(open.len(), 1);
    assert!(open[0].text.contains("NEW") && open[0].text.contains("lo"), "{}", open[0].text);
    assert!(policy.undecidable(Knowledge { input: true, ..KNOWN }).is_empty());
    let packet = |input| {
        let mut packet = udp(53);
        packet.input = Some(input);
        packet
    };
    assert_eq!(["lo", "eth0"].map(|input| policy.untracks(&packet(input))), [Truth::Yes, Truth::No]);
}

#[test]
fn policies_that_track_other_packets_are_not_equivalent_and_not_written() {
    let [one, other, none] = ["--dport 53", "--dport 54", "--dport 53:52"].map(|ports| {
        let raw = if ports.ends_with(":52") {
            String::new()
        } else {
            format!("-A PREROUTING -p udp {ports} -j NOTRACK")
        };
        read(&with_raw(&raw), "INPUT")
    });
    let are =
        |a: &Policy, b: &Policy| a.compare(b, CompareDefaults::default(), 1 << 20, 1).are_equivalent();
    assert_eq!(
        [are(&one, &one), are(&one, &other), are(&none, &one)],
        [Some(true), Some(false), Some(false)]
    );
    for text in
        [write::nft::write(&one), write::iptables::write(&one, Families::V4), write::toml::write(&one)]
    {
        assert!(text.is_err_and(|error| error.text.contains("notrack")));
    }
    let smaller = one.minimised(1 << 20).expect("a small policy").policy;
    assert_eq!(smaller.untracks(&udp(53)), Truth::Yes);
}

fn in_state(port: u16, state: ConnectionState) -> Packet<'static> {
    let mut packet = udp(port);
    packet.state = Some(state);
    packet
}

#[test]
fn after_tracking_only_packets_without_a_connection_become_untracked() {
    let text = "table inet f {\n chain c {\n type filter hook forward priority 0; policy accept;\n\
                udp dport 53 notrack\n ct state invalid drop\n }\n}\n";
    let policy = read(text, "forward");
    for (port, state, is_denied) in [
        (53, ConnectionState::Invalid, false),
        (53, ConnectionState::New, false),
        (54, ConnectionState::Invalid, true),
    ] {
        let packet = in_state(port, state);
        let found = policy.first_match(&packet, Assume::NoMatch).and_then(|id| policy.source(id));
        assert_eq!(found.is_some_and(|source| source.line == 5), is_denied, "{port} {state:?}");
    }
    let untracked = text.replace("invalid drop", "untracked drop");
    let packet = in_state(53, ConnectionState::Invalid);
    let policy = read(&untracked, "forward");
    let found = policy.first_match(&packet, Assume::NoMatch).and_then(|id| policy.source(id));
    assert_eq!(found.map(|source| source.line), Some(5));
    // Chains between connection tracking and the hook are not followed.
    let between = format!(
        "table inet g {{\n chain e {{\n type filter hook prerouting priority -150\n notrack\n }}\n}}\n{}",
        text.replace("udp dport 53 notrack", "")
    );
    let policy = read(&between, "forward");
    for (state, is_open) in [(ConnectionState::Invalid, true), (ConnectionState::New, false)] {
        assert_eq!(policy.outcomes(&in_state(53, state)).decided().is_none(), is_open, "{state:?}");
    }
    // Before connection tracking, no packet has a connection.
    let early = untracked.replace("forward priority 0", "prerouting priority raw");
    let policy = read(&early, "prerouting");
    for (port, line) in [(53, 5), (54, 3)] {
        let found = policy.first_match(&udp(port), Assume::NoMatch).and_then(|id| policy.source(id));
        assert_eq!(found.map(|source| source.line), Some(line));
    }
}
