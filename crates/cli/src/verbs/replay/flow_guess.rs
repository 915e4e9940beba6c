//! Estimates the number of flows in captures, to size the flow tables.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::path::Path;

use flowloom::flow_key::FlowKey;
use flowloom::packet::{DecodeOptions, Fill, PacketBatch, PacketSource, decode};
use flowloom::traffic::capture::{Capture, CaptureParts, Input, SetOptions};

/// Number of packets in the sample.
const SAMPLE_PACKETS: u64 = 8192;
/// Minimum number of TCP flows for an estimate of the share of flows that begin in the sample.
const TCP_FLOWS_MIN: usize = 32;
/// The table's size as a multiple of the estimated number of flows. Of 14 captures of 5,000 to
/// 60,000 flows, one exceeds it. A table that is too small by one flow obtains a second segment,
/// four times as large as the first, whose pages the kernel clears.
const MARGIN: f64 = 1.75;
/// The size without a sample.
const UNKNOWN: u64 = 64 << 10;
/// Limits of the size. The table grows as needed.
const BOUNDS: RangeInclusive<u64> = 1 << 10..=1 << 20;
const RECORD_HEADER_BYTES: u64 = 16;
const TCP: u8 = 6;
const SYN: u16 = 2;

/// Returns the size of a table for the flows in captures of `bytes` bytes, from packets in their
/// middle.
pub(super) fn guess(
    paths: &[&Path],
    bytes: Option<u64>,
    options: SetOptions,
    decode_options: DecodeOptions,
) -> u64 {
    let guess = || -> Option<u64> {
        let bytes = bytes?;
        let inputs: Vec<Input> = paths.iter().map(|&path| Input::Path(path.into())).collect();
        let once = SetOptions { passes: 1, ..options };
        let mut sample = Sample::default();
        let flows = match CaptureParts::plan_at(&inputs, once, &[bytes / 2]) {
            Ok(parts) if parts.len() > 1 => {
                let mut part = parts.open(1).ok()?;
                sample.take(|batch| part.next_batch(batch).ok(), decode_options)?;
                sample.flows_from_middle(bytes as f64 / sample.bytes.max(1) as f64)
            }
            // A file that cannot be divided, such as a compressed one.
            _ => {
                let mut capture = Capture::open(paths.first()?, options.capture).ok()?;
                sample.take(|batch| capture.next_batch(batch).ok(), decode_options)?;
                sample.flows_from_start(bytes as f64 / capture.taken_bytes().max(1) as f64)
            }
        };
        Some((flows * MARGIN * f64::from(options.passes.min(64))) as u64)
    };
    guess().unwrap_or(UNKNOWN).clamp(*BOUNDS.start(), *BOUNDS.end())
}

/// The flows of consecutive packets of a capture.
#[derive(Default)]
struct Sample {
    packets: u64,
    /// The bytes of their records.
    bytes: u64,
    /// Flows that are not TCP.
    others: HashSet<FlowKey>,
    /// TCP flows, and whether the sample contains their SYN.
    tcp: HashMap<FlowKey, bool>,
}

impl Sample {
    /// Takes packets from `next` until the sample is complete.
    fn take(
        &mut self,
        mut next: impl FnMut(&mut PacketBatch) -> Option<Fill>,
        options: DecodeOptions,
    ) -> Option<()> {
        let mut batch = PacketBatch::new();
        while self.packets < SAMPLE_PACKETS && next(&mut batch)? == Fill::Packets {
            let block = batch.block.as_ref()?;
            for raw in &batch.packets {
                self.packets += 1;
                self.bytes += RECORD_HEADER_BYTES + u64::from(raw.captured_bytes);
                let Ok(headers) = decode(raw.link, raw.bytes_in(block.bytes()), options) else { continue };
                if headers.key.protocol() == TCP {
                    *self.tcp.entry(headers.key).or_default() |= headers.tcp_flags & SYN != 0;
                } else {
                    self.others.insert(headers.key);
                }
            }
        }
        Some(())
    }

    fn flows(&self) -> f64 {
        (self.others.len() + self.tcp.len()) as f64
    }

    /// Returns the number of flows of a capture that is `share` times as long, from its first
    /// packets. They begin all flows that are live at the time, so half of the linear extrapolation
    /// is closer to the truth than all of it.
    fn flows_from_start(&self, share: f64) -> f64 {
        self.flows() * share / 2.0
    }

    /// Returns the number of flows of a capture that is `share` times as long, from packets in its
    /// middle. Most of their flows began earlier. The share of TCP flows with a SYN is used as the
    /// share of flows that begin, also for other protocols.
    fn flows_from_middle(&self, share: f64) -> f64 {
        if self.tcp.len() < TCP_FLOWS_MIN {
            return self.flows_from_start(share);
        }
        let begin = self.tcp.values().filter(|begins| **begins).count() as f64 / self.tcp.len() as f64;
        self.flows() * (1.0 + begin * (share - 1.0).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use flowloom::traffic::synth::{Generate, Mix, MixConfig};
    use flowloom::traffic::write::{PcapOptions, PcapWriter};

    use super::*;

    #[test]
    fn estimate_is_near_the_flow_count_of_generated_traffic() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mix.pcap");
        for (flows, packets) in [(50_000, 300_000), (20_000, 300_000), (100_000, 300_000)] {
            let mut mix = Mix::new(MixConfig { flows, packets, ..MixConfig::default() }).unwrap();
            let mut writer = PcapWriter::new(File::create(&path).unwrap(), PcapOptions::default()).unwrap();
            let mut frame = Vec::new();
            while let Some(meta) = mix.next_into(&mut frame) {
                writer.write(meta.time_ns, meta.wire_bytes, &frame).unwrap();
            }
            writer.finish().unwrap();
            let bytes = std::fs::metadata(&path).unwrap().len();
            let guess = guess(&[&path], Some(bytes), SetOptions::default(), DecodeOptions::default());
            let limits = flows..flows * 5 / 2;
            assert!(limits.contains(&guess), "a table for {guess} instead of {flows} flows");
        }
    }

    #[test]
    fn default_flow_count_is_used_without_a_file() {
        let options = (SetOptions::default(), DecodeOptions::default());
        assert_eq!(guess(&[], None, options.0, options.1), UNKNOWN);
        assert_eq!(guess(&[Path::new("none.pcap")], Some(1 << 30), options.0, options.1), UNKNOWN);
    }
}
