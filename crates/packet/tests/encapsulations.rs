//! Decodes every encapsulation of the tables, alone and in pairs, around packets of both families.
//!
//! The generator itself knows the innermost five-tuple. The headers are the examples of the table
//! entries, so a new entry needs no change here. `cargo xtask matrix` writes the packets to a
//! capture and compares them with tshark.

use flowloom_packet::decode::table::{self, Announced, Carries, Encapsulation, Example};
use flowloom_packet::decode::{decode_layered, explain};
use flowloom_packet::{DecodeOptions, DropReason, FiveTuple, Headers, LinkType, decode};
use std::fmt::Write as _;

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

/// Sets the lengths and families in a header that the decoder reads over, and other programs do
/// not.
fn set_fields(name: &str, bytes: &mut [u8], payload: &Payload) {
    let open_bsd_family = if matches!(payload, Payload::Ipv4(_)) { 2 } else { 24 };
    let rest = |from: usize| u16::try_from(bytes.len().saturating_sub(from)).expect("a short packet");
    let (at, length) = match name {
        "link_ethernet" if bytes[14..16] == [0xAA, 0xAA] => (12, rest(14)),
        "pppoe" | "link_pppoe" => (4, rest(6)),
        "gtpu" => (2, rest(8)),
        "l2tp" if bytes[0] & 0x40 != 0 => (2, rest(0)),
        "link_ipnet" => (6, rest(24)),
        "link_pflog" => return bytes[1] = open_bsd_family,
        "link_enc" => return bytes[0] = open_bsd_family,
        "link_nflog" => (4, rest(4).swap_bytes()),
        "link_erf" => {
            let frame = if bytes[8] & 0x80 == 0 { 16 } else { 24 };
            let frame = if bytes[8] & 0x7F == 2 { frame + 2 } else { frame };
            let (record, wire) = (rest(0).to_be_bytes(), rest(frame).to_be_bytes());
            bytes[10..12].copy_from_slice(&record);
            bytes[14..16].copy_from_slice(&wire);
            return;
        }
        _ => return,
    };
    bytes[at..at + 2].copy_from_slice(&length.to_be_bytes());
}

/// Puts a payload after the header of an entry's example. Returns `None` if the header cannot
/// announce it.
fn behind(entry: &Encapsulation, example: &Example, payload: &Payload) -> Option<Vec<u8>> {
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
    set_fields(entry.name, &mut bytes, payload);
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

/// Wraps a payload in an encapsulation, once for each number that announces it. A tunnel gets an
/// outer IP header of the given version.
fn wrapped(
    entry: &Encapsulation,
    example: &Example,
    payload: &Payload,
    version: u8,
) -> Vec<(u16, Payload)> {
    let Some(bytes) = behind(entry, example, payload) else { return Vec::new() };
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
            types.iter().map(|&kind| (kind, Payload::Typed(kind, bytes.clone()))).collect()
        }
        Announced::Protocols(protocols) => {
            protocols.iter().map(|&protocol| (protocol.into(), ip(version, protocol, &bytes, 1))).collect()
        }
        Announced::UdpDestination(ports) | Announced::UdpEither(ports) => {
            ports.iter().map(|&port| (port, in_udp(port))).collect()
        }
        Announced::Gre(types) => types.iter().map(|&kind| (kind, in_gre(kind))).collect(),
        Announced::Inside("mpls") => {
            vec![(0, Payload::Typed(0x8847, [&[0, 1, 1, 64][..], &bytes].concat()))]
        }
        Announced::Inside("ppp") => {
            let length = u16::try_from(bytes.len() + 2).expect("a short packet").to_be_bytes();
            let header = [0x11, 0, 0, 7, length[0], length[1], 0, 0x3D];
            vec![(0, Payload::Typed(0x8864, [&header[..], &bytes].concat()))]
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

/// Returns a payload wrapped in every entry of the tables, with the entry.
fn all_wrapped(payload: &Payload, version: u8) -> Vec<(&'static Encapsulation, Payload)> {
    all_named(payload, version).into_iter().map(|(entry, _, one)| (entry, one)).collect()
}

/// Returns the same with the name of entry, example and number, as `vxlan#1:4789`.
fn all_named(payload: &Payload, version: u8) -> Vec<(&'static Encapsulation, String, Payload)> {
    let mut all = Vec::new();
    for entry in table::all().filter(|entry| !is_opaque(entry)) {
        for (i, example) in (1..).zip(entry.examples) {
            for (number, one) in wrapped(entry, example, payload, version) {
                all.push((entry, format!("{}#{i}:{number}", entry.name), one));
            }
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
                    let Some(frame) = behind(entry, example, &one) else { continue };
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
fn damaged_byte_never_breaks_decoding() {
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

/// A pcapng file with one interface for each link type, and a line of text for each packet.
#[derive(Default)]
struct Matrix {
    interfaces: std::collections::BTreeMap<u16, u32>,
    capture: Vec<u8>,
    lines: String,
}

impl Matrix {
    fn block(&mut self, kind: u32, body: &[u8]) {
        let padding = body.len().next_multiple_of(4) - body.len();
        let length = u32::try_from(12 + body.len() + padding).expect("a short block").to_le_bytes();
        self.capture.extend([&kind.to_le_bytes()[..], &length, body, &[0; 3][..padding], &length].concat());
    }

    /// Adds a packet of a link type with `behind` in it, which must lead to `innermost`.
    fn add(
        &mut self,
        (number, entry): (u16, &Encapsulation),
        name: &str,
        contents: &Payload,
        innermost: &Payload,
    ) {
        for (i, example) in (1..).zip(entry.examples) {
            let Some(frame) = behind(entry, example, contents) else { continue };
            if matches!((number, contents), (228, Payload::Ipv6(_)) | (229, Payload::Ipv4(_))) {
                continue; // These link types carry one family.
            }
            self.write(number, &format!("{}#{i}:{number}\t{name}", entry.name), innermost, &frame);
        }
    }

    fn write(&mut self, link: u16, name: &str, payload: &Payload, frame: &[u8]) {
        assert_eq!(tuple(LinkType(link), frame), Ok(expected(payload)), "{name}: {frame:02x?}");
        let next = u32::try_from(self.interfaces.len()).expect("few link types");
        let interface = *self.interfaces.entry(link).or_insert(next);
        if interface == next {
            self.block(1, &[&link.to_le_bytes()[..], &[0; 6]].concat());
        }
        let length = u32::try_from(frame.len()).expect("a short packet").to_le_bytes();
        let header = [&interface.to_le_bytes()[..], &[0; 8], &length, &length].concat();
        self.block(6, &[&header, frame].concat());
        let family = if matches!(payload, Payload::Ipv4(_)) { 4 } else { 6 };
        writeln!(self.lines, "{family}\t{name}").expect("a string takes all");
    }
}

/// Every pair of entries in Ethernet, every entry in every link type, and pairs in link types, each
/// link type with others.
#[test]
#[ignore = "writes the capture of cargo xtask matrix to the folder $FLOWLOOM_MATRIX"]
fn write_the_matrix() {
    let folder = std::env::var_os("FLOWLOOM_MATRIX").expect("$FLOWLOOM_MATRIX names a folder");
    let folder = std::path::PathBuf::from(folder);
    let mut matrix = Matrix::default();
    let section = [&0x1A2B_3C4D_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xFF; 8]].concat();
    matrix.block(0x0A0D_0D0A, &section);
    let links: Vec<(u16, &Encapsulation)> = table::LINKS
        .iter()
        .flat_map(|entry| match entry.announced {
            Announced::Links(links) => links.iter().map(move |&link| (link, entry)),
            _ => unreachable!("a link type"),
        })
        .collect();
    for payload in innermost() {
        let mut pairs = Vec::new();
        for version in [4, 6] {
            for (_, inner, once) in all_named(&payload, version) {
                for &link in &links {
                    matrix.add(link, &format!("-\t{inner}\tIPv{version}"), &once, &payload);
                }
                for (_, outer, twice) in all_named(&once, 10 - version) {
                    let name = format!("{outer}\t{inner}\tIPv{version}");
                    let frame = ethernet(&twice);
                    matrix.write(1, &format!("link_ethernet#1:1\t{name}"), &payload, &frame);
                    pairs.push((name, twice));
                }
            }
        }
        // Every seventh pair, each in another link type.
        for (i, (name, pair)) in pairs.iter().enumerate().step_by(7) {
            matrix.add(links[i % links.len()], name, pair, &payload);
        }
    }
    std::fs::write(folder.join("matrix.pcapng"), &matrix.capture).expect("the capture is written");
    std::fs::write(folder.join("matrix.tsv"), &matrix.lines).expect("the list is written");
}
