//! Captures generated from a seed: formats, tunnels, fragments, times that go back, and corrupt
//! files.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flowloom::packet::{DecodeOptions, LinkType, decode};
use flowloom::traffic::synth::{Generate, Meta, Mix, MixConfig};
use flowloom::traffic::write::{ByteOrder, Interface, PcapOptions, PcapWriter, PcapngWriter, TimeUnit};

use crate::partitions::draw::Draw;

/// The first bytes of some packets' data, so that protocols are recognised.
const PAYLOADS: [&[u8]; 4] = [
    b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.6\r\n",
    b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03",
];
const ETHERNET_BYTES: u32 = 14;
const IPV4_BYTES: u16 = 20;
const MILLISECOND_NS: u64 = 1_000_000;

/// Writes one capture, sometimes two, into a directory.
pub(super) fn write(draw: &mut Draw, directory: &Path) -> io::Result<Vec<PathBuf>> {
    let files = if draw.one_in(8) { 2 } else { 1 };
    let mut paths = Vec::new();
    for number in 0..files {
        let path = directory.join(format!("{number}.pcap"));
        let mut bytes = if draw.one_in(2) { classic(draw)? } else { blocks(draw)? };
        match draw.below(16) {
            0 => bytes.truncate(64 + draw.index(bytes.len() - 64)),
            1 => {
                let at = 64 + draw.index(bytes.len() - 80);
                bytes[at..at + 8].copy_from_slice(&draw.below(u64::MAX).to_le_bytes());
            }
            _ => {}
        }
        let mut file = BufWriter::new(File::create(&path)?);
        file.write_all(&bytes)?;
        file.flush()?;
        paths.push(path);
    }
    Ok(paths)
}

/// Returns a classic file, in either byte order and time unit.
fn classic(draw: &mut Draw) -> io::Result<Vec<u8>> {
    let options = PcapOptions {
        time_unit: draw.choice(&[TimeUnit::Micro, TimeUnit::Nano]),
        byte_order: draw.choice(&[ByteOrder::Little, ByteOrder::Big]),
        snaplen_bytes: draw.choice(&[262_144, 262_144, 262_144, 96]),
        ..PcapOptions::default()
    };
    let mut traffic = Traffic::new(draw)?;
    let mut writer = PcapWriter::new(Vec::new(), options)?;
    while let Some((meta, frame)) = traffic.next(draw) {
        writer.write(meta.time_ns, meta.wire_bytes, frame)?;
    }
    writer.finish()
}

/// Returns a pcapng file. Interfaces may be declared anywhere, and some have packets without
/// Ethernet headers.
fn blocks(draw: &mut Draw) -> io::Result<Vec<u8>> {
    let mut traffic = Traffic::new(draw)?;
    let mut links = vec![LinkType::ETHERNET];
    let mut writer = PcapngWriter::new(Vec::new(), vec![Interface::default()])?;
    let adds_interfaces = draw.one_in(2);
    while let Some((meta, frame)) = traffic.next(draw) {
        if adds_interfaces && links.len() < 6 && draw.one_in(150) {
            let link = draw.choice(&[LinkType::ETHERNET, LinkType::RAW]);
            let snaplen_bytes = draw.choice(&[262_144, 128, 0]);
            links.push(link);
            writer.add_interface(Interface { link, snaplen_bytes, ..Interface::default() })?;
        }
        let mut at = draw.index(links.len());
        let mut skipped = 0;
        if links[at] == LinkType::RAW {
            match decode(LinkType::ETHERNET, frame, DecodeOptions::default()) {
                Ok(headers) => skipped = headers.network_offset,
                Err(_) => at = 0,
            }
        }
        writer.write(at, meta.time_ns, meta.wire_bytes - skipped, &frame[skipped as usize..])?;
    }
    writer.finish()
}

/// A generated mixture that is modified.
struct Traffic {
    mix: Mix,
    frame: Vec<u8>,
    /// Number of flows out of 8 that are sent through a tunnel.
    tunnelled: u64,
    /// A time goes back once per this many packets.
    back: Option<u64>,
}

impl Traffic {
    fn new(draw: &mut Draw) -> io::Result<Self> {
        let packets = 20 + draw.below(2_000);
        let config = MixConfig {
            packets,
            flows: 1 + draw.below(packets.min(300)),
            v6_permille: draw.choice(&[0, 100, 500]),
            vlan_permille: draw.choice(&[0, 0, 300]),
            fragment_permille: draw.choice(&[0, 10, 31]),
            other_permille: draw.choice(&[0, 4, 100]),
            burst_packets: draw.choice(&[1, 8]),
            rate_pps: draw.choice(&[20, 1_000, 1_000_000]),
            seed: draw.below(u64::MAX),
            ..MixConfig::default()
        };
        let tunnelled = draw.choice(&[0, 0, 1, 4]);
        let back = draw.choice(&[None, None, Some(20), Some(500)]);
        let mix = Mix::new(config).map_err(io::Error::other)?;
        Ok(Self { mix, frame: Vec::new(), tunnelled, back })
    }

    fn next(&mut self, draw: &mut Draw) -> Option<(Meta, &[u8])> {
        let mut meta = self.mix.next_into(&mut self.frame)?;
        if self.back.is_some_and(|packets| draw.one_in(packets)) {
            meta.time_ns -= draw.below(3_000) * MILLISECOND_NS;
        }
        if let Ok(headers) = decode(LinkType::ETHERNET, &self.frame, DecodeOptions::default()) {
            let payload = draw.choice(&PAYLOADS);
            let at = headers.payload_offset as usize;
            if draw.one_in(2)
                && headers.payload_bytes as usize >= payload.len()
                && let Some(bytes) = self.frame.get_mut(at..at + payload.len())
            {
                bytes.copy_from_slice(payload);
            }
            if meta.flow.is_some_and(|flow| u64::from(flow) % 8 < self.tunnelled) {
                let packet = self.frame.split_off(headers.network_offset as usize);
                // Tags are kept with the type.
                let tags_bytes = headers.network_offset - ETHERNET_BYTES;
                self.frame.truncate(ETHERNET_BYTES as usize - 2);
                enclose(&mut self.frame, &packet);
                meta.wire_bytes = meta.wire_bytes - tags_bytes + u32::from(IPV4_BYTES);
            }
        }
        Some((meta, &self.frame))
    }
}

/// Appends an IP packet inside an IPv4 packet, after the addresses of an Ethernet frame.
fn enclose(frame: &mut Vec<u8>, packet: &[u8]) {
    let protocol = if packet[0] >> 4 == 6 { 41 } else { 4 };
    let total = u16::try_from(packet.len()).map_or(u16::MAX, |bytes| bytes.saturating_add(IPV4_BYTES));
    frame.extend_from_slice(&[0x08, 0x00, 0x45, 0]);
    frame.extend_from_slice(&total.to_be_bytes());
    frame.extend_from_slice(&[0, 0, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    frame.extend_from_slice(packet);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunnels_are_recognised() {
        let mut draw = Draw(3);
        let mut traffic = Traffic { tunnelled: 8, back: None, ..Traffic::new(&mut draw).unwrap() };
        let mut differ = 0;
        while let Some((_, frame)) = traffic.next(&mut draw) {
            let decoded =
                |decap| decode(LinkType::ETHERNET, frame, DecodeOptions::default().with_decap(decap));
            differ +=
                u32::from(decoded(false).map(|outer| outer.key) != decoded(true).map(|inner| inner.key));
        }
        assert!(differ > 0);
    }
}
