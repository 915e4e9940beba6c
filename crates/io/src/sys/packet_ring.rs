//! The receive ring of an `AF_PACKET` socket, version 2: slots of equal size, used in a circle.
//!
//! ```text
//!            first             next
//!  … kernel │ ours   ours   ours │ kernel's, or ready for us …
//! ```
//!
//! A slot belongs to the kernel until the kernel sets the user bit of its status, and then to the
//! process until the process clears the status.
#![expect(unsafe_code, reason = "slots change hands between the kernel and the process")]

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use super::map::Mapping;

/// Bits of a slot's status.
pub(crate) const USER: u32 = 1;
pub(crate) const COPY: u32 = 1 << 1;
pub(crate) const VLAN: u32 = 1 << 4;
pub(crate) const VLAN_TYPE: u32 = 1 << 6;

// Offsets in a slot's header, `struct tpacket2_hdr`.
const STATUS: usize = 0;
const LENGTH: usize = 4;
const CAPTURED: usize = 8;
const MAC_AND_NETWORK: usize = 12;
const SECONDS: usize = 16;
const NANOSECONDS: usize = 20;
const TAG_AND_TYPE: usize = 24;

/// The kernel's description of a slot's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    index: usize,
    pub(crate) status: u32,
    /// Bytes of the frame.
    pub(crate) length: u32,
    /// Bytes of the frame that are in the slot.
    pub(crate) captured: u32,
    /// Offset of the frame in the slot.
    pub(crate) offset: usize,
    pub(crate) time_ns: u64,
    /// VLAN tag control information, and tag type.
    pub(crate) tag: [u16; 2],
}

/// The ring.
#[derive(Debug)]
pub(crate) struct PacketRing {
    map: Mapping,
    slots: usize,
    slot_bytes: usize,
    first: usize,
    held: usize,
}

impl PacketRing {
    /// Maps the ring of a socket that has one with this size. A slot's size is a power of two.
    pub(crate) fn map(socket: BorrowedFd<'_>, slots: usize, slot_bytes: usize) -> io::Result<Self> {
        let map = Mapping::of_socket(socket, slots * slot_bytes, 0)?;
        Ok(Self::over(map, slots, slot_bytes))
    }

    fn over(map: Mapping, slots: usize, slot_bytes: usize) -> Self {
        Self { map, slots, slot_bytes, first: 0, held: 0 }
    }

    /// Takes the next slot, if the kernel has filled it.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Slot> {
        if self.held == self.slots {
            return None;
        }
        let index = (self.first + self.held) % self.slots;
        let start = index * self.slot_bytes;
        // Acquire: the kernel has written the frame before it set the bit.
        let status = self.map.word(start + STATUS).load(Ordering::Acquire);
        if status & USER == 0 {
            return None;
        }
        self.held += 1;
        let word = |at: usize| self.map.word(start + at).load(Ordering::Relaxed);
        // The kernel writes the two halves of these words in the byte order of this machine.
        let halves = |at: usize| {
            let bytes = word(at).to_ne_bytes();
            [u16::from_ne_bytes([bytes[0], bytes[1]]), u16::from_ne_bytes([bytes[2], bytes[3]])]
        };
        Some(Slot {
            index,
            status,
            length: word(LENGTH),
            captured: word(CAPTURED),
            offset: usize::from(halves(MAC_AND_NETWORK)[0]),
            time_ns: u64::from(word(SECONDS)) * 1_000_000_000 + u64::from(word(NANOSECONDS)),
            tag: halves(TAG_AND_TYPE),
        })
    }

    fn is_held(&self, slot: &Slot) -> bool {
        (slot.index + self.slots - self.first) % self.slots < self.held
    }

    /// Returns bytes of a slot from an offset on; none for a slot that was returned.
    #[inline]
    pub(crate) fn bytes(&self, slot: &Slot, offset: usize, bytes: usize) -> &[u8] {
        if !self.is_held(slot) || offset.checked_add(bytes).is_none_or(|end| end > self.slot_bytes) {
            return &[];
        }
        // SAFETY: the slot is held, so the kernel does not write to it before `release`, which
        // takes the ring exclusively and so ends this reference. The process writes to slots in
        // `bytes_mut` only, which takes the ring exclusively too.
        unsafe { self.map.bytes(slot.index * self.slot_bytes + offset, bytes) }
    }

    /// Returns bytes of a slot for writing.
    #[inline]
    pub(crate) fn bytes_mut(&mut self, slot: &Slot, offset: usize, bytes: usize) -> &mut [u8] {
        if !self.is_held(slot) || offset.checked_add(bytes).is_none_or(|end| end > self.slot_bytes) {
            return &mut [];
        }
        // SAFETY: as in `bytes`, and the ring is taken exclusively.
        unsafe { self.map.bytes_mut(slot.index * self.slot_bytes + offset, bytes) }
    }

    /// Returns all slots to the kernel.
    pub(crate) fn release(&mut self) {
        for _ in 0..self.held {
            // Release: reads of the slot by this process precede the kernel's writes to it.
            self.map.word(self.first * self.slot_bytes + STATUS).store(0, Ordering::Release);
            self.first = (self.first + 1) % self.slots;
        }
        self.held = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BYTES: usize = 128;

    /// Fills a slot like the kernel, if the slot belongs to the kernel.
    fn fill(ring: &mut PacketRing, index: usize, mark: u8) -> bool {
        let start = index * BYTES;
        if ring.map.word(start).load(Ordering::Acquire) != 0 {
            return false;
        }
        // SAFETY: the slot belongs to the kernel, which this function simulates.
        unsafe { ring.map.bytes_mut(start + 64, 10) }.fill(mark);
        ring.map.word(start + LENGTH).store(10, Ordering::Relaxed);
        ring.map.word(start + CAPTURED).store(10, Ordering::Relaxed);
        let [low, high] = 64_u16.to_ne_bytes();
        let offset = u32::from_ne_bytes([low, high, 0, 0]);
        ring.map.word(start + MAC_AND_NETWORK).store(offset, Ordering::Relaxed);
        ring.map.word(start).store(USER, Ordering::Release);
        true
    }

    proptest! {
        #[test]
        fn every_frame_comes_out_once_and_in_order(steps in prop::collection::vec((0_u8..3, 1_usize..6), 1..200)) {
            let slots = 8;
            let mut ring = PacketRing::over(Mapping::anonymous(slots * BYTES).unwrap(), slots, BYTES);
            let (mut written, mut read) = (0_u8, 0_u8);
            let mut at = 0;
            let mut held: Vec<Slot> = Vec::new();
            for (step, count) in steps {
                match step {
                    0 => for _ in 0..count {
                        if !fill(&mut ring, at, written) {
                            prop_assert!(held.len() + usize::from(written.wrapping_sub(read)) == slots);
                            break;
                        }
                        (at, written) = ((at + 1) % slots, written.wrapping_add(1));
                    },
                    1 => for _ in 0..count {
                        let Some(slot) = ring.take() else {
                            prop_assert_eq!(read, written, "nothing is left behind");
                            break;
                        };
                        prop_assert_eq!(ring.bytes(&slot, slot.offset, 10), &[read; 10][..]);
                        read = read.wrapping_add(1);
                        held.push(slot);
                    },
                    _ => {
                        ring.release();
                        for slot in held.drain(..) {
                            prop_assert!(ring.bytes(&slot, slot.offset, 10).is_empty(), "it is the kernel's");
                        }
                    }
                }
            }
        }
    }
}
