//! A clock of packet times that one wrong time stamp cannot stop.
//!
//! Captures contain packets whose time is wrong by decades. A clock that follows the latest time
//! would stand still after such a packet until the end of the capture. A clock that never goes back
//! would stand still after a clock was set back. [`PacketClock`] takes small steps at once, and a
//! far step only when several packets in a row agree on it:
//!
//! ```text
//!            behind                    now                      ahead
//!  ◀─ outlier ─┼──── late: now ────────┼──── step: the stamp ─────┼─ outlier ─▶
//!              backward_max_ns                      forward_max_ns
//! ```
//!
//! The clock never goes back: after a step back it continues from its last time, by the differences
//! of the time stamps.

/// The time steps that [`PacketClock`] accepts.
///
/// Any version may add fields, so end a literal with `..ClockLimits::default()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockLimits {
    /// The largest step forward that the clock takes at once, in nanoseconds.
    pub forward_max_ns: u64,
    /// How far behind the clock a late packet may be, in nanoseconds.
    pub backward_max_ns: u64,
    /// The number of consecutive packets that must agree on a time further off; at least 1.
    pub agreeing_packets: u32,
}

impl Default for ClockLimits {
    /// Ten years forward, a minute back, and three packets. Joined captures have gaps of years;
    /// wrong stamps are mostly off by decades.
    fn default() -> Self {
        const NS_PER_SECOND: u64 = 1_000_000_000;
        Self {
            forward_max_ns: 3650 * 86_400 * NS_PER_SECOND,
            backward_max_ns: 60 * NS_PER_SECOND,
            agreeing_packets: 3,
        }
    }
}

/// Counts of unusual packet times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockCounts {
    /// Packets behind the clock, by at most [`backward_max_ns`](ClockLimits::backward_max_ns).
    pub late: u64,
    /// The largest delay of a packet counted in `late`, in nanoseconds.
    pub late_ns_max: u64,
    /// Packets too far ahead. The clock did not follow them.
    pub outliers_ahead: u64,
    /// Packets too far behind. The clock did not follow them.
    pub outliers_behind: u64,
    /// Large forward steps of the time stamps that later packets confirmed.
    pub steps_forward: u64,
    /// Large backward steps of the time stamps that later packets confirmed.
    pub steps_back: u64,
}

/// A far time that further packets may confirm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    is_ahead: bool,
    /// The latest time stamp of its packets.
    last_ns: u64,
    packets: u32,
}

/// The time of a run, derived from its packets.
///
/// # Examples
///
/// ```
/// use flowloom_packet::clock::{ClockLimits, PacketClock};
///
/// const SECOND: u64 = 1_000_000_000;
/// let mut clock = PacketClock::new(ClockLimits::default());
/// assert_eq!(clock.tick(1_700_000_000 * SECOND), 1_700_000_000 * SECOND);
/// // A packet of the year 2106 does not move it.
/// assert_eq!(clock.tick(4_294_967_295 * SECOND), 1_700_000_000 * SECOND);
/// assert_eq!(clock.tick(1_700_000_001 * SECOND), 1_700_000_001 * SECOND);
/// assert_eq!(clock.counts().outliers_ahead, 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketClock {
    limits: ClockLimits,
    now_ns: u64,
    /// The offset added to time stamps: the sum of the steps back.
    offset_ns: u64,
    begun: bool,
    candidate: Option<Candidate>,
    counts: ClockCounts,
}

impl PacketClock {
    /// Returns a clock that the first packet sets.
    #[must_use]
    pub const fn new(limits: ClockLimits) -> Self {
        Self {
            limits,
            now_ns: 0,
            offset_ns: 0,
            begun: false,
            candidate: None,
            counts: ClockCounts {
                late: 0,
                late_ns_max: 0,
                outliers_ahead: 0,
                outliers_behind: 0,
                steps_forward: 0,
                steps_back: 0,
            },
        }
    }

    /// Processes a packet's time stamp. Returns the time by which flows expire, which is never
    /// before an earlier result.
    #[inline]
    pub fn tick(&mut self, stamped_ns: u64) -> u64 {
        let local_ns = stamped_ns.saturating_add(self.offset_ns);
        if self.begun && local_ns >= self.now_ns && local_ns - self.now_ns <= self.limits.forward_max_ns {
            self.now_ns = local_ns;
            self.candidate = None;
            return local_ns;
        }
        self.unusual(stamped_ns, local_ns)
    }

    /// Processes the stamps of consecutive packets at once, if all of them are usual: they never
    /// decrease, from `first_ns` to `last_ns`, and [`tick`](Self::tick) would return each as it is.
    /// Otherwise returns `false`, and the clock stays as it was.
    pub fn tick_all(&mut self, first_ns: u64, last_ns: u64) -> bool {
        let span_ns = last_ns.wrapping_sub(self.now_ns);
        let is_usual = self.begun
            && self.offset_ns == 0
            && first_ns >= self.now_ns
            && last_ns >= first_ns
            && span_ns <= self.limits.forward_max_ns;
        if is_usual {
            self.now_ns = last_ns;
            self.candidate = None;
        }
        is_usual
    }

    #[cold]
    fn unusual(&mut self, stamped_ns: u64, local_ns: u64) -> u64 {
        if !self.begun {
            // A stamp of 0 is no time: a reader gives it to packets that have none.
            self.begun = local_ns > 0;
            self.now_ns = local_ns;
            return local_ns;
        }
        let is_ahead = local_ns > self.now_ns;
        let behind_ns = self.now_ns.saturating_sub(local_ns);
        if !is_ahead && behind_ns <= self.limits.backward_max_ns {
            self.counts.late += 1;
            self.counts.late_ns_max = self.counts.late_ns_max.max(behind_ns);
            self.candidate = None;
            return self.now_ns;
        }
        let agreed = self.candidate.filter(|far| {
            // For a far step ahead any later time agrees, because a capture may have one packet per
            // week.
            let is_near = is_ahead || stamped_ns.saturating_sub(far.last_ns) <= self.limits.forward_max_ns;
            far.is_ahead == is_ahead
                && is_near
                && stamped_ns.saturating_add(self.limits.backward_max_ns) >= far.last_ns
        });
        let far = match agreed {
            Some(far) => Candidate {
                packets: far.packets.saturating_add(1),
                last_ns: far.last_ns.max(stamped_ns),
                ..far
            },
            None => Candidate { is_ahead, last_ns: stamped_ns, packets: 1 },
        };
        if far.packets < self.limits.agreeing_packets.max(1) {
            self.candidate = Some(far);
            *if is_ahead { &mut self.counts.outliers_ahead } else { &mut self.counts.outliers_behind } += 1;
            return self.now_ns;
        }
        self.candidate = None;
        if is_ahead {
            self.counts.steps_forward += 1;
            self.now_ns = local_ns;
        } else {
            self.counts.steps_back += 1;
            self.offset_ns = self.offset_ns.saturating_add(behind_ns);
        }
        self.now_ns
    }

    /// Returns the time of a moment at which no packet arrives, given as packets are stamped. It is
    /// the latest result if that is later, or if the moment is too far ahead to be believed.
    #[must_use]
    pub fn without_packet(&self, stamped_ns: u64) -> u64 {
        let ahead_ns = stamped_ns.saturating_add(self.offset_ns).saturating_sub(self.now_ns);
        let is_usual = self.begun && ahead_ns <= self.limits.forward_max_ns;
        if is_usual { self.now_ns + ahead_ns } else { self.now_ns }
    }

    /// Returns the latest result; 0 before the first packet.
    #[must_use]
    pub const fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Returns the counts of unusual times so far.
    #[must_use]
    pub const fn counts(&self) -> ClockCounts {
        self.counts
    }
}

impl Default for PacketClock {
    fn default() -> Self {
        Self::new(ClockLimits::default())
    }
}

impl ClockCounts {
    /// Adds other counts to these.
    pub fn merge(&mut self, other: &Self) {
        self.late += other.late;
        self.late_ns_max = self.late_ns_max.max(other.late_ns_max);
        self.outliers_ahead += other.outliers_ahead;
        self.outliers_behind += other.outliers_behind;
        self.steps_forward += other.steps_forward;
        self.steps_back += other.steps_back;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const NOW: u64 = 1_700_000_000;
    const YEAR_2106: u64 = 4_294_967_295;

    fn answers(seconds: &[u64]) -> (Vec<u64>, ClockCounts) {
        let mut clock = PacketClock::default();
        let answers = seconds.iter().map(|&stamp| clock.tick(stamp * SECOND) / SECOND).collect();
        (answers, clock.counts())
    }

    #[test]
    fn outliers_of_both_directions_do_not_move_the_clock() {
        let (times, counts) =
            answers(&[NOW, YEAR_2106, NOW + 1, 0, NOW + 2, YEAR_2106, 5, YEAR_2106, NOW + 3]);
        assert_eq!(times, [NOW, NOW, NOW + 1, NOW + 1, NOW + 2, NOW + 2, NOW + 2, NOW + 2, NOW + 3]);
        assert_eq!((counts.outliers_ahead, counts.outliers_behind), (3, 2));
        assert_eq!((counts.steps_forward, counts.steps_back), (0, 0));
    }

    #[test]
    fn time_without_packets_goes_on_from_the_packets_and_does_not_move_the_clock() {
        let mut clock = PacketClock::default();
        assert_eq!(clock.without_packet(NOW * SECOND), 0, "no packet has set it");
        clock.tick(NOW * SECOND);
        let without = |clock: &PacketClock, second: u64| clock.without_packet(second * SECOND) / SECOND;
        for (moment, time) in [(NOW + 5, NOW + 5), (NOW, NOW), (NOW - 9, NOW), (YEAR_2106, NOW)] {
            assert_eq!(without(&clock, moment), time);
        }
        assert_eq!(clock.now_ns(), NOW * SECOND);
        // A clock that was set back by a day.
        (0..3).for_each(|_| assert_eq!(clock.tick((NOW - 86_400) * SECOND), NOW * SECOND));
        assert_eq!(without(&clock, NOW - 86_400 + 7), NOW + 7);
    }

    #[test]
    fn packets_without_a_time_do_not_set_the_clock() {
        let (times, counts) = answers(&[0, 0, NOW, 0, NOW + 1]);
        assert_eq!(times, [0, 0, NOW, NOW, NOW + 1]);
        assert_eq!((counts.outliers_ahead, counts.outliers_behind), (0, 1));
    }

    #[test]
    fn agreeing_packets_in_a_row_move_the_clock_forward() {
        let later = NOW + 4000 * 86_400;
        let (times, counts) = answers(&[NOW, later, later + 1, later + 2, later + 3]);
        assert_eq!(times, [NOW, NOW, NOW, later + 2, later + 3]);
        assert_eq!((counts.steps_forward, counts.outliers_ahead), (1, 2));
    }

    #[test]
    fn clock_recovers_from_a_wrong_first_packet() {
        let (times, counts) = answers(&[YEAR_2106, NOW, NOW + 1, NOW + 2, NOW + 3, NOW + 13]);
        let wrong = YEAR_2106;
        assert_eq!(
            times,
            [wrong, wrong, wrong, wrong, wrong + 1, wrong + 11],
            "by the differences of the stamps"
        );
        assert_eq!((counts.steps_back, counts.outliers_behind), (1, 2));
    }

    #[test]
    fn clock_recovers_from_a_step_forward_and_back() {
        let wrong = [YEAR_2106, YEAR_2106 + 1, YEAR_2106 + 2];
        let right = [NOW + 10, NOW + 11, NOW + 12, NOW + 20];
        let (times, counts) = answers(&[&[NOW][..], &wrong, &right].concat());
        assert_eq!(times[3], YEAR_2106 + 2);
        assert_eq!(times[6..], [YEAR_2106 + 2, YEAR_2106 + 10]);
        assert_eq!((counts.steps_forward, counts.steps_back), (1, 1));
    }

    #[test]
    fn late_packet_does_not_move_the_clock() {
        let (times, counts) = answers(&[NOW, NOW + 50, NOW, NOW + 10, NOW + 51]);
        assert_eq!(times, [NOW, NOW + 50, NOW + 50, NOW + 50, NOW + 51]);
        assert_eq!((counts.late, counts.late_ns_max), (2, 50 * SECOND));
    }

    #[test]
    fn rare_packets_move_the_clock() {
        let each = |days: u64| (0..30).map(|at| NOW + at * days * 86_400).collect::<Vec<u64>>();
        let (times, counts) = answers(&each(7));
        assert_eq!((times, counts), (each(7), ClockCounts::default()));
        let (times, counts) = answers(&each(4000));
        assert_eq!(times.last(), each(4000).get(27), "every third packet is agreed on");
        assert_eq!(counts.steps_forward, 9);
    }

    #[test]
    fn extreme_stamps_neither_wrap_nor_stop_the_clock() {
        let mut clock = PacketClock::default();
        let stamps = [u64::MAX, 0, 1, 2, 3, u64::MAX, u64::MAX, u64::MAX, 0, 0, 0, 1];
        let times: Vec<u64> = stamps.into_iter().map(|stamp| clock.tick(stamp)).collect();
        assert!(times.is_sorted());
        let one = ClockLimits { agreeing_packets: 0, ..ClockLimits::default() };
        let mut eager = PacketClock::new(one);
        assert_eq!(
            [NOW, YEAR_2106].map(|stamp| eager.tick(stamp * SECOND)),
            [NOW * SECOND, YEAR_2106 * SECOND]
        );
    }

    #[test]
    fn with_any_stamps_the_clock_never_goes_back_and_recovers() {
        // A small xorshift generator of 64-bit numbers.
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..200 {
            let mut clock = PacketClock::default();
            let mut last = 0;
            for _ in 0..200 {
                let stamp = match random() % 4 {
                    0 => random(),
                    1 => random() % (1 << 40),
                    _ => NOW * SECOND + random() % (1 << 44),
                };
                let now = clock.tick(stamp);
                assert!(now >= last);
                last = now;
            }
            if last > 1 << 63 {
                continue; // Near the end of the range, no time is left to advance by.
            }
            // In every state, regular packets make the clock follow their differences.
            let base = NOW * SECOND + (1 << 45);
            let times: Vec<u64> = (0..8).map(|step| clock.tick(base + step * SECOND)).collect();
            assert_eq!(times[7] - times[5], 2 * SECOND, "{times:?}");
        }
    }
}
