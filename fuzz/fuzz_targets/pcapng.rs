//! Arbitrary bytes as a pcapng capture: it is read to an end, and packets lie within their blocks,
//! independent of the lengths in the blocks.
//!
//! The first byte selects the prefix of the rest: nothing, a section header, or a section with
//! interfaces of either byte order. It also selects whether the rest is raw bytes or the bodies of
//! well-formed blocks. A fuzzer would seldom find these alone, because a block states its length
//! twice.
#![no_main]

mod drain;

use drain::drain;
use libfuzzer_sys::fuzz_target;

/// Block types: section, interface, obsolete packet, simple packet, enhanced packet, and an unknown
/// one.
const KINDS: [u32; 6] = [0x0A0D_0D0A, 1, 2, 3, 6, 0x0BAD];

/// Numbers in one of the two byte orders.
#[derive(Clone, Copy)]
struct Order {
    big_endian: bool,
}

impl Order {
    fn word(self, value: u32) -> [u8; 4] {
        if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn half(self, value: u16) -> [u8; 2] {
        if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    /// Returns a block whose two lengths agree.
    fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0);
        let length = self.word(u32::try_from(body.len() + 12).expect("an input is small"));
        [&self.word(kind)[..], &length, &body, &length].concat()
    }

    fn section(self) -> Vec<u8> {
        let body = [&self.word(0x1A2B_3C4D)[..], &self.half(1), &self.half(0), &[0xFF; 8]].concat();
        self.block(KINDS[0], &body)
    }

    fn interface(self, link: u16) -> Vec<u8> {
        self.block(1, &[&self.half(link)[..], &self.half(0), &self.word(0)].concat())
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&choice, rest)) = input.split_first() else { return };
    let order = Order { big_endian: choice & 1 != 0 };
    let mut bytes = Vec::new();
    if choice & 6 != 0 {
        bytes.extend(order.section());
    }
    if choice & 4 != 0 {
        bytes.extend(order.interface(1));
        bytes.extend(order.interface(u16::from(choice >> 4)));
    }
    if choice & 8 == 0 {
        bytes.extend(rest);
    } else {
        // A kind, a length, and that many following bytes as the block's body.
        let mut rest = rest;
        while let [kind, length, body @ ..] = rest {
            let (body, after) = body.split_at(body.len().min(usize::from(*length)));
            bytes.extend(order.block(KINDS[usize::from(*kind) % KINDS.len()], body));
            rest = after;
        }
    }
    drain(bytes);
});
