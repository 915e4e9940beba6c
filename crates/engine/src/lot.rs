//! A lot: a few batches that a thread takes from the source in one go, decodes by itself, and hands in.
//!
//! ```text
//!  one at a time          anybody, by itself          one at a time, in the order they were taken in
//!  source ─ packets ──▶ lot ─ decode, key, hash ─▶ lot: trays, items ─ policy ─▶ rings
//! ```

use std::sync::Arc;

use flowloom_cpu::prefetch;
use flowloom_packet::{DropReason, LinkType, RawPacket, SharedBlock};
use flowloom_scheduler::WorkItem;

use crate::actor::Polled;
use crate::descriptor::{Descriptor, Parcel};
use crate::drive::{Front, Next};
use crate::input::Decoder;
use crate::tray::{Stock, TRAY_PACKETS, Tray, Trays};

/// Batches of a lot at most, eight trays if they lie in one block: what all write in their turns is then not fetched from another CPU for each.
const BATCHES: usize = 16;
/// Packets between the one that is decoded and the one that is asked for.
const AHEAD: usize = 4;

/// A batch or two of one block, from the source to the rings.
#[derive(Debug, Default)]
pub(crate) struct Portion {
    /// The number of its first packet.
    pub(crate) first: u64,
    /// The latest time of its packets.
    pub(crate) latest_ns: u64,
    /// What tells its block from others.
    pub(crate) block_number: (u64, u32),
    block: Option<SharedBlock>,
    raw: Vec<RawPacket>,
    /// What it is decoded into.
    pub(crate) tray: Option<Arc<Tray>>,
    /// Whoever decoded it has come to its end.
    pub(crate) is_decoded: bool,
    /// What the policy knows of each packet on the tray.
    pub(crate) items: Vec<WorkItem>,
    /// Which of its packets are on the tray.
    pub(crate) mask: u64,
    /// Those that have no key.
    pub(crate) refused: Vec<(DropReason, LinkType)>,
}

impl Portion {
    /// Returns how many packets there are, with and without a key.
    pub(crate) fn len(&self) -> usize {
        self.raw.len()
    }

    /// Returns how many have a key, or were not looked at.
    pub(crate) fn with_keys(&self) -> usize {
        self.raw.len() - self.refused.len()
    }

    /// Begins anew, with packets of a block.
    fn begin(&mut self, first: u64, block_number: (u64, u32), block: Option<SharedBlock>) {
        (self.first, self.block_number, self.block) = (first, block_number, block);
        self.raw.clear();
        self.items.clear();
        self.refused.clear();
        (self.mask, self.is_decoded) = (0, false);
    }

    /// Says whether so many packets, of which the first has this number, go on where it ends: on one tray, and in one block.
    fn goes_on(
        &self,
        first: u64,
        packets: usize,
        block_number: (u64, u32),
        block: Option<&SharedBlock>,
    ) -> bool {
        self.raw.len() + packets <= TRAY_PACKETS
            && self.first + self.raw.len() as u64 == first
            && self.block_number == block_number
            && self.block.as_ref().map(Arc::as_ptr) == block.map(Arc::as_ptr)
    }

    /// Decodes its packets into its tray.
    fn decode(&mut self, decoder: &Decoder) {
        let Some(tray) = self.tray.as_mut().and_then(Arc::get_mut) else {
            unreachable!("a tray that is lent is nobody else's")
        };
        let Some(block) = self.block.take() else { return };
        let bytes = block.bytes();
        let (first, pass, raw) = (self.first, self.block_number.1, &self.raw[..]);
        let (items, refused, mask) = (&mut self.items, &mut self.refused, &mut self.mask);
        tray.fill(|writer| {
            for (i, packet) in raw.iter().enumerate() {
                // The walk has asked for it, a few batches ago.
                if let Some(packet) = raw.get(i + AHEAD) {
                    prefetch::read_at(bytes, packet.position as usize);
                }
                let number = first + i as u64;
                let admitted = decoder.admit((number, packet), bytes, pass, |headers, hash, place| {
                    let digest = decoder.digest(&headers.key, hash);
                    let parcel = Descriptor::packet(hash.table, place, packet.link);
                    writer.push(Parcel::words(parcel, headers));
                    items.push(WorkItem { digest, bytes: packet.wire_bytes });
                    *mask |= 1 << i;
                });
                if let Err(reason) = admitted {
                    refused.push((reason, packet.link));
                }
            }
        });
        tray.block = Some(block);
        self.is_decoded = true;
    }
}

/// Some portions, and the trays that they use one after the other.
#[derive(Debug)]
pub(crate) struct Lot {
    portions: Vec<Portion>,
    len: usize,
    pub(crate) trays: Trays,
}

impl Lot {
    pub(crate) fn new(stock: Stock) -> Self {
        Self { portions: Vec::new(), len: 0, trays: Trays::new(stock) }
    }

    /// Takes in what the source has, as far as there is room; says why there is no more.
    pub(crate) fn fill(&mut self, front: &mut Front<'_>) -> Polled {
        for _ in 0..BATCHES {
            let (first, range) = match front.next() {
                Next::Packets { first, range } => (first, range),
                Next::Not(polled) => return polled,
                Next::Over => return Polled::Done,
            };
            let batch = &mut front.batch;
            let mut ahead = batch.lookahead();
            // What the decoder would ask for elsewhere: the walk goes on before it decodes.
            let bytes = batch.block.as_ref().map_or(&[][..], |block| block.bytes());
            for _ in range.clone() {
                ahead.request(bytes);
            }
            let block =
                if range.end == batch.packets.len() { batch.block.take() } else { batch.block.clone() };
            let block_number = (batch.block_number, batch.pass);
            let packets = &batch.packets[range];
            let portion = match self.portions[..self.len].last_mut() {
                Some(last) if last.goes_on(first, packets.len(), block_number, block.as_ref()) => last,
                _ => {
                    if self.len == self.portions.len() {
                        self.portions.push(Portion::default());
                    }
                    self.len += 1;
                    let next = &mut self.portions[self.len - 1];
                    next.begin(first, block_number, block);
                    next
                }
            };
            portion.latest_ns = packets[packets.len() - 1].time_ns;
            portion.raw.extend_from_slice(packets);
        }
        Polled::Worked
    }

    /// Decodes all packets.
    pub(crate) fn decode(&mut self, decoder: &Decoder) {
        let Self { portions, len, trays } = self;
        for portion in &mut portions[..*len] {
            portion.tray = Some(trays.lend());
            portion.decode(decoder);
        }
    }

    /// Returns the portions, and the trays that they use.
    pub(crate) fn portions(&mut self) -> (&mut [Portion], &mut Trays) {
        (&mut self.portions[..self.len], &mut self.trays)
    }

    /// Returns how many portions there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Lets go of everything.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }
}

#[cfg(not(loom))]
#[cfg(test)]
pub(crate) mod tests {
    use flowloom_packet::{Block, Fill, PacketBatch, PacketSource, SourceError};

    use super::*;
    use crate::config::{EngineConfig, Mode};
    use crate::control::Control;

    /// Packets of each batch, of which the second has no key.
    pub(crate) const PACKETS: usize = 4;

    /// Yields so many batches.
    pub(crate) struct Batches(pub(crate) usize);

    impl PacketSource for Batches {
        fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
            let Some(left) = self.0.checked_sub(1) else { return Ok(Fill::End) };
            self.0 = left;
            let mut frame = vec![0; 42];
            frame[12] = 8;
            frame[14] = 0x45;
            frame[17] = 28;
            (frame[22], frame[23], frame[39]) = (64, 17, 8);
            batch.packets.clear();
            batch.packets.extend((0..PACKETS).map(|i| RawPacket {
                position: 0,
                captured_bytes: if i == 1 { 0 } else { 42 },
                wire_bytes: 42,
                time_ns: 0,
                link: LinkType::ETHERNET,
            }));
            batch.block = Some(Arc::new(Block::Owned(frame)));
            batch.block_number += 1;
            Ok(Fill::Packets)
        }
    }

    /// Yields batches of so many packets of one block, each with its block's number and its pass.
    struct OneBlock(SharedBlock, std::vec::IntoIter<(usize, u64, u32)>);

    impl PacketSource for OneBlock {
        fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
            let Some((packets, number, pass)) = self.1.next() else { return Ok(Fill::End) };
            batch.packets.clear();
            let link = LinkType::ETHERNET;
            let packet = RawPacket { position: 0, captured_bytes: 0, wire_bytes: 60, time_ns: 0, link };
            batch.packets.resize(packets, packet);
            (batch.block_number, batch.pass) = (number, pass);
            batch.block = Some(Arc::clone(&self.0));
            Ok(Fill::Packets)
        }
    }

    /// Takes in lots of a source of so many batches, decodes them and shows them.
    fn each_of(batches: usize, show: impl FnMut(Polled, Lot)) {
        each_from(&mut Batches(batches), batches, show);
    }

    fn each_from(
        source: &mut (dyn PacketSource + Send),
        batches: usize,
        mut show: impl FnMut(Polled, Lot),
    ) {
        let (config, control) = (EngineConfig::new(Mode::Inline), Control::default());
        let mut front = Front::new(&config, source, None, &control, Arc::default());
        let decoder = Decoder::new(config.decode, config.hasher.clone(), config.digest);
        for _ in 0..=batches {
            let mut lot = Lot::new(Stock::default());
            let polled = lot.fill(&mut front);
            lot.decode(&decoder);
            show(polled, lot);
            if polled == Polled::Done {
                return;
            }
        }
        panic!("{batches} batches are not taken in");
    }

    /// Returns a decoded lot of so many batches, as many as fit.
    pub(crate) fn lot_of(batches: usize) -> Lot {
        assert!(batches < BATCHES, "one lot is enough");
        let mut only = None;
        each_of(batches, |_, lot| only = Some(lot));
        only.unwrap()
    }

    #[test]
    fn a_lot_takes_sixteen_batches_and_the_next_one_goes_on() {
        let mut seen = Vec::new();
        each_of(2 * BATCHES + 3, |polled, mut lot| {
            let firsts: Vec<u64> = lot.portions().0.iter().map(|portion| portion.first).collect();
            seen.push((polled, lot.len(), firsts[0]));
        });
        let first = |batches: usize| (batches * PACKETS) as u64;
        let expected =
            [(Polled::Worked, 16, 0), (Polled::Worked, 16, first(16)), (Polled::Done, 3, first(32))];
        assert_eq!(seen, expected);
    }

    #[test]
    fn batches_that_go_on_in_one_block_share_a_tray_as_long_as_there_is_room() {
        let batches = vec![
            (32, 7, 0),
            (32, 7, 0),
            (32, 7, 0),
            (20, 7, 0),
            (12, 7, 0),
            (1, 7, 1),
            (1, 8, 1),
            (1, 8, 1),
        ];
        let count = batches.len();
        let block: SharedBlock = Arc::new(Block::Owned(Vec::new()));
        let mut source = OneBlock(Arc::clone(&block), batches.into_iter());
        let mut seen = Vec::new();
        each_from(&mut source, count, |_, mut lot| {
            seen.extend(lot.portions().0.iter().map(|portion| (portion.first, portion.len())));
            assert_eq!(Arc::strong_count(&block), 2 + lot.len(), "one for each tray");
        });
        assert_eq!(seen, [(0, 64), (64, 64), (128, 1), (129, 2)]);
    }

    #[test]
    fn a_portion_knows_its_packets_and_which_of_them_have_a_key() {
        let mut lot = lot_of(2);
        let (portions, _) = lot.portions();
        let portion = &portions[1];
        assert_eq!((portion.first, portion.len(), portion.with_keys()), (4, PACKETS, PACKETS - 1));
        assert_eq!((portion.mask, portion.items.len(), portion.refused.len()), (0b1101, 3, 1));
    }
}
