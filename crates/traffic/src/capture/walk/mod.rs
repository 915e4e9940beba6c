//! The record walk: finds each packet, and prefetches the lines ahead.
//!
//! The offset of a record is known only after the previous record was read, so a plain walk pays
//! one memory latency per packet; the hardware prefetcher does not follow strides of a few hundred
//! bytes. The walk therefore prefetches every line once, well before it is needed. This was
//! measured to be several times faster (`cargo xtask bench replay` prints the ratio to copying the
//! same bytes). The decoder of the batch issues most of the prefetches
//! ([`PacketBatch::lookahead`](flowloom_packet::PacketBatch::lookahead)), so that memory and
//! decoder work at the same time. The walk issues the rest.
pub(in crate::capture) mod ahead;
mod clock;
pub(in crate::capture) mod links;
pub(in crate::capture) mod pcap;
pub(in crate::capture) mod pcap_state;
pub(in crate::capture) mod pcapng;
pub(in crate::capture) mod stop;

use std::ops::Range;
use std::path::Path;

use flowloom_packet::{BATCH_PACKETS, RawPacket};

use self::pcapng::{BlockHeader, Effects, PcapngState, PcapngWalk, other_capture};
use super::ahead::Ahead;
use super::details::Details;
use super::format::Format;
use super::losses::Losses;
use super::notice::Notice;
use super::pcap::PcapWalk;
use super::pcap_state::PcapState;
use super::stop::Stop;

/// The state of a walk through one capture, kept between batches.
#[derive(Debug)]
pub(crate) struct Walk {
    kind: FormatWalk,
    ahead: Ahead,
    packets: u64,
    /// The offset of a step's bytes in the unpacked file.
    base: u64,
    joints: Joints,
    /// Whether another walk has read the beginning of the file.
    is_resumed: bool,
}

/// The concatenated captures in one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Joints {
    pub(crate) count: u64,
    /// Offset of the first one in the unpacked file.
    pub(crate) first: u64,
}

impl Joints {
    /// Returns the joints of this part of the file and of the part after it.
    pub(crate) fn and(self, later: Self) -> Self {
        let first = if self.count > 0 { self.first } else { later.first };
        Self { count: self.count + later.count, first }
    }

    /// Returns the notice about concatenated captures in this file, if there are any.
    pub(crate) fn notice(self, path: &Path) -> Option<Notice> {
        let Self { count, first } = self;
        (count > 0).then(|| Notice::Joined { path: path.to_path_buf(), captures: count + 1, offset: first })
    }
}

/// The state on which reading the next records of a file depends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WalkState {
    Pcap(PcapState),
    Pcapng(PcapngState),
}

impl WalkState {
    /// Drops the state that has no effect on `rest`, which comes next.
    pub(crate) fn before(self, rest: &[u8]) -> Self {
        match self {
            Self::Pcapng(state) if Format::detect(rest) == Some(Format::Pcapng) => {
                Self::Pcapng(state.before_section())
            }
            state => state,
        }
    }

    /// Returns a text that classic captures have in common exactly if their states are equal.
    pub(crate) fn token(&self) -> String {
        let Self::Pcap(state) = self else { return String::from("pcapng") };
        let PcapState { link, big_endian, extra_bytes, lengths, ns_per_unit, snaplen } = state;
        let lengths = *lengths as u8;
        format!("{}-{big_endian}-{extra_bytes}-{lengths}-{ns_per_unit}-{snaplen}", link.0)
    }

    /// Returns whether a walk from this state found what a walk from `truth` would have found.
    pub(crate) fn stands_for(&self, truth: &Self, effects: Effects) -> bool {
        match (self, truth) {
            (Self::Pcapng(assumed), Self::Pcapng(truth)) => assumed.stands_for(truth, effects),
            (assumed, truth) => assumed == truth,
        }
    }

    /// Returns this state, in which a walk ended, as it would be if the walk had begun in `truth`
    /// instead of `assumed`.
    pub(crate) fn rebased(self, assumed: &Self, truth: &Self, effects: Effects) -> Self {
        match (self, assumed, truth) {
            (Self::Pcapng(end), Self::Pcapng(assumed), Self::Pcapng(truth)) => {
                Self::Pcapng(end.rebased(assumed, truth, effects))
            }
            (end, ..) if effects.has_section => end,
            (_, _, truth) => truth.clone(),
        }
    }
}

#[derive(Debug)]
enum FormatWalk {
    Pcap(PcapWalk),
    Pcapng(PcapngWalk),
}

impl Walk {
    /// Returns a walk, and the offset of the first record, for a file that begins with `bytes`.
    pub(crate) fn begin(format: Format, bytes: &[u8]) -> Result<(Self, usize), String> {
        let (kind, start) = match format {
            Format::Pcap { big_endian, nanoseconds, modified } => {
                let (walk, start) = PcapWalk::begin(bytes, big_endian, nanoseconds, modified)?;
                (FormatWalk::Pcap(walk), start)
            }
            Format::Pcapng => (FormatWalk::Pcapng(PcapngWalk::begin(bytes)?), 0),
        };
        Ok((
            Self {
                kind,
                ahead: Ahead::from(start),
                packets: 0,
                base: 0,
                joints: Joints::default(),
                is_resumed: false,
            },
            start,
        ))
    }

    /// Appends the records from offset `from` on to `out` until it holds [`BATCH_PACKETS`].
    ///
    /// `last` means that nothing follows `bytes`. Returns the offset of the first record that was
    /// not read, and the reason.
    pub(crate) fn step(
        &mut self,
        bytes: &[u8],
        from: usize,
        last: bool,
        out: &mut Vec<RawPacket>,
    ) -> (usize, Stop) {
        debug_assert!(out.len() <= BATCH_PACKETS, "a batch never holds more than its capacity");
        let before = out.len();
        let mut from = from;
        let (next, stop) = loop {
            match &mut self.kind {
                FormatWalk::Pcap(walk) => match walk.step(bytes, from, last, &mut self.ahead, out) {
                    (at, Stop::Joined) => match walk.join(&bytes[at..]) {
                        Ok(header_bytes) => {
                            from = at + header_bytes;
                            self.note_joint(at);
                        }
                        Err(why) => break (at, Stop::Corrupt(why)),
                    },
                    end => break end,
                },
                FormatWalk::Pcapng(walk) => break walk.step(bytes, from, &mut self.ahead, out),
            }
        };
        self.packets += (out.len() - before) as u64;
        let stop = match stop {
            Stop::More { need: _ } if last && next == bytes.len() => Stop::End,
            Stop::More { need } if last => {
                self.other_format_at(&bytes[next..]).unwrap_or(Stop::Cut { have: bytes.len() - next, need })
            }
            stop => stop,
        };
        (next, stop)
    }

    /// Works as [`step`](Self::step) does, but skips the records that begin at offset `limit` or
    /// later.
    ///
    /// `is_end` means that nothing follows `bytes`.
    pub(crate) fn step_until(
        &mut self,
        bytes: &[u8],
        from: usize,
        limit: usize,
        out: &mut Vec<RawPacket>,
    ) -> (usize, Stop) {
        if limit >= bytes.len() {
            return self.step(bytes, from, true, out);
        }
        // First reads the whole records before the limit, and then the record that crosses it, when
        // its end is known.
        let (mut at, mut end) = (from, limit);
        loop {
            if at >= limit {
                return (at, Stop::Limit);
            }
            match self.step(&bytes[..end], at, false, out) {
                (next, Stop::More { need }) if next < limit => {
                    at = next;
                    end = next.saturating_add(need);
                    if end > bytes.len() {
                        return self.step(bytes, at, true, out);
                    }
                }
                (next, Stop::More { need: _ }) => return (next, Stop::Limit),
                end => return end,
            }
        }
    }

    /// Returns the error of a capture of another format that begins in place of the incomplete
    /// record.
    fn other_format_at(&self, rest: &[u8]) -> Option<Stop> {
        match &self.kind {
            FormatWalk::Pcap(_) => None,
            FormatWalk::Pcapng(_) => rest.first_chunk::<12>().and_then(|head| other_capture(head)),
        }
    }

    /// Returns the state for reading the records from offset `at` of `bytes` on, if this walk has
    /// reached them.
    pub(crate) fn state_at(&self, bytes: &[u8], at: usize) -> WalkState {
        let state = match &self.kind {
            FormatWalk::Pcap(walk) => WalkState::Pcap(walk.state()),
            FormatWalk::Pcapng(walk) => WalkState::Pcapng(walk.state()),
        };
        state.before(bytes.get(at..).unwrap_or_default())
    }

    /// Reads the first words of the block at the start of `rest`, if it is a block and they are
    /// there.
    pub(crate) fn block_header(&self, rest: &[u8]) -> Option<BlockHeader> {
        match &self.kind {
            FormatWalk::Pcap(_) => None,
            FormatWalk::Pcapng(walk) => walk.order().header(rest),
        }
    }

    /// Continues from the state of another walk.
    pub(crate) fn resume(state: WalkState, at: usize) -> Self {
        let kind = match state {
            WalkState::Pcap(state) => FormatWalk::Pcap(PcapWalk::resume(state)),
            WalkState::Pcapng(state) => FormatWalk::Pcapng(PcapngWalk::resume(state)),
        };
        Self {
            kind,
            ahead: Ahead::from(at),
            packets: 0,
            base: 0,
            joints: Joints::default(),
            is_resumed: true,
        }
    }

    /// Returns how the results of this walk depend on what came before its first record.
    pub(crate) fn effects(&self) -> Effects {
        match &self.kind {
            FormatWalk::Pcap(_) => Effects { has_section: self.joints.count > 0, ..Effects::default() },
            FormatWalk::Pcapng(walk) => walk.effects(),
        }
    }

    /// Returns the bytes that the decoder of the latest batch must prefetch. The latest step went
    /// from `from` to `to`.
    pub(crate) fn look_ahead(&mut self, from: usize, to: usize) -> Range<u64> {
        self.ahead.leave(from, to)
    }

    /// Prepares a step over other bytes: position 0 corresponds to `base` in the file, and
    /// prefetches begin at `from`. `base` wraps if the bytes before `from` would lie before the
    /// file.
    pub(crate) fn moved(&mut self, base: u64, from: usize) {
        self.ahead = Ahead::from(from);
        self.base = base;
    }

    #[cold]
    fn note_joint(&mut self, at: usize) {
        if self.joints.count == 0 {
            self.joints.first = self.base.wrapping_add(at as u64);
        }
        self.joints.count += 1;
    }

    /// Removes the packets, in a step from `from`, whose records do not end by `end`. Returns the
    /// beginning of the first of these records.
    #[cold]
    pub(crate) fn take_back(
        &mut self,
        bytes: &[u8],
        from: usize,
        end: usize,
        packets: &mut Vec<RawPacket>,
    ) -> Option<usize> {
        let record = |packet: &RawPacket| {
            let position = usize::try_from(packet.position).unwrap_or(usize::MAX).min(bytes.len());
            match &self.kind {
                FormatWalk::Pcap(walk) => {
                    position.saturating_sub(walk.header_bytes())..position + packet.captured_bytes as usize
                }
                FormatWalk::Pcapng(walk) => walk.block_of_packet(bytes, from, position),
            }
        };
        let first = packets.iter().position(|packet| record(packet).end > end)?;
        let start = record(&packets[first]).start;
        self.packets -= (packets.len() - first) as u64;
        packets.truncate(first);
        Some(start)
    }

    /// From now on, collects the details of a pcapng capture other than its packets.
    pub(crate) fn note_details(&mut self) {
        if let FormatWalk::Pcapng(walk) = &mut self.kind {
            walk.note_details();
        }
    }

    /// Returns the collected details of a pcapng capture.
    pub(crate) fn details(&mut self) -> Option<&mut Details> {
        match &mut self.kind {
            FormatWalk::Pcap(_) => None,
            FormatWalk::Pcapng(walk) => walk.details(),
        }
    }

    /// Returns the minimum size of a record in bytes.
    pub(crate) fn record_header_bytes(&self) -> usize {
        match &self.kind {
            FormatWalk::Pcap(walk) => walk.header_bytes(),
            FormatWalk::Pcapng(_) => pcapng::BLOCK_BYTES_MIN,
        }
    }

    /// Returns where captures were concatenated so far.
    pub(crate) fn joints(&self) -> Joints {
        self.joints
    }

    /// Returns how many packets were found so far.
    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the distinct link types declared so far.
    pub(crate) fn links(&self) -> &[flowloom_packet::LinkType] {
        match &self.kind {
            FormatWalk::Pcap(walk) => walk.links(),
            FormatWalk::Pcapng(walk) => walk.links(),
        }
    }

    /// Returns how many packets stated a captured length that exceeds their record.
    pub(crate) fn lying_lengths(&self) -> u64 {
        match &self.kind {
            FormatWalk::Pcap(_) => 0,
            FormatWalk::Pcapng(walk) => walk.lying_lengths(),
        }
    }

    /// Returns how many packets state a time that is none of this program's times.
    pub(crate) fn clamped_times(&self) -> u64 {
        match &self.kind {
            FormatWalk::Pcap(_) => 0,
            FormatWalk::Pcapng(walk) => walk.clamped_times(),
        }
    }

    /// Returns what the capture says about its losses so far.
    pub(crate) fn losses(&self) -> Losses {
        match &self.kind {
            FormatWalk::Pcap(_) => Losses::default(),
            FormatWalk::Pcapng(walk) => walk.losses().clone(),
        }
    }

    /// Returns how many interfaces and sections the capture has declared so far.
    pub(crate) fn sections_and_interfaces(&self) -> (u64, u64) {
        match &self.kind {
            FormatWalk::Pcap(_) => {
                let captures = u64::from(!self.is_resumed) + self.joints.count;
                (captures, captures)
            }
            FormatWalk::Pcapng(walk) => walk.sections_and_interfaces(),
        }
    }
}
