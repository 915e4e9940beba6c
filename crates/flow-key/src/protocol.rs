//! Numbers of IP protocols, their names, and names of ports.

/// Control messages of IPv4.
pub const ICMP: u8 = 1;
/// IPv4 inside IP.
pub const IP_IN_IP: u8 = 4;
/// TCP.
pub const TCP: u8 = 6;
/// UDP.
pub const UDP: u8 = 17;
/// DCCP.
pub const DCCP: u8 = 33;
/// IPv6 inside IP.
pub const IPV6_IN_IP: u8 = 41;
/// The routing header of IPv6.
pub const ROUTING: u8 = 43;
/// The fragment header of IPv6.
pub const FRAGMENT: u8 = 44;
/// Generic routing encapsulation.
pub const GRE: u8 = 47;
/// Encrypted payload of IP security.
pub const ESP: u8 = 50;
/// The authentication header of IP security.
pub const AUTHENTICATION: u8 = 51;
/// Control messages of IPv6.
pub const ICMPV6: u8 = 58;
/// The end of the headers of IPv6.
pub const NO_NEXT_HEADER: u8 = 59;
/// SCTP.
pub const SCTP: u8 = 132;
/// UDP-Lite.
pub const UDPLITE: u8 = 136;

/// Protocols whose headers begin with two ports.
pub const WITH_PORTS: [u8; 5] = [TCP, UDP, DCCP, SCTP, UDPLITE];

/// IANA's names of IP protocols, in lower case.
pub const IANA_NAMES: [(&str, u8); 35] = [
    ("hopopt", 0),
    ("icmp", 1),
    ("igmp", 2),
    ("ipv4", 4),
    ("tcp", 6),
    ("egp", 8),
    ("igp", 9),
    ("udp", 17),
    ("rdp", 27),
    ("dccp", 33),
    ("ipv6", 41),
    ("ipv6-route", 43),
    ("ipv6-frag", 44),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ipv6-icmp", 58),
    ("ipv6-nonxt", 59),
    ("ipv6-opts", 60),
    ("eigrp", 88),
    ("ospfigp", 89),
    ("ipip", 94),
    ("etherip", 97),
    ("pim", 103),
    ("ipcomp", 108),
    ("vrrp", 112),
    ("l2tp", 115),
    ("sctp", 132),
    ("mobility-header", 135),
    ("udplite", 136),
    ("mpls-in-ip", 137),
    ("hip", 139),
    ("shim6", 140),
    ("ethernet", 143),
];

/// Other names, of `/etc/protocols` and of firewalls.
const OTHER_NAMES: &str = "\
    ggp=3 ipencap=4 st=5 igrp=9 pup=12 hmp=20 xns-idp=22 iso-tp4=29 xtp=36 ddp=37 idpr-cmtp=38 \
    idrp=45 ipsec-esp=50 ipsec-ah=51 skip=57 icmpv6=58 icmp6=58 rspf=73 vmtp=81 ospf=89 \
    ax.25=93 encap=98 carp=112 isis=124 fc=133 mh=135 ipv6-mh=135 manet=138 wesp=141 rohc=142";

/// Names of ports, of IANA and of firewalls.
const SERVICES: &str = "\
    ftp-data=20 ftp=21 ssh=22 telnet=23 smtp=25 time=37 nameserver=42 whois=43 tacacs=49 \
    domain=53 dns=53 bootps=67 bootpc=68 tftp=69 gopher=70 finger=79 http=80 www=80 \
    kerberos=88 pop2=109 pop3=110 sunrpc=111 auth=113 ident=113 nntp=119 ntp=123 epmap=135 \
    msrpc=135 netbios-ns=137 netbios-dgm=138 netbios-ss=139 netbios-ssn=139 imap2=143 imap=143 \
    imap4=143 snmp=161 snmptrap=162 snmp-trap=162 bgp=179 irc=194 ldap=389 https=443 \
    microsoft-ds=445 cifs=445 kpasswd=464 submissions=465 isakmp=500 login=513 syslog=514 \
    shell=514 printer=515 rip=520 route=520 dhcpv6-client=546 dhcpv6-server=547 rtsp=554 \
    submission=587 ipp=631 ldaps=636 ldp=646 domain-s=853 rsync=873 imaps=993 pop3s=995 \
    socks=1080 openvpn=1194 ms-sql-s=1433 ms-sql-m=1434 sqlnet=1521 l2tp=1701 l2f=1701 \
    pptp=1723 radius=1812 radius-acct=1813 nfs=2049 mysql=3306 rdp=3389 svn=3690 \
    non500-isakmp=4500 ipsec-nat-t=4500 munin=4949 sip=5060 xmpp-client=5222 xmpp-server=5269 \
    mdns=5353 postgresql=5432 nrpe=5666 amqp=5672 x11=6000 ircd=6667 http-alt=8080 \
    webcache=8080 puppet=8140 git=9418 zabbix-agent=10050 zabbix-trapper=10051";

/// Returns whether a protocol's header begins with two ports.
#[inline]
#[must_use]
pub const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | DCCP | SCTP | UDPLITE)
}

/// Returns IANA's name of an IP protocol, in lower case.
#[must_use]
pub fn name(protocol: u8) -> Option<&'static str> {
    match protocol {
        TCP => Some("tcp"),
        UDP => Some("udp"),
        other => IANA_NAMES.iter().find(|(_, number)| *number == other).map(|(name, _)| *name),
    }
}

/// Returns the number of an IP protocol by one of its names, in lower case.
#[must_use]
pub fn number(name: &str) -> Option<u8> {
    let known = IANA_NAMES.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    known.or_else(|| find(OTHER_NAMES, name)?.parse().ok())
}

/// Returns the port of a service by its name, in lower case; most are the same for TCP and UDP.
#[must_use]
pub fn service(name: &str) -> Option<u16> {
    find(SERVICES, name)?.parse().ok()
}

/// Returns the value of a name in a table `name=value name=value`.
fn find(table: &'static str, name: &str) -> Option<&'static str> {
    let entries = table.split(' ').filter_map(|entry| entry.split_once('='));
    entries.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_to_one_number() {
        for (known, protocol) in IANA_NAMES {
            assert_eq!((name(protocol), number(known)), (Some(known), Some(protocol)));
        }
        for table in [OTHER_NAMES, SERVICES] {
            for entry in table.split(' ') {
                let (name, value) = entry.split_once('=').expect("a name and a number");
                assert_eq!(find(table, name), Some(value), "{name} is there twice");
                assert!(
                    value.parse::<u16>().is_ok()
                        && IANA_NAMES.iter().all(|(known, _)| *known != name || table == SERVICES)
                );
            }
        }
        assert_eq!((number("ospf"), number("icmp6"), number("x")), (Some(89), Some(58), None));
        assert_eq!((service("https"), service("postgresql"), service("")), (Some(443), Some(5432), None));
        assert!((0..=u8::MAX).all(|protocol| has_ports(protocol) == WITH_PORTS.contains(&protocol)));
        assert_eq!(name(255), None);
    }
}
