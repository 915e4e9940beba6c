//! One end of a TCP connection: its state and its sequence numbers, relative to its first.

use super::History;
use crate::accounting::connection::{FIN, RST, SYN};

/// The states of an end, as Zeek has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum EndState {
    #[default]
    Inactive,
    SynSent,
    SynAckSent,
    /// Its opening was not captured.
    Partial,
    Established,
    Closed,
    Reset,
}

/// Events that the history counts: its first, tenth, hundredth, … time has a letter.
#[derive(Clone, Copy, Debug)]
pub(super) enum Counted {
    Gap = 0,
    Retransmission = 1,
    ZeroWindow = 2,
}

const LETTERS: [u8; 3] = *b"GTW";

// Bits of `TcpEnd::seen`.
pub(super) const SEEN_SYN: u8 = 1;
pub(super) const SEEN_FIN: u8 = 2;
pub(super) const SEEN_RST: u8 = 4;
pub(super) const SEEN_DATA: u8 = 8;
pub(super) const SEEN_ACK: u8 = 16;
pub(super) const SEEN_MANY: u8 = 32;
pub(super) const SEEN_FIN_RST: u8 = 64;

/// The most separate blocks of data that wait behind a gap. Further ones are joined to the last.
const BLOCKS_MAX: usize = 6;

/// One end. Its numbers count from its initial sequence number, which is 0.
#[derive(Clone, Debug)]
pub(super) struct TcpEnd {
    pub(super) state: EndState,
    pub(super) previous: EndState,
    /// The initial sequence number.
    start: u32,
    /// The number after everything sent.
    pub(super) last: i64,
    /// The highest acknowledgement of the other end.
    acked: i64,
    /// The number after the FIN, if one was sent.
    fin: Option<i64>,
    /// Kinds of packets in the history.
    seen: u8,
    counts: [u32; 3],
    /// The numbers of the last SYN, FIN and RST.
    controls: [i64; 3],
    /// The number up to which data was captured or is missed, and the blocks behind it.
    received: i64,
    blocks: [(i64, i64); BLOCKS_MAX],
    block_count: usize,
}

impl Default for TcpEnd {
    fn default() -> Self {
        Self {
            state: EndState::Inactive,
            previous: EndState::Inactive,
            start: 0,
            last: 0,
            acked: 0,
            fin: None,
            seen: 0,
            counts: [0; 3],
            controls: [0; 3],
            received: 1,
            blocks: [(0, 0); BLOCKS_MAX],
            block_count: 0,
        }
    }
}

impl TcpEnd {
    pub(super) fn set_state(&mut self, state: EndState) {
        if state != self.state {
            (self.previous, self.state) = (self.state, state);
        }
    }

    /// Begins the numbers at a SYN, or with the acknowledgement of one that was not captured.
    pub(super) fn begin(&mut self, start: u32, last: i64) {
        (self.start, self.last, self.acked) = (start, last, 0);
    }

    /// Returns whether a number is the initial one.
    pub(super) fn is_start(&self, number: u32) -> bool {
        number == self.start
    }

    /// Returns a sequence number near everything sent, relative to the initial one.
    pub(super) fn sent(&self, number: u32) -> i64 {
        self.near(number, self.last)
    }

    /// Returns an acknowledgement near the highest one.
    pub(super) fn acknowledged(&self, number: u32) -> i64 {
        self.near(number, self.acked)
    }

    fn near(&self, number: u32, known: i64) -> i64 {
        let place = number.wrapping_sub(self.start);
        // The low 32 bits of the known number are its place in the sequence space.
        let low = u32::try_from(known.rem_euclid(1 << 32)).unwrap_or_default();
        known + i64::from(place.wrapping_sub(low).cast_signed())
    }

    pub(super) fn acknowledge(&mut self, number: i64) {
        self.acked = self.acked.max(number);
    }

    pub(super) fn acked(&self) -> i64 {
        self.acked
    }

    pub(super) fn has_fin(&self) -> bool {
        self.fin.is_some()
    }

    pub(super) fn finish(&mut self, number: i64) {
        self.fin = Some(number);
    }

    /// Adds a letter of a kind of packet. The further ones of SYN, FIN and RST have letters if
    /// their numbers differ from the last.
    pub(super) fn note(
        &mut self,
        kind: u8,
        letter: u8,
        number: i64,
        is_originator: bool,
        to: &mut History,
    ) {
        let is_first = self.seen & kind == 0;
        self.seen |= kind;
        let control = match kind {
            SEEN_SYN => &mut self.controls[0],
            SEEN_FIN => &mut self.controls[1],
            SEEN_RST => &mut self.controls[2],
            _ => {
                if is_first {
                    to.add(letter, is_originator);
                }
                return;
            }
        };
        if std::mem::replace(control, number) != number || is_first {
            to.add(letter, is_originator);
        }
    }

    /// Counts an event.
    pub(super) fn count(&mut self, what: Counted, is_originator: bool, to: &mut History) {
        let count = &mut self.counts[what as usize];
        *count = count.saturating_add(1);
        if 10_u32.checked_pow(count.ilog10()) == Some(*count) {
            to.add(LETTERS[what as usize], is_originator);
        }
    }

    /// Adds data that was captured whole.
    pub(super) fn receive(&mut self, begin: i64, end: i64) {
        let begin = begin.max(self.received).max(self.acked);
        if begin >= end {
            return;
        }
        let count = self.block_count;
        if begin <= self.received {
            self.received = end;
        } else {
            let at = self.blocks[..count].partition_point(|block| block.0 < begin);
            if count == BLOCKS_MAX {
                let last = &mut self.blocks[BLOCKS_MAX - 1];
                *last = (last.0.min(begin), last.1.max(end));
            } else {
                self.blocks.copy_within(at..count, at + 1);
                self.blocks[at] = (begin, end);
                self.block_count += 1;
            }
        }
        self.deliver();
    }

    /// Removes the blocks that follow without a gap.
    fn deliver(&mut self) {
        let count = self.block_count;
        let whole = self.blocks[..count].iter().take_while(|block| {
            let follows = block.0 <= self.received;
            if follows {
                self.received = self.received.max(block.1);
            }
            follows
        });
        let whole = whole.count();
        self.blocks.copy_within(whole..count, 0);
        self.block_count -= whole;
    }

    /// Passes each gap in the data up to an acknowledgement to `missed`, as its length.
    pub(super) fn miss(
        &mut self,
        acknowledged: i64,
        is_partial: bool,
        mut missed: impl FnMut(&mut Self, u64),
    ) {
        let up_to = self.fin.filter(|&fin| acknowledged >= fin).map_or(acknowledged, |fin| fin - 1);
        // Without the opening the first numbers are a guess.
        if up_to <= self.received || (up_to <= 2 && is_partial) {
            return;
        }
        while self.block_count > 0 && self.blocks[0].0 < up_to {
            let gap = self.blocks[0].0 - self.received;
            missed(self, gap.cast_unsigned());
            self.received = self.blocks[0].0;
            self.deliver();
        }
        if up_to > self.received {
            missed(self, (up_to - self.received).cast_unsigned());
            self.received = up_to;
        }
    }

    /// Returns whether the end opened its connection, and did not abort it.
    pub(super) fn is_clean(&self) -> bool {
        self.state == EndState::Established
            || (self.state == EndState::Closed && self.previous == EndState::Established)
    }

    /// Returns the payload bytes by sequence numbers.
    pub(super) fn bytes(&self, peer: &Self) -> u64 {
        let is_aborted = self.previous == EndState::SynSent
            && self.state == EndState::Reset
            && peer.state == EndState::Inactive
            && self.acked > 1;
        if is_aborted {
            return 0;
        }
        let numbers = u64::try_from(self.last.max(self.acked)).unwrap_or(0);
        numbers.saturating_sub(1).saturating_sub(u64::from(self.has_fin()))
    }
}

/// Returns the numbers that a segment takes. Data of an RST takes none.
pub(super) fn numbers(flags: u16, payload_bytes: u32) -> i64 {
    let controls = i64::from(flags & SYN != 0) + i64::from(flags & FIN != 0);
    controls + if flags & RST == 0 { i64::from(payload_bytes) } else { 0 }
}
