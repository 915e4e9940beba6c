//! Arbitrary fragments in any order: each is accounted for, buffers stay within their limits, and
//! the same input gives the same packets independent of the batches.
//!
//! Bytes are converted to fragments of several datagrams, whose headers a fuzzer would not guess,
//! and to some unmodified frames.
#![no_main]

use std::sync::Arc;

use arbitrary::Arbitrary;
use flowloom_packet::{
    Block, DecodeOptions, DropCounts, Fill, InterfaceName, LinkType, PacketBatch, PacketSource, RawPacket,
    SourceError,
};
use flowloom_traffic::defrag::{Defrag, DefragLimits};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Frame {
    /// A fragment: its datagram, family, offset in eighths, more-fragments flag, length, bytes.
    Fragment { id: u8, v6: bool, offset: u16, more: bool, length: u16, fill: u8 },
    /// An unmodified frame.
    Any(Vec<u8>),
}

#[derive(Arbitrary, Debug)]
struct Input {
    decap: bool,
    step_ms: u16,
    batch: u8,
    frames: Vec<Frame>,
}

impl Frame {
    fn bytes(self) -> Vec<u8> {
        match self {
            Self::Any(bytes) => bytes,
            Self::Fragment { id, v6, offset, more, length, fill } => {
                // Fragments are short and their offsets are close, so that fragments overlap.
                let length = usize::from(length % 200);
                let offset = if offset % 8 == 0 { offset & 0x1FFF } else { offset % 64 };
                let payload = vec![fill; length];
                let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
                if v6 {
                    let total = u16::try_from(8 + length).expect("short").to_be_bytes();
                    frame.extend([0x86, 0xDD, 0x60, 0, 0, 0, total[0], total[1], 44, 64]);
                    frame.extend([0xFD; 31]);
                    frame.push(id % 4);
                    frame.extend([17, 0]);
                    frame.extend((offset << 3 | u16::from(more)).to_be_bytes());
                    frame.extend([0, 0, 0, id % 8]);
                } else {
                    let total = u16::try_from(20 + length).expect("short").to_be_bytes();
                    let field = (offset | u16::from(more) << 13).to_be_bytes();
                    frame.extend([
                        8,
                        0,
                        0x45,
                        0,
                        total[0],
                        total[1],
                        0,
                        id % 8,
                        field[0],
                        field[1],
                        64,
                        17,
                    ]);
                    frame.extend([0, 0, 10, 0, 0, 1, 10, 0, 0, id % 4]);
                }
                frame.extend(payload);
                frame
            }
        }
    }
}

struct Memory<'a> {
    frames: &'a [Vec<u8>],
    step_ns: u64,
    batch: usize,
    at: usize,
}

impl PacketSource for Memory<'_> {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        batch.packets.clear();
        let mut block = Vec::new();
        for frame in self.frames.iter().skip(self.at).take(self.batch) {
            let length = u32::try_from(frame.len()).expect("an input is small");
            batch.packets.push(RawPacket {
                position: block.len() as u64,
                captured_bytes: length,
                wire_bytes: length,
                time_ns: (self.at + batch.packets.len()) as u64 * self.step_ns,
                link: LinkType::ETHERNET,
                interface: InterfaceName::UNKNOWN,
            });
            block.extend_from_slice(frame);
        }
        self.at += batch.packets.len();
        batch.block_number += 1;
        batch.block = Some(Arc::new(Block::Owned(block)));
        Ok(if batch.packets.is_empty() { Fill::End } else { Fill::Packets })
    }
}

fn drained(input: &Input, frames: &[Vec<u8>], batch_packets: usize) -> (Vec<Vec<u8>>, DropCounts) {
    let limits = DefragLimits {
        datagrams_max: 6,
        bytes_max: 512 << 10,
        fragments_max: 40,
        ..DefragLimits::default()
    };
    let step_ns = u64::from(input.step_ms) * 1_000_000;
    let memory = Memory { frames, step_ns, batch: batch_packets, at: 0 };
    let mut source = Defrag::new(memory, DecodeOptions::new().with_decap(input.decap), limits);
    let mut batch = PacketBatch::new();
    let (mut packets, mut withheld) = (Vec::new(), DropCounts::default());
    loop {
        let fill = source.next_batch(&mut batch).expect("memory does not fail");
        withheld.merge(&source.withheld());
        let (datagrams, bytes) = source.held();
        assert!(datagrams <= limits.datagrams_max && bytes <= limits.bytes_max, "{datagrams}, {bytes}");
        match fill {
            Fill::Packets => {}
            Fill::Starved => panic!("all blocks are free"),
            Fill::End => break,
        }
        let block = batch.block.as_ref().expect("a batch with packets has a block");
        for raw in &batch.packets {
            let start = raw.position as usize;
            packets.push(block.bytes()[start..start + raw.captured_bytes as usize].to_vec());
        }
    }
    assert_eq!(frames.len() as u64, packets.len() as u64 + withheld.total(), "{withheld:?}");
    assert_eq!(source.held(), (0, 0));
    (packets, withheld)
}

fuzz_target!(|input: Input| {
    let mut input = input;
    let frames: Vec<Vec<u8>> = std::mem::take(&mut input.frames).into_iter().map(Frame::bytes).collect();
    let batch = usize::from(input.batch % 32) + 1;
    assert_eq!(drained(&input, &frames, batch), drained(&input, &frames, 32));
});
