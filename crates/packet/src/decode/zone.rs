//! The zone that the VLAN tags and tunnel IDs of a packet form.

/// The zone of a flow: its VLAN IDs, outermost first.
///
/// A zone keeps one or two IDs exactly, in twelve bits each. Deeper stacks and tunnel IDs are mixed
/// into 31 bits with the top bit set, so a mixed zone never equals an exact one. ID 0 is a priority
/// tag, not a VLAN, so a sender that sets priorities on some packets of a flow does not split the
/// flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Zone {
    value: u32,
}

/// The bit of a mixed zone.
pub(super) const MIXED: u32 = 1 << 31;

impl Zone {
    /// Returns the zone inside one more VLAN.
    #[must_use]
    pub(super) fn inside_vlan(self, id: u16) -> Self {
        let id = u32::from(id & 0xFFF);
        match self.value {
            _ if id == 0 => self,
            0 => Self { value: id },
            outer if outer < 1 << 12 => Self { value: outer << 12 | id },
            _ => self.mixed(id),
        }
    }

    /// Returns the zone with a tunnel's ID mixed in.
    #[must_use]
    pub(super) fn mixed(self, id: u32) -> Self {
        let word = u64::from(self.value) << 32 | u64::from(id);
        let mixed = word.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
        Self { value: MIXED | (mixed & u64::from(!MIXED)) as u32 }
    }

    pub(super) fn value(self) -> u32 {
        self.value
    }
}
