//! What the input stage counts, against the packets themselves.

use flowloom_engine::{Control, Mode, run};
use flowloom_packet::reason::DropCounts;
use flowloom_packet::{
    DecodeOptions, DropReason, Fill, LinkType, PacketBatch, PacketSource, SourceError, decode,
};
use flowloom_scheduler::{DirectHash, WorkerCount};

use crate::common::{Memory, Recorder, config, mix, small_table};

/// Withholds every tenth packet of a batch, and says so after the batch.
struct Withholding(Memory, u64);

impl PacketSource for Withholding {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        let fill = self.0.next_batch(batch)?;
        let mut number = 0;
        let before = batch.packets.len();
        batch.packets.retain(|_| {
            number += 1;
            number % 10 != 0
        });
        self.1 += (before - batch.packets.len()) as u64;
        Ok(fill)
    }

    fn withheld(&mut self) -> DropCounts {
        let mut counts = DropCounts::default();
        counts.add(DropReason::NotIp, std::mem::take(&mut self.1));
        counts
    }
}

#[test]
fn the_input_stage_counts_what_there_is() {
    let mut source = Memory::of(mix(3_000, 100));
    for (_, packets) in &mut source.blocks {
        for (i, packet) in packets.iter_mut().enumerate() {
            match i % 50 {
                7 => packet.wire = packet.captured - 1,
                8 => packet.wire = packet.captured + 1,
                9 => packet.link = LinkType(190),
                _ => {}
            }
        }
    }
    // What the source yields, packet by packet.
    let (mut yielded, mut wire, mut captured, mut over, mut decoded) = (0, 0, 0, 0, 0);
    let mut times = Vec::new();
    let (mut again, mut batch) = (Withholding(source.clone(), 0), PacketBatch::new());
    while again.next_batch(&mut batch).unwrap() == Fill::Packets {
        let block = batch.block.as_ref().unwrap().bytes();
        for packet in &batch.packets {
            yielded += 1;
            wire += u64::from(packet.wire);
            captured += u64::from(packet.captured);
            over += u64::from(packet.captured > packet.wire);
            times.push(packet.time_ns);
            let start = packet.position as usize;
            let bytes = &block[start..start + packet.captured as usize];
            decoded += u64::from(decode(packet.link, bytes, DecodeOptions::default()).is_ok());
        }
    }
    let withheld = again.1;
    assert!(withheld > 100 && over > 20 && decoded < yielded);
    for mode in [Mode::Inline, Mode::Pipeline { workers: 2 }] {
        let report = run(
            &config(mode),
            &mut Withholding(source.clone(), 0),
            &mut DirectHash::new(WorkerCount::new(mode.workers()).unwrap()),
            |_| small_table(),
            |_| Recorder::default(),
            &Control::default(),
        )
        .unwrap();
        assert!(report.is_balanced());
        let input = &report.input;
        assert_eq!(input.packets, yielded + withheld, "{mode:?}");
        assert_eq!(input.decoded, decoded, "{mode:?}");
        assert_eq!(input.dropped.total(), yielded + withheld - decoded, "{mode:?}");
        assert_eq!((input.bytes_on_wire, input.bytes_captured), (wire, captured), "{mode:?}");
        assert_eq!(input.captured_over_wire, over, "{mode:?}");
        assert_eq!(Some(&input.first_ns), times.first(), "{mode:?}");
        assert_eq!(Some(&input.last_ns), times.iter().max(), "{mode:?}");
    }
}
