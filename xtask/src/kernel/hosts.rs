//! Addresses and ports that both rules and packets use, so that they match.

use crate::draw::Draw;

/// The MAC address that frames carry as their source.
pub(super) const SENDER_MAC: &str = "02:00:00:00:00:02";

/// The MAC address of the interface that receives the frames.
pub(super) const RECEIVER_MAC: &str = "02:00:00:00:00:01";

/// Ports of services.
pub(super) const PORTS: [u16; 9] = [22, 25, 53, 80, 443, 1024, 3306, 5000, 8080];

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// Number of hosts per network.
const HOSTS: usize = 6;

impl Family {
    /// Returns the bytes of a host's address: 4 or 16.
    pub(super) fn host(self, draw: &mut Draw) -> Vec<u8> {
        let (network, host) = (draw.below(3), 1 + draw.below(HOSTS) as u8);
        match self {
            Self::V4 => {
                let [a, b, c] = [[10, 1, 0], [192, 0, 2], [203, 0, 113]][network];
                vec![a, b, c, host]
            }
            Self::V6 => {
                let mut address = vec![0x20, 1, 0x0d, 0xb8, 0, network as u8];
                address.resize(15, 0);
                address.push(host);
                address
            }
        }
    }

    /// Returns an address or a prefix.
    pub(super) fn prefix(self, draw: &mut Draw) -> String {
        let (network, host) = (draw.below(3), 1 + draw.below(HOSTS));
        let (v4, v6) = (["10.1.0", "192.0.2", "203.0.113"][network], format!("2001:db8:{network}"));
        match (self, draw.below(5)) {
            (Self::V4, 0) => format!("{v4}.0/24"),
            (Self::V4, 1) => format!("{v4}.0/30"),
            (Self::V4, 2) => String::from("10.0.0.0/8"),
            (Self::V4, 3) => String::from("0.0.0.1/0.0.0.1"),
            (Self::V4, _) => format!("{v4}.{host}/32"),
            (Self::V6, 0) => format!("{v6}::/48"),
            (Self::V6, 1) => format!("{v6}::/126"),
            (Self::V6, 2) => String::from("2001:db8::/32"),
            (Self::V6, 3) => String::from("::1/::1"),
            (Self::V6, _) => format!("{v6}::{host}/128"),
        }
    }

    /// Returns a range of addresses in the syntax of `iprange`.
    pub(super) fn range(self, draw: &mut Draw) -> String {
        let host = 1 + draw.below(HOSTS - 1);
        match self {
            Self::V4 => format!("192.0.2.{host}-192.0.2.{}", host + 1),
            Self::V6 => format!("2001:db8:1::{host}-2001:db8:1::{}", host + 1),
        }
    }

    /// Returns the name of the family's ICMP in iptables.
    pub(super) fn icmp_name(self) -> &'static str {
        if self == Self::V4 { "icmp" } else { "ipv6-icmp" }
    }

    /// Returns types that rules match.
    pub(super) fn icmp_types(self) -> &'static [&'static str] {
        match self {
            Self::V4 => &["8", "0", "3", "3/4", "3/1", "11", "echo-request", "fragmentation-needed"],
            Self::V6 => &["128", "129", "1", "2", "3", "1/4", "echo-request", "packet-too-big"],
        }
    }
}
