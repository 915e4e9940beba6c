//! Names of ports on devices of Cisco.

use flowloom_flow_key::protocol::service;

use crate::rule::decimal;

/// The names of IOS and ASA. Some differ from IANA's: `radius` is 1645, `kerberos` is 750.
const PORTS: &[(&str, u16)] = &[
    ("aol", 5190),
    ("biff", 512),
    ("chargen", 19),
    ("cifs", 3020),
    ("citrix-ica", 1494),
    ("cmd", 514),
    ("ctiqbe", 2748),
    ("daytime", 13),
    ("discard", 9),
    ("dnsix", 195),
    ("drip", 3949),
    ("echo", 7),
    ("exec", 512),
    ("h323", 1720),
    ("hostname", 101),
    ("kerberos", 750),
    ("klogin", 543),
    ("kshell", 544),
    ("lotusnotes", 1352),
    ("lpd", 515),
    ("mobile-ip", 434),
    ("netbios-ss", 139),
    ("pcanywhere-data", 5631),
    ("pcanywhere-status", 5632),
    ("pim-auto-rp", 496),
    ("radius", 1645),
    ("radius-acct", 1646),
    ("ripv6", 521),
    ("rpc", 111),
    ("rsh", 514),
    ("secureid-udp", 5510),
    ("talk", 517),
    ("uucp", 540),
    ("vxlan", 4789),
    ("who", 513),
    ("xdmcp", 177),
];

/// Returns a port by its number, or by its name in lower case.
pub(super) fn port(word: &str) -> Option<u128> {
    let known = || PORTS.iter().find(|(name, _)| *name == word).map(|(_, port)| *port);
    // Devices read "dns" as an abbreviation of "dnsix"; the name of port 53 is "domain".
    let other = || service(word).filter(|_| word != "dns");
    decimal::<u16>(word).or_else(known).or_else(other).map(u128::from)
}
