//! Decodes arbitrary bytes after any link layer and any headers of the tables. Decoding must not
//! panic, and offsets must lie within the bytes. The fast path, the layers and the explanation must
//! agree, and answers to denied packets must be packets.
#![no_main]

use std::sync::LazyLock;

use flowloom_packet::census::Census;
use flowloom_packet::decode::table::{self, Announced, Encapsulation};
use flowloom_packet::decode::{CustomEncapsulations, decode_layered, explain};
use flowloom_packet::refusal::Refusal;
use flowloom_packet::{DecodeOptions, Direction, EncapsulationCounts, LinkType, PacketView, decode};
use libfuzzer_sys::fuzz_target;

static LINKS: LazyLock<Vec<LinkType>> = LazyLock::new(|| LinkType::supported().collect());
static ENTRIES: LazyLock<Vec<&'static Encapsulation>> = LazyLock::new(|| table::all().collect());
static CUSTOM: LazyLock<CustomEncapsulations> = LazyLock::new(|| {
    let mut custom = CustomEncapsulations::new();
    custom.add_tag_type(0x9901).expect("no other header has this type");
    custom.add_tunnel("vxlan", 0x0101).expect("a tunnel of the table");
    custom
});

/// Puts a header of the table before its payload, with the fields that announce it. The fuzzer
/// mutates lengths and checksums.
fn wrap(entry: &Encapsulation, which: u8, inner: &[u8]) -> Vec<u8> {
    let example = &entry.examples[usize::from(which) % entry.examples.len()];
    let body = [example.header, inner, example.trailer].concat();
    let ip = |protocol: u8, body: &[u8]| {
        let length = u16::try_from(20 + body.len()).unwrap_or(0).to_be_bytes();
        let mut packet = vec![0x45, 0, length[0], length[1], 0, 1, 0, 0, 64, protocol, 0, 0];
        packet.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend(body);
        packet
    };
    let number = |numbers: &[u16]| numbers[usize::from(which) % numbers.len()].to_be_bytes();
    match entry.announced {
        Announced::EtherTypes(types) => [&number(types)[..], &body].concat(),
        Announced::Protocols(protocols) => ip(protocols[usize::from(which) % protocols.len()], &body),
        Announced::UdpDestination(ports) | Announced::UdpEither(ports) => {
            ip(17, &[&[0xC0, 0][..], &number(ports), &[0, 0, 0, 0], &body].concat())
        }
        Announced::Gre(types) => ip(47, &[&[0, 0][..], &number(types), &body].concat()),
        _ => body,
    }
}

fuzz_target!(|data: &[u8]| {
    // The first byte chooses the link layer, the second one the options, and the third one how many
    // headers of the tables the frame begins with. Two bytes choose each header. The rest is the
    // payload.
    let Some((&[which, choice, depth], mut rest)) = data.split_first_chunk() else { return };
    let link = LINKS[usize::from(which) % LINKS.len()];
    let mut options = DecodeOptions::new().with_decap(choice & 1 == 1).with_esp_null(choice & 2 == 2);
    if choice & 4 == 4 {
        options = options.with_custom(&CUSTOM);
    }
    let mut chosen = Vec::new();
    for _ in 0..depth % 5 {
        let Some((&pair, behind)) = rest.split_first_chunk::<2>() else { break };
        chosen.push(pair);
        rest = behind;
    }
    let frame = chosen.iter().rev().fold(rest.to_vec(), |inner, &[entry, which]| {
        wrap(ENTRIES[usize::from(entry) % ENTRIES.len()], which, &inner)
    });
    let decoded = decode(link, &frame, options);
    assert_eq!(decoded, decode_layered(link, &frame, options));
    assert_eq!(decoded, explain(link, &frame, options).decoded);
    assert_eq!(decoded, Census::default().decode(1, link, &frame, &options));
    let mut counts = EncapsulationCounts::default();
    counts.look(1, link, &frame, options, decoded.as_ref());
    if let Ok(headers) = decoded {
        assert!(headers.network_offset <= headers.transport_offset);
        assert!(headers.transport_offset <= headers.payload_offset);
        assert!(headers.payload_offset as usize <= frame.len());
        // A tuple has neither a zone nor the type and code of an ICMP message.
        assert_eq!(
            headers.tuple().canonical().0,
            headers.key.with_zone(0).with_message(0, Direction::LowToHigh)
        );
        // The original length equals that of the record, or is longer.
        for more in [0, 1000] {
            let wire_bytes = frame.len() as u32 + more;
            let view = PacketView::new(&frame, headers, 0, wire_bytes);
            assert!(view.ip_bytes() as usize >= view.payload().len());
        }
        // An answer is a packet of the flow, or an error about it.
        let mut answer = Vec::new();
        for refusal in [Refusal::Reset, Refusal::Icmp] {
            if link == LinkType::ETHERNET && refusal.answer(&frame, &headers, &mut answer) {
                assert!(decode(link, &answer, options).is_ok());
            }
        }
    }
});
