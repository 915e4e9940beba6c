//! Runs the engine for a round, with the same settings as the command line.

use std::collections::HashSet;
use std::path::Path;

use flowloom::cpu::memory;
use flowloom::engine::{App, Control, Cores, EngineConfig, Layout, run};
use flowloom::flow_key::{FlowHasher, FlowKey};
use flowloom::flow_table::{DHash, Growing, TableOptions};
use flowloom::packet::{Fill, PacketBatch};
use flowloom::scheduler::{DirectHash, WorkerCount};
use flowloom::traffic::capture::{Capture, CaptureOptions};
use flowloom_measure::Elapsed;

use crate::looped::Looped;
use crate::walk::headers_of;

/// The seed of the hash, the same in all rounds.
pub const SEED: u64 = 1;

/// Number of packets for estimating the number of flows, and the limits of the estimate, as on the
/// command line.
const SAMPLE_PACKETS: u64 = 4096;
const GUESS: std::ops::RangeInclusive<f64> = 1024.0..=4_194_304.0;

/// How tables are built: as on the command line, but resident before the timed part.
///
/// The command line leaves the pages to the first flow that needs them; rows of whole programs
/// include this cost.
#[derive(Clone, Copy, Debug)]
pub struct Sizing {
    first_flows: u32,
}

/// The results of a run of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Wall-clock time of the packet path of all threads; processor time of the thread that reads
    /// the source.
    pub elapsed: Elapsed,
    /// Number of packets.
    pub packets: u64,
    /// Captured bytes.
    pub bytes: u64,
    /// Packets with a flow key.
    pub decoded: u64,
    /// Number of flows.
    pub flows: u64,
    /// Segments of the first worker's table at the end: above 1, the estimate was too low.
    pub segments: u32,
}

impl Ran {
    /// Returns the results by name.
    pub fn facts(&self) -> [(&'static str, u64); 4] {
        let Self { packets, bytes, decoded, flows, .. } = *self;
        [("packets", packets), ("bytes", bytes), ("decoded packets", decoded), ("flows", flows)]
    }
}

impl Sizing {
    /// Estimates the number of flows in several passes from a capture's first packets and its size.
    ///
    /// # Errors
    ///
    /// Returns an error if the capture cannot be read.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a guess within bounds that every number here can hold"
    )]
    pub fn guess(path: &Path, passes: u64) -> Result<Self, String> {
        let text = |error: &dyn std::error::Error| error.to_string();
        let mut capture = Capture::open(path, CaptureOptions::default()).map_err(|e| text(&e))?;
        let total = std::fs::metadata(path).map_err(|e| text(&e))?.len();
        let mut batch = PacketBatch::new();
        let mut keys = HashSet::new();
        while capture.packets() < SAMPLE_PACKETS
            && capture.next_batch(&mut batch).map_err(|e| text(&e))? == Fill::Packets
        {
            let Some(block) = &batch.block else { continue };
            for raw in &batch.packets {
                let bytes = raw.bytes_in(block.bytes());
                keys.extend(headers_of(raw.link, bytes, 0).map(|headers| headers.key));
            }
        }
        let share = total as f64 / capture.taken_bytes().max(1) as f64;
        let flows = keys.len() as f64 * share * passes as f64 / 2.0;
        Ok(Self { first_flows: flows.clamp(*GUESS.start(), *GUESS.end()) as u32 })
    }

    /// Runs the engine over the next round of `source`.
    ///
    /// # Errors
    ///
    /// Returns an error if the run could not start, failed, or is not balanced.
    pub fn run<A: App>(
        &self,
        source: &mut Looped,
        mode: Layout,
        app: impl Fn() -> A,
    ) -> Result<Ran, String> {
        let mut config = EngineConfig::new(mode);
        config.cores = Cores::Unpinned;
        config.hasher = FlowHasher::with_seed(SEED);
        let tables = u32::try_from(mode.workers()).unwrap_or(u32::MAX);
        let options = TableOptions {
            memory_limit_bytes: memory::available_bytes().unwrap_or(u64::MAX) / u64::from(tables),
            prefault: true,
            ..TableOptions::for_flows(TableOptions::FLOWS_MAX)
        };
        let first_flows = self.first_flows.div_ceil(tables);
        let workers = WorkerCount::new(mode.workers()).map_err(|error| error.to_string())?;
        source.rewind();
        let report = run(
            &config,
            source,
            &mut DirectHash::new(workers),
            |_| Growing::try_new(first_flows, options, DHash::<FlowKey, A::Flow>::try_new),
            |_| app(),
            &Control::default(),
        )
        .map_err(|error| error.to_string())?;
        if let Some(fault) = &report.fault {
            return Err(fault.to_string());
        }
        if !report.is_balanced() || report.processed() != report.input.decoded {
            return Err(String::from("the engine's counts do not add up"));
        }
        Ok(Ran {
            elapsed: Elapsed {
                cpu_ns: source.elapsed().cpu_ns,
                wall_ns: u64::try_from(report.elapsed.as_nanos()).unwrap_or(u64::MAX),
            },
            packets: report.input.packets,
            bytes: report.input.bytes_captured,
            decoded: report.input.decoded,
            flows: report.flows.len() as u64,
            segments: report.workers[0].table.map_or(0, |table| table.segments),
        })
    }
}

#[cfg(test)]
mod tests {
    use flowloom::apps::{Null, TcpTracker};

    use super::*;
    use crate::input::CaptureFile;

    #[test]
    fn every_mode_and_round_finds_the_same_results() {
        let capture = CaptureFile::generate(2000, 100).unwrap();
        let sizing = Sizing::guess(capture.path(), 2).unwrap();
        let mut source = Looped::open(capture.path(), 4000).unwrap();
        let null = sizing.run(&mut source, Layout::Inline, || Null).unwrap();
        let tracked = sizing.run(&mut source, Layout::Inline, || TcpTracker).unwrap();
        let piped = sizing.run(&mut source, Layout::Pipeline { workers: 2 }, || Null).unwrap();
        assert_eq!((null.packets, null.flows), (4000, 200));
        assert_eq!(null.facts(), tracked.facts());
        assert_eq!(null.facts(), piped.facts());
        assert!(null.elapsed.cpu_ns > 0 && piped.elapsed.wall_ns > 0);
    }
}
