use core::fmt::Write as _;

use super::*;
use crate::firewall::{Assume, ConnectionState, Fragment, Packet};
use flowloom_flow_key::FiveTuple;

fn of_rule(rule: &str) -> Result<Policy, LoadErrors> {
    load(&format!("*filter\n:INPUT DROP [0:0]\n-A INPUT {rule}\nCOMMIT\n"), &Options::default())
}

/// The line that decides a packet.
fn line(policy: &Policy, packet: &Packet<'_>) -> usize {
    let found = policy.first_match(packet, Assume::NoMatch);
    found.and_then(|id| policy.source(id)).map_or(0, |source| source.line)
}

fn tcp(source: [u8; 4], port: u16) -> Packet<'static> {
    Packet::new(FiveTuple::v4(source, [192, 0, 2, 1], 1024, port, 6))
}

#[test]
fn other_tables_and_chains_are_skipped() {
    let text = "*nat\n:INPUT DROP [0:0]\n-A INPUT --what eth0 -j X\nCOMMIT\n*filter\n:OUTPUT DROP [0:0]\n-A OUTPUT -o lo -j X\n\
                :INPUT ACCEPT [1:2]\n-A INPUT -d ::1/128 -p udp --sport :1023 -m comment --comment \"a \\\" -i b\" -j DROP\nCOMMIT\n";
    let policy = load(text, &Options::default()).unwrap();
    assert_eq!(policy.len(), 2);
    let udp = FiveTuple::v6([1; 16], core::net::Ipv6Addr::LOCALHOST.octets(), 1023, 9, 17);
    assert_eq!(line(&policy, &Packet::new(udp)), 9);
    assert_eq!(line(&policy, &Packet::new(FiveTuple { source_port: 1024, ..udp })), 8);
}

#[test]
fn rules_and_chain_policies_keep_their_line_numbers() {
    let text = "# saved\n*filter\n:INPUT DROP [0:0]\n:FORWARD ACCEPT [0:0]\n\n-A INPUT -p tcp -m multiport --dports 80,443 -j ACCEPT\n\
                -A FORWARD -j DROP\n-A INPUT -j REJECT\nCOMMIT\n*nat\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n";
    let policy = load(text, &Options::default()).unwrap();
    assert_eq!(policy.sources().iter().map(|source| source.line).collect::<Vec<_>>(), [6, 8, 3]);
    assert_eq!(policy.set().len(), 4, "a box for each port");
    assert_eq!(
        (chains(text, "filter"), chains(text, "nat")),
        (Vec::from(["INPUT", "FORWARD"]), Vec::from(["OUTPUT"]))
    );
}

#[test]
fn chains_are_traversed_as_in_the_kernel() {
    let text = "*filter\n:INPUT DROP [0:0]\n:lan - [0:0]\n:dmz - [0:0]\n:log - [0:0]\n\
        -A INPUT -s 172.16.0.0/12 -j lan\n-A INPUT -p tcp -m multiport --dports 25,587 -j dmz\n\
        -A INPUT -s 172.20.0.0/16 -g lan\n-A INPUT -p tcp -m tcp --dport 53 -j ACCEPT\n\
        -A lan -p tcp -m tcp --dport 22 -j RETURN\n-A lan -j log\n-A lan -p tcp -j ACCEPT\n\
        -A dmz -s 198.51.100.0/24 -j DROP\n-A dmz -j ACCEPT\n-A log -p udp -j RETURN\n-A log -p udp -j ACCEPT\nCOMMIT\n";
    let policy = load(text, &Options::default()).unwrap();
    for (source, port, expected) in [
        ([172, 16, 0, 1], 22, 2),  // returned, then the policy
        ([172, 16, 0, 1], 23, 12), // accepted in the chain
        ([172, 20, 0, 1], 22, 2),  // returned from both
        ([198, 51, 100, 1], 25, 13),
        ([8, 8, 8, 8], 587, 14),
        ([8, 8, 8, 8], 53, 9),
        ([8, 8, 8, 8], 80, 2),
    ] {
        assert_eq!(line(&policy, &tcp(source, port)), expected, "{source:?}:{port}");
    }
    let mut udp = tcp([172, 16, 0, 1], 9);
    udp.tuple.protocol = 17;
    assert_eq!(line(&policy, &udp), 2, "RETURN from an inner chain goes on in the outer one");
}

#[test]
fn rules_after_a_goto_are_not_reached() {
    let text = "*filter\n:INPUT DROP [0:0]\n:a - [0:0]\n:b - [0:0]\n-A INPUT -j a\n-A INPUT -p tcp --dport 80 -j ACCEPT\n\
                -A a -p tcp -g b\n-A a -j ACCEPT\n-A b -p tcp --dport 22 -j ACCEPT\nCOMMIT\n";
    let policy = load(text, &Options::default()).unwrap();
    let lines = [22, 80, 443].map(|port| line(&policy, &tcp([1; 4], port)));
    assert_eq!(lines, [9, 6, 2], "b goes on where a was called");
}

#[test]
fn cyclic_or_exponentially_growing_chains_are_refused() {
    let circle = "*filter\n:INPUT DROP [0:0]\n:a - [0:0]\n-A INPUT -j a\n-A a -p tcp -j a\nCOMMIT\n";
    let error = load(circle, &Options::default()).unwrap_err();
    assert_eq!(error.errors[0].line, 5, "{error}");
    let mut bomb = String::from("*filter\n:INPUT DROP [0:0]\n-A INPUT -j c0\n");
    for level in 0..14 {
        let _ = writeln!(bomb, ":c{level} - [0:0]");
        for _ in 0..20 {
            let _ = writeln!(bomb, "-A c{level} -j c{}", level + 1);
        }
    }
    bomb.push_str(":c14 - [0:0]\nCOMMIT\n");
    let options =
        Options { limits: LoadLimits { rules_max: 10_000, ..LoadLimits::default() }, ..Options::default() };
    let error = load(&bomb, &options).unwrap_err();
    assert!(error.to_string().contains("more than 10000 rules"), "{error}");
    let missing = load("*filter\n-A INPUT -j nowhere\nCOMMIT\n", &Options::default()).unwrap_err();
    assert_eq!((missing.errors[0].line, missing.errors[0].column), (2, 13), "{missing}");
}

#[test]
fn a_second_table_replaces_the_first() {
    let text = "*filter\n:INPUT DROP [0:0]\n-A INPUT -p tcp --dport 25 -j ACCEPT\nCOMMIT\n\
                *filter\n:INPUT ACCEPT [0:0]\n-A INPUT -s 172.16.0.0/12 -j DROP\nCOMMIT\n";
    let policy = load(text, &Options::default()).unwrap();
    assert_eq!((line(&policy, &tcp([172, 16, 0, 1], 25)), line(&policy, &tcp([9; 4], 25))), (7, 6));
    assert!(
        policy.notes()[0].text.contains("the table at line 5 replaces table filter"),
        "{:?}",
        policy.notes()
    );
}

#[test]
fn iptables_file_applies_only_to_its_address_family() {
    let v6 = Packet::new(FiveTuple::v6([1; 16], [2; 16], 9, 22, 6));
    let v4 = tcp([10, 0, 0, 1], 22);
    let text = "*filter\n:INPUT DROP [0:0]\n-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT\nCOMMIT\n";
    let policy = load(text, &Options::default()).unwrap();
    assert_eq!((line(&policy, &v4), line(&policy, &v6)), (3, 0));
    let said = format!("# Generated by ip6tables-save v1.8.9\n{text}");
    let policy = load(&said, &Options::default()).unwrap();
    assert_eq!((line(&policy, &v4), line(&policy, &v6)), (0, 4));
    let both = format!("# Generated by iptables-save v1.8.9\n{text}{said}");
    let policy = load(&both, &Options::default()).unwrap();
    assert_eq!((line(&policy, &v4), line(&policy, &v6)), (4, 9));
    let asked = Options { families: Some(Families::V6), ..Options::default() };
    assert_eq!(line(&load(text, &asked).unwrap(), &v6), 3);
}

#[test]
fn rules_without_a_verdict_are_skipped_and_listed() {
    let text = "*filter\n:INPUT DROP [0:0]\n-A INPUT -s 198.51.100.0/24\n\
                -A INPUT -m limit --limit 5/sec -j LOG --log-prefix \"-j seen \" --log-level 4\n\
                -A INPUT -p tcp -m tcp --dport 25 -j ACCEPT\nCOMMIT\n";
    let policy = load(text, &Options::default()).unwrap();
    assert_eq!(policy.sources().len(), 2);
    assert_eq!(policy.notes().iter().map(|note| note.line).collect::<Vec<_>>(), [3, 4]);
    assert!(
        policy.undecidable(crate::firewall::Knowledge::default()).is_empty(),
        "a limit on LOG decides nothing"
    );
    assert_eq!(line(&policy, &tcp([198, 51, 100, 7], 25)), 5);
}

#[test]
fn unknowable_test_may_match() {
    let policy =
        of_rule("-p tcp -m tcp --dport 22 -m limit --limit 3/min --limit-burst 5 -j ACCEPT").unwrap();
    let packet = tcp([1; 4], 22);
    let at = |assume| policy.first_match(&packet, assume).and_then(|id| policy.source(id)).map(|s| s.line);
    assert_eq!((at(Assume::Match), at(Assume::NoMatch)), (Some(3), Some(2)));
    let found = policy.outcomes(&packet);
    assert_eq!((found.deciders.len(), found.decided(), found.unmatched), (2, None, None));
    let missing = policy
        .undecidable(crate::firewall::Knowledge { state: true, ..crate::firewall::Knowledge::default() });
    assert_eq!(missing[0].text, "[limit --limit 3/min --limit-burst 5]");
    for rule in [
        "-m recent --update --seconds 60 --hitcount 4 --name SSH --rsource -j DROP",
        "-m owner ! --uid-owner 0 -j DROP",
        "-m set --match-set unknown src -j DROP",
        "-m addrtype --dst-type LOCAL -j DROP",
        "-m string --string \"a -j b\" --algo bm -j DROP",
        "-m hashlimit --hashlimit-upto 5/min --hashlimit-mode srcip --hashlimit-name x -j DROP",
        "-p tcp -m conntrack --ctstate DNAT -j DROP",
        "-m conntrack ! --ctdir REPLY -j DROP",
    ] {
        let policy = of_rule(rule).unwrap_or_else(|error| panic!("{rule}: {error}"));
        assert_eq!(policy.undecidable(crate::firewall::Knowledge::default()).len(), 1, "{rule}");
    }
}

#[test]
fn states_interfaces_flags_and_types_are_matched() {
    let text = "*filter\n:INPUT DROP [0:0]\n-A INPUT -i wl+ -j ACCEPT\n\
                -A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n-A INPUT -m state --state INVALID -j DROP\n\
                -A INPUT -p icmp -m icmp --icmp-type 8 -j ACCEPT\n-A INPUT -p icmp -m icmp --icmp-type 3/4 -j ACCEPT\n\
                -A INPUT -p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN -m tcp ! --dport 25 -j ACCEPT\nCOMMIT\n";
    let policy = load(text, &Options::default()).unwrap();
    let mut packet = tcp([1; 4], 80);
    (packet.input, packet.output, packet.state) = (Some("eth0"), Some(""), Some(ConnectionState::New));
    packet.tcp_flags = Some(2);
    assert_eq!(line(&policy, &packet), 8);
    assert_eq!(line(&policy, &Packet { tcp_flags: Some(0x12), ..packet }), 2);
    assert_eq!(line(&policy, &Packet { input: Some("wlan0"), ..packet }), 3);
    assert_eq!(line(&policy, &Packet { state: Some(ConnectionState::Related), ..packet }), 4);
    assert_eq!(line(&policy, &Packet { state: Some(ConnectionState::Invalid), ..packet }), 5);
    let mut icmp = packet;
    icmp.tuple.protocol = 1;
    icmp.has_ports = false;
    let of_type = |kind, code| line(&policy, &Packet { icmp: Some((kind, code)), ..icmp });
    assert_eq!([of_type(8, 0), of_type(3, 4), of_type(3, 1)], [6, 7, 2]);
}

#[test]
fn rules_on_ports_match_no_later_fragment() {
    let policy = of_rule("-p udp -m udp --sport 0:65535 -j ACCEPT").unwrap();
    let mut packet = tcp([1; 4], 80);
    packet.tuple.protocol = 17;
    assert_eq!(line(&policy, &packet.with_fragment(Fragment::First)), 3);
    assert_eq!(line(&policy, &packet.with_fragment(Fragment::Later)), 2);
    let fragments = of_rule("-f -j ACCEPT").unwrap();
    assert_eq!(line(&fragments, &packet.with_fragment(Fragment::Later)), 3);
    assert_eq!(line(&fragments, &packet), 2);
}

#[test]
fn negations_ranges_masks_and_lists_are_matched() {
    for (rule, inside, outside) in [
        ("! -s 10.0.0.0/8 -j ACCEPT", [11, 0, 0, 1], [10, 1, 1, 1]),
        ("-s ! 10.0.0.0/8 -j ACCEPT", [11, 0, 0, 1], [10, 1, 1, 1]),
        ("-s 10.0.0.0/255.0.255.0 -j ACCEPT", [10, 9, 0, 1], [10, 9, 1, 1]),
        ("-s 10.0.0.9/0.0.0.255 -j ACCEPT", [7, 7, 7, 9], [7, 7, 7, 8]),
        ("-s 10.0.0.1,10.0.0.9 -j ACCEPT", [10, 0, 0, 9], [10, 0, 0, 8]),
        ("-m iprange --src-range 10.0.0.5-10.0.1.9 -j ACCEPT", [10, 0, 1, 9], [10, 0, 1, 10]),
        ("-m iprange ! --src-range 10.0.0.5-10.0.1.9 -j ACCEPT", [10, 0, 1, 10], [10, 0, 1, 9]),
    ] {
        let policy = of_rule(rule).unwrap();
        assert_eq!((line(&policy, &tcp(inside, 1)), line(&policy, &tcp(outside, 1))), (3, 2), "{rule}");
    }
    let lite = of_rule("-p udplite -m multiport ! --dports 1:5,9 -j ACCEPT").unwrap();
    let mut packet = tcp([1; 4], 9);
    packet.tuple.protocol = 136;
    assert_eq!(line(&lite, &packet), 2);
    packet.tuple.destination_port = 8;
    assert_eq!(line(&lite, &packet), 3);
}

#[test]
fn all_problems_are_reported_at_once() {
    let text = "*filter\n:INPUT DROP [0:0]\n-A INPUT -s 10.0.0.0/40 -j DROP\n-A INPUT -p tcp --dport 9:5 -j DROP\n\
                -A INPUT -p tcp -j NOSUCH\n-A OUTPUT -s nonsense -j DROP\nCOMMIT\n";
    let errors = load(text, &Options::default()).unwrap_err();
    assert_eq!(errors.errors.iter().map(|error| error.line).collect::<Vec<_>>(), [3, 4, 5], "{errors}");
    let output = Options { chain: "OUTPUT", ..Options::default() };
    assert_eq!(load(text, &output).unwrap_err().errors[0].line, 6);
}

#[test]
fn other_commands_and_lines_in_no_table_are_errors() {
    for (text, line) in [
        ("*filter\n-R INPUT 1 -j DROP\nCOMMIT\n", 2),
        ("*filter\n-A\nCOMMIT\n", 2),
        ("*filter\n[1:2 -A INPUT -j DROP\nCOMMIT\n", 2),
        ("-P INPUT DROP\n-A INPUT -j ACCEPT\n*nat\nCOMMIT\n", 3),
        ("-P INPUT MAYBE\n", 1),
        ("-P\n", 1),
        ("*filter\n:INPUT DROP\n-A INPTU -j ACCEPT\nCOMMIT\n", 3),
        ("# Generated by iptables-save v1.8.9\n*filter\n-A INPUT -s ::1 -j ACCEPT\nCOMMIT\n", 3),
        ("*filter\n:INPUT DROP [0:0]\nCOMMIT\n-A INPUT -j ACCEPT\n", 4),
        ("\u{feff}*filter\n:INPUT DROP [0:0]\nCOMMIT\n", 1),
        ("*filter\n:INPUT MAYBE [0:0]\nCOMMIT\n", 2),
    ] {
        assert_eq!(load(text, &Options::default()).unwrap_err().errors[0].line, line, "{text}");
    }
    assert!(load("", &Options::default()).unwrap().is_empty());
}

#[test]
fn table_without_commit_is_an_error() {
    let whole =
        "*nat\n-A X -j Y\nCOMMIT\n*filter\n:INPUT DROP [0:0]\n-A INPUT -s 10.0.0.0/8 -j ACCEPT\nCOMMIT\n";
    assert_eq!(load(whole, &Options::default()).unwrap().len(), 2);
    let mut cut = whole;
    while let Some((shorter, _)) = cut.trim_end().rsplit_once('\n') {
        cut = shorter;
        let error = load(cut, &Options::default()).err();
        let line = (!cut.ends_with("COMMIT")).then(|| cut.lines().count());
        assert_eq!(error.map(|errors| errors.errors[0].line), line, "{cut}");
    }
}

#[test]
fn invalid_option_is_reported_with_its_line() {
    for (text, column) in [
        ("-p tcp -j mychain", 20),
        ("-s 10.0.0.0/40 -j DROP", 13),
        ("-s 10.0.0.0/+8 -j DROP", 13),
        ("-p +6 -j DROP", 13),
        ("-p tcp --dport +80 -j DROP", 25),
        ("-p tcp --dport 9:5 -j DROP", 25),
        ("-p tcp --dport warp -j DROP", 25),
        ("--dport 80 -j DROP", 10),
        ("-s 10.0.0.1 -p icmp --sport 80 -j DROP", 30),
        ("-p tcp -m multiport --dports 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16 -j DROP", 75),
        ("-p tcp --dport 1:100 -m multiport --dports 5,200 -j DROP", 44),
        ("--what ever -j DROP", 10),
        ("-s 10.0.0.1 stray -j DROP", 22),
        ("-s", 12),
        ("-p icmp --icmp-type nonsense -j DROP", 30),
        ("-m state --state NEWISH -j DROP", 27),
    ] {
        let errors = of_rule(text).unwrap_err();
        let error = &errors.errors[0];
        assert_eq!((error.line, error.column), (3, column), "{text}: {error}");
    }
}

#[test]
fn ports_have_names_and_ranges_of_names() {
    let policy = of_rule("-p tcp -m multiport --dports ssh,http:kerberos,8443 -j ACCEPT").unwrap();
    let deciders = [22, 80, 88, 8443, 23, 89].map(|port| line(&policy, &tcp([1; 4], port)));
    assert_eq!(deciders, [3, 3, 3, 3, 2, 2]);
    let errors = of_rule("-p tcp -m tcp --dport warp -j ACCEPT").unwrap_err().to_string();
    assert!(errors.contains("the name of one such as ssh"), "{errors}");
}

#[cfg(feature = "std")]
#[test]
fn source_mac_address_is_loaded_matched_and_written() {
    let mac = [2, 0, 0, 0, 0, 9];
    let policy = of_rule("-m mac ! --mac-source 02:00:00:00:00:09 -j ACCEPT").unwrap();
    let from = |source_mac| Packet { source_mac, ..tcp([1; 4], 1) };
    assert_eq!(line(&policy, &from(Some(mac))), 2);
    assert_eq!(line(&policy, &from(Some([1; 6]))), 3);
    assert_eq!(line(&policy, &from(None)), 2, "no Ethernet, no match");
    let nft = crate::write::nft::write(&policy).unwrap();
    assert!(nft.contains("ether saddr != 02:00:00:00:00:09 accept"), "{nft}");
    let again = crate::load::nft::load(&nft, &crate::load::nft::Options::default()).unwrap();
    let accepts = |source_mac| {
        let found = again.first_match(&from(source_mac), Assume::NoMatch);
        found.and_then(|id| again.set().get(id)).unwrap().action == Some(Action::Accept)
    };
    assert_eq!([Some(mac), Some([1; 6]), None].map(accepts), [false, true, false]);
}

#[test]
fn match_option_is_not_an_option_of_the_rule() {
    let text = |rule: &str| {
        let saved = format!("*filter\n:INPUT DROP [0:0]\n-A INPUT {rule}\nCOMMIT\n");
        let policy = load(&saved, &Options::default()).unwrap_or_else(|errors| panic!("{rule}: {errors}"));
        let all: Vec<String> = policy.entries().map(|entry| entry.conditions.to_string()).collect();
        all[..all.len() - 1].join("; ")
    };
    assert_eq!(
        text("-p tcp -m policy --dir in --pol ipsec --proto esp --mode tunnel -j ACCEPT"),
        "tcp any IPv4 > any [policy --dir in --pol ipsec --proto esp --mode tunnel]"
    );
    assert_eq!(text("-m ndpi --proto http -j DROP"), "all any IPv4 > any [ndpi --proto http]");
    assert_eq!(text("--proto esp -j DROP"), "esp any IPv4 > any");
    for (rule, protocol) in [("-p ipcomp", "108"), ("-p mobility-header", "135"), ("-p isis", "124")] {
        assert_eq!(text(&format!("{rule} -j DROP")), format!("{protocol} any IPv4 > any"));
    }
}

#[test]
fn target_decided_by_another_program_may_accept_or_drop() {
    let saved = "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -p tcp -j NFQUEUE --queue-num 0 --queue-bypass\n\
                 -A FORWARD -j SYNPROXY --sack-perm --timestamp --wscale 7 --mss 1460\n\
                 -A FORWARD -j FLOWOFFLOAD --hw\n-A FORWARD -j FULLCONENAT\nCOMMIT\n";
    let policy = load(saved, &Options { chain: "FORWARD", ..Options::default() }).unwrap();
    let verdict = |assume: Assume, protocol: u8| {
        let packet = Packet::new(FiveTuple::v4([10, 0, 0, 1], [192, 0, 2, 1], 9, 80, protocol));
        let found = policy.first_match(&packet, assume).unwrap();
        (policy.source(found).unwrap().line, policy.set().get(found).unwrap().action.unwrap())
    };
    assert_eq!(verdict(Assume::Match, 6), (3, Action::Accept));
    assert_eq!(verdict(Assume::NoMatch, 6), (3, Action::Deny));
    assert_eq!(
        (verdict(Assume::Match, 17), verdict(Assume::NoMatch, 17)),
        ((4, Action::Deny), (6, Action::Accept))
    );
}

#[test]
fn a_listing_of_one_table_is_read() {
    let listed = "-P INPUT DROP\n-P FORWARD ACCEPT -c 0 0\n-N web\n\
                  -A INPUT -p tcp -m tcp --dport 80 -c 12 720 -j web\n-A web -s 203.0.113.0/24 -j DROP\n\
                  -A web -j ACCEPT\n";
    let policy = load(listed, &Options::default()).unwrap();
    let mut packet = tcp([10, 0, 0, 1], 80);
    assert_eq!(line(&policy, &packet), 6);
    packet.tuple.destination_port = 81;
    assert_eq!(line(&policy, &packet), 1);
    assert_eq!(chains(listed, "filter"), ["INPUT", "FORWARD", "web"]);
    let nat = Options { table: "nat", chain: "FORWARD", ..Options::default() };
    assert_eq!(line(&load(listed, &nat).unwrap(), &packet), 2);
    let v6 = load("-P INPUT DROP\n-A INPUT -s 2001:db8::/32 -j ACCEPT\n", &Options::default()).unwrap();
    assert_eq!(line(&v6, &packet), 0, "the rules are for IPv6");
}

#[test]
fn inserted_rules_take_their_given_positions() {
    let text = "*filter\n:INPUT DROP [0:0]\n:old - [0:0]\n-A old -j NOTHING\n-A INPUT -p udp -j ACCEPT\n-F\n-X old\n-Z\n\
        -A INPUT -p tcp --dport 80 -j ACCEPT\n-A INPUT -j LOG\n-A INPUT -p tcp --dport 22 -j ACCEPT\n\
        -I INPUT -s 10.0.0.0/8 -j DROP\n-I INPUT 2 -s 11.0.0.0/8 -j ACCEPT\n-I INPUT 5 -p tcp -j NFQUEUE\n\
        -I INPUT 7 -p tcp --dport 9 -j ACCEPT\nCOMMIT\n";
    let policy = load(text, &Options::default()).unwrap();
    let lines: Vec<usize> = policy.sources().iter().map(|source| source.line).collect();
    assert_eq!(lines, [12, 13, 9, 14, 14, 11, 15, 2]);
    for (rule, part) in [
        ("-I INPUT 0 -j DROP", "no place 0"),
        ("-I INPUT 3 -j DROP", "has 1 rules above"),
        ("-I web -j DROP", "declares the chain 'web'"),
        ("-F web", "declares the chain 'web'"),
        ("-D INPUT 1", "iptables-save"),
    ] {
        let text = format!("*filter\n:INPUT DROP [0:0]\n-A INPUT -j ACCEPT\n{rule}\nCOMMIT\n");
        let errors = load(&text, &Options::default()).unwrap_err();
        assert_eq!(errors.errors[0].line, 4, "{rule}: {errors}");
        assert!(errors.to_string().contains(part), "{rule}: {errors}");
    }
}

#[test]
fn a_match_without_its_options_is_an_error() {
    for rule in [
        "-m state -j ACCEPT",
        "-m conntrack -p tcp --dport 22 -j ACCEPT",
        "-p tcp -m multiport -j DROP",
        "-m length -j DROP",
        "-m length --length 4:3 -j DROP",
        "-m length --length 0:65536 -j DROP",
        "-m mac -m state --state NEW -j DROP",
    ] {
        assert!(of_rule(rule).is_err(), "{rule}");
    }
    for rule in [
        "-m state -m tcp -p tcp --dport 22 --state NEW -j DROP",
        "-ptcp --dport=22 -m conntrack --ctproto 6 -jDROP",
    ] {
        of_rule(rule).unwrap_or_else(|errors| panic!("{rule}: {errors}"));
    }
}

#[test]
fn very_many_insertions_end_in_an_error() {
    let text =
        format!("*filter\n:INPUT DROP [0:0]\n{}COMMIT\n", "-I INPUT -s 10.0.0.1 -j DROP\n".repeat(6_000));
    let errors = load(&text, &Options::default()).unwrap_err();
    assert!(errors.to_string().contains("moved by -I"), "{errors}");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
    #[test]
    fn insertions_behave_as_in_a_plain_list(places in proptest::collection::vec(proptest::prelude::any::<(u8, bool, bool)>(), 0..40)) {
        let (mut text, mut kernel) = (String::from("*filter\n:INPUT DROP [0:0]\n"), Vec::new());
        for (index, (place, is_inserted, is_passed)) in places.into_iter().enumerate() {
            let line = index + 3;
            let place = if is_inserted { usize::from(place) % (kernel.len() + 1) } else { kernel.len() };
            if is_inserted {
                write!(text, "-I INPUT {}", place + 1).unwrap();
            } else {
                text.push_str("-A INPUT");
            }
            writeln!(text, " -s 10.0.0.{index} -j {}", if is_passed { "LOG" } else { "DROP" }).unwrap();
            kernel.insert(place, (line, is_passed));
        }
        text.push_str("COMMIT\n");
        let policy = load(&text, &Options::default()).unwrap();
        let found: Vec<usize> = policy.sources().iter().map(|source| source.line).collect();
        let mut expected: Vec<usize> =
            kernel.into_iter().filter(|(_, is_passed)| !is_passed).map(|(line, _)| line).collect();
        expected.push(2);
        proptest::prop_assert_eq!(found, expected);
    }
}

#[test]
fn targets_of_another_table_are_refused() {
    let read = |table: &str, head: &str, target: &str| {
        let text =
            format!("*{table}\n:PREROUTING DROP [0:0]\n{head}-A PREROUTING -p tcp -j {target}\nCOMMIT\n");
        load(&text, &Options { table, chain: "PREROUTING", ..Options::default() })
    };
    for (target, table) in [
        ("MASQUERADE", "nat"),
        ("SNAT --to-source 192.0.2.1", "nat"),
        ("DNAT --to-destination 192.0.2.1", "nat"),
        ("REDIRECT --to-ports 80", "nat"),
        ("NETMAP --to 192.0.2.0/24", "nat"),
        ("TPROXY --on-port 80", "mangle"),
    ] {
        for other in ["filter", "mangle", "raw", "security", "nat"] {
            let found = read(other, "", target);
            assert_eq!(found.is_ok(), other == table, "{target} in {other}");
            let errors = found.err().map_or(String::new(), |errors| errors.to_string());
            assert!(other == table || errors.contains("only in the table"), "{errors}");
        }
    }
    // A chain of this name is no target.
    assert!(read("filter", ":DNAT - [0:0]\n", "DNAT").is_ok());
}

#[test]
fn set_that_rules_change_is_undecided() {
    let sets = super::super::ipset::parse(
        "create bad hash:ip\ncreate good hash:ip\nadd good 10.0.0.9\ncreate all list:set\nadd all bad\n",
        LoadLimits::default(),
    )
    .unwrap();
    for (rule, set, is_open) in [
        ("-p tcp --dport 99 -j SET --add-set bad src", "bad", true),
        ("-j SET --del-set bad dst", "bad", true),
        ("-j SET --add-set bad src", "all", true),
        ("-j SET --add-set bad src", "good", false),
        ("-j ACCEPT", "bad", false),
    ] {
        let text = format!(
            "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -s 10.0.0.7 {rule}\n-A INPUT -m set --match-set {set} src -j DROP\nCOMMIT\n"
        );
        let policy = load(&text, &Options { sets: &sets, ..Options::default() }).unwrap();
        let packet = Packet::new(FiveTuple::v4([10, 0, 0, 1], [192, 0, 2, 1], 1024, 22, 6));
        assert_eq!(policy.first_match_or_open(&packet, Assume::NoMatch).1, is_open, "{text}");
    }
}

#[test]
fn a_match_of_another_protocol_than_the_rule_is_refused() {
    for (rule, part) in [
        ("-p udp -m tcp --dport 53 -j ACCEPT", "the match 'tcp' requires -p tcp"),
        ("-p tcp -m udp -j ACCEPT", "the match 'udp' requires -p udp"),
        ("-p udplite -m udp --dport 53 -j ACCEPT", "the match 'udp' requires -p udp"),
        ("-m icmp --icmp-type 8 -j ACCEPT", "the match 'icmp' requires -p icmp"),
        ("! -p icmp -m icmp --icmp-type 8 -j ACCEPT", "requires -p icmp"),
        ("-p udp --syn -j ACCEPT", "the option '--syn' requires -p tcp"),
        ("-p tcp --icmp-type 8 -j ACCEPT", "the option '--icmp-type' requires -p icmp"),
        ("-p icmpv6 --icmpv6-type any -j ACCEPT", "expected an ICMP type"),
    ] {
        let message = of_rule(rule).unwrap_err().to_string();
        assert!(message.contains(part), "{rule}: {message}");
    }
    for rule in [
        "-m tcp -p TCP --dport 53 -j ACCEPT",
        "-p icmp --icmp-type any -j ACCEPT",
        "-p sctp -m multiport --dports 53 -j ACCEPT",
        "-p ipv6-icmp -m icmp6 --icmpv6-type 128 -j ACCEPT",
    ] {
        assert!(of_rule(rule).is_ok(), "{rule}");
    }
}
