//! Drops copies of packets: a mirrored port sends packets of two of its ports twice.
//!
//! A packet is a copy if its captured bytes equal those of one of the packets before it, within a
//! [window](DedupWindow). All packets count for the window, the dropped ones too: the windows are
//! those of `editcap -D` and `editcap -w`.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, Hasher};
use std::str::FromStr;
use std::time::Duration;

use flowloom_packet::{DropCounts, DropReason, Fill, PacketBatch, PacketSource, SourceError};

/// Batches of copies after which the source returns to the engine, which may want to stop.
const BATCHES_MAX: u32 = 256;

/// The packets that a packet is compared with.
///
/// # Examples
///
/// ```
/// use flowloom_traffic::dedup::DedupWindow;
/// assert_eq!("5".parse(), Ok(DedupWindow::Packets(5)));
/// assert_eq!("50ms".parse(), Ok(DedupWindow::Time(50_000_000)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DedupWindow {
    /// So many packets, the packet itself included: from 2 to [`PACKETS_MAX`](Self::PACKETS_MAX).
    Packets(u32),
    /// Packets at most so many nanoseconds before it, of the last
    /// [`PACKETS_MAX`](Self::PACKETS_MAX). Those with later stamps are not compared.
    Time(u64),
}

impl DedupWindow {
    /// The longest window. It takes about 100 MB.
    pub const PACKETS_MAX: u32 = 1_000_000;
}

impl FromStr for DedupWindow {
    type Err = String;

    /// Reads a number of packets, or a time in `s`, `ms` or `us`.
    fn from_str(text: &str) -> Result<Self, String> {
        let unit_start = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (number, unit) = text.split_at(unit_start);
        let is_number = number.starts_with(|c: char| c.is_ascii_digit());
        if unit.is_empty() {
            return match number.parse() {
                Ok(packets @ 2..=Self::PACKETS_MAX) if is_number => Ok(Self::Packets(packets)),
                _ => Err(format!(
                    "'{text}' is not a window: write a number of packets from 2 to {}, or a time such as 50ms",
                    Self::PACKETS_MAX
                )),
            };
        }
        let units = [("s", 1.0), ("ms", 1e-3), ("us", 1e-6)];
        let unit_seconds = units.iter().find(|(name, _)| *name == unit).map(|(_, seconds)| seconds);
        unit_seconds
            .zip(number.parse::<f64>().ok())
            .and_then(|(unit, number)| Duration::try_from_secs_f64(unit * number).ok())
            .and_then(|time| u64::try_from(time.as_nanos()).ok())
            .filter(|ns| is_number && *ns > 0)
            .map(Self::Time)
            .ok_or_else(|| format!("'{text}' is not a time: write a number and s, ms or us, such as 50ms"))
    }
}

/// The packets of the window, by the digest of their bytes.
#[derive(Debug)]
struct Window {
    packets: usize,
    time_ns: Option<u64>,
    /// Digest and time of each packet but the next.
    recent: VecDeque<(u128, u64)>,
    /// The number of the last packet with a digest.
    last: BTreeMap<u128, u64>,
    /// The number of the next packet.
    number: u64,
    hashers: [RandomState; 2],
}

impl Window {
    fn new(window: DedupWindow) -> Self {
        let (packets, time_ns) = match window {
            DedupWindow::Packets(packets) => (packets, None),
            DedupWindow::Time(ns) => (DedupWindow::PACKETS_MAX, Some(ns)),
        };
        Self {
            packets: packets.clamp(2, DedupWindow::PACKETS_MAX) as usize,
            time_ns,
            recent: VecDeque::new(),
            last: BTreeMap::new(),
            number: 0,
            hashers: [RandomState::new(), RandomState::new()],
        }
    }

    /// Adds a packet, and returns whether it is a copy.
    fn add(&mut self, bytes: &[u8], time_ns: u64) -> bool {
        // Both secrets are drawn at the start, so that different packets with one digest cannot be
        // made.
        let [high, low] = [0, 1].map(|half: usize| {
            let mut hasher = self.hashers[half].build_hasher();
            hasher.write_usize(bytes.len());
            hasher.write(bytes);
            hasher.finish()
        });
        let digest = u128::from(high) << 64 | u128::from(low);
        self.forget(time_ns);
        let first = self.number - self.recent.len() as u64;
        let before = self.last.insert(digest, self.number).and_then(|number| {
            let at = usize::try_from(number - first).ok()?;
            self.recent.get(at)
        });
        let is_copy = before.is_some_and(|&(_, before_ns)| match self.time_ns {
            None => true,
            Some(most) => time_ns.checked_sub(before_ns).is_some_and(|ns| ns <= most),
        });
        self.recent.push_back((digest, time_ns));
        self.number += 1;
        is_copy
    }

    /// Removes packets that the window of a packet at this time does not reach. A single wrong
    /// stamp removes none.
    fn forget(&mut self, time_ns: u64) {
        let now_ns = self.recent.back().map_or(0, |&(_, before_ns)| before_ns.min(time_ns));
        while let Some(&(digest, then_ns)) = self.recent.front() {
            let is_old = self.time_ns.is_some_and(|most| then_ns.saturating_add(most) < now_ns);
            if self.recent.len() < self.packets && !is_old {
                break;
            }
            if self.last.get(&digest) == Some(&(self.number - self.recent.len() as u64)) {
                self.last.remove(&digest);
            }
            self.recent.pop_front();
        }
    }
}

/// Reads the next batch of which `leave_out` leaves packets. After many batches of which it leaves
/// none, returns to the engine.
pub(crate) fn next_kept(
    source: &mut impl PacketSource,
    batch: &mut PacketBatch,
    mut leave_out: impl FnMut(&mut PacketBatch),
) -> Result<Fill, SourceError> {
    for _ in 0..BATCHES_MAX {
        match source.next_batch(batch)? {
            Fill::Packets => {}
            other => return Ok(other),
        }
        leave_out(batch);
        if !batch.packets.is_empty() {
            return Ok(Fill::Packets);
        }
    }
    Ok(Fill::Starved)
}

/// A source without the copies of another source's packets, which count as
/// [`DropReason::Duplicate`]. Each pass of a looped source begins anew.
#[derive(Debug)]
pub struct Dedup<S> {
    source: S,
    size: DedupWindow,
    window: Window,
    pass: u32,
    dropped: DropCounts,
}

impl<S> Dedup<S> {
    /// Returns the source without copies.
    pub fn new(source: S, window: DedupWindow) -> Self {
        let dropped = DropCounts::default();
        Self { source, size: window, window: Window::new(window), pass: 0, dropped }
    }
}

impl<S: PacketSource> PacketSource for Dedup<S> {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        let Self { source, size, window, pass, dropped } = self;
        next_kept(source, batch, |batch| {
            if std::mem::replace(pass, batch.pass) != batch.pass {
                *window = Window::new(*size);
            }
            let Some(block) = &batch.block else { return };
            let block = block.bytes();
            batch.packets.retain(|raw| {
                let is_copy = window.add(raw.bytes_in(block), raw.time_ns);
                dropped.add(DropReason::Duplicate, is_copy.into());
                !is_copy
            });
        })
    }

    fn withheld(&mut self) -> DropCounts {
        let mut withheld = std::mem::take(&mut self.dropped);
        withheld.merge(&self.source.withheld());
        withheld
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use flowloom_packet::{BATCH_PACKETS, Block, InterfaceName, LinkType, RawPacket};
    use proptest::prelude::*;

    use super::*;

    /// Batches of packets of one byte, in two passes.
    struct Bytes {
        packets: Vec<(u8, u64)>,
        at: usize,
        pass: u32,
    }

    impl PacketSource for Bytes {
        fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
            if self.at == self.packets.len() {
                (self.at, self.pass) = (0, self.pass + 1);
            }
            if self.pass == 2 || self.packets.is_empty() {
                return Ok(Fill::End);
            }
            let packets = &self.packets[self.at..];
            let packets = &packets[..packets.len().min(BATCH_PACKETS)];
            self.at += packets.len();
            batch.pass = self.pass;
            let raw = |(position, &(_, time_ns)): (usize, &(u8, u64))| RawPacket {
                position: position as u64,
                captured_bytes: 1,
                wire_bytes: 1,
                time_ns,
                link: LinkType::RAW,
                interface: InterfaceName::UNKNOWN,
            };
            batch.packets = packets.iter().enumerate().map(raw).collect();
            batch.block = Some(Arc::new(Block::Owned(packets.iter().map(|packet| packet.0).collect())));
            Ok(Fill::Packets)
        }
    }

    /// Compares a packet with those before it, from the last one on.
    fn is_copy(packets: &[(u8, u64)], at: usize, window: DedupWindow) -> bool {
        let (byte, time_ns) = packets[at];
        let before = packets[..at].iter().rev();
        match window {
            DedupWindow::Packets(count) => before.take(count as usize - 1).any(|packet| packet.0 == byte),
            DedupWindow::Time(ns) => {
                before.take_while(|packet| time_ns - packet.1 <= ns).any(|packet| packet.0 == byte)
            }
        }
    }

    proptest! {
        #[test]
        fn duplicates_match_a_plain_search(
            steps in proptest::collection::vec((0_u8..12, 0_u64..4), 0..300),
            window in prop_oneof![
                (2_u32..40).prop_map(DedupWindow::Packets),
                (1_u64..20).prop_map(DedupWindow::Time)
            ],
        ) {
            let mut now = 0;
            let packets: Vec<(u8, u64)> = steps.iter().map(|&(byte, step)| { now += step; (byte, now) }).collect();
            let mut source = Dedup::new(Bytes { packets: packets.clone(), at: 0, pass: 0 }, window);
            let (mut batch, mut yielded) = (PacketBatch::new(), Vec::new());
            while source.next_batch(&mut batch).unwrap() == Fill::Packets {
                let block = batch.block.clone().unwrap();
                yielded.extend(batch.packets.iter().map(|raw| (raw.bytes_in(block.bytes())[0], raw.time_ns)));
            }
            let expected: Vec<(u8, u64)> =
                (0..packets.len()).filter(|&at| !is_copy(&packets, at, window)).map(|at| packets[at]).collect();
            prop_assert_eq!(&yielded, &expected.repeat(2), "both passes alike");
            let dropped = source.withheld();
            prop_assert_eq!(dropped.total(), (2 * packets.len() - yielded.len()) as u64);
            prop_assert_eq!(dropped.get(DropReason::Duplicate), dropped.withheld());
            prop_assert_eq!(source.withheld(), DropCounts::default());
        }
    }

    #[test]
    fn a_window_takes_bounded_memory_and_survives_wrong_stamps() {
        let mut window = Window::new(DedupWindow::Packets(10));
        for number in 0..1000_u32 {
            assert!(!window.add(&number.to_le_bytes(), 0));
            assert!(window.recent.len() <= 10 && window.last.len() <= 10);
        }
        let mut window = Window::new(DedupWindow::Time(5));
        let stamps = [(1, 100), (2, u64::MAX), (1, 103), (3, 0), (1, 104), (2, 105), (3, 106)];
        let copies = stamps.map(|(byte, time_ns)| window.add(&[byte], time_ns));
        assert_eq!(copies, [false, false, true, false, true, false, false]);
        let mut window = Window::new(DedupWindow::Time(5));
        for time_ns in 0..1000_u64 {
            window.add(&time_ns.to_le_bytes(), time_ns);
            assert!(window.recent.len() <= 8 && window.last.len() <= 8);
        }
    }

    #[test]
    fn windows_are_read_with_their_units() {
        for (text, window) in [
            ("2", DedupWindow::Packets(2)),
            ("1000000", DedupWindow::Packets(1_000_000)),
            ("0.5s", DedupWindow::Time(500_000_000)),
            ("100us", DedupWindow::Time(100_000)),
        ] {
            assert_eq!(text.parse(), Ok(window));
        }
        for wrong in
            ["", "1", "0", "+5", "-5", "1000001", "5.5", "0s", "-1s", "5m", "5 s", "NaNs", "infs", "s", "é"]
        {
            assert!(wrong.parse::<DedupWindow>().is_err(), "{wrong}");
        }
    }
}
