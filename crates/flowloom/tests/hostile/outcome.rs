//! Limits and checks of a run over hostile bytes.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use flowloom::apps::TcpTracker;
use flowloom::engine::{Control, Cores, EngineConfig, Fault, Layout, run};
use flowloom::flow_key::FlowHasher;
use flowloom::flow_table::{Growing, LineHash, TableOptions};
use flowloom::packet::{DecodeOptions, Fill, PacketBatch, PacketSource, SourceError};
use flowloom::scheduler::{DirectHash, WorkerCount};
use flowloom::traffic::capture::{Capture, CaptureOptions, UnpackLimits};
use flowloom::traffic::defrag::{Defrag, DefragLimits};

/// Memory limit in addition to the flow tables.
const MEMORY_BYTES: u64 = 64 << 20;
/// Maximum duration of a run over one small capture.
const TIME: Duration = Duration::from_secs(1);
/// Duration after which a run counts as hung. A real capture of 100 MB must also be complete by
/// then, in a debug build on a busy machine.
const HUNG: Duration = Duration::from_secs(120);
/// One run in this many is repeated with two workers.
const PIPELINE_ONE_IN: usize = 64;

/// A capture as a source.
struct Source(Capture);

impl PacketSource for Source {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        self.0.next_batch(batch).map_err(|error| SourceError(Box::new(error)))
    }
}

/// The results to compare between layouts.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    packets: u64,
    dropped: u64,
    digest: String,
}

/// Number of runs so far.
#[derive(Debug, Default)]
pub(crate) struct Run {
    runs: u64,
    captures: u64,
    packets: u64,
    dropped: u64,
    slowest: Duration,
    table_bytes_max: u64,
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} inputs, {} of them captures, {} packets, {} dropped for a reason; the slowest took {:?}; {} MiB at the peak",
            self.runs,
            self.captures,
            self.packets,
            self.dropped,
            self.slowest,
            resident_peak_bytes().unwrap_or(0) >> 20
        )
    }
}

impl Run {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Runs the engine over these bytes; `choice` determines tunnels, fragments and workers.
    pub(crate) fn check(&mut self, bytes: &[u8], choice: usize) {
        let begun = Instant::now();
        let inline = self.outcome(Cursor::new(bytes.to_vec()), choice, Layout::Inline);
        let took = begun.elapsed();
        self.slowest = self.slowest.max(took);
        if took > TIME {
            // The machine may have been busy: a real hang occurs twice.
            let begun = Instant::now();
            self.outcome(Cursor::new(bytes.to_vec()), choice, Layout::Inline);
            assert!(begun.elapsed() < TIME, "{:?} for {} bytes", begun.elapsed(), bytes.len());
        }
        if choice % PIPELINE_ONE_IN == 1 {
            let mode = Layout::Pipeline { workers: 2 };
            assert_eq!(self.outcome(Cursor::new(bytes.to_vec()), choice, mode), inline);
        }
    }

    /// Runs the engine over a file, in both layouts.
    pub(crate) fn check_file(&mut self, path: &Path, choice: usize) {
        let open = || File::open(path).unwrap();
        let inline = self.outcome(open(), choice, Layout::Inline);
        assert!(inline.as_ref().is_some_and(|found| found.packets > 0), "{}", path.display());
        let mode = Layout::Pipeline { workers: 2 };
        assert_eq!(self.outcome(open(), choice, mode), inline, "{}", path.display());
    }

    fn outcome(&mut self, input: impl Read + Send + 'static, choice: usize, mode: Layout) -> Option<Found> {
        self.runs += 1;
        let limits = UnpackLimits { bytes_max: 256 << 20, ..UnpackLimits::default() };
        let capture = Capture::read_from(
            Path::new("hostile"),
            input,
            CaptureOptions { map: false, limits, ..CaptureOptions::default() },
        )
        .ok()?;
        self.captures += 1;
        let mut config = EngineConfig::new(mode);
        config.cores = Cores::Unpinned;
        config.hasher = FlowHasher::with_seed(1);
        config.ring_slots = 1024;
        config.decode = DecodeOptions::new().with_decap(choice & 1 != 0);
        let source = Source(capture);
        let mut source: Box<dyn PacketSource + Send> = if choice & 2 != 0 {
            Box::new(Defrag::new(source, config.decode, DefragLimits::default()))
        } else {
            Box::new(source)
        };
        let mut placement = DirectHash::new(WorkerCount::new(mode.workers()).unwrap());
        let options = TableOptions { memory_limit_bytes: 1 << 30, ..TableOptions::for_flows(1 << 20) };
        let table = |_| Growing::try_new(256, options, LineHash::try_new);
        let report =
            run(&config, &mut *source, &mut placement, table, |_| TcpTracker, &Control::default()).unwrap();
        assert!(report.is_balanced(), "{report:?}");
        assert!(!report.interrupted);
        assert!(matches!(report.fault, None | Some(Fault::Source { .. })), "{:?}", report.fault);
        let tables = report.workers.iter().filter_map(|worker| worker.memory);
        let table_bytes = tables.map(|memory| memory.total_bytes()).sum();
        self.table_bytes_max = self.table_bytes_max.max(table_bytes);
        self.packets += report.input.packets;
        self.dropped += report.dropped().total();
        Some(Found {
            packets: report.input.packets,
            dropped: report.dropped().total(),
            digest: report.digest(),
        })
    }
}

/// Returns the peak memory of this process.
fn resident_peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}

/// Checks the limit of the process.
pub(crate) fn check_memory(run: &Run) {
    let Some(peak) = resident_peak_bytes() else {
        eprintln!("skipped: this system does not say how much memory a process had");
        return;
    };
    let allowed = MEMORY_BYTES + run.table_bytes_max;
    assert!(peak <= allowed, "{peak} bytes at the peak, {allowed} are allowed; {run}");
}

/// Ends the process when one run takes too long, and prints which one.
pub(crate) struct Watchdog(Sender<String>);

impl Watchdog {
    pub(crate) fn start() -> Self {
        let (looks, looked) = channel::<String>();
        std::thread::spawn(move || {
            let mut last = String::from("the start");
            loop {
                match looked.recv_timeout(HUNG) {
                    Ok(name) => last = name,
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        eprintln!("hung for {HUNG:?}: {last}");
                        std::process::abort();
                    }
                }
            }
        });
        Self(looks)
    }

    /// Records the input of the next run.
    pub(crate) fn look(&self, name: impl FnOnce() -> String) {
        self.0.send(name()).unwrap();
    }
}
