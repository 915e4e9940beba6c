//! Packets and bytes over packet time, in bounded memory.

use flowloom_flow_key::protocol::{TCP, UDP};

/// Lengths of an interval in nanoseconds, each a multiple of the one before: from a microsecond to
/// a thousand days, in steps that people read easily.
const LENGTHS: [u64; 28] = {
    const US: u64 = 1_000;
    const MS: u64 = 1_000 * US;
    const S: u64 = 1_000 * MS;
    const H: u64 = 3_600 * S;
    [
        US,
        2 * US,
        10 * US,
        20 * US,
        100 * US,
        200 * US,
        MS,
        2 * MS,
        10 * MS,
        20 * MS,
        100 * MS,
        200 * MS,
        S,
        2 * S,
        10 * S,
        20 * S,
        60 * S,
        120 * S,
        600 * S,
        1_200 * S,
        H,
        2 * H,
        4 * H,
        24 * H,
        240 * H,
        2_400 * H,
        12_000 * H,
        24_000 * H,
    ]
};

/// Packets and bytes of one interval of a [`Timeline`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interval {
    /// Packets.
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
    /// Packets and bytes of TCP among them.
    pub tcp: [u64; 2],
    /// Packets and bytes of UDP.
    pub udp: [u64; 2],
}

impl Interval {
    fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        for at in 0..2 {
            self.tcp[at] += other.tcp[at];
            self.udp[at] += other.udp[at];
        }
    }
}

/// Packets and bytes on the wire by intervals of packet time.
///
/// All intervals have one length, which is the least of a fixed list with which the time from the
/// first to the last packet needs at most [`INTERVALS_MAX`](Self::INTERVALS_MAX) of them. Intervals
/// begin at multiples of their length since 1970. A timeline therefore depends only on the packets,
/// not on their order or on how a run distributes them.
///
/// # Examples
///
/// ```
/// use flowloom_engine::Timeline;
/// let mut timeline = Timeline::default();
/// timeline.add(5_000_000_100, 60, Some(6));
/// timeline.add(5_000_700_000, 1500, None);
/// assert_eq!((timeline.begin_ns(), timeline.length_ns()), (5_000_000_000, 2_000));
/// let intervals = timeline.intervals();
/// assert_eq!((intervals.len(), intervals[0].packets, intervals[350].bytes), (351, 1, 1500));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// The length in [`LENGTHS`].
    length: usize,
    /// The number of the first interval since 1970.
    begin: u64,
    intervals: Vec<Interval>,
    /// The time at which the latest interval begins.
    latest_ns: u64,
}

impl Timeline {
    /// Maximum number of intervals.
    pub const INTERVALS_MAX: usize = 500;

    /// Returns the length of each interval, in nanoseconds.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        LENGTHS[self.length]
    }

    /// Returns when the first interval begins, in nanoseconds since 1970; 0 without packets.
    #[must_use]
    pub fn begin_ns(&self) -> u64 {
        self.begin * self.length_ns()
    }

    /// Returns the intervals without gaps. The first and the last have packets.
    #[must_use]
    pub fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// Adds a packet, with the number of its flow's IP protocol. Constant time if packets come in
    /// the order of time.
    #[inline]
    pub fn add(&mut self, time_ns: u64, wire_bytes: u32, protocol: Option<u8>) {
        let counts = [1, u64::from(wire_bytes)];
        let counts_if = |number: u8| if protocol == Some(number) { counts } else { [0; 2] };
        let packet = Interval { packets: 1, bytes: counts[1], tcp: counts_if(TCP), udp: counts_if(UDP) };
        match self.intervals.last_mut() {
            Some(latest) if time_ns.wrapping_sub(self.latest_ns) < LENGTHS[self.length] => {
                latest.add(packet);
            }
            _ => self.add_at(time_ns, packet),
        }
    }

    /// Adds the packets of an interval that begins at, or of a packet at, this time.
    #[cold]
    fn add_at(&mut self, time_ns: u64, packets: Interval) {
        let (mut first, mut last) = (time_ns / self.length_ns(), time_ns / self.length_ns());
        if !self.intervals.is_empty() {
            first = first.min(self.begin);
            last = last.max(self.begin + self.intervals.len() as u64 - 1);
        }
        while last - first >= Self::INTERVALS_MAX as u64 {
            self.widen(self.length + 1);
            let factor = LENGTHS[self.length] / LENGTHS[self.length - 1];
            (first, last) = (first / factor, last / factor);
        }
        if first < self.begin && !self.intervals.is_empty() {
            let before = (self.begin - first) as usize;
            self.intervals.splice(..0, std::iter::repeat_n(Interval::default(), before));
        }
        self.begin = first;
        let length = (last - first + 1) as usize;
        self.intervals.resize(length, Interval::default());
        let at = (time_ns / self.length_ns() - first) as usize;
        self.intervals[at].add(packets);
        self.latest_ns = last * self.length_ns();
    }

    /// Joins neighbouring intervals to intervals of a greater length.
    fn widen(&mut self, length: usize) {
        let factor = LENGTHS[length] / LENGTHS[self.length];
        self.length = length;
        if self.intervals.is_empty() {
            return;
        }
        let begin = self.begin / factor;
        let mut kept = 0;
        for at in 0..self.intervals.len() {
            kept = ((self.begin + at as u64) / factor - begin) as usize;
            let interval = std::mem::take(&mut self.intervals[at]);
            self.intervals[kept].add(interval);
        }
        self.intervals.truncate(kept + 1);
        self.begin = begin;
        self.latest_ns = (begin + kept as u64) * self.length_ns();
    }

    /// Adds the packets of another timeline.
    pub fn merge(&mut self, mut other: Self) {
        if other.length < self.length {
            other.widen(self.length);
        } else if self.length < other.length {
            self.widen(other.length);
        }
        // The ends first, so that the length is final before the other intervals are added.
        let ends = [other.intervals.len().saturating_sub(1), 0];
        let between = 1..ends[0].max(1);
        for at in ends.into_iter().take(other.intervals.len().min(2)).chain(between) {
            let begin_ns = (other.begin + at as u64) * other.length_ns();
            if other.intervals[at] != Interval::default() {
                self.add_at(begin_ns, other.intervals[at]);
            }
        }
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Finds length and intervals from all packets at once.
    fn oracle(packets: &[(u64, u32, Option<u8>)]) -> Timeline {
        let (Some(first), Some(last)) =
            (packets.iter().map(|packet| packet.0).min(), packets.iter().map(|packet| packet.0).max())
        else {
            return Timeline::default();
        };
        let fits = |length: &u64| last / length - first / length < Timeline::INTERVALS_MAX as u64;
        let length = LENGTHS.iter().position(fits).expect("the greatest length takes any times");
        let begin = first / LENGTHS[length];
        let count = last / LENGTHS[length] - begin + 1;
        let mut intervals = vec![Interval::default(); count as usize];
        for &(time_ns, bytes, protocol) in packets {
            let interval = &mut intervals[(time_ns / LENGTHS[length] - begin) as usize];
            interval.packets += 1;
            interval.bytes += u64::from(bytes);
            if let Some(of @ (6 | 17)) = protocol {
                let counts = if of == 6 { &mut interval.tcp } else { &mut interval.udp };
                *counts = [counts[0] + 1, counts[1] + u64::from(bytes)];
            }
        }
        Timeline { length, begin, intervals, latest_ns: (begin + count - 1) * LENGTHS[length] }
    }

    fn timeline(packets: &[(u64, u32, Option<u8>)]) -> Timeline {
        let mut timeline = Timeline::default();
        for &(time_ns, bytes, protocol) in packets {
            timeline.add(time_ns, bytes, protocol);
        }
        timeline
    }

    /// Packets whose times lie within a power of two nanoseconds, anywhere since 1970.
    fn packets() -> impl Strategy<Value = Vec<(u64, u32, Option<u8>)>> {
        (0..=64_u32, any::<u64>()).prop_flat_map(|(bits, begin)| {
            let span = 1_u64.checked_shl(bits).map_or(u64::MAX, |span| span - 1);
            let begin = begin.min(u64::MAX - span);
            let protocol = prop::option::of(prop::sample::select(vec![1_u8, 6, 17]));
            prop::collection::vec((begin..=begin + span, any::<u32>(), protocol), 0..300)
        })
    }

    #[test]
    fn each_length_is_a_multiple_of_the_one_before_and_the_last_takes_any_times() {
        assert!(LENGTHS.windows(2).all(|pair| pair[1].is_multiple_of(pair[0]) && pair[1] > pair[0]));
        assert!(u64::MAX / LENGTHS[LENGTHS.len() - 1] < Timeline::INTERVALS_MAX as u64);
    }

    proptest! {
        #[test]
        fn intervals_are_those_of_the_oracle_in_any_order(packets in packets(), sorted in any::<bool>()) {
            let mut packets = packets;
            if sorted {
                packets.sort_unstable();
            }
            let timeline = timeline(&packets);
            prop_assert_eq!(&timeline, &oracle(&packets));
            let sum = timeline.intervals().iter().fold([0, 0], |sum, interval| {
                [sum[0] + interval.packets, sum[1] + interval.bytes]
            });
            let bytes: u64 = packets.iter().map(|packet| u64::from(packet.1)).sum();
            prop_assert_eq!(sum, [packets.len() as u64, bytes]);
        }

        #[test]
        fn parts_merge_to_the_whole(packets in packets(), cut in any::<prop::sample::Index>()) {
            let at = cut.index(packets.len() + 1);
            let mut merged = timeline(&packets[..at]);
            merged.merge(timeline(&packets[at..]));
            prop_assert_eq!(merged, oracle(&packets));
        }
    }
}
