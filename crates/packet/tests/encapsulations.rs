//! Decodes every encapsulation of the tables, alone and in pairs, around packets of both families.
//!
//! The generator itself knows the innermost five-tuple. The headers are the examples of the table
//! entries, so a new entry needs no change here.

use flowloom_packet::decode::table::{self, Announced, Carries, Encapsulation, Example};
use flowloom_packet::decode::{decode_layered, explain};
use flowloom_packet::{DecodeOptions, DropReason, FiveTuple, Headers, LinkType, decode};

/// The payload that a header must announce.
#[derive(Clone, Debug)]
enum Payload {
    Ipv4(Vec<u8>),
    Ipv6(Vec<u8>),
    /// The payload of an Ethertype.
    Typed(u16, Vec<u8>),
}

impl Payload {
    fn ether_type(&self) -> u16 {
        match self {
            Self::Ipv4(_) => 0x0800,
            Self::Ipv6(_) => 0x86DD,
            Self::Typed(ether_type, _) => *ether_type,
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Ipv4(bytes) | Self::Ipv6(bytes) | Self::Typed(_, bytes) => bytes,
        }
    }
}

/// Returns the innermost packet, in both families.
fn innermost() -> [Payload; 2] {
    let mut segment = vec![0xE1, 0x00, 0x00, 0x50, 0, 0, 3, 0xE8, 0, 0, 0, 0, 0x50, 2, 0x20, 0, 0, 0, 0, 0];
    segment.extend_from_slice(b"payload of some length, for what asks");
    [ip(4, 6, &segment, 9), ip(6, 6, &segment, 9)]
}

fn expected(payload: &Payload) -> FiveTuple {
    let mut six = [0x20, 1, 0xD, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 1];
    let source = six;
    six[15] = 2;
    match payload {
        Payload::Ipv4(_) => FiveTuple::v4([10, 9, 9, 1], [10, 9, 9, 2], 0xE100, 80, 6),
        _ => FiveTuple::v6(source, six, 0xE100, 80, 6),
    }
}

fn ip(version: u8, protocol: u8, inner: &[u8], network: u8) -> Payload {
    let length = u16::try_from(inner.len()).expect("a short packet");
    let mut bytes = Vec::new();
    if version == 4 {
        bytes.extend([0x45, 0]);
        bytes.extend((length + 20).to_be_bytes());
        bytes.extend([0, 1, 0, 0, 64, protocol, 0, 0, 10, network, network, 1, 10, network, network, 2]);
        bytes.extend(inner);
        return Payload::Ipv4(bytes);
    }
    bytes.extend([0x60, 0, 0, 0]);
    bytes.extend(length.to_be_bytes());
    bytes.extend([protocol, 64]);
    for last in [1, 2] {
        bytes.extend([0x20, 1, 0xD, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, network, last]);
    }
    bytes.extend(inner);
    Payload::Ipv6(bytes)
}

/// Puts a payload after an example's header. Returns `None` if the header cannot announce it.
fn behind(example: &Example, payload: &Payload) -> Option<Vec<u8>> {
    let mut bytes = example.header.to_vec();
    match (example.carries, payload) {
        (Carries::EtherTypeAt(at), _) => {
            bytes[at..at + 2].copy_from_slice(&payload.ether_type().to_be_bytes());
        }
        (Carries::Ethernet, _) => {
            bytes.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
            bytes.extend(payload.ether_type().to_be_bytes());
        }
        (Carries::AnyIp, Payload::Ipv4(_) | Payload::Ipv6(_))
        | (Carries::Ipv4, Payload::Ipv4(_))
        | (Carries::Ipv6, Payload::Ipv6(_)) => {}
        _ => return None,
    }
    bytes.extend(payload.bytes());
    bytes.extend(trailer(example, payload.bytes().len()));
    Some(bytes)
}

/// Returns an example's trailer after `bytes` bytes. ESP's trailer, which names the payload's
/// protocol, is padded to words.
fn trailer(example: &Example, payload_bytes: usize) -> Vec<u8> {
    match example.trailer {
        [1, 2, 2, next, check @ ..] => {
            let padding = (payload_bytes + 2).next_multiple_of(4) - payload_bytes - 2;
            let padding = u8::try_from(padding).expect("less than a word");
            let mut bytes: Vec<u8> = (1..=padding).collect();
            bytes.extend([padding, *next]);
            bytes.extend(check);
            bytes
        }
        other => other.to_vec(),
    }
}

/// Wraps a payload in an encapsulation. A tunnel gets an outer IP header of the given version.
fn wrapped(entry: &Encapsulation, example: &Example, payload: &Payload, version: u8) -> Vec<Payload> {
    let Some(bytes) = behind(example, payload) else { return Vec::new() };
    let in_udp = |port: u16| {
        let mut datagram = 50_000_u16.to_be_bytes().to_vec();
        datagram.extend(port.to_be_bytes());
        datagram.extend(u16::try_from(bytes.len() + 8).expect("a short packet").to_be_bytes());
        datagram.extend([0, 0]);
        datagram.extend(&bytes);
        ip(version, 17, &datagram, 1)
    };
    let in_gre = |kind: u16| {
        let header = [&[0, 0][..], &kind.to_be_bytes(), &bytes].concat();
        ip(version, 47, &header, 1)
    };
    match entry.announced {
        Announced::EtherTypes(types) => {
            types.iter().map(|&kind| Payload::Typed(kind, bytes.clone())).collect()
        }
        Announced::Protocols(protocols) => {
            protocols.iter().map(|&protocol| ip(version, protocol, &bytes, 1)).collect()
        }
        Announced::UdpDestination(ports) | Announced::UdpEither(ports) => {
            ports.iter().map(|&port| in_udp(port)).collect()
        }
        Announced::Gre(types) => types.iter().map(|&kind| in_gre(kind)).collect(),
        Announced::Inside("mpls") => vec![Payload::Typed(0x8847, [&[0, 1, 1, 64][..], &bytes].concat())],
        Announced::Inside("ppp") => {
            vec![Payload::Typed(0x8864, [&[0x11, 0, 0, 7, 0, 60, 0, 0x3D][..], &bytes].concat())]
        }
        _ => Vec::new(),
    }
}

/// Followed only on request, or never: encrypted contents cannot be followed.
fn is_opaque(entry: &Encapsulation) -> bool {
    ["ipcomp", "wireguard"].contains(&entry.name)
}

fn ethernet(payload: &Payload) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    frame.extend(payload.ether_type().to_be_bytes());
    frame.extend(payload.bytes());
    frame
}

const OPTIONS: DecodeOptions = DecodeOptions::new().with_decap(true).with_esp_null(true);

fn tuple(link: LinkType, frame: &[u8]) -> Result<FiveTuple, DropReason> {
    let decoded = decode(link, frame, OPTIONS);
    assert_eq!(decoded, decode_layered(link, frame, OPTIONS));
    assert_eq!(decoded, explain(link, frame, OPTIONS).decoded);
    decoded.map(|headers: Headers| headers.tuple())
}

/// Returns a payload wrapped in every entry of the tables, with the entry's name.
fn all_wrapped(payload: &Payload, version: u8) -> Vec<(&'static Encapsulation, Payload)> {
    let mut all = Vec::new();
    for entry in table::all().filter(|entry| !is_opaque(entry)) {
        for example in entry.examples {
            all.extend(wrapped(entry, example, payload, version).into_iter().map(|one| (entry, one)));
        }
    }
    all
}

#[test]
fn each_entry_leads_to_the_packet_inside() {
    let mut found = std::collections::BTreeSet::new();
    for payload in innermost() {
        for version in [4, 6] {
            for (entry, one) in all_wrapped(&payload, version) {
                let frame = ethernet(&one);
                assert_eq!(
                    tuple(LinkType::ETHERNET, &frame),
                    Ok(expected(&payload)),
                    "{} in IPv{version}: {frame:02x?}",
                    entry.name
                );
                let path = explain(LinkType::ETHERNET, &frame, OPTIONS).path;
                assert!(
                    path.iter().any(|other| other.name == entry.name),
                    "{} is not in {path:?}",
                    entry.name
                );
                found.insert(entry.name);
            }
        }
    }
    let known =
        table::all().filter(|entry| !matches!(entry.announced, Announced::Links(_)) && !is_opaque(entry));
    assert_eq!(found.len(), known.count());
}

#[test]
fn each_entry_in_each_other_is_followed() {
    let mut pairs = 0;
    for payload in innermost() {
        for (inner, once) in all_wrapped(&payload, 4) {
            // Null encryption needs an IP packet whose length field gives its end.
            for (outer, twice) in all_wrapped(&once, 6) {
                let frame = ethernet(&twice);
                assert_eq!(
                    tuple(LinkType::ETHERNET, &frame),
                    Ok(expected(&payload)),
                    "{} in {}: {frame:02x?}",
                    inner.name,
                    outer.name
                );
                pairs += 1;
            }
        }
    }
    assert!(pairs > 5000, "{pairs}");
}

#[test]
fn each_link_type_carries_each_tag_and_tunnel() {
    let links = table::LINKS.iter().map(|entry| {
        (
            entry,
            match entry.announced {
                Announced::Links(links) => links,
                _ => unreachable!("a link type"),
            },
        )
    });
    let mut frames = 0;
    for (entry, numbers) in links {
        for payload in innermost() {
            let bare = ("nothing", payload.clone());
            let inner = all_wrapped(&payload, 4).into_iter().map(|(inner, one)| (inner.name, one));
            for (name, one) in inner.chain([bare]) {
                for example in entry.examples {
                    let Some(frame) = behind(example, &one) else { continue };
                    for &number in numbers {
                        let link = LinkType(number);
                        assert_eq!(
                            tuple(link, &frame),
                            Ok(expected(&payload)),
                            "{name} in {link}: {frame:02x?}"
                        );
                        frames += 1;
                    }
                }
            }
        }
    }
    assert!(frames > 5000, "{frames}");
}

#[test]
fn a_cut_anywhere_gives_the_packet_a_reason_or_an_outer_key() {
    for payload in innermost() {
        for (entry, one) in all_wrapped(&payload, 4) {
            let frame = ethernet(&one);
            for length in 0..frame.len() {
                let cut = tuple(LinkType::ETHERNET, &frame[..length]);
                // The tuple of the inner packet, the tuple of the tunnel, or a drop reason, but
                // never another tuple.
                if let Ok(tuple) = cut {
                    let is_inner = tuple == expected(&payload);
                    let text = tuple.to_string();
                    assert!(
                        is_inner || text.contains("10.1.1.") || text.contains("2001:db8::101"),
                        "{} cut at {length}: {text}",
                        entry.name
                    );
                }
            }
        }
    }
}

#[test]
fn a_damaged_byte_never_breaks_the_walk() {
    for payload in innermost() {
        for (_, one) in all_wrapped(&payload, 4) {
            let frame = ethernet(&one);
            for at in 0..frame.len() {
                for value in [0, 0xFF, frame[at] ^ 0x80, frame[at].wrapping_add(1)] {
                    let mut damaged = frame.clone();
                    damaged[at] = value;
                    if let Ok(headers) = decode(LinkType::ETHERNET, &damaged, OPTIONS) {
                        assert!(headers.payload_offset as usize <= damaged.len());
                    }
                }
            }
        }
    }
}

#[test]
fn the_documentation_lists_every_entry() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/encapsulations.csv");
    let text = std::fs::read_to_string(path).expect("the list of encapsulations");
    for entry in table::all() {
        let row = text.lines().find(|line| line.split(',').nth(1) == Some(entry.name));
        assert!(row.is_some_and(|row| row.contains(entry.document)), "{}: {row:?}", entry.name);
    }
}
