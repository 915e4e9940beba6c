//! Encapsulations as data: the headers that the decoder follows in addition to plain Ethernet, IP
//! and transport headers.
//!
//! An [`Encapsulation`] states how a header is recognised, how long it is, what follows, and which
//! document defines it. Its examples are test vectors, from which the tests and the fuzz target
//! build packets. A new entry is therefore a few lines in one table, and needs no change elsewhere.
//!
//! | table | recognised by |
//! | --- | --- |
//! | [`LINKS`] | the link type of the capture's interface |
//! | [`ETHER_TYPES`] | an Ethertype: tags, labels, and frames inside frames |
//! | [`PROTOCOLS`] | an IP protocol number |
//! | [`UDP`] | a UDP port |
//! | [`GRE`] | a protocol type of GRE that is no Ethertype, or has its own header inside GRE |
//! | [`UNDER`] | only its position, as a pseudowire under MPLS labels |

#![expect(
    clippy::redundant_closure_for_method_calls,
    reason = "a method of `Layers` in a table is for one lifetime, and a closure is for all"
)]

mod ether_types;
mod gre;
mod links;
mod protocols;
mod udp;

use super::layers::{Decoded, Layers};
use crate::drop_reason::DropReason;
use crate::link::LinkType;

pub use ether_types::ETHER_TYPES;
pub use gre::GRE;
pub use links::LINKS;
pub(super) use protocols::{AUTHENTICATION, MULTILINK, PSEUDOWIRE};
pub use protocols::{PROTOCOLS, UNDER};
pub use udp::UDP;

/// A header that wraps another header.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Encapsulation {
    /// The name in reports and options, in lower case with words joined by `_`.
    pub name: &'static str,
    /// How the header is recognised.
    pub announced: Announced,
    /// The document that defines the header.
    pub document: &'static str,
    /// Example headers, from which tests build packets.
    pub examples: &'static [Example],
    /// How the header is read.
    pub(super) header: Header,
}

/// How an encapsulation is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Announced {
    /// By a link type of a capture file.
    Links(&'static [u16]),
    /// By an Ethertype.
    EtherTypes(&'static [u16]),
    /// By an IP protocol number.
    Protocols(&'static [u8]),
    /// By the destination port of UDP.
    UdpDestination(&'static [u16]),
    /// By either port of UDP.
    UdpEither(&'static [u16]),
    /// By the protocol type of GRE.
    Gre(&'static [u16]),
    /// Only by its position inside another header.
    Inside(&'static str),
}

/// An example of a header, and the payload that it announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Example {
    /// The bytes of the header.
    pub header: &'static [u8],
    /// The payload after the header.
    pub carries: Carries,
    /// The bytes after the payload.
    pub trailer: &'static [u8],
}

/// The payload after a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Carries {
    /// The payload that the two bytes at this offset announce. The builder of the packet writes the
    /// two bytes.
    EtherTypeAt(usize),
    /// An Ethernet frame.
    Ethernet,
    /// An IP packet of either version.
    AnyIp,
    /// An IPv4 packet.
    Ipv4,
    /// An IPv6 packet.
    Ipv6,
}

/// How a header is read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Header {
    /// It always has the same length.
    Fixed { bytes: usize, follows: Follows },
    /// The length or the payload depends on its fields.
    Walk(Walk),
}

/// Reads a header whose length or payload depends on its fields, at an offset, and decodes what
/// follows.
pub(super) type Walk = fn(Layers<'_>, usize) -> Decoded;

/// The payload after a header of fixed length.
#[derive(Clone, Copy, Debug)]
pub(super) enum Follows {
    /// The payload that the Ethertype at this offset of the header announces.
    EtherTypeAt(usize),
    Ethernet,
    AnyIp,
    Ppp,
    LinkControl,
}

const fn carries(header: &'static [u8], carries: Carries) -> Example {
    Example { header, carries, trailer: &[] }
}

impl Encapsulation {
    /// Returns whether the decoder follows it only with [`decap`](crate::DecodeOptions::decap).
    ///
    /// Link types and tags precede the outermost IP header, so the decoder always follows them.
    pub fn is_tunnel(&self) -> bool {
        match self.announced {
            Announced::Links(_) | Announced::EtherTypes(_) => false,
            Announced::Protocols(protocols) => protocols != [AUTHENTICATION],
            Announced::Inside(outer) => outer == "mpls",
            _ => true,
        }
    }

    /// Returns the drop reason for a record that ends inside the header.
    pub(super) fn cut(&self) -> DropReason {
        if self.is_tunnel() { DropReason::TruncatedTunnel } else { DropReason::TruncatedLink }
    }
}

/// Iterates over all encapsulations, table after table.
///
/// # Examples
///
/// ```
/// use flowloom_packet::decode::table;
/// let vxlan = table::all().find(|entry| entry.name == "vxlan").unwrap();
/// assert!(vxlan.is_tunnel() && vxlan.document.contains("RFC 7348"));
/// ```
pub fn all() -> impl Iterator<Item = &'static Encapsulation> {
    [LINKS, ETHER_TYPES, PROTOCOLS, UDP, GRE, UNDER].into_iter().flatten()
}

/// Returns the entry of a link type.
pub(crate) fn of_link(link: LinkType) -> Option<&'static Encapsulation> {
    LINKS.iter().find(|entry| matches!(entry.announced, Announced::Links(links) if links.contains(&link.0)))
}

/// Returns the entry of an Ethertype.
pub(super) fn of_ether_type(ether_type: u16) -> Option<&'static Encapsulation> {
    ETHER_TYPES.iter().find(
        |entry| matches!(entry.announced, Announced::EtherTypes(types) if types.contains(&ether_type)),
    )
}

/// Returns the entry of an IP protocol.
pub(super) fn of_protocol(protocol: u8) -> Option<&'static Encapsulation> {
    PROTOCOLS.iter().find(
        |entry| matches!(entry.announced, Announced::Protocols(numbers) if numbers.contains(&protocol)),
    )
}

/// Returns the entry of a GRE protocol type.
pub(super) fn of_gre(protocol: u16) -> Option<&'static Encapsulation> {
    GRE.iter().find(|entry| matches!(entry.announced, Announced::Gre(types) if types.contains(&protocol)))
}

/// Returns the entry of a pair of UDP ports.
pub(super) fn of_udp(source: u16, destination: u16) -> Option<&'static Encapsulation> {
    // Most datagrams are not tunnels, which the low bytes of their ports show.
    if !UDP_LOW_BYTES[usize::from(source & 0xFF)] && !UDP_LOW_BYTES[usize::from(destination & 0xFF)] {
        return None;
    }
    UDP.iter().find(|entry| match entry.announced {
        Announced::UdpDestination(ports) => ports.contains(&destination),
        Announced::UdpEither(ports) => ports.contains(&destination) || ports.contains(&source),
        _ => false,
    })
}

/// A bit set of the low bytes of the ports in [`UDP`].
static UDP_LOW_BYTES: [bool; 256] = {
    let mut low_bytes = [false; 256];
    let mut entry = 0;
    while entry < UDP.len() {
        if let Announced::UdpDestination(ports) | Announced::UdpEither(ports) = UDP[entry].announced {
            let mut at = 0;
            while at < ports.len() {
                low_bytes[(ports[at] & 0xFF) as usize] = true;
                at += 1;
            }
        }
        entry += 1;
    }
    low_bytes
};

impl LinkType {
    /// Returns whether packets of this link type are decoded: whether the
    /// table of link types has it.
    pub fn is_supported(self) -> bool {
        of_link(self).is_some()
    }

    /// The link types that are decoded, in ascending order.
    pub fn supported() -> impl Iterator<Item = Self> {
        let mut links: Vec<Self> = LINKS
            .iter()
            .flat_map(|entry| match entry.announced {
                Announced::Links(links) => links,
                _ => &[],
            })
            .map(|&number| Self(number))
            .collect();
        links.sort_unstable();
        links.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_and_numbers_are_distinct() {
        let mut names = BTreeSet::new();
        let mut numbers = BTreeSet::new();
        for entry in all() {
            assert!(names.insert(entry.name), "{} is in the tables twice", entry.name);
            assert!(!entry.document.is_empty() && !entry.examples.is_empty(), "{}", entry.name);
            let announced: Vec<(u8, u16)> = match entry.announced {
                Announced::Links(links) => links.iter().map(|&link| (0, link)).collect(),
                Announced::EtherTypes(types) => types.iter().map(|&kind| (1, kind)).collect(),
                Announced::Protocols(protocols) => protocols.iter().map(|&one| (2, one.into())).collect(),
                Announced::UdpDestination(ports) | Announced::UdpEither(ports) => {
                    ports.iter().map(|&port| (3, port)).collect()
                }
                Announced::Gre(types) => types.iter().map(|&kind| (4, kind)).collect(),
                Announced::Inside(_) => Vec::new(),
            };
            for number in announced {
                assert!(numbers.insert(number), "{}: {number:?} is announced twice", entry.name);
            }
        }
        assert!(names.len() > 90, "{}", names.len());
    }
}
