//! What travels through a ring: where a packet lies and its hash, never its bytes.
//!
//! ```text
//!  hash      64 bits   the table half of the flow's hash
//!  time      64 bits   nanoseconds, clamped to never go back
//!  place     64 bits   link type (16) | position in the block (48)
//!  tag       64 bits   turn in its shard (24) | number of the packet in the run, from 0 (40)
//!  captured  32 bits   bytes present; u32::MAX marks a control descriptor, with its kind in `place`
//!  wire      32 bits   bytes on the wire
//! ```

use flowloom_packet::LinkType;

/// A packet on its way to a worker, or a message to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Descriptor {
    pub(crate) hash: u64,
    pub(crate) time_ns: u64,
    place: u64,
    tag: u64,
    captured: u32,
    pub(crate) wire: u32,
}

const _: () = assert!(size_of::<Descriptor>() == Descriptor::BYTES, "rings are sized by it");

const POSITION_BITS: u32 = 48;
const NUMBER_BITS: u32 = 40;
const CONTROL: u32 = u32::MAX;

/// Turns of a shard before they begin again. More packets than this never wait.
pub(crate) const TURNS: u32 = 1 << (u64::BITS - NUMBER_BITS);

/// A message to a worker, in line with its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    /// The packets that follow lie in the next block of the block channel.
    NextBlock,
    /// No packets follow.
    End,
}

/// Where a packet lies, how long it is and when it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) position: u64,
    pub(crate) time_ns: u64,
    pub(crate) captured: u32,
    pub(crate) wire: u32,
    pub(crate) number: u64,
}

impl Descriptor {
    /// Bytes of a descriptor.
    pub(crate) const BYTES: usize = 40;

    /// The bits of a packet's number that a descriptor keeps.
    pub(crate) const NUMBERS: u64 = (1 << NUMBER_BITS) - 1;

    /// Returns the descriptor of a packet.
    #[inline]
    pub(crate) fn packet(hash: u64, place: Place, link: LinkType) -> Self {
        debug_assert!(place.position < 1 << POSITION_BITS, "no mapping is longer than the address space");
        debug_assert!(place.captured != CONTROL, "sources bound a record far below this");
        Self {
            hash,
            time_ns: place.time_ns,
            place: u64::from(link.0) << POSITION_BITS | place.position,
            tag: place.number & Self::NUMBERS,
            captured: place.captured,
            wire: place.wire,
        }
    }

    /// Returns the descriptor of a message.
    pub(crate) fn control(control: Control) -> Self {
        let place = match control {
            Control::NextBlock => 0,
            Control::End => 1,
        };
        Self { hash: 0, time_ns: 0, place, tag: 0, captured: CONTROL, wire: 0 }
    }

    /// Returns the message, if it is one.
    #[inline]
    pub(crate) fn as_control(self) -> Option<Control> {
        match (self.captured, self.place) {
            (CONTROL, 0) => Some(Control::NextBlock),
            (CONTROL, _) => Some(Control::End),
            _ => None,
        }
    }

    /// Sets the packet's turn in its shard, below [`TURNS`].
    pub(crate) fn set_turn(&mut self, turn: u32) {
        debug_assert!(turn < TURNS, "turns begin again");
        self.tag |= u64::from(turn) << NUMBER_BITS;
    }

    /// Returns the packet's turn in its shard.
    pub(crate) fn turn(self) -> u32 {
        (self.tag >> NUMBER_BITS) as u32
    }

    /// Returns the number of the packet in the run, from 0; it begins again after 2⁴⁰.
    #[inline]
    pub(crate) fn number(self) -> u64 {
        self.tag & Self::NUMBERS
    }

    /// Returns where the packet begins in its block.
    #[inline]
    pub(crate) fn position(self) -> usize {
        (self.place & ((1 << POSITION_BITS) - 1)) as usize
    }

    /// Returns the packet's bytes; an empty slice should they not lie in the block.
    #[inline]
    pub(crate) fn bytes(self, block: &[u8]) -> &[u8] {
        let start = self.position();
        block.get(start..start.wrapping_add(self.captured as usize)).unwrap_or_default()
    }

    /// Returns the link type of the packet.
    #[inline]
    pub(crate) fn link(self) -> LinkType {
        LinkType((self.place >> POSITION_BITS & 0xFFFF) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_comes_back_as_it_went_in() {
        let place = Place {
            position: (1 << 48) - 1,
            time_ns: 5,
            captured: 1500,
            wire: 9000,
            number: (1 << 40) - 1,
        };
        let mut packet = Descriptor::packet(7, place, LinkType(0xFFFF));
        packet.set_turn(TURNS - 1);
        assert_eq!((packet.hash, packet.time_ns, packet.wire), (7, 5, 9000));
        assert_eq!(packet.position(), (1 << 48) - 1);
        assert_eq!(packet.link(), LinkType(0xFFFF));
        assert_eq!((packet.number(), packet.turn()), ((1 << 40) - 1, TURNS - 1));
        assert_eq!(packet.as_control(), None);
    }

    #[test]
    fn messages_are_no_packets() {
        for control in [Control::NextBlock, Control::End] {
            assert_eq!(Descriptor::control(control).as_control(), Some(control));
        }
    }

    #[test]
    fn bytes_outside_the_block_are_none() {
        let place = |position, captured| Place { position, time_ns: 0, captured, wire: 9, number: 0 };
        let packet = |position, captured| Descriptor::packet(0, place(position, captured), LinkType(1));
        assert_eq!(packet(2, 3).bytes(b"abcdefgh"), b"cde");
        assert_eq!(packet(6, 3).bytes(b"abcdefgh"), b"");
        assert_eq!(packet(100, 3).bytes(b"abcdefgh"), b"");
    }
}
