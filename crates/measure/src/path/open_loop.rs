//! Delivers packets at fixed times, independent of the processing of earlier packets, and measures
//! the latency of each packet.
//!
//! A sender that waits for the receiver conceals the receiver's pauses: packets that should have
//! arrived during a pause are never sent and never counted as late. Here, each packet has a fixed
//! due time. It is delivered at that time, or when the engine next requests packets. Its latency is
//! measured from the due time to the end of its processing.

use std::sync::{Arc, Mutex, PoisonError};

use flowloom_engine::{App, Verdict};
use flowloom_packet::{DropCounts, Fill, PacketBatch, PacketSource, PacketView, SourceError};
use hdrhistogram::Histogram;

use crate::clock::wall_ns;

/// The maximum latency of the histogram: one minute.
const LATENCY_MAX_NS: u64 = 60_000_000_000;
/// Number of significant digits of a latency.
const DIGITS: u8 = 3;

/// Delivers the packets of another source at a fixed rate; their due times replace their own times.
#[derive(Debug)]
pub struct OpenLoop<S> {
    inner: S,
    interval_ns: f64,
    left: u64,
    begun_ns: Option<u64>,
    sent: u64,
    /// Packets of the inner source that are not due yet.
    ahead: PacketBatch,
    at: usize,
}

impl<S: PacketSource> OpenLoop<S> {
    /// Returns `packets` packets of `inner` at a rate per second.
    ///
    /// # Panics
    ///
    /// Panics if the rate is not positive.
    pub fn new(inner: S, packets_per_second: f64, packets: u64) -> Self {
        assert!(packets_per_second > 0.0, "a rate is positive");
        Self {
            inner,
            interval_ns: 1e9 / packets_per_second,
            left: packets,
            begun_ns: None,
            sent: 0,
            ahead: PacketBatch::new(),
            at: 0,
        }
    }
}

impl<S: PacketSource> PacketSource for OpenLoop<S> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a run lasts only seconds"
    )]
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        batch.packets.clear();
        if self.left == 0 {
            return Ok(Fill::End);
        }
        if self.at == self.ahead.packets.len() {
            self.at = 0;
            match self.inner.next_batch(&mut self.ahead)? {
                Fill::Packets => {}
                other => {
                    self.ahead.packets.clear();
                    return Ok(other);
                }
            }
        }
        let now = wall_ns();
        let begun = *self.begun_ns.get_or_insert(now);
        let due = ((now - begun) as f64 / self.interval_ns) as u64 + 1 - self.sent;
        let rest = &self.ahead.packets[self.at..];
        let count = (rest.len() as u64).min(due).min(self.left);
        if count == 0 {
            return Ok(Fill::Starved);
        }
        batch.block.clone_from(&self.ahead.block);
        batch.block_number = self.ahead.block_number;
        batch.pass = self.ahead.pass;
        batch.ahead = std::mem::take(&mut self.ahead.ahead);
        for (i, raw) in rest[..count as usize].iter().enumerate() {
            let mut raw = *raw;
            raw.time_ns = begun + ((self.sent + i as u64) as f64 * self.interval_ns) as u64;
            batch.packets.push(raw);
        }
        self.at += count as usize;
        self.sent += count;
        self.left -= count;
        Ok(Fill::Packets)
    }

    fn withheld(&mut self) -> DropCounts {
        self.inner.withheld()
    }
}

/// Collects the latencies of all workers.
#[derive(Clone, Debug)]
pub struct Latencies(Arc<Mutex<Histogram<u64>>>);

impl Default for Latencies {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(empty())))
    }
}

fn empty() -> Histogram<u64> {
    let Ok(histogram) = Histogram::new_with_bounds(1, LATENCY_MAX_NS, DIGITS) else {
        unreachable!("the bounds are constants that fit")
    };
    histogram
}

impl Latencies {
    /// Wraps `inner` with a clock that measures latencies.
    pub fn behind<A: App>(&self, inner: A) -> Timed<A> {
        Timed { inner, own: empty(), all: self.clone() }
    }

    /// Returns the number of timed packets, and their latency in nanoseconds at each of these
    /// quantiles.
    pub fn at(&self, quantiles: &[f64]) -> (u64, Vec<u64>) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (all.len(), quantiles.iter().map(|&quantile| all.value_at_quantile(quantile)).collect())
    }

    /// Returns the mean in nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).mean()
    }
}

/// An application that records the latency of each packet. Costs one clock read per packet.
#[derive(Debug)]
pub struct Timed<A> {
    inner: A,
    own: Histogram<u64>,
    all: Latencies,
}

impl<A: App> App for Timed<A> {
    type Flow = A::Flow;

    #[inline]
    fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut Self::Flow) -> Verdict {
        let verdict = self.inner.on_packet(packet, flow);
        self.own.saturating_record(wall_ns().saturating_sub(packet.time_ns).max(1));
        verdict
    }

    fn next_record(&self, packet: &PacketView<'_>, flow: &mut Self::Flow) -> Option<Self::Flow> {
        self.inner.next_record(packet, flow)
    }
}

impl<A> Drop for Timed<A> {
    /// Adds this worker's latencies to the common histogram.
    fn drop(&mut self) {
        let mut all = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Both histograms have the same bounds.
        let _ = all.add(&self.own);
    }
}

#[cfg(test)]
mod tests {
    use flowloom_apps::Null;
    use flowloom_engine::{Control, Cores, EngineConfig, Layout, run};
    use flowloom_flow_key::FlowKey;
    use flowloom_flow_table::{LineHash, TableOptions};
    use flowloom_packet::DropReason;
    use flowloom_scheduler::{DirectHash, WorkerCount};

    use super::super::input::CaptureFile;
    use super::super::looped::Looped;
    use super::*;

    #[test]
    fn packets_withheld_by_the_source_are_reported() {
        struct Withholding;
        impl PacketSource for Withholding {
            fn next_batch(&mut self, _: &mut PacketBatch) -> Result<Fill, SourceError> {
                Ok(Fill::End)
            }
            fn withheld(&mut self) -> DropCounts {
                let mut counts = DropCounts::default();
                counts.add(DropReason::Reassembled, 3);
                counts
            }
        }
        assert_eq!(OpenLoop::new(Withholding, 1.0, 1).withheld().total(), 3);
    }

    #[test]
    fn packets_arrive_on_schedule_and_a_pause_delays_all_that_were_due() {
        /// Pauses once, at its hundredth packet.
        struct Pausing(Timed<Null>, u32);
        impl App for Pausing {
            type Flow = <Null as App>::Flow;
            fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut Self::Flow) -> Verdict {
                self.1 += 1;
                if self.1 == 100 {
                    std::thread::sleep(std::time::Duration::from_millis(100));
                }
                self.0.on_packet(packet, flow)
            }
        }
        let capture = CaptureFile::generate(1000, 50).unwrap();
        let looped = Looped::open(capture.path(), 1000).unwrap();
        // Two hundred milliseconds.
        let mut source = OpenLoop::new(looped, 5_000.0, 1000);
        let latencies = Latencies::default();
        let config = EngineConfig { cores: Cores::Unpinned, ..EngineConfig::new(Layout::Inline) };
        let report = run(
            &config,
            &mut source,
            &mut DirectHash::new(WorkerCount::new(1).unwrap()),
            |_| LineHash::<FlowKey, _>::try_new(&TableOptions::for_flows(100)),
            |_| Pausing(latencies.behind(Null), 0),
            &Control::default(),
        )
        .unwrap();
        assert_eq!(report.input.packets, 1000);
        assert!(report.processed() > 900, "{}", report.processed());
        assert!(report.elapsed.as_millis() >= 199, "{:?}", report.elapsed);
        let (timed, at) = latencies.at(&[0.5, 1.0]);
        assert_eq!(timed, report.processed());
        assert!(at[1] >= 100_000_000, "the pause");
        // Five hundred packets were due during the pause: a closed loop would have seen one.
        let (_, late) = latencies.at(&[0.7]);
        assert!(late[0] > 20_000_000, "{late:?}");
    }
}
