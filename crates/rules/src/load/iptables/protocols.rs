//! The protocols that matches and options of iptables require.

use alloc::format;
use alloc::string::String;

use crate::firewall::Ranges;
use flowloom_flow_key::protocol::{DCCP, ICMP, ICMPV6, SCTP, TCP, UDP, UDPLITE};

/// A match or an option of one protocol, and where it stands.
pub(super) struct Needed<'a> {
    word: &'a str,
    at: usize,
    protocol: u8,
}

impl<'a> Needed<'a> {
    /// Returns what a match or an option requires; `None` if it is not of one protocol.
    pub(super) fn parse(word: &'a str, at: usize) -> Option<Self> {
        let protocol = match word {
            "tcp" | "--syn" | "--tcp-flags" | "--tcp-option" => TCP,
            "udp" => UDP,
            "udplite" => UDPLITE,
            "dccp" | "--dccp-types" | "--dccp-option" => DCCP,
            "sctp" | "--chunk-types" => SCTP,
            "icmp" | "--icmp-type" => ICMP,
            "icmp6" | "icmpv6" | "ipv6-icmp" | "--icmpv6-type" => ICMPV6,
            _ => return None,
        };
        Some(Self { word, at, protocol })
    }

    /// Returns the position and the message of the error, if the rule is not for this protocol.
    pub(super) fn missing(&self, asked: Option<&Ranges>) -> Option<(usize, String)> {
        let name = match self.protocol {
            ICMPV6 => "icmpv6",
            ICMP => "icmp",
            other => flowloom_flow_key::protocol::name(other).unwrap_or_default(),
        };
        (asked != Some(&Ranges::exact(self.protocol.into()))).then(|| {
            let what = if self.word.starts_with('-') { "option" } else { "match" };
            let word = self.word;
            (self.at, format!("the {what} '{word}' requires -p {name}; iptables-restore refuses this rule"))
        })
    }
}
