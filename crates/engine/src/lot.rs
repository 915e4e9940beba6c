//! A lot: a few batches that a thread takes from the source in one go, decodes by itself, and hands in.
//!
//! ```text
//!  one at a time          anybody, by itself          one at a time, in the order they were taken in
//!  source ─ packets ──▶ lot ─ decode, key, hash ─▶ lot: trays, items ─ policy ─▶ rings
//! ```

use std::sync::Arc;

use flowloom_cpu::prefetch;
use flowloom_packet::{BATCH_PACKETS, DropReason, LinkType, RawPacket, SharedBlock};
use flowloom_scheduler::WorkItem;

use crate::actor::Polled;
use crate::descriptor::{Descriptor, Parcel};
use crate::drive::{Front, Next};
use crate::input::Decoder;
use crate::tray::{Stock, Tray, Trays};

/// Batches of a lot at most: what all write in their turns is then not fetched from another CPU for each.
const BATCHES: usize = 8;
/// Packets between the one that is decoded and the one that is asked for.
const AHEAD: usize = 4;

/// A batch, from the source to the rings.
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

const _: () = assert!(BATCH_PACKETS <= u64::BITS as usize, "a bit for each packet of a batch");

impl Portion {
    /// Returns how many packets there are, with and without a key.
    pub(crate) fn len(&self) -> usize {
        self.raw.len()
    }

    /// Returns how many have a key, or were not looked at.
    pub(crate) fn with_keys(&self) -> usize {
        self.raw.len() - self.refused.len()
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
                    items.push(WorkItem { digest, bytes: packet.wire });
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
        while self.len < BATCHES {
            let (first, range) = match front.next() {
                Next::Packets { first, range } => (first, range),
                Next::Not(polled) => return polled,
                Next::Over => return Polled::Done,
            };
            let batch = &mut front.batch;
            let mut ahead = batch.lookahead();
            if self.len == self.portions.len() {
                self.portions.push(Portion::default());
            }
            let portion = &mut self.portions[self.len];
            portion.first = first;
            portion.latest_ns = batch.packets[range.end - 1].time_ns;
            portion.block_number = (batch.block_number, batch.pass);
            // What the decoder would ask for elsewhere: the walk goes on before it decodes.
            let bytes = batch.block.as_ref().map_or(&[][..], |block| block.bytes());
            for _ in range.clone() {
                ahead.request(bytes);
            }
            portion.raw.clear();
            portion.raw.extend_from_slice(&batch.packets[range.clone()]);
            portion.block =
                if range.end == batch.packets.len() { batch.block.take() } else { batch.block.clone() };
            portion.items.clear();
            portion.refused.clear();
            (portion.mask, portion.is_decoded) = (0, false);
            self.len += 1;
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

    /// Returns the batches.
    pub(crate) fn portions(&mut self) -> (&mut [Portion], &mut Trays) {
        (&mut self.portions[..self.len], &mut self.trays)
    }

    /// Returns how many batches there are.
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
                captured: if i == 1 { 0 } else { 42 },
                wire: 42,
                time_ns: 0,
                link: LinkType::ETHERNET,
            }));
            batch.block = Some(Arc::new(Block::Owned(frame)));
            Ok(Fill::Packets)
        }
    }

    /// Takes in lots of a source of so many batches, decodes them and shows them.
    fn each_of(batches: usize, mut show: impl FnMut(Polled, Lot)) {
        let (config, control) = (EngineConfig::new(Mode::Inline), Control::default());
        let mut source = Batches(batches);
        let mut front = Front::new(&config, &mut source, None, &control, Arc::default());
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
    fn a_lot_takes_eight_batches_and_the_next_one_goes_on() {
        let mut seen = Vec::new();
        each_of(2 * BATCHES + 3, |polled, mut lot| {
            let firsts: Vec<u64> = lot.portions().0.iter().map(|portion| portion.first).collect();
            seen.push((polled, lot.len(), firsts[0]));
        });
        let first = |batches: usize| (batches * PACKETS) as u64;
        let expected =
            [(Polled::Worked, 8, 0), (Polled::Worked, 8, first(8)), (Polled::Done, 3, first(16))];
        assert_eq!(seen, expected);
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
