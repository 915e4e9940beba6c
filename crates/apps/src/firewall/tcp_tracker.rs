//! The TCP states of the Linux kernel's connection tracking.
//!
//! The table is that of `net/netfilter/nf_conntrack_proto_tcp.c` with `nf_conntrack_tcp_loose`: an
//! ACK in the middle of a connection may start tracking. Unlike the kernel, the tracker compares no
//! sequence numbers, as with `nf_conntrack_tcp_be_liberal`.

/// The state of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ConnectionState {
    #[default]
    None,
    SynSent,
    SynReceived,
    Established,
    FinWait,
    CloseWait,
    LastAck,
    TimeWait,
    Close,
    /// Both ends have sent a SYN.
    SynSentBoth,
}

/// The effect of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    To(ConnectionState),
    /// The packet belongs to the connection and changes nothing.
    Stay,
    Invalid,
}

/// The relation of a packet to the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It belongs to the connection.
    Belongs,
    /// It belongs to the connection and ends it at once.
    Ends,
    /// It begins the connection anew.
    Reopens,
    Invalid,
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
const URG: u8 = 32;

/// Kinds of packets, the index of a row.
const KIND_SYN: usize = 0;
const KIND_RST: usize = 4;

/// The tracked state of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NetfilterTcp {
    state: ConnectionState,
    /// An end has begun to close the connection.
    has_closed: bool,
    /// The last packet was an RST from the other end.
    last_reset: Option<bool>,
}

/// Returns the row of a packet; `None` for flags that no TCP packet combines.
fn kind(flags: u8) -> Option<usize> {
    match flags & (SYN | ACK | FIN | RST | URG) {
        SYN | 0x22 => Some(KIND_SYN),
        0x12 => Some(1),
        0x11 | 0x31 => Some(2),
        ACK | 0x30 => Some(3),
        RST | 0x14 => Some(KIND_RST),
        _ => None,
    }
}

/// Returns the step for a packet of the opener, or of the other end.
#[expect(clippy::match_same_arms, reason = "row by row the table of the kernel")]
fn step(is_reply: bool, kind: usize, state: ConnectionState) -> Step {
    use ConnectionState::{
        Close, CloseWait, Established, FinWait, LastAck, None, SynReceived, SynSent, SynSentBoth, TimeWait,
    };
    use Step::{Invalid, Stay, To};
    match (is_reply, kind, state) {
        (false, KIND_SYN, None | SynSent | TimeWait | Close) | (true, KIND_SYN, TimeWait) => To(SynSent),
        (false, KIND_SYN, SynSentBoth) | (true, KIND_SYN, SynSent | SynSentBoth) => To(SynSentBoth),
        (false, KIND_SYN, _) => Stay,
        (false, 1, SynReceived | SynSentBoth) | (true, 1, SynSent | SynSentBoth) => To(SynReceived),
        (true, 1, None) => Invalid,
        (true, 1, _) => Stay,
        (_, 2, SynReceived | Established) => To(FinWait),
        (_, 2, FinWait | CloseWait | LastAck) => To(LastAck),
        (_, 2, TimeWait) | (_, 3, LastAck | TimeWait) => To(TimeWait),
        (_, 2 | 3, Close) => To(Close),
        (false, 3, None | SynReceived) | (_, 3, Established) => To(Established),
        (true, 3, SynReceived) => To(SynReceived),
        (true, 3, SynSent | SynSentBoth) => Stay,
        (_, 3, FinWait | CloseWait) => To(CloseWait),
        (_, KIND_RST, state) if state != None => To(Close),
        _ => Invalid,
    }
}

impl NetfilterTcp {
    /// Processes a packet of the opener, or of the other end. `is_answered` means that the other
    /// end has sent a packet before.
    pub(super) fn take(&mut self, flags: u8, is_reply: bool, is_answered: bool) -> Outcome {
        let Some(kind) = kind(flags) else { return Outcome::Invalid };
        let mut step = step(is_reply, kind, self.state);
        if step == Step::To(ConnectionState::SynSent)
            && matches!(self.state, ConnectionState::TimeWait | ConnectionState::Close)
        {
            // Either end may reopen a closed connection, and so may the end that reset it.
            if self.has_closed || self.last_reset == Some(is_reply) {
                return Outcome::Reopens;
            }
            step = Step::Stay;
        }
        match step {
            Step::Invalid => return Outcome::Invalid,
            Step::Stay => {}
            Step::To(state) => {
                self.has_closed |= state == ConnectionState::FinWait && self.state != state;
                self.state = state;
            }
        }
        self.last_reset = (kind == KIND_RST).then_some(is_reply);
        // An RST in answer to a SYN leaves no connection.
        if kind == KIND_RST && !is_answered { Outcome::Ends } else { Outcome::Belongs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(packets: &[(u8, bool)]) -> Vec<Outcome> {
        let mut tracker = NetfilterTcp::default();
        let mut is_answered = false;
        let take = |&(flags, is_reply): &(u8, bool)| {
            let outcome = tracker.take(flags, is_reply, is_answered);
            is_answered |= is_reply && outcome != Outcome::Invalid;
            outcome
        };
        packets.iter().map(take).collect()
    }

    #[test]
    fn a_connection_opens_closes_and_opens_again() {
        use Outcome::{Belongs, Reopens};
        let all = walk(&[
            (SYN, false),
            (SYN | ACK, true),
            (ACK, false),
            (FIN | ACK, false),
            (ACK, true),
            (FIN | ACK, true),
            (ACK, false),
            (SYN, false),
        ]);
        assert_eq!(all[..7], [Belongs; 7]);
        assert_eq!(all[7], Reopens, "after a close");
        let reset = |end| walk(&[(SYN, false), (SYN | ACK, true), (RST, false), (SYN, end)])[3];
        assert_eq!([reset(false), reset(true)], [Reopens, Outcome::Invalid], "by the end that reset it");
    }

    #[test]
    fn unexpected_segment_is_invalid() {
        use Outcome::{Belongs, Ends, Invalid};
        assert_eq!(walk(&[(SYN | ACK, false)]), [Invalid]);
        assert_eq!(walk(&[(ACK, false), (ACK, true)]), [Belongs; 2], "picked up");
        assert_eq!(walk(&[(SYN, false), (ACK, false)]), [Belongs, Invalid]);
        assert_eq!(walk(&[(SYN, false), (FIN | ACK, true)]), [Belongs, Invalid]);
        assert_eq!(walk(&[(SYN, false), (RST | ACK, true)]), [Belongs, Ends]);
        assert_eq!(walk(&[(SYN, false), (SYN | FIN, true), (0, true)]), [Belongs, Invalid, Invalid]);
        assert_eq!(walk(&[(SYN, false), (SYN | ACK, true), (SYN, true)]), [Belongs, Belongs, Invalid]);
    }
}
