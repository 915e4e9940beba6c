//! What travels through a ring: where a packet lies and its hash, never its bytes.
//!
//! ```text
//!  hash      64 bits   the table half of the flow's hash
//!  time      64 bits   nanoseconds, clamped to never go back
//!  place     64 bits   link type (16) | position in the block (48)
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
    captured: u32,
    pub(crate) wire: u32,
}

const _: () = assert!(size_of::<Descriptor>() == 32, "two descriptors fill a cache line");

const POSITION_BITS: u32 = 48;
const CONTROL: u32 = u32::MAX;

/// A message to a worker, in line with its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    /// The packets that follow lie in the next block of the block channel.
    NextBlock,
    /// No packets follow.
    End,
}

impl Descriptor {
    /// Returns the descriptor of a packet.
    #[inline]
    pub(crate) fn packet(
        hash: u64,
        time_ns: u64,
        position: u64,
        link: LinkType,
        captured: u32,
        wire: u32,
    ) -> Self {
        debug_assert!(position < 1 << POSITION_BITS, "no mapping is longer than the address space");
        debug_assert!(captured != CONTROL, "sources bound a record far below this");
        Self { hash, time_ns, place: u64::from(link.0) << POSITION_BITS | position, captured, wire }
    }

    /// Returns the descriptor of a message.
    pub(crate) fn control(control: Control) -> Self {
        let place = match control {
            Control::NextBlock => 0,
            Control::End => 1,
        };
        Self { hash: 0, time_ns: 0, place, captured: CONTROL, wire: 0 }
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
        let d = Descriptor::packet(1, 2, (1 << 48) - 1, LinkType(276), 1500, 9000);
        assert_eq!((d.position(), d.link(), d.wire), ((1 << 48) - 1, LinkType(276), 9000));
        assert_eq!(d.as_control(), None);
        assert_eq!(Descriptor::packet(0, 0, 1, LinkType(1), 2, 2).bytes(&[1, 2, 3, 4]), [2, 3]);
        assert_eq!(Descriptor::packet(0, 0, 3, LinkType(1), 2, 2).bytes(&[1, 2, 3, 4]), []);
    }

    #[test]
    fn messages_are_told_from_packets() {
        for control in [Control::NextBlock, Control::End] {
            assert_eq!(Descriptor::control(control).as_control(), Some(control));
        }
    }
}
