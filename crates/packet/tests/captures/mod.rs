//! A minimal reader of capture files for tests. It reads the whole file into memory.
//!
//! The production reader is one layer above this crate.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use flowloom_packet::LinkType;
use pcap_parser::pcapng::PcapNGSlice;
use pcap_parser::traits::PcapNGPacketBlock as _;
use pcap_parser::{
    Block, PcapBlockOwned, parse_pcap_frame, parse_pcap_frame_be, parse_pcap_frame_modified,
    parse_pcap_header,
};

/// Calls `each` with link type, bytes on the wire, and captured bytes of every record of a file.
///
/// # Panics
///
/// Panics if the file cannot be read.
pub(crate) fn for_each_packet(path: &Path, mut each: impl FnMut(LinkType, u32, &[u8])) {
    let file = unpacked(&fs::read(path).expect("the file can be read"));
    if file.starts_with(&[0x0A, 0x0D, 0x0D, 0x0A]) {
        blocks(&file, &mut each);
    } else {
        records(&file, &mut each);
    }
}

fn unpacked(file: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match file {
        [0x1F, 0x8B, ..] => {
            flate2::read::MultiGzDecoder::new(file).read_to_end(&mut out).expect("whole gzip members");
        }
        [0x28, 0xB5, 0x2F, 0xFD, ..] => {
            let mut decoder = zstd::stream::read::Decoder::new(file).expect("a zstd frame");
            decoder.read_to_end(&mut out).expect("whole zstd frames");
        }
        _ => out.extend_from_slice(file),
    }
    out
}

/// The classic format: one link type for all records.
fn records(file: &[u8], each: &mut impl FnMut(LinkType, u32, &[u8])) {
    let (mut rest, header) = parse_pcap_header(file).expect("a capture file's header");
    let frame = match (header.is_modified_format(), header.is_bigendian()) {
        (true, _) => parse_pcap_frame_modified,
        (_, true) => parse_pcap_frame_be,
        (_, false) => parse_pcap_frame,
    };
    let link = link_type(header.network.0);
    while let Ok((next, record)) = frame(rest) {
        each(link, record.origlen, record.data);
        rest = next;
    }
    assert!(rest.is_empty(), "{} bytes are left over", rest.len());
}

/// The block format: a link type for each interface of each section.
fn blocks(file: &[u8], each: &mut impl FnMut(LinkType, u32, &[u8])) {
    let mut interfaces = Vec::new();
    for block in PcapNGSlice::from_slice(file).expect("a section header") {
        match block.expect("a whole block") {
            PcapBlockOwned::NG(Block::SectionHeader(_)) => interfaces.clear(),
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                interfaces.push(link_type(interface.linktype.0));
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                each(interfaces[packet.if_id as usize], packet.origlen, packet.packet_data());
            }
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                each(interfaces[0], packet.origlen, packet.packet_data());
            }
            _ => {}
        }
    }
}

fn link_type(number: i32) -> LinkType {
    LinkType(u16::try_from(number & 0xFFFF).expect("sixteen bits"))
}
