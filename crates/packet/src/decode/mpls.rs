//! A stack of MPLS labels. Nothing says what is under it: the first nibble must.

use super::layers::{Decoded, Layers};
use crate::reason::DropReason;

const LABEL_BYTES: usize = 4;
const BOTTOM: u8 = 1;
/// Labels that are followed: apart from the nesting of headers, because skipping one costs next to nothing.
const LABELS_MAX: usize = 64;

impl Layers<'_> {
    pub(super) fn mpls(self, at: usize) -> Decoded {
        let layers = self.deeper()?;
        let stack_end = at + LABELS_MAX * LABEL_BYTES;
        let mut at = at;
        loop {
            if at == stack_end {
                return Err(DropReason::Depth);
            }
            let label = layers.take::<LABEL_BYTES>(at, DropReason::TruncatedMpls)?;
            at += LABEL_BYTES;
            if label[2] & BOTTOM != 0 {
                break;
            }
        }
        match layers.take::<1>(at, DropReason::TruncatedMpls)?[0] >> 4 {
            4 => layers.ipv4(at),
            6 => layers.ipv6(at),
            // A pseudowire with its control word carries Ethernet: a tunnel like any other.
            0 if layers.options.decap => layers.deeper()?.ethernet(at + LABEL_BYTES),
            _ => Err(DropReason::NotIp),
        }
    }
}
