//! Compares the path from frames to flows (decoding, hashing, the table and a state of counters
//! together) with a tracker that takes frames rather than keys.

use std::cell::RefCell;
use std::sync::Arc;

use anyhow::{Result, ensure};
use flowloom::apps::{TcpFlow, TcpTracker};
use flowloom::flow_key::{FlowHasher, FlowKey};
use flowloom::flow_table::{FlowTable, LineHash, TableOptions};
use flowloom::packet::{
    BATCH_PACKETS, Block, Fill, InterfaceName, LinkType, PacketBatch, PacketSource, RawPacket, SharedBlock,
    SourceError,
};
use flowloom::traffic::synth::{Generate, PaperTrace};
use flowloom_measure::lookup::shuffle;
use flowloom_measure::path::hand::hand_loop;
use flowloom_measure::{Outcome, Rounds};

use crate::peers::flowscope::Tracker;

/// The packet of a session to use: an acknowledgement in its middle, which neither begins nor ends
/// anything.
const SCRIPT_LINE: u64 = 6;

/// The time of all frames, so that nothing ages.
const SECOND: u32 = 1;

/// One frame of each flow, in shuffled order, as an endless source that is read in rounds.
#[derive(Clone, Debug)]
pub struct Frames {
    block: SharedBlock,
    packets: Vec<RawPacket>,
    at: usize,
}

impl Frames {
    /// Returns one frame for each of `flows` flows.
    ///
    /// # Errors
    ///
    /// Returns an error if that many sessions cannot be generated.
    pub fn new(flows: u32) -> Result<Self> {
        let mut trace = PaperTrace::with_sessions(flows.into(), 1)?;
        let mut frame = Vec::new();
        for _ in 0..SCRIPT_LINE * u64::from(flows) {
            trace.next_into(&mut frame);
        }
        let mut frames = Vec::with_capacity(flows as usize);
        for _ in 0..flows {
            trace.next_into(&mut frame);
            frames.push(frame.clone().into_boxed_slice());
        }
        shuffle(&mut frames, &mut 1);
        let mut bytes = Vec::new();
        let mut packets = Vec::with_capacity(frames.len());
        for frame in frames {
            let length = u32::try_from(frame.len())?;
            packets.push(RawPacket {
                position: bytes.len() as u64,
                captured_bytes: length,
                wire_bytes: length,
                time_ns: u64::from(SECOND) * 1_000_000_000,
                link: LinkType::ETHERNET,
                interface: InterfaceName::UNKNOWN,
            });
            bytes.extend_from_slice(&frame);
        }
        Ok(Self { block: Arc::new(Block::Owned(bytes)), packets, at: 0 })
    }

    fn each(&self) -> impl Iterator<Item = &[u8]> {
        self.packets.iter().map(|raw| raw.bytes_in(self.block.bytes()))
    }
}

impl PacketSource for Frames {
    #[inline]
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        batch.packets.clear();
        let rest = &self.packets[self.at..];
        if rest.is_empty() {
            self.at = 0;
            batch.block = None;
            return Ok(Fill::End);
        }
        batch.packets.extend_from_slice(&rest[..rest.len().min(BATCH_PACKETS)]);
        if batch.block.is_none() {
            batch.block = Some(Arc::clone(&self.block));
        }
        batch.block_number = 1;
        self.at += batch.packets.len();
        Ok(Fill::Packets)
    }
}

/// Times both, with one frame of every flow per round; the flows exist before the first round.
///
/// # Errors
///
/// Returns an error if they do not find the same flows, or count different numbers of packets.
pub fn compare(flows: u32, rounds: usize) -> Result<Outcome<u64>> {
    let frames = Frames::new(flows)?;
    let (mut source, expected) = (frames.clone(), u64::from(flows));
    let hasher = FlowHasher::with_seed(1);
    let mut table = LineHash::<FlowKey, TcpFlow>::try_new(&TableOptions::for_flows(flows))?;
    let begun = hand_loop(&mut source, &hasher, &mut table, &mut TcpTracker)?.flows;
    ensure!(begun == expected, "flowloom finds {begun} flows in frames of {flows}");
    let mut tracker = Tracker::new(flows as usize);
    frames.each().for_each(|frame| tracker.track(frame, SECOND));
    ensure!(
        tracker.totals() == (expected, expected),
        "flowscope finds {:?}, not {flows}",
        tracker.totals()
    );
    let (table, tracker) = (RefCell::new(table), RefCell::new(tracker));
    let outcome = Rounds::new(rounds)
        .variant_with_lap("flowloom", |lap| {
            let table = &mut *table.borrow_mut();
            let handled = lap.time(|| hand_loop(&mut source, &hasher, table, &mut TcpTracker));
            handled.map_or(0, |handled| handled.decoded)
        })
        .variant_with_lap("flowscope", |lap| {
            let mut tracker = tracker.borrow_mut();
            lap.time(|| {
                frames.each().fold(0, |count, frame| {
                    tracker.track(frame, SECOND);
                    count + 1
                })
            })
        })
        .run()?;
    let (flows_there, packets) = tracker.borrow().totals();
    ensure!(flows_there == expected, "flowscope has lost flows: {flows_there} of {flows}");
    ensure!(u64::from(table.borrow().len()) == expected, "flowloom has lost flows");
    ensure!(packets % expected == 0 && packets > expected, "flowscope has counted {packets} packets");
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_find_the_flows() {
        let outcome = compare(300, 2).unwrap();
        assert_eq!(outcome.answer, 300);
        assert_eq!(outcome.samples.len(), 2);
    }
}
