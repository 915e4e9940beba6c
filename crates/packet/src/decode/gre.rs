//! Generic routing encapsulation and its payloads.

use super::ethernet::TRANSPARENT_ETHERNET;
use super::layers::{Decoded, Layers};
use super::table;
use crate::drop_reason::DropReason;

const CUT: DropReason = DropReason::TruncatedTunnel;
const CHECKSUM: u8 = 0x80;
const ROUTING: u8 = 0x40;
const KEY: u8 = 0x20;
const SEQUENCE: u8 = 0x10;

impl Layers<'_> {
    pub(super) fn gre(self, at: usize) -> Decoded {
        let header = self.take::<4>(at, CUT)?;
        let (flags, version) = (header[0], header[1] & 7);
        let protocol = u16::from_be_bytes([header[2], header[3]]);
        let field = |bit: u8| if flags & bit != 0 { 4 } else { 0 };
        let (key, sequence) = (field(KEY), field(SEQUENCE));
        match (version, protocol) {
            (0, _) => {
                // Checksum and routing share one word.
                let at = at + 4 + field(CHECKSUM).max(field(ROUTING)) + key + sequence;
                let at = if flags & ROUTING == 0 { at } else { self.source_routes_end(at)? };
                match protocol {
                    TRANSPARENT_ETHERNET => self.ethernet(at),
                    0x88BE if sequence == 0 => self.ethernet(at), // ERSPAN I: no header of its own.
                    0x88BE => self.ethernet(at + 8),              // ERSPAN II.
                    0x22EB => {
                        // ERSPAN III: twelve bytes, and eight more if the last bit is set.
                        let optional = self.take::<12>(at, CUT)?[11] & 1;
                        self.ethernet(at + 12 + usize::from(optional) * 8)
                    }
                    _ => match table::of_gre(protocol) {
                        Some(entry) => self.enter(entry, at),
                        None => self.ether_type(protocol, at),
                    },
                }
            }
            // PPTP's enhanced GRE: it always has a key, may have an acknowledgement, and carries
            // PPP.
            (1, 0x880B) => {
                let acknowledgement = if header[1] & 0x80 != 0 { 4 } else { 0 };
                self.ppp(at + 8 + sequence + acknowledgement)
            }
            // MikroTik's Ethernet over IP: the key is the frame's length and the tunnel's ID.
            (1, 0x6400) => self.ethernet(at + 8),
            _ => Err(DropReason::MalformedTunnel),
        }
    }

    /// Returns the end of GRE's source routes: entries with their length in the fourth byte, the
    /// last one empty.
    fn source_routes_end(self, at: usize) -> Result<usize, DropReason> {
        let (mut layers, mut at) = (self, at);
        loop {
            let entry = layers.take::<4>(at, CUT)?;
            at += 4 + usize::from(entry[3]);
            if entry[..2] == [0, 0] && entry[3] == 0 {
                return Ok(at);
            }
            layers = layers.deeper()?;
        }
    }
}
