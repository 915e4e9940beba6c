//! The 32-bit node word of [FLOWNP §3.3, Tab. 2].
//!
//! ```text
//!  31‥30 | 29‥28 | 27‥20 | 19‥0
//!  d2c   | b2c   | HABS  | CPA base
//! ```
//!
//! The paper defines no word for a leaf. Unlike the paper, which leaves the codes unused, (d2c,
//! b2c) = (11, 01) marks a leaf here, with the rule in the lower 28 bits.

/// A dimension to cut and one of its bytes: d2c and b2c together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cut {
    /// A byte of the source address, 0 the most significant.
    Source(u8),
    /// A byte of the destination address.
    Destination(u8),
    /// A byte of the source port: 0 is bits 15…8, which the paper's Table 2 writes as b2c = 10.
    SourcePort(u8),
    /// A byte of the destination port.
    DestinationPort(u8),
    /// The protocol: d2c = 11, b2c = 00.
    Protocol,
}

impl Cut {
    /// Returns d2c and b2c.
    pub const fn code(self) -> (u8, u8) {
        match self {
            Self::Source(byte) => (0b00, byte),
            Self::Destination(byte) => (0b01, byte),
            // A port is sixteen bits wide: its bytes are those that b2c calls 15…8 and 7…0.
            Self::SourcePort(byte) => (0b10, 0b10 + byte),
            Self::DestinationPort(byte) => (0b11, 0b10 + byte),
            Self::Protocol => (0b11, 0b00),
        }
    }

    /// Returns the dimension in the order of [`crate::KeyV4`], and the lowest bit of the byte
    /// there.
    pub const fn place(self) -> (usize, u32) {
        match self {
            Self::Source(byte) => (0, 24 - 8 * byte as u32),
            Self::Destination(byte) => (1, 24 - 8 * byte as u32),
            Self::SourcePort(byte) => (2, 8 - 8 * byte as u32),
            Self::DestinationPort(byte) => (3, 8 - 8 * byte as u32),
            Self::Protocol => (4, 0),
        }
    }

    /// All thirteen bytes, in the order of the header.
    pub const ALL: [Self; 13] = [
        Self::Source(0),
        Self::Source(1),
        Self::Source(2),
        Self::Source(3),
        Self::Destination(0),
        Self::Destination(1),
        Self::Destination(2),
        Self::Destination(3),
        Self::SourcePort(0),
        Self::SourcePort(1),
        Self::DestinationPort(0),
        Self::DestinationPort(1),
        Self::Protocol,
    ];
}

/// The maximum value of a base, which counts blocks of 2ʷ/8 words.
pub const BASE_MAX: u32 = (1 << 20) - 1;
/// The maximum rule of a leaf.
pub const RULE_MAX: u32 = (1 << 28) - 2;
/// The rule of a leaf without one.
const NO_RULE: u32 = (1 << 28) - 1;

/// A word of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Word(pub u32);

/// The meaning of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// Cut, and continue.
    Node {
        /// What to cut.
        cut: Cut,
        /// The sub-arrays that differ from the previous one; bit 0 is the first.
        habs: u8,
        /// Base of the children, in blocks of 2ʷ/8 words.
        base: u32,
    },
    /// The end: a rule, or none.
    Leaf(Option<u32>),
    /// A code that neither the paper nor this implementation uses.
    Unused,
}

impl Word {
    /// Returns a node's word.
    ///
    /// # Panics
    ///
    /// Panics if the base has more than twenty bits.
    pub const fn node(cut: Cut, habs: u8, base: u32) -> Self {
        assert!(base <= BASE_MAX, "the builder checks the base");
        let (d2c, b2c) = cut.code();
        Self((d2c as u32) << 30 | (b2c as u32) << 28 | (habs as u32) << 20 | base)
    }

    /// Returns a leaf's word.
    ///
    /// # Panics
    ///
    /// Panics if the rule is above [`RULE_MAX`].
    pub const fn leaf(rule: Option<u32>) -> Self {
        let rule = match rule {
            Some(rule) => {
                assert!(rule <= RULE_MAX, "a set has fewer rules");
                rule
            }
            None => NO_RULE,
        };
        Self(0b1101 << 28 | rule)
    }

    /// Returns the meaning of the word.
    pub const fn decode(self) -> Decoded {
        let (d2c, b2c) = (self.0 >> 30, (self.0 >> 28 & 3) as u8);
        let cut = match (d2c, b2c) {
            (0, _) => Cut::Source(b2c),
            (1, _) => Cut::Destination(b2c),
            (2, 2 | 3) => Cut::SourcePort(b2c - 2),
            (3, 2 | 3) => Cut::DestinationPort(b2c - 2),
            (3, 0) => Cut::Protocol,
            (3, 1) => {
                let rule = self.0 & NO_RULE;
                return Decoded::Leaf(if rule == NO_RULE { None } else { Some(rule) });
            }
            _ => return Decoded::Unused,
        };
        Decoded::Node { cut, habs: (self.0 >> 20) as u8, base: self.0 & BASE_MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::unusual_byte_groupings, reason = "the fields of the table")]
    fn words_are_those_of_table_2_bit_for_bit() {
        assert_eq!((BASE_MAX, RULE_MAX), (0xf_ffff, 0xfff_fffe), "20 bits, and 28 with one for no rule");
        // Written by hand from the table: d2c | b2c | HABS | base.
        let golden = [
            (Cut::Source(0), 0x01, 0x00000, 0b00_00_0000_0001_0000_0000_0000_0000_0000),
            (Cut::Source(1), 0x81, 0x00001, 0b00_01_1000_0001_0000_0000_0000_0000_0001),
            (Cut::Source(3), 0xff, 0xfffff, 0b00_11_1111_1111_1111_1111_1111_1111_1111),
            (Cut::Destination(2), 0x55, 0x12345, 0b01_10_0101_0101_0001_0010_0011_0100_0101),
            (Cut::Destination(0), 0x01, 0x80000, 0b01_00_0000_0001_1000_0000_0000_0000_0000),
            (Cut::SourcePort(0), 0x03, 0x00002, 0b10_10_0000_0011_0000_0000_0000_0000_0010),
            (Cut::SourcePort(1), 0x03, 0x00002, 0b10_11_0000_0011_0000_0000_0000_0000_0010),
            (Cut::DestinationPort(0), 0x0f, 0xabcde, 0b11_10_0000_1111_1010_1011_1100_1101_1110),
            (Cut::DestinationPort(1), 0x0f, 0xabcde, 0b11_11_0000_1111_1010_1011_1100_1101_1110),
            (Cut::Protocol, 0x11, 0x00f0f, 0b11_00_0001_0001_0000_0000_1111_0000_1111),
        ];
        for (cut, habs, base, bits) in golden {
            assert_eq!(Word::node(cut, habs, base).0, bits, "{cut:?}");
            assert_eq!(Word(bits).decode(), Decoded::Node { cut, habs, base });
        }
    }

    #[test]
    fn leaves_use_a_code_that_the_paper_leaves_free() {
        assert_eq!(Word::leaf(Some(5)).0, 0xd000_0005);
        assert_eq!(Word::leaf(Some(5)).decode(), Decoded::Leaf(Some(5)));
        assert_eq!(Word::leaf(None).decode(), Decoded::Leaf(None));
        assert_eq!(Word(0b1000 << 28).decode(), Decoded::Unused);
        assert_eq!(Word(0b1001 << 28).decode(), Decoded::Unused);
    }
}
