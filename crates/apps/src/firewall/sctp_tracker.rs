//! The SCTP associations of the Linux kernel's connection tracking.
//!
//! The kernel checks the verification tags of packets. The tracker only checks that the tag of a
//! direction is known by then, and not that it is the right one: [`SctpTracker::take`] follows
//! `net/netfilter/nf_conntrack_proto_sctp.c` for associations whose ends use the right tags.

const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const HEARTBEAT: u8 = 4;
const HEARTBEAT_ACK: u8 = 5;
const ABORT: u8 = 6;
const SHUTDOWN_ACK: u8 = 8;
const COOKIE_ACK: u8 = 11;
const SHUTDOWN_COMPLETE: u8 = 14;

/// The tracked state of an association.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SctpTracker {
    /// The tag is known of packets from the opener, and of those to it.
    knows: [bool; 2],
    /// Only heartbeats have come.
    is_path: bool,
}

impl SctpTracker {
    /// Processes a packet that begins with a chunk, from the opener or from the other end. Returns
    /// whether it belongs to the association, or opens it.
    pub(super) fn take(&mut self, chunk: u8, is_reply: bool, is_open: bool) -> bool {
        let (own, other) = (usize::from(is_reply), usize::from(!is_reply));
        if !is_open {
            *self = Self::default();
            match chunk {
                INIT | HEARTBEAT | HEARTBEAT_ACK => {}
                SHUTDOWN_ACK => self.knows[other] = true,
                _ => return false,
            }
            self.is_path = chunk == HEARTBEAT;
        } else if self.is_path && is_reply && !matches!(chunk, HEARTBEAT | HEARTBEAT_ACK) {
            return false;
        }
        let is_known = match chunk {
            INIT | HEARTBEAT | HEARTBEAT_ACK | SHUTDOWN_ACK => true,
            // A flag tells whose tag it is.
            ABORT | SHUTDOWN_COMPLETE => self.knows[own] || self.knows[other],
            _ => self.knows[own],
        };
        if !is_known {
            return false;
        }
        match chunk {
            INIT | INIT_ACK => self.knows[other] = true,
            HEARTBEAT | HEARTBEAT_ACK => self.knows[own] = true,
            _ => {}
        }
        let ends_path = match chunk {
            HEARTBEAT_ACK => is_reply,
            chunk => matches!(chunk, INIT..=INIT_ACK | ABORT..=COOKIE_ACK | SHUTDOWN_COMPLETE),
        };
        self.is_path &= !ends_path;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns which chunks belong to an association; a negative one is of the other end.
    fn walk(chunks: &[i8]) -> Vec<bool> {
        let (mut tracker, mut is_open) = (SctpTracker::default(), false);
        let take = |&chunk: &i8| {
            let belongs = tracker.take(chunk.unsigned_abs(), chunk < 0, is_open);
            is_open |= belongs;
            belongs
        };
        chunks.iter().map(take).collect()
    }

    #[test]
    fn an_association_is_followed_from_init_to_its_end() {
        assert_eq!(walk(&[1, -2, 10, -11, 0, -3, 7, -8, 14]), [true; 9]);
        assert_eq!(walk(&[1, -6]), [true, true], "refused");
        // The opener cannot know the tag of the other end yet.
        assert_eq!(walk(&[1, 10, -2, 10]), [true, false, true, true]);
    }

    #[test]
    fn chunk_without_an_association_is_invalid() {
        for chunk in [0, 2, 3, 6, 7, 9, 10, 11, 14] {
            assert_eq!(walk(&[chunk]), [false], "{chunk}");
        }
        assert_eq!(walk(&[8, 0, -14]), [true, false, true], "an end of an unknown association");
        assert_eq!(walk(&[5, 0, -3]), [true, true, false]);
    }

    #[test]
    fn a_path_is_known_from_its_heartbeat() {
        assert_eq!(walk(&[4, -5, 0, -3]), [true; 4]);
        assert_eq!(walk(&[4, -3, -1, -5, -3]), [true, false, false, true, true]);
        assert_eq!(walk(&[4, 5, -3, 1, -2]), [true, true, false, true, true]);
    }
}
