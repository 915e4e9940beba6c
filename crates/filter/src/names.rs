//! Names of numbers.

/// Names of offsets and values in arithmetic, as in `tcp[tcpflags] & tcp-syn != 0` (pcap-filter(7),
/// "Primitives").
const CONSTANTS: &str = "\
    icmptype=0 icmpcode=1 icmp6type=0 icmp6code=1 tcpflags=13 icmp-echoreply=0 icmp-unreach=3 \
    icmp-sourcequench=4 icmp-redirect=5 icmp-echo=8 icmp-routeradvert=9 icmp-routersolicit=10 \
    icmp-timxceed=11 icmp-paramprob=12 icmp-tstamp=13 icmp-tstampreply=14 icmp-ireq=15 \
    icmp-ireqreply=16 icmp-maskreq=17 icmp-maskreply=18 icmp6-destinationunreach=1 \
    icmp6-packettoobig=2 icmp6-timeexceeded=3 icmp6-parameterproblem=4 icmp6-echo=128 \
    icmp6-echoreply=129 icmp6-multicastlistenerquery=130 icmp6-multicastlistenerreportv1=131 \
    icmp6-multicastlistenerdone=132 icmp6-routersolicit=133 icmp6-routeradvert=134 \
    icmp6-neighborsolicit=135 icmp6-neighboradvert=136 icmp6-redirect=137 \
    icmp6-routerrenum=138 icmp6-nodeinformationquery=139 icmp6-nodeinformationresponse=140 \
    icmp6-multicastlistenerreportv2=143 tcp-fin=0x01 tcp-syn=0x02 tcp-rst=0x04 tcp-push=0x08 \
    tcp-ack=0x10 tcp-urg=0x20 tcp-ece=0x40 tcp-ecn=0x40 tcp-cwr=0x80";

/// Names of Ethertypes.
const ETHERTYPES: [(&str, u16); 12] = [
    ("ip", 0x0800),
    ("arp", 0x0806),
    ("rarp", 0x8035),
    ("ip6", 0x86DD),
    ("aarp", 0x80F3),
    ("decnet", 0x6003),
    ("lat", 0x6004),
    ("moprc", 0x6002),
    ("mopdl", 0x6001),
    ("atalk", 0x809B),
    ("loopback", 0x9000),
    ("sca", 0x6007),
];

pub(crate) fn constant(name: &str) -> Option<u32> {
    let entries = CONSTANTS.split(' ').filter_map(|entry| entry.split_once('='));
    let value = entries.into_iter().find(|(known, _)| *known == name)?.1;
    match value.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => value.parse().ok(),
    }
}

pub(crate) fn ether_type(name: &str) -> Option<u16> {
    ETHERTYPES.iter().find(|(known, _)| *known == name).map(|&(_, value)| value)
}
