//! The time of a live source, which also passes while no packet arrives.

use std::time::{Duration, Instant};

use crate::source::RawPacket;

/// The longest time for which the kernel holds a packet before a source sees it: packets that
/// arrived earlier have been yielded.
const HELD_MAX: Duration = Duration::from_millis(100);

/// Computes the time up to which a live source has yielded all packets, for
/// [`PacketBatch::yielded_until_ns`](crate::PacketBatch::yielded_until_ns).
///
/// The time is that of the packets' stamps: the latest stamp, and how long ago its packet was
/// yielded. So it does not depend on the clock that stamps the packets, which may be set.
///
/// # Examples
///
/// ```
/// use flowloom_packet::LiveTime;
/// use std::time::Instant;
/// let time = LiveTime::default();
/// assert_eq!(time.silent_ns(Instant::now()), None, "no packet has said what time it is");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveTime {
    /// The latest stamp, and when its packet was yielded.
    latest: Option<(u64, Instant)>,
}

impl LiveTime {
    /// Notes the packets that the source yields at `now`. Returns the time of the last one.
    pub fn yielded(&mut self, packets: &[RawPacket], now: Instant) -> Option<u64> {
        let last = packets.last()?.time_ns;
        self.latest = Some((last, now));
        Some(last)
    }

    /// Returns the time at `now`, while no packet has arrived; `None` before the first packet. It
    /// is a tenth of a second late, as a packet may be.
    pub fn silent_ns(&self, now: Instant) -> Option<u64> {
        let (last, at) = self.latest?;
        let silent = now.duration_since(at).saturating_sub(HELD_MAX).as_nanos();
        Some(last.saturating_add(u64::try_from(silent).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{InterfaceName, LinkType};

    #[test]
    fn live_time_continues_from_the_latest_stamp() {
        let packet = |time_ns| RawPacket {
            position: 0,
            captured_bytes: 0,
            wire_bytes: 0,
            time_ns,
            link: LinkType::RAW,
            interface: InterfaceName::UNKNOWN,
        };
        let (mut time, begun) = (LiveTime::default(), Instant::now());
        assert_eq!(time.yielded(&[], begun), None);
        assert_eq!(time.yielded(&[packet(5), packet(9_000_000_000)], begun), Some(9_000_000_000));
        for (later_ms, silent_ns) in [(0, 9_000_000_000), (100, 9_000_000_000), (2100, 11_000_000_000)] {
            assert_eq!(time.silent_ns(begun + Duration::from_millis(later_ms)), Some(silent_ns));
        }
        // A clock that was set back is followed.
        assert_eq!(time.yielded(&[packet(7)], begun), Some(7));
        assert_eq!(time.silent_ns(begun + Duration::from_millis(101)), Some(1_000_007));
    }
}
