//! Enters a header of the tables.

use super::layers::{Decoded, Layers};
use super::table::{self, Announced, Encapsulation, Follows, Header};
use crate::drop_reason::DropReason;
use crate::link::LinkType;

impl Layers<'_> {
    /// Decodes from the link-layer header at an offset on.
    pub(super) fn link(self, link: LinkType, at: usize) -> Decoded {
        match table::of_link(link) {
            Some(entry) => self.enter(entry, at),
            None => Err(DropReason::Unsupported),
        }
    }

    /// Decodes from a header of the table on.
    pub(super) fn enter(self, entry: &'static Encapsulation, at: usize) -> Decoded {
        if let Some(trace) = self.trace {
            trace.enter(entry);
        }
        match entry.header {
            Header::Walk(walk) => walk(self, at),
            Header::Fixed { bytes, follows } => {
                let header = self.bytes.get(at..).and_then(|rest| rest.get(..bytes)).ok_or(entry.cut())?;
                let is_tag = matches!(entry.announced, Announced::EtherTypes(_));
                let layers = if is_tag { self.deeper()? } else { self };
                let at = at + bytes;
                match follows {
                    Follows::EtherTypeAt(offset) => {
                        layers.ether_type(u16::from_be_bytes([header[offset], header[offset + 1]]), at)
                    }
                    Follows::Ethernet => layers.ethernet(at),
                    Follows::AnyIp => layers.ip_by_version(at, entry.cut()),
                    Follows::Ppp => layers.ppp(at),
                    Follows::LinkControl => layers.llc(at),
                }
            }
        }
    }
}
