//! Small captures of every kind, and mutations of them.

use std::io::{Read, Write};
use std::path::Path;

use flowloom::packet::LinkType;
use flowloom::traffic::synth::{FrameSize, Generate, Mix, MixConfig};
use flowloom::traffic::write::{ByteOrder, Interface, PcapOptions, PcapWriter, PcapngWriter, TimeUnit};

/// Maximum number of bytes of a seed.
const SEED_BYTES: usize = 4096;
/// Maximum number of seeds taken from real captures.
const REAL: usize = 80;

/// A small capture.
#[derive(Debug)]
pub(crate) struct Seed {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// Random numbers drawn from a seed.
#[derive(Debug)]
pub(crate) struct Steps(u64);

impl Steps {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number, of a split mix.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`, which is above 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }
}

/// Returns a number of seeds: the beginnings of real captures, if available, and generated ones.
pub(crate) fn seeds(folder: Option<&Path>, count: usize) -> Vec<Seed> {
    let mut seeds = folder.map(real).unwrap_or_default();
    seeds.truncate(REAL.min(count));
    let generated = count - seeds.len();
    seeds.extend((0..generated).map(|number| generate(number as u64)));
    seeds
}

/// Returns the first bytes of each real capture, packed and unpacked.
fn real(folder: &Path) -> Vec<Seed> {
    let mut paths: Vec<_> =
        std::fs::read_dir(folder.join("nasty")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut seeds = Vec::new();
    for path in paths {
        let mut bytes = Vec::new();
        std::fs::File::open(&path).unwrap().take(SEED_BYTES as u64).read_to_end(&mut bytes).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        seeds.push(Seed { name, bytes });
    }
    seeds
}

/// Returns a generated capture: classic in both byte orders and units, or pcapng, some with other
/// link types.
fn generate(number: u64) -> Seed {
    let mut steps = Steps::new(number);
    let config = MixConfig {
        flows: 8 + steps.next() % 8,
        packets: 64,
        size: if number.is_multiple_of(3) { FrameSize::Fixed(64) } else { FrameSize::Imix },
        v6_permille: 400,
        vlan_permille: 300,
        fragment_permille: 31,
        other_permille: 50,
        seed: number,
        ..MixConfig::default()
    };
    let mut mix = Mix::new(config).unwrap();
    let mut frames = Vec::new();
    let mut frame = Vec::new();
    while let Some(meta) = mix.next_into(&mut frame) {
        frames.push((meta.time_ns, frame.clone()));
    }
    // The same frames with link types that have no Ethernet header, so that they are noise to their
    // decoders.
    let links: Vec<LinkType> = LinkType::supported().collect();
    let link = if number.is_multiple_of(4) { links[steps.below(links.len())] } else { LinkType::ETHERNET };
    let bytes = if number.is_multiple_of(2) {
        let options = PcapOptions {
            time_unit: if steps.next().is_multiple_of(2) { TimeUnit::Micro } else { TimeUnit::Nano },
            byte_order: if steps.next().is_multiple_of(2) { ByteOrder::Little } else { ByteOrder::Big },
            link,
            snaplen_bytes: if steps.next().is_multiple_of(3) { 96 } else { 262_144 },
        };
        let mut writer = PcapWriter::new(Vec::new(), options).unwrap();
        for (time_ns, frame) in &frames {
            writer.write(*time_ns, u32::try_from(frame.len()).unwrap(), frame).unwrap();
        }
        writer.finish().unwrap()
    } else {
        let interfaces = vec![Interface { link, ..Interface::default() }, Interface::default()];
        let mut writer = PcapngWriter::new(Vec::new(), interfaces).unwrap();
        for (time_ns, frame) in &frames {
            let interface = steps.below(2);
            writer.write(interface, *time_ns, u32::try_from(frame.len()).unwrap(), frame).unwrap();
        }
        writer.finish().unwrap()
    };
    let mut bytes = match number % 10 {
        8 => packed(&bytes[..bytes.len().min(8192)]),
        _ => bytes,
    };
    bytes.truncate(SEED_BYTES);
    Seed { name: format!("generated {number}"), bytes }
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns a seed with up to eight changes: bits, bytes, extreme numbers, and pieces that are
/// duplicated, removed, or taken from elsewhere.
pub(crate) fn mutant(seed: &Seed, others: &[Seed], steps: &mut Steps) -> Vec<u8> {
    let mut bytes = seed.bytes.clone();
    for _ in 0..=steps.below(8) {
        if bytes.is_empty() {
            break;
        }
        let at = steps.below(bytes.len());
        let span = at..(at + 1 + steps.below(64)).min(bytes.len());
        match steps.below(6) {
            0 => bytes[at] ^= 1 << steps.below(8),
            1 => bytes[at] = steps.next().to_le_bytes()[0],
            2 => {
                const EXTREMES: [u32; 8] =
                    [0, 1, 0x7FFF_FFFF, 0x8000_0000, u32::MAX, 0xFFFF, 0x0100_0000, 0x00FF_FFFF];
                let word = EXTREMES[steps.below(EXTREMES.len())].to_le_bytes();
                for (byte, value) in bytes[at..].iter_mut().zip(word) {
                    *byte = value;
                }
            }
            3 => {
                let piece = bytes[span].to_vec();
                bytes.splice(at..at, piece);
            }
            4 => {
                bytes.drain(span);
            }
            _ => {
                let other = &others[steps.below(others.len())].bytes;
                let from = steps.below(other.len());
                let piece = &other[from..(from + span.len()).min(other.len())];
                bytes.splice(span, piece.iter().copied());
            }
        }
    }
    bytes.truncate(2 * SEED_BYTES);
    bytes
}
