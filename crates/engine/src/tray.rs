//! A batch or two on their way: decoded once into a tray, of which each worker gets the part that is its own.
//!
//! ```text
//!  input stage ─ decode ─▶ tray: 64 parcels, block ─┬─ ring ─ (tray, 0b…0110) ─▶ worker 0
//!                                                   └─ ring ─ (tray, 0b…1001) ─▶ worker 1
//! ```
//!
//! So what is written per packet is written once, where the decoder puts it, and a ring moves sixteen bytes a batch. A tray is used
//! again when no worker has it any more; none of them writes to it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;
use flowloom_cpu::prefetch;
use flowloom_cpu::stream::{self, Writer};
use flowloom_packet::{BATCH_PACKETS, PacketView, SharedBlock};

use crate::descriptor::{Descriptor, Parcel};

/// Packets that a tray has room for. What is told from CPU to CPU is told once a tray, so it has room for more than a batch.
pub(crate) const TRAY_PACKETS: usize = 2 * BATCH_PACKETS;

/// Packets that were decoded together, and the block they lie in.
///
/// It begins a line: who reads a packet does not wait for whoever counts, in the line before, how many have the tray. Its parcels are
/// whole lines, which are written [past the caches](stream): each of them was read by workers since it was written last.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Tray {
    parcels: [[u64; Parcel::WORDS]; TRAY_PACKETS],
    pub(crate) block: Option<SharedBlock>,
    len: usize,
}

const _: () = assert!(align_of::<Tray>() == prefetch::LINE_BYTES, "a tray begins a line");

impl Default for Tray {
    fn default() -> Self {
        Self { parcels: [[0; Parcel::WORDS]; TRAY_PACKETS], block: None, len: 0 }
    }
}

impl Tray {
    /// Asks for the lines of parcel `i`.
    #[inline(always)]
    fn fetch(&self, i: usize) {
        let parcel = std::ptr::from_ref(&self.parcels[i]);
        prefetch::read(parcel);
        prefetch::read(parcel.wrapping_byte_add(prefetch::LINE_BYTES));
    }

    /// Puts packets on the empty tray: those that `work` writes. If it panics, the tray stays empty.
    #[inline(always)]
    pub(crate) fn fill(&mut self, work: impl FnOnce(&mut Writer<'_, { Parcel::WORDS }>)) {
        self.len = stream::past_caches(&mut self.parcels, |writer| {
            work(writer);
            writer.written()
        });
    }

    /// Returns parcel `i`.
    #[inline(always)]
    pub(crate) fn parcel(&self, i: usize) -> Parcel {
        Parcel::of_words(&self.parcels[i])
    }

    /// Returns what lies on the tray.
    pub(crate) fn parcels(&self) -> impl Iterator<Item = Parcel> {
        self.parcels[..self.len].iter().map(Parcel::of_words)
    }

    /// Sets the turn of parcel `i` in its shard.
    pub(crate) fn set_turn(&mut self, i: usize, turn: u32) {
        let tag = &mut self.parcels[i][Parcel::TAG];
        *tag = Descriptor::tag_with_turn(*tag, turn);
    }
}

/// The packets of a tray that one worker has to deal with.
#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) tray: Arc<Tray>,
    /// Bit `i` stands for parcel `i`; never empty.
    pub(crate) mask: u64,
}

const _: () = assert!(TRAY_PACKETS <= u64::BITS as usize, "a bit for each packet of a tray");

/// Empty trays that change between lots at a time: a lot keeps fewer than twice as many.
const GROUP: usize = 8;

/// What the trays of all lots have in common.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stock(Arc<Common>);

#[derive(Debug, Default)]
struct Common {
    on_the_way: CachePadded<AtomicUsize>,
    /// Empty trays that their lots did not need. Else each lot would in time have as many as are ever on the way.
    spare: Mutex<Vec<Arc<Tray>>>,
}

impl Stock {
    /// Returns how many trays may be with workers, of all lots: at most twice as many as are, and a few.
    pub(crate) fn on_the_way(&self) -> usize {
        // Relaxed: a tray more or less is no matter.
        self.0.on_the_way.load(Ordering::Relaxed)
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Arc<Tray>>> {
        self.0.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Some of the input stage's trays: as many as there are batches on the way, and a few.
#[derive(Debug, Default)]
pub(crate) struct Trays {
    on_the_way: VecDeque<Arc<Tray>>,
    free: Vec<Arc<Tray>>,
    stock: Stock,
}

impl Trays {
    pub(crate) fn new(stock: Stock) -> Self {
        Self { stock, ..Self::default() }
    }

    /// Returns an empty tray that nobody else has.
    pub(crate) fn lend(&mut self) -> Arc<Tray> {
        // Two looks for each tray that is lent: at least half of those on the way are really there.
        self.collect(2);
        if self.free.is_empty() {
            let mut spare = self.stock.spare();
            let rest = spare.len().saturating_sub(GROUP);
            self.free.extend(spare.drain(rest..));
        }
        self.free.pop().unwrap_or_default()
    }

    /// Takes a tray whose shares are with workers.
    pub(crate) fn sent(&mut self, tray: Arc<Tray>) {
        self.on_the_way.push_back(tray);
        self.stock.0.on_the_way.fetch_add(1, Ordering::Relaxed);
    }

    /// Empties all trays that no worker has any more: their blocks can be filled again.
    pub(crate) fn collect_all(&mut self) {
        self.collect(self.on_the_way.len());
    }

    fn collect(&mut self, looks: usize) {
        for _ in 0..looks {
            // Who has them is counted by other CPUs: the line of a later one is asked for meanwhile.
            if let Some(later) = self.on_the_way.get(looks) {
                prefetch::write(Arc::as_ptr(later).wrapping_byte_sub(prefetch::LINE_BYTES));
            }
            let Some(mut tray) = self.on_the_way.pop_front() else { break };
            match Arc::get_mut(&mut tray) {
                Some(empty) => {
                    empty.block = None;
                    empty.len = 0;
                    self.free.push(tray);
                    self.stock.0.on_the_way.fetch_sub(1, Ordering::Relaxed);
                }
                None => self.on_the_way.push_back(tray),
            }
        }
        if self.free.len() >= 2 * GROUP {
            self.stock.spare().extend(self.free.drain(GROUP..));
        }
    }
}

/// What a worker has taken from its ring at a time.
#[derive(Debug)]
pub(crate) struct Basket {
    shares: Vec<Share>,
    /// Share and place of each packet, in their order.
    picks: Vec<(u8, u8)>,
    packets_max: usize,
}

impl Basket {
    /// Returns an empty basket for at most so many packets, a tray at least and 255 at most.
    pub(crate) fn new(packets_max: usize) -> Self {
        assert!((TRAY_PACKETS..=255).contains(&packets_max), "a share fits, and a place is a byte");
        Self {
            shares: Vec::with_capacity(packets_max),
            picks: Vec::with_capacity(packets_max),
            packets_max,
        }
    }

    /// Says whether the packets of a share find room.
    pub(crate) fn has_room(&self, share: &Share) -> bool {
        self.picks.len() + share.mask.count_ones() as usize <= self.packets_max
    }

    /// Adds the packets of a share.
    #[inline]
    pub(crate) fn add(&mut self, share: Share) {
        let number = self.shares.len() as u8;
        let mut mask = share.mask;
        while mask != 0 {
            let place = mask.trailing_zeros() as u8;
            share.tray.fetch(usize::from(place));
            self.picks.push((number, place));
            mask &= mask - 1;
        }
        self.shares.push(share);
    }

    /// Lets go of everything.
    pub(crate) fn clear(&mut self) {
        self.picks.clear();
        self.shares.clear();
    }

    /// Returns how many packets there are.
    pub(crate) fn len(&self) -> usize {
        self.picks.len()
    }

    /// Returns the bytes on the wire of all packets.
    pub(crate) fn wire_bytes(&self) -> u64 {
        (0..self.len()).map(|i| u64::from(self.parcel(i).packet.wire)).sum()
    }

    /// Returns a packet's parcel.
    #[inline(always)]
    pub(crate) fn parcel(&self, i: usize) -> Parcel {
        let (share, place) = self.picks[i];
        self.shares[usize::from(share)].tray.parcel(usize::from(place))
    }

    /// Returns a packet as applications see it, and its number.
    pub(crate) fn view(&self, i: usize) -> (u64, PacketView<'_>) {
        let (share, _) = self.picks[i];
        self.parcel(i).view(block_of(&self.shares[usize::from(share)]))
    }

    /// Opens the blocks that the packets lie in: once for each share, not for each packet.
    #[inline]
    pub(crate) fn open<const SHARES: usize>(&self) -> Open<'_, SHARES> {
        let mut blocks: [&[u8]; SHARES] = [&[]; SHARES];
        for (block, share) in blocks.iter_mut().zip(&self.shares) {
            *block = block_of(share);
        }
        Open { basket: self, blocks }
    }
}

/// A basket with the blocks of its packets, whose shares are at most so many.
pub(crate) struct Open<'a, const SHARES: usize> {
    basket: &'a Basket,
    blocks: [&'a [u8]; SHARES],
}

impl<'a, const SHARES: usize> Open<'a, SHARES> {
    /// Returns a packet as applications see it, and its number.
    #[inline(always)]
    pub(crate) fn view(&self, i: usize) -> (u64, PacketView<'a>) {
        self.basket.parcel(i).view(self.block(i))
    }

    /// Asks for the lines of a packet that an application may read first.
    #[inline(always)]
    pub(crate) fn request(&self, i: usize) {
        self.basket.parcel(i).request(self.block(i));
    }

    #[inline(always)]
    fn block(&self, i: usize) -> &'a [u8] {
        self.blocks[usize::from(self.basket.picks[i].0)]
    }
}

fn block_of(share: &Share) -> &[u8] {
    share.tray.block.as_ref().map_or(&[], |block| block.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tray_is_used_again_only_when_nobody_has_it() {
        let mut trays = Trays::default();
        let tray = trays.lend();
        let share = Share { tray: Arc::clone(&tray), mask: 1 };
        let first = Arc::as_ptr(&tray);
        trays.sent(tray);
        let second = trays.lend();
        assert_ne!(Arc::as_ptr(&second), first, "a worker has the first");
        trays.sent(second);
        drop(share);
        trays.collect_all();
        assert_eq!((trays.on_the_way.len(), trays.free.len()), (0, 2));
    }

    #[test]
    fn one_slow_worker_does_not_keep_the_trays_of_the_others() {
        let mut trays = Trays::default();
        let slow = trays.lend();
        let held = Share { tray: Arc::clone(&slow), mask: 1 };
        trays.sent(slow);
        for _ in 0..1000 {
            let tray = trays.lend();
            trays.sent(tray);
        }
        assert!(trays.on_the_way.len() + trays.free.len() <= 4, "{trays:?}");
        drop(held);
    }

    #[test]
    fn lots_that_are_busy_in_turn_use_the_same_trays() {
        let stock = Stock::default();
        let mut lots: Vec<Trays> = (0..4).map(|_| Trays::new(stock.clone())).collect();
        for turn in 0..40 {
            // Others have more than the lots keep for themselves.
            let held: Vec<Arc<Tray>> = (0..100).map(|_| lots[turn % 4].lend()).collect();
            for tray in held {
                lots[turn % 4].sent(tray);
            }
            assert_eq!(stock.on_the_way(), 100);
            lots[turn % 4].collect_all();
            assert_eq!(stock.on_the_way(), 0);
        }
        let kept: Vec<usize> = lots.iter().map(|lot| lot.free.len()).collect();
        assert!(kept.iter().all(|&free| free < 2 * GROUP), "{kept:?}");
        let all = kept.iter().sum::<usize>() + stock.spare().len();
        assert!(all <= 100 + lots.len() * 2 * GROUP, "{all} trays");
    }
}
