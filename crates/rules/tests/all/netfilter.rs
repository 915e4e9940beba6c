//! Constructs of netfilter whose meaning is easily missed: each file decides these packets as the
//! kernel does.
#![cfg(feature = "std")]

use flowloom_classifier::analysis::Oddity;
use flowloom_classifier::{Action, FiveTuple};
use flowloom_flow_key::protocol::{TCP, UDP};
use flowloom_rules::firewall::{
    Assume, CompareDefaults, ConnectionState, Families, Fragment, NetworkBytes, Packet, Policy, Truth,
};
use flowloom_rules::load::{LoadErrors, LoadLimits, LoadOptions, RuleFormat, load, toml};
use flowloom_rules::write;

pub(crate) fn read(text: &str, chain: &str) -> Result<Policy, LoadErrors> {
    let options = LoadOptions { chain: Some(chain.to_owned()), ..LoadOptions::default() };
    load(text, RuleFormat::detect("rules", text), &options)
}

/// Reads rules of a base chain of nft at the hook forward.
fn nft(policy: &str, rules: &str) -> Policy {
    let text = format!(
        "table inet f {{\n chain c {{\n type filter hook forward priority 0; policy {policy};\n{rules}\n }}\n}}\n"
    );
    read(&text, "forward").unwrap_or_else(|errors| panic!("{text}: {errors}"))
}

/// Reads rules of the chain INPUT, after lines that declare further chains.
fn iptables(lines: &str) -> Policy {
    let text = format!("*filter\n:INPUT DROP [0:0]\n{lines}\nCOMMIT\n");
    read(&text, "INPUT").unwrap_or_else(|errors| panic!("{text}: {errors}"))
}

fn packet(from: &str, to: &str, protocol: u8) -> Packet<'static> {
    let (from, to) = (from.parse::<std::net::SocketAddr>(), to.parse::<std::net::SocketAddr>());
    let (from, to) = (from.expect("an address"), to.expect("an address"));
    Packet::new(FiveTuple {
        source: from.ip(),
        destination: to.ip(),
        source_port: from.port(),
        destination_port: to.port(),
        protocol,
    })
}

fn to_port(port: u16, protocol: u8) -> Packet<'static> {
    packet("10.1.0.1:9", &format!("192.0.2.1:{port}"), protocol)
}

/// Returns whether a packet is accepted, which nothing unknown may affect.
fn accepts(policy: &Policy, packet: &Packet<'_>) -> bool {
    let [one, two] = [Assume::Match, Assume::NoMatch].map(|assume| {
        let found = policy.first_match(packet, assume).and_then(|id| policy.set().get(id));
        found.map(|rule| rule.action) != Some(Some(Action::Deny))
    });
    assert_eq!(one, two, "{packet:?} depends on what is unknown");
    one
}

/// Returns whether it depends on what is unknown which entry decides a packet.
fn is_open(policy: &Policy, packet: &Packet<'_>) -> bool {
    policy.outcomes(packet).decided().is_none()
}

#[test]
fn declared_chain_shadows_a_builtin_target() {
    for name in ["ECHO", "LOG", "MARK", "REJECT", "TARPIT", "NFQUEUE"] {
        let policy = iptables(&format!(
            ":{name} - [0:0]\n-A INPUT -p udp -j {name}\n-A INPUT -p tcp -j {name}\n-A {name} -p tcp -j ACCEPT"
        ));
        assert!(accepts(&policy, &to_port(1, TCP)) && !accepts(&policy, &to_port(1, UDP)), "{name}");
    }
    let text = "*filter\n:INPUT DROP [0:0]\n:ACCEPT - [0:0]\nCOMMIT\n";
    assert_eq!(read(text, "INPUT").unwrap_err().errors[0].line, 3);
}

#[test]
fn catch_all_of_a_map_applies_to_values_without_an_element() {
    for (map, port_22, port_23, udp) in [
        ("tcp dport vmap { 22 : continue, * : drop }", true, false, true),
        ("tcp dport vmap { 20-22 : jump b, * : drop }", true, false, true),
        ("tcp dport vmap { * : drop, 22 : return }", true, false, true),
        ("tcp dport vmap { 22 : goto b, * : continue }", true, true, true),
        ("tcp dport vmap { 22 : accept, * : drop }", true, false, true),
        ("ip saddr . tcp dport vmap { 10.1.0.1 . 22 : continue, * : drop }", true, false, true),
        ("meta l4proto vmap { tcp : continue, * : drop }", true, true, false),
        ("tcp dport vmap @m", true, false, true),
    ] {
        let text = format!(
            "table inet f {{\n map m {{ type inet_service : verdict\n elements = {{ 22 : continue, * : drop }} }}\n\
             chain b {{ return\n }}\n chain c {{\n type filter hook forward priority 0; policy accept;\n{map}\n }}\n}}\n"
        );
        let policy = read(&text, "forward").unwrap_or_else(|errors| panic!("{text}: {errors}"));
        let found = [to_port(22, TCP), to_port(23, TCP), to_port(22, UDP)].map(|p| accepts(&policy, &p));
        assert_eq!(found, [port_22, port_23, udp], "{map}");
    }
}

#[test]
fn comparisons_by_order_are_those_of_numbers_and_others_are_undecided() {
    let mut low = packet("10.1.0.4:9", "192.0.2.1:22", TCP);
    (low.ttl, low.dscp, low.ecn, low.length) = (Some(10), Some(10), Some(1), Some(60));
    let mut echo = to_port(0, 1);
    echo.icmp = Some((8, 0));
    let low_v6 = packet("[2001:db8::4]:9", "[2001:db8::9]:22", TCP);
    for (rule, packet, holds) in [
        ("ip saddr < 10.1.0.5", low, true),
        ("ip saddr <= 10.1.0.4", low, true),
        ("ip saddr > 10.1.0.4", low, false),
        ("ip saddr >= 10.1.0.4", low, true),
        ("ip saddr < 10.1.0.0/16", low, false),
        ("ip saddr gt 10.0.0.0/16", low, true),
        ("ip6 saddr > 2001:db8::3", low_v6, true),
        ("ip6 daddr < 2001:db8::9", low_v6, false),
        ("ip protocol < udp", low, true),
        ("meta l4proto >= 17", low, false),
        ("icmp type > 8", echo, false),
        ("icmp type >= 8", echo, true),
        ("icmp code < 1", echo, true),
        ("tcp dport > ssh", low, false),
        ("ip ttl < 11", low, true),
        ("ip dscp >= 11", low, false),
        ("ip ecn < 2", low, true),
        ("ip length > 60", low, false),
        ("meta length <= 60", low, true),
    ] {
        assert_eq!(accepts(&nft("drop", &format!("{rule} accept")), &packet), holds, "{rule}");
    }
    for rule in [
        "ether saddr > 02:00:00:00:00:00",
        "tcp flags > 2",
        "iifname > \"a\"",
        "meta hour < \"08:00\"",
        "meta priority > 5",
        "meta mark < 5",
        "ct mark >= 5",
        "ct state < 4",
        "meta protocol < ip6",
        "ip id > 5",
        "tcp flags & syn > 1",
    ] {
        assert!(is_open(&nft("drop", &format!("{rule} accept")), &low), "{rule}");
    }
}

#[test]
fn commands_have_the_same_effect_as_in_the_kernel() {
    let base =
        "add table inet f\nadd chain inet f c { type filter hook forward priority 0; policy accept; }\n";
    let set = "table inet f {\n set s { type inet_service\n elements = { 22, 80 } }\n chain c {\n\
               type filter hook forward priority 0; policy accept;\n tcp dport @s drop\n }\n}\n";
    for (head, commands, denied) in [
        (set, "", &[22, 80][..]),
        (set, "delete element inet f s { 80 }\n", &[22]),
        (set, "add element inet f s { 81 }\n", &[22, 80, 81]),
        (set, "flush set inet f s\n", &[]),
        (set, "table inet f {\n set s { type inet_service\n elements = { 90 } }\n}\n", &[22, 80, 90]),
        (set, "flush chain inet f c\nadd rule inet f c tcp dport 7 drop\n", &[7]),
        (set, "flush table inet f\n", &[]),
        (set, "delete table inet f\n", &[]),
        (set, "flush ruleset\n", &[]),
        (set, "insert rule inet f c tcp dport 22 accept\n", &[80]),
        (set, "add rule inet f c tcp dport 1 drop; insert rule inet f c tcp dport 1 accept\n", &[22, 80]),
        (base, "add rule inet f c tcp dport 1 accept\nadd rule inet f c tcp dport 1 drop\n", &[]),
        (
            base,
            "add rule inet f c tcp dport 2 drop\ninsert rule inet f c index 0 tcp dport 2 accept\n",
            &[],
        ),
        (
            base,
            "add rule inet f c udp dport 1 drop\nadd rule inet f c tcp dport 3 drop\n\
             add rule inet f c index 0 tcp dport 3 accept\n",
            &[],
        ),
        // The chain has handle 1, and the first rule 2.
        (
            base,
            "add rule inet f c tcp dport 4 drop\nadd rule inet f c tcp dport 5 drop\n\
             delete rule inet f c handle 2\nreplace rule inet f c handle 3 tcp dport 6 drop\n",
            &[6],
        ),
        (
            base,
            "add rule inet f c tcp dport 8 drop\ninsert rule inet f c position 2 tcp dport 8 accept\n",
            &[],
        ),
        (
            "define all = { 7, 8 }\ntable inet f {\n include \"/etc/nftables.d/*.nft\"\n define few = 9\n",
            "chain c {\n type filter hook forward priority 0; policy accept;\n tcp dport $all drop\n\
             tcp dport $few drop\n }\n}\n",
            &[7, 8, 9],
        ),
    ] {
        let text = format!("{head}{commands}");
        let policy = read(&text, "forward").unwrap_or_else(|errors| panic!("{text}: {errors}"));
        let ports = [1, 2, 3, 4, 5, 6, 7, 8, 9, 22, 80, 81, 90];
        let found: Vec<u16> =
            ports.into_iter().filter(|&port| !accepts(&policy, &to_port(port, TCP))).collect();
        assert_eq!(found, denied, "{text}");
        assert_eq!(
            text.contains("include"),
            policy.notes().iter().any(|note| note.text.contains("include"))
        );
    }
    for (commands, part) in [
        ("delete element inet f s { 81 }\n", "no such element"),
        ("delete rule inet f c handle 9\n", "'handle'"),
        ("insert rule inet f c position 4 drop\n", "'position'"),
        ("add rule inet f c index 1 drop\n", "'index'"),
        ("rename chain inet f c d\n", "'rename'"),
        ("reset rules\n", "'reset'"),
        ("include \"/etc/a.nft\"\n", "included files"),
        ("table inet f {\n set t { typeof ip saddr\n colour red\n }\n}\n", "'colour' in a set"),
    ] {
        let errors = read(&format!("{set}{commands}"), "forward").expect_err(commands);
        assert!(errors.to_string().contains(part), "{commands}: {errors}");
    }
}

#[test]
fn protocol_conditions_match_the_headers() {
    let [v4, v6] = [to_port(22, TCP), packet("[2001:db8::1]:9", "[2001:db8::2]:22", TCP)];
    let mut behind_options = v6;
    behind_options.next_header = Some(0);
    for (rule, on_v4, on_v6, behind) in [
        ("ether type 0x800", true, false, false),
        ("ether type 0x0800", true, false, false),
        ("ether type ip6", false, true, true),
        ("meta protocol 2048", true, false, false),
        ("meta protocol 34525", false, true, true),
        ("meta protocol != 0x86dd", true, false, false),
        ("meta protocol { ip, 0x86dd }", true, true, true),
        ("meta protocol arp", false, false, false),
        ("meta nfproto 2", true, false, false),
        ("meta nfproto { 10 }", false, true, true),
        ("ip6 nexthdr tcp", false, true, false),
        ("ip6 nexthdr 0", false, false, true),
        ("ip6 nexthdr != tcp", false, false, true),
        ("ip6 nexthdr >= 6", false, true, false),
        ("meta l4proto tcp", true, true, true),
        ("ip protocol tcp", true, false, false),
    ] {
        let policy = nft("drop", &format!("{rule} accept"));
        let found = [v4, v6, behind_options].map(|packet| accepts(&policy, &packet));
        assert_eq!(found, [on_v4, on_v6, behind], "{rule}");
    }
}

#[test]
fn later_rules_see_written_fields() {
    let with = |dscp: u8, port: u16| {
        let mut packet = to_port(port, TCP);
        (packet.dscp, packet.ttl, packet.ecn) = (Some(dscp), Some(64), Some(0));
        packet
    };
    // Each denies, or not: port 22 with the code point 0 and 46, port 80 with these.
    for (rules, denied) in [
        ("tcp dport 22 ip dscp set 46\n ip dscp 46 drop", [true, true, false, true]),
        ("tcp dport 22 ip dscp set 0\n ip dscp 46 drop", [false, false, false, true]),
        ("tcp dport 22 ip dscp set ef\n ip dscp != 46 drop", [false, false, true, false]),
        ("ip dscp 46 ip dscp set 0\n ip dscp set 1\n ip dscp 1 drop", [true; 4]),
        ("ip dscp 0 ip dscp set 46 accept\n ip dscp 46 drop", [false, true, false, true]),
        ("ip ttl set 5\n ip ttl < 10 tcp dport 80 drop", [false, false, true, true]),
        ("meta mark set 1\n tcp dport 22 meta mark set 2\n meta mark 1 drop", [false, false, true, true]),
        (
            "meta mark set 3\n tcp dport 80 meta mark set mark | 4\n meta mark & 6 == 6 drop",
            [false, false, true, true],
        ),
        ("meta mark set 1\n ct mark set meta mark\n meta mark set 0\n ct mark 1 drop", [true; 4]),
        ("meta mark set 7\n jump b\n meta mark 8 drop", [true, true, false, false]),
    ] {
        let text = format!(
            "table inet f {{\n chain b {{ tcp dport 80 return\n meta mark set 8\n }}\n chain c {{\n\
             type filter hook forward priority 0; policy accept;\n{rules}\n }}\n}}\n"
        );
        let policy = read(&text, "forward").unwrap_or_else(|errors| panic!("{text}: {errors}"));
        let found =
            [(0, 22), (46, 22), (0, 80), (46, 80)].map(|(dscp, port)| !accepts(&policy, &with(dscp, port)));
        assert_eq!(found, denied, "{rules}");
    }
    for (rules, denied) in [
        (
            "-A INPUT -p tcp --dport 22 -j DSCP --set-dscp 0x2e\n-A INPUT -m dscp ! --dscp 46 -j ACCEPT",
            [true, true, false, true],
        ),
        (
            "-A INPUT -j MARK --set-mark 1\n-A INPUT -p tcp --dport 22 -j MARK --set-xmark 0x2/0x2\n-A INPUT -m mark --mark 0x3 -j ACCEPT",
            [false, false, true, true],
        ),
        (
            "-A INPUT -j MARK --set-mark 1\n-A INPUT -p tcp --dport 22 -j MARK --or-mark 6\n-A INPUT -m mark --mark 0x1/0x5 -j ACCEPT",
            [true, true, false, false],
        ),
        (
            "-A INPUT -j MARK --set-mark 5\n-A INPUT -j CONNMARK --save-mark\n-A INPUT -j MARK --set-mark 0\n-A INPUT -m connmark --mark 5 -j ACCEPT",
            [false; 4],
        ),
        ("-A INPUT -j TTL --ttl-set 9\n-A INPUT -m ttl --ttl-lt 10 -j ACCEPT", [false; 4]),
        ("-A INPUT -j TOS --set-tos 0xb8/0xfc\n-A INPUT -m tos --tos 0xb8 -j ACCEPT", [false; 4]),
    ] {
        let policy = iptables(rules);
        let found =
            [(0, 22), (46, 22), (0, 80), (46, 80)].map(|(dscp, port)| !accepts(&policy, &with(dscp, port)));
        assert_eq!(found, denied, "{rules}");
    }
    // A mark from before is unknown, and the value of a header is not.
    assert!(is_open(&nft("drop", "meta mark 1 accept"), &to_port(22, TCP)));
    assert!(is_open(&iptables("-A INPUT -m mark ! --mark 1 -j ACCEPT"), &to_port(22, TCP)));
    assert!(is_open(
        &nft("drop", "meta mark set ip dscp map { 1 : 2 }\n meta mark 2 accept"),
        &to_port(22, TCP)
    ));
    let text = "table inet f {\n chain c {\n type filter hook forward priority 0; policy accept;\n ip daddr set 1.2.3.4\n }\n}\n";
    assert!(read(text, "forward").unwrap_err().to_string().contains("ip daddr set"));
}

#[test]
fn writes_of_an_earlier_base_chain_are_seen_or_unknown() {
    let text = |hook: &str, first: &str, second: &str| {
        format!(
            "table inet f {{\n chain a {{\n type filter hook {hook} priority -10; policy accept;\n{first}\n }}\n\
             chain c {{\n type filter hook forward priority 0; policy accept;\n{second}\n }}\n}}\n"
        )
    };
    let load = |text: &str| read(text, "forward").unwrap_or_else(|errors| panic!("{text}: {errors}"));
    let mut packet = to_port(22, TCP);
    packet.dscp = Some(0);
    let policy = load(&text("forward", "tcp dport 80 accept\n ip dscp set 46", "ip dscp 46 drop"));
    let mut web = to_port(80, TCP);
    web.dscp = Some(0);
    assert!(!accepts(&policy, &packet) && accepts(&policy, &web));
    let policy = load(&text(
        "forward",
        "tcp dport 22 meta mark set 4\n tcp dport 80 meta mark set 5",
        "meta mark 5 drop",
    ));
    assert!(accepts(&policy, &packet) && !accepts(&policy, &web));
    assert!(is_open(&load(&text("prerouting", "ip dscp set 46", "ip dscp 46 drop")), &packet));
    assert!(!is_open(&load(&text("postrouting", "ip dscp set 46", "ip dscp 46 drop")), &packet));
    let saved = "*mangle\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -j DSCP --set-dscp 46\nCOMMIT\n\
                 *filter\n:INPUT ACCEPT [0:0]\n-A INPUT -m dscp --dscp 46 -j DROP\nCOMMIT\n";
    assert!(is_open(&read(saved, "INPUT").expect("a table"), &packet));
}

#[test]
fn numeric_header_fields_are_matched() {
    let mut packet = to_port(22, TCP);
    (packet.ttl, packet.dscp, packet.ecn, packet.length) = (Some(64), Some(46), Some(2), Some(60));
    for (rule, holds) in [
        ("-m ttl --ttl-eq 64", true),
        ("-m ttl --ttl-lt 64", false),
        ("-m ttl --ttl-gt 63", true),
        ("-m ttl ! --ttl-eq 64", false),
        ("-m tos --tos 0xba", true),
        ("-m tos --tos 0xb8/0xfc", true),
        ("-m tos ! --tos 0xba", false),
        ("-m tos --tos 0x10/0x3f", false),
        ("-m ecn --ecn-ip-ect 2", true),
        ("-m ecn ! --ecn-ip-ect 2", false),
        ("-m length --length 60:61", true),
    ] {
        assert_eq!(accepts(&iptables(&format!("-A INPUT {rule} -j ACCEPT")), &packet), holds, "{rule}");
    }
}

#[test]
fn fragments_are_matched_as_by_each_kernel_back_end() {
    // A fragment whose payload looks like ports 9 and 22.
    let mut later = to_port(22, TCP).with_fragment(Fragment::Later);
    later.tcp_flags = Some(2);
    let second = to_port(22, TCP).with_fragment(Fragment::Second);
    let mut known = later;
    known.has_later_bytes = true;
    let rules = nft("drop", "tcp dport 22 accept");
    assert!(accepts(&rules, &known) && is_open(&rules, &later));
    assert!(!accepts(&nft("drop", "tcp dport 23 accept"), &known));
    assert!(accepts(&nft("drop", "tcp dport != 23 accept"), &known));
    assert!(accepts(&nft("drop", "tcp flags syn accept"), &known));
    assert!(!accepts(&nft("drop", "ip frag-off & 0x1fff == 0 tcp dport 22 accept"), &later));
    // Where connections are tracked, no fragments come.
    let mut tracked = later;
    tracked.state = Some(ConnectionState::New);
    assert!(!accepts(&nft("drop", "ct state invalid drop\n tcp dport 22 accept"), &tracked));
    let rules = iptables("-A INPUT -p tcp -m tcp --dport 80 -j ACCEPT\n-A INPUT -p tcp -j ACCEPT");
    assert!(accepts(&rules, &later) && !accepts(&rules, &second));
    let rules = iptables("-A INPUT -p tcp -m multiport --dports 80 -j ACCEPT\n-A INPUT -p tcp -j ACCEPT");
    assert!(accepts(&rules, &later) && accepts(&rules, &second));
    let rules = iptables("-A INPUT -i eth0 -p tcp -m tcp --syn -j ACCEPT\n-A INPUT -j ACCEPT");
    for (input, accepted) in [("eth0", false), ("eth1", true)] {
        let mut packet = second;
        packet.input = Some(input);
        assert_eq!(accepts(&rules, &packet), accepted);
    }
}

#[test]
fn a_conversion_keeps_the_base_chain_or_is_refused() {
    let forward = "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -p tcp -m tcp --dport 22 -j ACCEPT\n\
                   -A FORWARD -p udp -j REJECT --reject-with icmp-host-prohibited\n\
                   -A FORWARD -p tcp -j REJECT --reject-with tcp-reset\nCOMMIT\n";
    let policy = read(forward, "FORWARD").expect("a chain");
    let script = write::nft::write(&policy).expect("nft expresses it");
    for part in [
        "table ip flowloom {",
        "chain FORWARD {\n\t\ttype filter hook forward priority 0; policy drop;",
        "reject with icmp type host-prohibited",
        "reject with tcp reset",
    ] {
        assert!(script.contains(part), "{part}: {script}");
    }
    let back = read(&script, "forward").expect("it is read again");
    let saved = write::iptables::write(&back.clone().without_later_fragments(), Families::V4)
        .expect("iptables expresses it");
    for part in
        [":FORWARD DROP", "-A FORWARD ", "--reject-with icmp-host-prohibited", "--reject-with tcp-reset"]
    {
        assert!(saved.contains(part), "{part}: {saved}");
    }
    let text = write::toml::write(&policy).expect("TOML expresses all");
    let again = toml::load(&text, LoadLimits::default()).expect("it is read again");
    assert_eq!((again.hooks(), write::nft::write(&again).is_ok()), (policy.hooks(), true));
    let compare = |one: &Policy, other: &Policy| {
        one.compare(other, CompareDefaults::default(), 1 << 20, 4).are_equivalent()
    };
    for other in [&back, &again, &read(&saved, "FORWARD").expect("it is read again")] {
        assert_eq!(compare(&policy, other), Some(true));
    }
    let input = read(&forward.replace("FORWARD", "INPUT"), "INPUT").expect("a chain");
    assert_eq!(compare(&policy, &input), Some(false), "other hooks see other packets");

    let mangle = "*mangle\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -s 10.0.0.0/8 -j DROP\nCOMMIT\n";
    let options = |chain: &str| LoadOptions {
        table: Some("mangle".to_owned()),
        chain: Some(chain.to_owned()),
        ..LoadOptions::default()
    };
    let policy = load(mangle, RuleFormat::Iptables, &options("PREROUTING")).expect("a chain");
    assert!(
        write::nft::write(&policy).expect("nft").contains("hook prerouting priority -150; policy accept")
    );
    assert!(
        write::iptables::write(&policy, Families::V4).expect("iptables").contains("*mangle\n:PREROUTING")
    );

    for (text, chain, part) in [
        ("*filter\n:INPUT DROP [0:0]\n:web - [0:0]\n-A web -j ACCEPT\nCOMMIT\n", "web", "no hook leads"),
        (
            "table ip a {\n chain c {\n type filter hook input priority 0; policy drop;\n }\n}\n\
             table ip b {\n chain d {\n type filter hook input priority 9; policy drop;\n }\n}\n",
            "input",
            "several places",
        ),
        (
            "table ip a {\n chain c {\n type nat hook prerouting priority -100\n accept\n }\n}\n",
            "c",
            "type nat",
        ),
        ("*filter\n:INPUT DROP [0:0]\n-A INPUT -p tcp -j NFQUEUE\nCOMMIT\n", "INPUT", "NFQUEUE"),
    ] {
        let policy = read(text, chain).expect(text);
        let refused = write::nft::write(&policy).expect_err(text).to_string();
        assert!(refused.contains(part), "{text}: {refused}");
    }
    let high = "table ip a {\n chain c {\n type filter hook input priority 9; policy drop;\n }\n}\n";
    let policy = read(high, "input").expect("a chain");
    assert!(
        write::nft::write(&policy)
            .expect("nft")
            .contains("chain c {\n\t\ttype filter hook input priority 9; policy drop")
    );
    assert!(
        write::iptables::write(&policy, Families::V4).expect_err("no table").text.contains("priority 9")
    );
}

#[test]
fn rules_that_contradict_the_jumps_to_them_are_listed() {
    for (lines, dead) in [
        (":c0 - [0:0]\n-A INPUT -p tcp -j c0\n-A c0 -p udp -j DROP\n-A c0 -s 10.0.0.0/8 -j DROP", &[5][..]),
        (":c0 - [0:0]\n-A INPUT -s 10.0.0.0/8 -j c0\n-A c0 -s 11.0.0.0/8 -j RETURN\n-A c0 -j ACCEPT", &[5]),
        (":c0 - [0:0]\n:c1 - [0:0]\n-A INPUT -p tcp -j c0\n-A c0 -p udp -j c1\n-A c1 -j ACCEPT", &[6]),
        (":c0 - [0:0]\n-A INPUT -p tcp -j c0\n-A INPUT -p udp -j c0\n-A c0 -p udp -j ACCEPT", &[]),
        // The chain decides all packets of a goto, so nothing returns from it.
        (":c0 - [0:0]\n-A INPUT -p tcp -g c0\n-A c0 -j ACCEPT", &[]),
        (":c0 - [0:0]\n:c1 - [0:0]\n-A INPUT -p tcp -j c0\n-A c0 -p udp -g c1\n-A c1 -j ACCEPT", &[6]),
    ] {
        let policy = iptables(lines);
        let found = policy.check(1 << 20, |_| ());
        let line = |odd: &Oddity| policy.source(odd.rule()).map_or(0, |source| source.line);
        assert_eq!(found.oddities.iter().map(line).collect::<Vec<_>>(), dead, "{lines}");
    }
}

#[test]
fn the_first_difference_is_a_whole_packet() {
    let one = iptables("-A INPUT -p tcp -m tcp --dport 443 -j ACCEPT");
    let two = iptables("-A INPUT -p tcp -j ACCEPT");
    let found = one.compare(&two, CompareDefaults::default(), 1 << 20, 8);
    assert_eq!(found.differences[0].witness.fragment, Fragment::Whole);
    assert!(found.differences.len() > 1 && found.are_equivalent() == Some(false));
    for difference in &found.differences {
        let packet = difference.witness.packet();
        assert_ne!(accepts(&one, &packet), accepts(&two, &packet), "{packet:?}");
    }
}

#[test]
fn bytes_of_the_transport_header_stay_when_a_rule_writes_another() {
    for (asked, open) in [("@th,16,16 22", false), ("@nh,72,8 6", true)] {
        let policy = nft("drop", &format!("ip ttl set 9\n {asked} ct state new accept\n drop"));
        let mut packet = to_port(22, TCP);
        packet.state = Some(ConnectionState::New);
        let captured: &[u8] = &[0; 40];
        packet.network = Some(NetworkBytes { captured, length: 40, transport: 20, is_forwarded: false });
        assert_eq!(is_open(&policy, &packet), open, "{asked}");
    }
}

#[test]
fn mark_condition_is_undecided_until_a_rule_sets_the_mark() {
    let policy = nft("drop", "tcp dport 22 meta mark set 1\n meta mark 1 accept");
    let truths = |port| policy.outcomes(&to_port(port, TCP)).deciders[0].truth;
    assert_eq!((truths(22), truths(23)), (Truth::Yes, Truth::Maybe));
}

#[test]
fn marks_that_many_rules_write_for_different_protocols_are_known() {
    let rules = "meta mark set 0\n meta l4proto udp udp sport != 5000 meta mark set meta mark xor 1\n \
                 meta l4proto tcp tcp dport 1-1024 meta mark 0 accept\n \
                 ip saddr 10.1.0.0/16 udp dport 9 meta mark 1 accept\n \
                 meta l4proto tcp tcp sport 5000-6000 meta mark set 6\n \
                 meta l4proto sctp meta mark != 1 meta mark set 2\n \
                 meta l4proto esp meta mark != 1 meta mark set 1\n \
                 meta l4proto udp meta mark 1 meta mark set 4\n meta mark 1 accept";
    let policy = nft("drop", rules);
    for (port, protocol, is_accepted) in [
        (80, TCP, true),
        (8080, TCP, false),
        (9, UDP, true),
        (53, UDP, false),
        (0, 50, true),
        (0, 132, false),
    ] {
        assert_eq!(accepts(&policy, &to_port(port, protocol)), is_accepted, "{port} {protocol}");
    }
}

#[test]
fn rule_split_into_several_lines_decides_alike() {
    let same = |one: &Policy, other: &Policy, text: &str| {
        let compared = one.compare(other, CompareDefaults::default(), 1 << 22, 4);
        assert_eq!(compared.are_equivalent(), Some(true), "{text}");
    };
    for rule in [
        "icmp type { echo-request, 3, 11 }",
        "icmp type != { 0, 8 }",
        "icmp type . icmp code { 3 . 1-3, 8 . 0 }",
        "iifname { \"eth0\", \"wlan*\" } oifname != { \"a\", \"b\" }",
        "meta l4proto != { tcp, udp }",
        "ip protocol >= 0 ip protocol < 17 ip protocol != 6",
        "ip dscp { 10, 46 } ip ttl 5-9",
        "ip dscp != { 10, 46 } ip ttl != 5-9",
        "meta length { 1-60, 90 }",
        "ip ecn { 1, 3 } ct state { new, established }",
    ] {
        // The state keeps later fragments away, whose ports iptables does not read.
        let policy = nft("drop", &format!("ct state invalid drop\n {rule} accept"));
        let saved = write::iptables::write(&policy, Families::V4).expect(rule);
        let back = read(&saved, "FORWARD").unwrap_or_else(|errors| panic!("{saved}: {errors}"));
        let text = write::toml::write(&policy).expect(rule);
        let v4 =
            toml::load(&text, LoadLimits::default()).unwrap_or_else(|errors| panic!("{text}: {errors}"));
        same(&policy, &v4, &text);
        for port in [22, 80] {
            for protocol in [1, TCP, UDP, 47, 0] {
                let mut packet = to_port(port, protocol);
                (packet.ttl, packet.dscp, packet.ecn, packet.length) =
                    (Some(7), Some(10), Some(1), Some(90));
                (packet.input, packet.output) = (Some("wlan1"), Some("c"));
                (packet.state, packet.icmp) =
                    (Some(ConnectionState::New), (protocol == 1).then_some((3, 2)));
                assert_eq!(accepts(&v4, &packet), accepts(&back, &packet), "{rule}: {packet:?}\n{saved}");
            }
        }
    }
    for rule in [
        "-p tcp -m multiport --ports 22,80:90",
        "-p udp -m multiport ! --ports 53",
        "-s 0.0.0.1/0.0.0.1 -p tcp -m tcp --syn -m tcp ! --tcp-flags ACK,RST RST",
        "-p icmp -m icmp ! --icmp-type 3 -m icmp ! --icmp-type 8",
    ] {
        let policy = iptables(&format!(
            "-A INPUT -m conntrack --ctstate INVALID -j DROP\n-A INPUT {rule} -j ACCEPT"
        ));
        let script = write::nft::write(&policy).expect(rule);
        let back = read(&script, "input").unwrap_or_else(|errors| panic!("{script}: {errors}"));
        same(&policy, &back, &script);
        let text = write::toml::write(&policy).expect(rule);
        let again =
            toml::load(&text, LoadLimits::default()).unwrap_or_else(|errors| panic!("{text}: {errors}"));
        same(&policy, &again, &text);
        let script = write::nft::write(&again).expect("skips that end inside each other are chains");
        same(&policy, &read(&script, "input").expect("it is read again"), &script);
    }
}

#[test]
fn icmp_type_255_means_any_type_only_in_iptables() {
    let mut echo = to_port(0, 1);
    echo.icmp = Some((8, 0));
    let saved = iptables("-A INPUT -p icmp -m icmp --icmp-type 255 -j ACCEPT");
    let script = nft("drop", "icmp type 255 accept").without_later_fragments();
    assert_eq!([&saved, &script].map(|policy| accepts(policy, &echo)), [true, false]);
    assert!(write::iptables::write(&script, Families::V4).unwrap_err().text.contains("type 255"));
    let text = write::toml::write(&script).expect("TOML expresses it");
    let again = toml::load(&text, LoadLimits::default()).expect("it is read again");
    assert!(!accepts(&again, &echo), "{text}");
}

#[test]
fn ports_in_the_payload_of_fragments_are_not_written_for_iptables() {
    let policy = nft("drop", "tcp dport 22 accept");
    let refused = write::iptables::write(&policy, Families::V4).unwrap_err();
    assert!(refused.text.contains("later fragment") && refused.text.contains("--no-later-fragments"));
    let whole = policy.without_later_fragments();
    assert!(write::iptables::write(&whole, Families::V4).is_ok_and(|text| text.contains("--dports 22")));
    let tracked = nft("drop", "ct state invalid drop\n tcp dport 22 accept");
    assert!(write::iptables::write(&tracked, Families::V4).is_ok(), "the kernel reassembles fragments");
    let no_ports = nft("drop", "ip saddr 10.0.0.0/8 accept");
    assert!(write::iptables::write(&no_ports, Families::V4).is_ok());
}

#[test]
fn a_write_of_one_family_leaves_the_other_alone() {
    let [mut v4, mut v6] = [to_port(22, TCP), packet("[2001:db8::1]:9", "[2001:db8::2]:22", TCP)];
    (v4.ttl, v6.ttl, v4.dscp, v6.dscp) = (Some(64), Some(64), Some(0), Some(0));
    for (rules, on_v4, on_v6) in [
        ("ip ttl set 9\n ip ttl 9 drop\n ip6 hoplimit 9 drop", false, true),
        ("meta mark set 1 ip6 dscp set 46\n ip dscp 46 drop\n ip6 dscp 46 drop", true, false),
        ("ip ttl set 9 drop", false, true),
        ("tcp checksum set 0 drop\n meta l4proto tcp accept", false, false),
        ("udp checksum set 0 drop", true, true),
    ] {
        let policy = nft("accept", rules);
        assert_eq!([v4, v6].map(|packet| accepts(&policy, &packet)), [on_v4, on_v6], "{rules}");
    }
}

#[test]
fn comparison_after_the_arguments_of_a_statement_is_applied() {
    for statement in [
        "add @seen { ip saddr }",
        "update @seen { ip saddr . tcp dport }",
        "meta mark set ip dscp",
        "meta mark set meta mark | 4",
        "ip dscp set ef",
        "dup to 192.0.2.9 device \"eth1\"",
        "log prefix \"a\" group 2",
        "counter name \"c\"",
        "tcp flags syn reset tcp option fastopen",
    ] {
        let mut packet = packet("10.1.0.1:9", "192.0.2.1:22", TCP);
        (packet.tcp_flags, packet.dscp, packet.input) = (Some(2), Some(0), Some("b"));
        let mut other = packet;
        other.tuple.destination_port = 23;
        for behind in ["tcp dport 22", "ip daddr 192.0.2.1 th dport 22", "iifname != \"a\" tcp dport 22"] {
            let policy = nft("accept", &format!("{statement} {behind} drop"));
            let found = [packet, other].map(|packet| accepts(&policy, &packet));
            assert_eq!(found, [false, true], "{statement} {behind}");
        }
    }
}

#[test]
fn negated_alternatives_are_written_as_separate_rules() {
    let lines = "-A INPUT -j MARK --set-mark 0\n-A INPUT -i in+ -p tcp -j MARK --set-mark 1\n\
                 -A INPUT -m dscp --dscp 0 -m mark --mark 0 -j MARK --set-mark 1\n\
                 -A INPUT -p tcp -m tcp --sport 5000 -j MARK --set-xmark 0x6/0x7\n\
                 -A INPUT -m conntrack --ctstate ESTABLISHED -m mark --mark 1 -j DROP\n-A INPUT -j ACCEPT";
    let policy = iptables(lines);
    let script = write::nft::write(&policy).expect("nft expresses it");
    let back = read(&script, "input").unwrap_or_else(|errors| panic!("{script}: {errors}"));
    let compared = policy.compare(&back, CompareDefaults::default(), 1 << 22, 4);
    assert_eq!(compared.are_equivalent(), Some(true), "{script}");
}

/// nft reads `tcp flags` behind `ip6 nexthdr 17` as a contradiction.
#[test]
fn next_header_condition_is_written_after_the_transport_header() {
    let policy =
        nft("accept", "meta l4proto 6 tcp flags & 0x12 != 0x2 ip6 nexthdr { 17, 43 } th dport 80 drop");
    let script = write::nft::write(&policy).expect("nft expresses it");
    let at = |part: &str| script.find(part).unwrap_or_else(|| panic!("{script}"));
    assert!(at("tcp flags") < at("ip6 nexthdr") && at("th dport") < at("ip6 nexthdr"), "{script}");
    let back = read(&script, "forward").unwrap_or_else(|errors| panic!("{script}: {errors}"));
    let compared = policy.compare(&back, CompareDefaults::default(), 1 << 22, 4);
    assert_eq!(compared.are_equivalent(), Some(true), "{script}");
}
