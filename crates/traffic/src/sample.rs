//! Systematic sampling by count: every Nth packet of a source [RFC 5475 §5.1].

use std::num::NonZeroU32;
use std::str::FromStr;

use flowloom_packet::{DropCounts, DropReason, Fill, PacketBatch, PacketSource, SourceError};

use crate::dedup::next_kept;

/// One of so many packets, `1/N`.
///
/// # Examples
///
/// ```
/// use flowloom_traffic::sample::Sampling;
/// let sampling: Sampling = "1/100".parse()?;
/// assert_eq!(sampling.one_of(), 100);
/// // A count of 400 stands for 40,000 packets, more or less 3,900.
/// assert_eq!(sampling.error(400).round(), 3900.0);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling(NonZeroU32);

impl Sampling {
    /// Returns the number of packets of which one is taken.
    #[must_use]
    pub const fn one_of(self) -> u32 {
        self.0.get()
    }

    /// Returns half of the width of the interval around `one_of() * count` that contains the number
    /// of packets for which a count stands with a probability of 95 %, if it is binomial.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub fn error(self, count: u64) -> f64 {
        let every = f64::from(self.one_of());
        1.96 * (every * (every - 1.0) * count as f64).sqrt()
    }
}

impl FromStr for Sampling {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix("1/").filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        let every =
            digits.and_then(|digits| digits.parse().ok()).filter(|every: &NonZeroU32| every.get() > 1);
        every.map(Self).ok_or_else(|| format!("'{text}' is no sampling: write 1/N, such as 1/100"))
    }
}

/// A source of the first of every N packets of another source. The others count as
/// [`DropReason::NotSampled`].
#[derive(Debug)]
pub struct Sample<S> {
    source: S,
    every: u32,
    /// Packets to pass over before the next one is taken.
    wait: u32,
    dropped: DropCounts,
}

impl<S> Sample<S> {
    /// Returns the source of the sampled packets.
    pub fn new(source: S, sampling: Sampling) -> Self {
        Self { source, every: sampling.one_of(), wait: 0, dropped: DropCounts::default() }
    }
}

impl<S: PacketSource> PacketSource for Sample<S> {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        let Self { source, every, wait, dropped } = self;
        next_kept(source, batch, |batch| {
            let before = batch.packets.len();
            batch.packets.retain(|_| {
                let is_taken = *wait == 0;
                *wait = if is_taken { *every } else { *wait } - 1;
                is_taken
            });
            dropped.add(DropReason::NotSampled, (before - batch.packets.len()) as u64);
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
    use super::*;
    use crate::synth::{Generated, Mix, MixConfig};

    #[test]
    fn the_first_of_every_n_packets_is_taken_and_the_others_count() {
        for (packets, every) in [(1, 3), (1000, 2), (1000, 7), (1000, 5000_usize)] {
            let config = MixConfig { flows: 1, packets, ..MixConfig::default() };
            let mix = || Generated::new(Mix::new(config.clone()).unwrap());
            let times = |source: &mut dyn PacketSource| {
                let (mut batch, mut times) = (PacketBatch::new(), Vec::new());
                while source.next_batch(&mut batch).unwrap() != Fill::End {
                    times.extend(batch.packets.iter().map(|packet| packet.time_ns));
                }
                times
            };
            let all = times(&mut mix());
            let sampling: Sampling = format!("1/{every}").parse().unwrap();
            let mut source = Sample::new(mix(), sampling);
            let expected: Vec<u64> = all.iter().copied().step_by(every).collect();
            assert_eq!(times(&mut source), expected);
            let dropped = source.withheld();
            assert_eq!(dropped.get(DropReason::NotSampled), (all.len() - expected.len()) as u64);
            assert_eq!(dropped.withheld(), dropped.total());
        }
    }

    #[test]
    fn other_ratios_are_refused() {
        for wrong in ["", "1", "100", "1/", "1/0", "1/1", "2/100", "1/-5", "1/+5", "1/4294967296", "1/1.5"]
        {
            assert!(wrong.parse::<Sampling>().is_err(), "{wrong}");
        }
    }
}
