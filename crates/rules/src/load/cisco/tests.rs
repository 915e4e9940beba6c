use super::*;
use crate::firewall::{Assume, Packet};
use crate::rule::Action;
use flowloom_flow_key::FiveTuple;

fn line(policy: &Policy, packet: &Packet<'_>) -> usize {
    let found = policy.first_match(packet, Assume::NoMatch);
    found.and_then(|id| policy.source(id)).map_or(0, |source| source.line)
}

fn accepted(policy: &Policy, packet: &Packet<'_>) -> bool {
    let found = policy.first_match(packet, Assume::NoMatch).and_then(|id| policy.set().get(id));
    found.unwrap().action == Some(Action::Accept)
}

fn tcp(source: [u8; 4], port: u16, flags: u8) -> Packet<'static> {
    let mut packet = Packet::new(FiveTuple::v4(source, [192, 0, 2, 1], 1024, port, 6));
    packet.tcp_flags = Some(flags);
    packet
}

#[test]
fn wildcards_established_and_implicit_deny_match_the_device() {
    let text = "!\nip access-list extended BORDER\n remark web\n 10 permit tcp 172.16.0.9 0.0.255.0 any eq www 8443\n\
                \x20deny tcp any any range 6000 6063\n permit tcp any any established log\n permit icmp any any echo\n\
                interface GigabitEthernet0\n ip address 192.0.2.1 255.255.255.0\n";
    let policy = load(text, None, LoadLimits::default()).unwrap();
    assert_eq!(line(&policy, &tcp([172, 16, 77, 9], 8443, 2)), 4);
    assert_eq!(line(&policy, &tcp([172, 16, 77, 8], 8443, 2)), 2, "the implicit end");
    assert_eq!(line(&policy, &tcp([172, 16, 77, 8], 8443, 0x10)), 6);
    assert_eq!(line(&policy, &tcp([8; 4], 6001, 0x10)), 5);
    let mut echo = tcp([8; 4], 0, 0);
    (echo.tuple.protocol, echo.icmp, echo.has_ports) = (1, Some((8, 0)), false);
    assert_eq!(line(&policy, &echo), 7);
    let six = Packet::new(FiveTuple::v6([1; 16], [2; 16], 9, 80, 6));
    assert_eq!(line(&policy, &six), 0, "a list of IPv4 decides no packet of IPv6");
}

#[test]
fn numbered_lists_and_those_of_an_asa_are_read() {
    let text = "access-list 10 permit 10.0.0.0 0.255.255.255\naccess-list 10 deny any\n\
        access-list 101 deny udp any host 192.0.2.1 gt 1023\naccess-list 101 permit ip any any\n\
        object network dmz\n subnet 192.0.2.0 255.255.255.0\nobject-group service web tcp\n port-object eq https\n port-object range 8000 8010\n\
        access-list OUT remark x\naccess-list OUT extended permit tcp 10.0.0.0 255.0.0.0 object dmz object-group web log\n\
        access-list OUT extended deny ip any4 any6 inactive\naccess-list OUT extended deny ip any any\n";
    assert!(is_cisco(text));
    assert_eq!(lists(text), ["10", "101", "OUT"]);
    assert!(load(text, None, LoadLimits::default()).unwrap_err().to_string().contains("10, 101, OUT"));
    let loaded = |name: &str| load(text, Some(name), LoadLimits::default()).unwrap();
    assert_eq!(
        (line(&loaded("10"), &tcp([10, 1, 1, 1], 1, 2)), line(&loaded("10"), &tcp([11, 1, 1, 1], 1, 2))),
        (1, 2)
    );
    let mut udp = tcp([9; 4], 1024, 0);
    udp.tuple.protocol = 17;
    assert_eq!((line(&loaded("101"), &udp), line(&loaded("101"), &tcp([9; 4], 1024, 2))), (3, 4));
    assert_eq!(line(&loaded("OUT"), &tcp([10, 1, 1, 1], 8005, 2)), 11);
    assert_eq!(line(&loaded("OUT"), &tcp([10, 1, 1, 1], 8011, 2)), 13);
}

#[test]
fn every_invalid_entry_is_reported_with_its_line() {
    let text = "ip access-list extended A\n permit tcp any any eq nosuch\n permit xyz any any\n allow ip any any\n\
                \x20permit icmp any any eq 5\n permit tcp any\n permit tcp any any strange\n";
    let errors = load(text, None, LoadLimits::default()).unwrap_err();
    let places: Vec<(usize, usize)> = errors.errors.iter().map(|e| (e.line, e.column)).collect();
    assert_eq!(places, [(2, 24), (3, 9), (4, 2), (5, 22), (6, 16), (7, 21)], "{errors}");
}

#[test]
fn entries_name_groups_of_services_protocols_and_icmp_types() {
    let text = "name 10.20.0.5 mailer\n\
        object network RELAYS\n range 198.51.100.10 198.51.100.20\n\
        object-group network ALL\n network-object host mailer\n network-object 192.0.2.96 255.255.255.240\n group-object RELAYS\n\
        object service ALT\n service tcp source range 1024 65535 destination eq 8443\n\
        object-group service MIX\n service-object tcp destination eq ssh\n service-object udp destination range 500 4500\n service-object esp\n service-object icmp echo\n\
        object-group protocol BOTH\n protocol-object tcp\n protocol-object udp\n\
        object-group icmp-type PINGS\n icmp-object echo-reply\n icmp-object 13\n\
        object network CLOUD\n fqdn www.example.net\n\
        access-list OUT extended permit object-group MIX host 203.0.113.4 object-group ALL\n\
        access-list OUT extended permit object ALT any host mailer\n\
        access-list OUT extended deny object-group BOTH any any range 1 1023\n\
        access-list OUT extended permit icmp any any object-group PINGS\n\
        access-list BAD extended permit ip any object CLOUD\naccess-list BAD extended permit ip any object NONE\n";
    let policy = load(text, Some("OUT"), LoadLimits::default()).unwrap();
    let decides = |from: [u8; 4], to: [u8; 4], ports: (u16, u16), protocol: u8| {
        line(&policy, &Packet::new(FiveTuple::v4(from, to, ports.0, ports.1, protocol)))
    };
    let partner = [203, 0, 113, 4];
    let mix = 23;
    for to in [[10, 20, 0, 5], [192, 0, 2, 111], [198, 51, 100, 10], [198, 51, 100, 20]] {
        assert_eq!(decides(partner, to, (1, 22), 6), mix);
        assert_eq!(decides(partner, to, (1, 4500), 17), mix);
        assert_eq!(decides(partner, to, (0, 0), 50), mix);
        assert_eq!(decides(partner, to, (1, 500), 6), mix + 2, "the port is that of the other protocol");
        assert_eq!(decides([203, 0, 113, 5], to, (1, 22), 6), mix + 2);
    }
    assert_eq!(decides(partner, [192, 0, 2, 112], (1, 22), 6), mix + 2);
    assert_eq!(decides([8; 4], [10, 20, 0, 5], (1024, 8443), 6), mix + 1);
    assert_eq!(decides([8; 4], [10, 20, 0, 5], (1023, 8443), 6), mix, "the implicit end");
    let mut stamp = Packet::new(FiveTuple::v4([8; 4], [9; 4], 0, 0, 1));
    stamp.icmp = Some((13, 0));
    assert_eq!(line(&policy, &stamp), mix + 3);
    stamp.icmp = Some((8, 0));
    assert_eq!(line(&policy, &stamp), mix, "the implicit end");
    let errors = load(text, Some("BAD"), LoadLimits::default()).unwrap_err();
    let places: Vec<usize> = errors.errors.iter().map(|error| error.line).collect();
    assert_eq!(places, [22, 28], "{errors}");
}

#[test]
fn sequence_numbers_order_the_entries() {
    let text = "ip access-list extended A\n 10 permit tcp any any eq 22\n 5 deny tcp host 10.1.1.1 any\n\
                \x20permit udp any any\n";
    let policy = load(text, None, LoadLimits::default()).unwrap();
    assert_eq!(line(&policy, &tcp([10, 1, 1, 1], 22, 2)), 3);
    assert_eq!(line(&policy, &tcp([10, 1, 1, 2], 22, 2)), 2);
}

#[test]
fn interface_keyword_means_the_address_of_its_section() {
    let text = "interface Ethernet0\n nameif outside\n ip address 192.0.2.1 255.255.255.0\n\
        interface Ethernet1\n nameif dmz\n ip address dhcp setroute\nip address inside 10.0.0.1 255.0.0.0\n\
        access-list A remark the implicit end has the first line\n\
        access-list A permit tcp any interface outside eq 22\n\
        access-list A permit igrp any interface inside\n\
        access-list A permit icmp any interface dmz host-precedence-unreachable\n";
    let policy = load(text, Some("A"), LoadLimits::default()).unwrap();
    let decides = |to: [u8; 4], port: u16, protocol: u8, icmp, assume| {
        let mut packet = Packet::new(FiveTuple::v4([8; 4], to, 1, port, protocol));
        packet.icmp = icmp;
        policy.first_match(&packet, assume).and_then(|id| policy.source(id)).unwrap().line
    };
    let end = 8;
    assert_eq!(decides([192, 0, 2, 1], 22, 6, None, Assume::NoMatch), 9);
    assert_eq!(decides([192, 0, 2, 2], 22, 6, None, Assume::Match), end);
    assert_eq!(decides([10, 0, 0, 1], 0, 9, None, Assume::NoMatch), 10);
    assert_eq!(decides([172, 16, 0, 1], 0, 1, Some((3, 14)), Assume::Match), 11);
    assert_eq!(decides([172, 16, 0, 1], 0, 1, Some((3, 14)), Assume::NoMatch), end);
    assert_eq!(decides([172, 16, 0, 1], 0, 1, Some((3, 15)), Assume::Match), end);
}

/// Returns the error of a text with a list, by lines and a part of the message.
fn refused(text: &str, list: &str) -> (Vec<usize>, String) {
    let errors = load(text, Some(list), LoadLimits::default()).unwrap_err();
    (errors.errors.iter().map(|error| error.line).collect(), errors.to_string())
}

#[test]
fn an_entry_without_a_number_follows_the_highest_number() {
    let text = "ip access-list extended A\n 30 permit tcp any any\n 10 deny tcp host 10.0.0.9 any\n\
                \x20deny tcp any any eq 22\n";
    let policy = load(text, None, LoadLimits::default()).unwrap();
    assert_eq!(line(&policy, &tcp([10, 0, 0, 1], 22, 2)), 2);
    assert_eq!(line(&policy, &tcp([10, 0, 0, 9], 22, 2)), 3);
    // A remark has a number only where it states one.
    let text = "ip access-list extended A\n remark first\n 20 remark second\n permit tcp any any\n\
                \x2025 deny tcp host 10.0.0.9 any\n";
    let policy = load(text, None, LoadLimits::default()).unwrap();
    assert_eq!(line(&policy, &tcp([10, 0, 0, 9], 22, 2)), 5);
    let twice = "ip access-list extended A\n 10 permit tcp any any\n 10 deny tcp any any\n";
    let (lines, message) = refused(twice, "A");
    assert!(lines == [3] && message.contains("sequence number 10 is already in use"), "{message}");
}

#[test]
fn commands_that_edit_a_list_remove_it_or_are_refused() {
    let text = "no access-list 101\naccess-list 101 permit tcp any any eq 22\nno access-list 101\n\
                access-list 101 permit udp any any eq 53\n\
                ip access-list extended A\n permit tcp any any\nNO ip access-list extended A\n\
                ip access-list standard B\n permit any\nno ip access-list B\nipv6 access-list C\n\
                \x20permit tcp any any\nno ipv6 access-list C\naccess-list OUT permit ip any any\n\
                clear configure access-list OUT\n";
    assert_eq!(lists(text), ["101"]);
    let policy = load(text, None, LoadLimits::default()).unwrap();
    assert_eq!(line(&policy, &tcp([1; 4], 22, 2)), 4, "the implicit end");
    assert!(lists("access-list 1 permit any\nclear configure access-list\n").is_empty());
    for edit in [
        " no 10",
        "no 10",
        "no permit tcp any any eq 22",
        "no sequence 10",
        "no access-list A permit tcp any any eq 22",
        "no ip access-list extended A 10",
        "ip access-list resequence A 10 10",
    ] {
        let text = format!(
            "ip access-list extended A\n10 permit tcp any any eq 22\n{edit}\n20 permit udp any any\n"
        );
        let (lines, message) = refused(&text, "A");
        assert!(lines == [3] && message.contains("show running-config"), "{edit}: {message}");
    }
}

#[test]
fn keywords_are_read_in_any_case_and_verbs_also_short() {
    for verb in ["DENY", "Deny", "den"] {
        let text = format!(
            "IP Access-List EXTENDED Edge\npermit udp any any\n{verb} TCP Any any EQ SSH LOG\nPERMIT IP any HOST 192.0.2.1\n"
        );
        assert!(is_cisco(&text));
        assert_eq!(lists(&text), ["Edge"], "the name of a list keeps its case");
        let policy = load(&text, None, LoadLimits::default()).unwrap();
        assert_eq!([22, 23].map(|port| line(&policy, &tcp([1; 4], port, 2))), [3, 4]);
    }
    let text = "OBJECT NETWORK Dmz\n HOST 192.0.2.1\nOBJECT NETWORK dmz\n host 192.0.2.9\n\
                ACCESS-LIST Out EXTENDED Permit TCP any OBJECT Dmz\nip acce ext B\n per tcp any any\n";
    let policy = load(text, Some("Out"), LoadLimits::default()).unwrap();
    assert_eq!(line(&policy, &tcp([1; 4], 22, 2)), 5, "the name of an object keeps its case");
    assert_eq!(lists(text), ["Out", "B"]);
}

#[test]
fn a_misspelt_entry_does_not_end_its_list_silently() {
    for (wrong, next) in [
        ("dney tcp any any eq 22", ""),
        ("permi-t udp any any", ""),
        ("dney tcp", "permit ip any any"),
        ("DENYY", " permit ip any any"),
        ("5x deny tcp any any", "10 permit ip any any"),
    ] {
        let text = format!("ip access-list extended A\n permit udp any any\n{wrong}\n{next}\n");
        let (lines, message) = refused(&text, "A");
        assert_eq!(lines, [3], "{wrong}: {message}");
    }
    let (lines, _) =
        refused("ip access-list standard A\npermit host 1.1.1.1\ndney 2.2.2.0 0.0.0.255\n", "A");
    assert_eq!(lines, [3]);
    // Other parts of a configuration end a list.
    let text = "ip access-list extended A\npermit udp any any\ninterface Ethernet0\n ip access-group A in\n\
                mac access-list extended M\n permit any any\nroute-map R permit 10\n match ip address A\n\
                ip access-list extended B\n permit ip any any\nexit\nsnmp-server host 192.0.2.7 public\nend\n";
    assert_eq!(load(text, Some("A"), LoadLimits::default()).unwrap().len(), 2);
    assert_eq!(load(text, Some("B"), LoadLimits::default()).unwrap().len(), 2);
}

#[test]
fn a_line_number_inserts_an_entry_before_that_line() {
    let text = "access-list A line 1 extended permit tcp any any eq 22\n\
                access-list A line 1 extended deny tcp any any eq 22\n\
                access-list A remark last\naccess-list A extended permit tcp any any eq 80\n\
                access-list A line 4 extended deny tcp any any eq 80\n\
                access-list A line 9 extended permit tcp any any eq 443\n";
    let policy = load(text, None, LoadLimits::default()).unwrap();
    assert_eq!([22, 80, 443].map(|port| line(&policy, &tcp([1; 4], port, 2))), [2, 5, 6]);
    for number in ["0", "x", ""] {
        let text = format!("access-list A line {number} extended permit ip any any\n");
        assert_eq!(refused(&text, "A").0, [1], "{number}");
    }
}

#[test]
fn lists_that_a_device_reads_otherwise_are_refused() {
    for (text, part) in [
        ("ip access-list extended A\n remark x\n", "no entries"),
        (
            "ip access-list extended A\n permit ip any any\nipv6 access-list A\n permit ipv6 any any\n",
            "IP version",
        ),
        ("ipv6 access-list A permit tcp any any\n", "own line"),
        ("ip access-list extended A permit tcp any any\n", "own line"),
    ] {
        let (_, message) = refused(text, "A");
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[test]
fn lists_of_ipv6_end_with_neighbour_discovery() {
    let text =
        "ipv6 access-list A\n permit tcp any any eq 22\nipv6 access-list B\n deny icmp any any nd-ns\n";
    let packet = |kind| {
        let mut packet = Packet::new(FiveTuple::v6([1; 16], [2; 16], 0, 0, 58));
        packet.icmp = Some((kind, 0));
        packet
    };
    let accepts = |list: &str, kind| {
        let policy = load(text, Some(list), LoadLimits::default()).unwrap();
        accepted(&policy, &packet(kind))
    };
    assert_eq!([133, 134, 135, 136, 137].map(|kind| accepts("A", kind)), [false, false, true, true, false]);
    assert_eq!([135, 136].map(|kind| accepts("B", kind)), [false, true]);
}

#[test]
fn ports_have_the_numbers_of_the_device() {
    let names = "radius radius-acct kerberos cifs sqlnet rsh cmd syslog who lpd www domain dns";
    let ports: Vec<Option<u128>> = names.split(' ').map(ports::port).collect();
    let known = [1645, 1646, 750, 3020, 1521, 514, 514, 514, 513, 515, 80, 53].map(Some);
    assert_eq!(ports, [&known[..], &[None]].concat(), "a device reads dns as dnsix");
    let text = "access-list A extended permit tcp any any eq kerberos\n";
    let policy = load(text, None, LoadLimits::default()).unwrap();
    assert_eq!([750, 88].map(|port| accepted(&policy, &tcp([1; 4], port, 2))), [true, false]);
}
