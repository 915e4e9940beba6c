//! A TCP connection in Zeek's terms.

use flowloom_packet::PacketView;

use super::History;
use super::endpoint::{
    Counted, EndState, SEEN_ACK, SEEN_DATA, SEEN_FIN, SEEN_FIN_RST, SEEN_MANY, SEEN_RST, SEEN_SYN, TcpEnd,
    numbers,
};
use crate::accounting::connection::{ACK, FIN, RST, SYN, Segment};

/// A larger jump of a SYN or an RST is not believed.
const JUMP_MAX: i64 = 1 << 20;
/// Zeek ends an attempt without an answer after this time.
const ATTEMPT_NS: u64 = 5_000_000_000;

/// Both ends, the originator first.
#[derive(Clone, Debug, Default)]
pub(super) struct TcpConnection {
    ends: [TcpEnd; 2],
    /// The opening was not captured.
    is_partial: bool,
    /// Ends that have sent a packet.
    seen: [bool; 2],
    missed_bytes: u64,
    /// When the originator sent its first SYN.
    attempt_ns: Option<u64>,
}

impl TcpConnection {
    /// Adds a segment. Returns whether it shows that the roles of the ends were exchanged.
    pub(super) fn take(
        &mut self,
        packet: &PacketView<'_>,
        is_originator: bool,
        history: &mut History,
    ) -> bool {
        let Some(segment) = Segment::from_packet(packet) else { return false };
        let (flags, payload_bytes) = (packet.headers.tcp_flags, packet.headers.payload_bytes);
        let (at, other) = (usize::from(!is_originator), usize::from(is_originator));
        let (is_syn, is_rst, is_ack) = (flags & SYN != 0, flags & RST != 0, flags & ACK != 0);
        if !self.seen[at] && (is_originator || !self.is_partial) {
            self.is_partial = !is_syn || (is_originator && is_ack);
        }
        self.begin(at, flags, &segment, payload_bytes);
        let begin = self.ends[at].sent(segment.sequence);
        let end = begin + numbers(flags, payload_bytes);
        self.note(at, flags, begin, payload_bytes, history);
        let [peer, this] = [self.ends[other].state, self.ends[at].state];
        if segment.window == 0 && !is_rst && peer != EndState::Closed && this != EndState::Reset {
            self.ends[at].count(Counted::ZeroWindow, is_originator, history);
        }
        if flags & FIN != 0 {
            self.ends[at].finish(end);
        }
        let acknowledged =
            if is_ack { self.acknowledge(other, segment.acknowledgement, is_rst) } else { 0 };
        self.advance(at, flags, end, payload_bytes, history);
        if self.ends[at].state == EndState::Inactive && is_syn && is_originator {
            self.attempt_ns = Some(packet.time_ns);
        }
        let is_exchanged = self.change(at, flags, &segment, payload_bytes);
        if is_ack {
            let Self { ends, is_partial, missed_bytes, .. } = self;
            let is_clean = ends.iter().all(TcpEnd::is_clean);
            ends[other].miss(acknowledged, *is_partial, |end, bytes| {
                if is_clean {
                    *missed_bytes += bytes;
                    end.count(Counted::Gap, !is_originator, history);
                }
            });
        }
        let is_whole = packet.payload().len() as u64 >= u64::from(payload_bytes);
        if payload_bytes > 0 && is_whole && !is_rst && begin >= 0 {
            let begin = begin + i64::from(is_syn);
            self.ends[at].receive(begin, begin + i64::from(payload_bytes));
        }
        self.seen[at] = true;
        if is_exchanged {
            history.add(b'^', true);
            self.ends.swap(0, 1);
            self.seen.swap(0, 1);
            self.is_partial = false;
        }
        is_exchanged
    }

    /// Begins the numbers of an end.
    fn begin(&mut self, at: usize, flags: u16, segment: &Segment, payload_bytes: u32) {
        let end = &mut self.ends[at];
        let is_syn = flags & SYN != 0;
        if end.state == EndState::Inactive && !is_syn {
            // As if there had been a SYN.
            end.begin(segment.sequence.wrapping_sub(1), 1);
            return;
        }
        let is_believed = match end.state {
            EndState::Inactive | EndState::Established | EndState::Partial => true,
            EndState::SynSent | EndState::SynAckSent => !end.is_start(segment.sequence),
            EndState::Reset => end.previous == EndState::Inactive,
            EndState::Closed => false,
        };
        if is_syn && is_believed {
            end.begin(segment.sequence, numbers(flags, payload_bytes));
        }
    }

    /// Adds the letters of a segment.
    fn note(&mut self, at: usize, flags: u16, begin: i64, payload_bytes: u32, history: &mut History) {
        let (kind, letter, number) = match flags & (SYN | FIN | RST) {
            SYN if flags & ACK != 0 => (SEEN_SYN, b'H', begin),
            SYN => (SEEN_SYN, b'S', begin),
            FIN => (SEEN_FIN, b'F', begin + i64::from(payload_bytes)),
            RST => (SEEN_RST, b'R', begin),
            0 if payload_bytes > 0 => (SEEN_DATA, b'D', 0),
            0 if flags & ACK != 0 => (SEEN_ACK, b'A', 0),
            0 => return,
            several if several & (FIN | RST) == FIN | RST => (SEEN_FIN_RST, b'I', 0),
            _ => (SEEN_MANY, b'Q', 0),
        };
        self.ends[at].note(kind, letter, number, at == 0, history);
    }

    /// Adds an acknowledgement of what an end has sent, and returns its number.
    fn acknowledge(&mut self, of: usize, number: u32, is_rst: bool) -> i64 {
        let end = &mut self.ends[of];
        if end.state == EndState::Inactive {
            end.begin(number.wrapping_sub(1), 0);
            return 1;
        }
        let acknowledged = end.acknowledged(number);
        if acknowledged < 0 {
            return 0;
        }
        let is_broken = number == 0 && acknowledged - end.acked() > JUMP_MAX;
        if !is_rst && !is_broken {
            end.acknowledge(acknowledged);
        }
        acknowledged
    }

    /// Moves the number after everything sent, or counts a retransmission.
    fn advance(&mut self, at: usize, flags: u16, number: i64, payload_bytes: u32, history: &mut History) {
        let end = &mut self.ends[at];
        let more = number - end.last;
        let is_jump = flags & (SYN | RST) != 0 && more.abs() > JUMP_MAX;
        let is_first_end = flags & FIN != 0 && end.last == 1;
        if is_jump {
        } else if is_first_end {
            end.last = number;
        } else if end.state == EndState::Reset {
        } else if more > 0 {
            end.last = number;
        } else if payload_bytes > 0 {
            end.count(Counted::Retransmission, at == 0, history);
        }
    }

    /// Changes the states of the ends. Returns whether their roles were exchanged: a SYN follows
    /// its answer, which was captured before it.
    fn change(&mut self, at: usize, flags: u16, segment: &Segment, payload_bytes: u32) -> bool {
        let (is_originator, is_ack) = (at == 0, flags & ACK != 0);
        let [first, second] = &mut self.ends;
        let (end, peer) = if is_originator { (first, second) } else { (second, first) };
        let (is_syn, is_fin, is_rst) = (flags & SYN != 0, flags & FIN != 0, flags & RST != 0);
        let mut is_exchanged = false;
        match end.state {
            EndState::Inactive => {
                if is_syn && is_originator {
                    end.set_state(if is_ack { EndState::SynAckSent } else { EndState::SynSent });
                } else if is_syn {
                    is_exchanged =
                        !is_ack && peer.state == EndState::SynAckSent && end.is_start(segment.sequence);
                    if is_exchanged || peer.state == EndState::SynSent {
                        peer.set_state(EndState::Established);
                    }
                    end.set_state(EndState::Established);
                }
                if is_fin {
                    end.set_state(EndState::Closed);
                }
                if is_rst {
                    end.set_state(EndState::Reset);
                }
                // Some hosts acknowledge a SYN before they answer it.
                let is_early = !is_originator && payload_bytes == 0 && peer.state == EndState::SynSent;
                if end.state == EndState::Inactive && !is_early {
                    let is_open = is_ack && peer.state == EndState::Established;
                    end.set_state(if is_open { EndState::Established } else { EndState::Partial });
                    self.is_partial &= !is_open;
                }
            }
            EndState::SynSent | EndState::SynAckSent => {
                if is_fin {
                    end.set_state(EndState::Closed);
                }
                if is_rst {
                    end.set_state(EndState::Reset);
                }
            }
            EndState::Established | EndState::Partial => {
                if is_syn && !is_ack && end.state == EndState::Partial && peer.state == EndState::Inactive {
                    end.set_state(EndState::SynSent);
                }
                if is_fin && !is_rst {
                    end.set_state(EndState::Closed);
                    if peer.state == EndState::Reset && peer.previous == EndState::Closed {
                        // Its FIN closed the connection, not the RST behind it.
                        peer.set_state(EndState::Closed);
                    }
                }
                if is_rst {
                    end.set_state(EndState::Reset);
                }
            }
            EndState::Closed => {
                if is_rst && peer.state != EndState::Closed {
                    end.set_state(EndState::Reset);
                }
            }
            EndState::Reset => {}
        }
        is_exchanged
    }

    /// Returns whether the connection is an attempt that has had no answer in time.
    pub(super) fn is_over(&self, now_ns: u64) -> bool {
        let [originator, responder] = [self.ends[0].state, self.ends[1].state];
        matches!(originator, EndState::SynSent | EndState::SynAckSent)
            && responder == EndState::Inactive
            && self.attempt_ns.is_some_and(|begun_ns| now_ns.saturating_sub(begun_ns) > ATTEMPT_NS)
    }

    pub(super) fn bytes(&self, of_originator: bool) -> u64 {
        let (at, other) = (usize::from(!of_originator), usize::from(of_originator));
        self.ends[at].bytes(&self.ends[other])
    }

    pub(super) fn missed_bytes(&self) -> u64 {
        self.missed_bytes
    }

    /// Returns the state of the connection in Zeek's words.
    pub(super) fn state(&self, history: &str) -> &'static str {
        use EndState::{Closed, Established, Inactive, Partial, Reset, SynAckSent, SynSent};
        let [originator, responder] = [self.ends[0].state, self.ends[1].state];
        let is_silent = |state: EndState| matches!(state, Inactive | Partial);
        match (originator, responder) {
            (SynSent | SynAckSent, Reset) => "REJ",
            (Reset, Reset) if self.bytes(true) == 0 && self.bytes(false) == 0 => "REJ",
            (state, Reset) => {
                if is_silent(state) {
                    "RSTRH"
                } else {
                    "RSTR"
                }
            }
            (Reset, state) if is_silent(state) && is_syn_and_reset(history) => "RSTOS0",
            (Reset, state) if is_silent(state) => "OTH",
            (Reset, _) => "RSTO",
            (Closed, Closed) => "SF",
            (Closed, state) => {
                if is_silent(state) {
                    "SH"
                } else {
                    "S2"
                }
            }
            (state, Closed) => {
                if is_silent(state) {
                    "SHR"
                } else {
                    "S3"
                }
            }
            (SynSent, Inactive) => "S0",
            (Established, Established) => "S1",
            _ => "OTH",
        }
    }
}

/// Returns whether a history has the originator's SYN and RST, and nothing else of it between.
fn is_syn_and_reset(history: &str) -> bool {
    let letters = history.strip_prefix('^').unwrap_or(history).strip_prefix('S');
    letters
        .and_then(|letters| letters.find(['H', 'A', 'F', 'G', 'I', 'Q', 'R']).map(|at| &letters[at..]))
        .is_some_and(|rest| rest.starts_with('R'))
}
