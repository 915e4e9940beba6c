//! Runs the engine over captures.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use flowloom::apps::{Null, TcpTracker};
use flowloom::cpu::features::Isa;
use flowloom::cpu::memory;
use flowloom::cpu::pages::HugePages;
use flowloom::cpu::topology::{Topology, parse_cpu_list};
use flowloom::engine::{
    App, Control, Cores, EngineConfig, Fault, FlowState, IdleTimeout, Mode, RunReport, WhenFull,
};
use flowloom::flow_key::{FlowHasher, FlowKey};
use flowloom::flow_table::segments::GrowthLimits;
use flowloom::flow_table::{
    BuildError, DHash, DHashConfig, FlowTable, Growing, MemoryReport, TableStats, Timeouts,
};
use flowloom::packet::{DecodeOptions, Fill, PacketBatch, SourceError, decode};
use flowloom::scheduler::{DirectHash, HrwFlat, Placement, WorkerCount};
use flowloom::traffic::capture::{
    Capture, CaptureError, CaptureOptions, CaptureSet, Input, Notice, SetOptions, UnpackLimits,
};

use crate::args::Common;
use crate::args::replay::{AppName, FullName, HugePagesName, ModeName, Replay, SchedulerName, TableName};
use crate::exit::{Failure, Status, with_status};
use crate::host::{Host, Tool};
use crate::progress::Progress;
use crate::render::replay::{
    InputFigures, ReplayResult, RunFigures, TableFigures, VerifyFigures, WorkerFigures,
};
use crate::render::{print, warn};
use crate::{flow_file, verify};

/// Packets looked at to guess how many flows a capture has.
const SAMPLE_PACKETS: u64 = 4096;
/// Flows to build for when nothing is known.
const FLOWS_UNKNOWN: u64 = 64 << 10;
/// The guess stays within these bounds; the table grows when there are more.
const FLOWS_GUESS: std::ops::RangeInclusive<u64> = 1 << 10..=4 << 20;

/// Runs the verb.
pub(crate) fn run(arguments: &Replay, common: &Common) -> Result<Status, Failure> {
    match arguments.app {
        AppName::Null => run_app(arguments, common, "null", || Null),
        AppName::TcpTracker => run_app(arguments, common, "tcp-tracker", || TcpTracker),
    }
}

fn run_app<A: App>(
    arguments: &Replay,
    common: &Common,
    app_name: &'static str,
    app: impl Fn() -> A,
) -> Result<Status, Failure> {
    let config = engine_config(arguments)?;
    let isa = isa(arguments)?;
    let inputs: Vec<Input> = arguments.inputs.iter().map(|path| Input::from_argument(path)).collect();
    if arguments.verify {
        check_verifiable(arguments, &inputs)?;
    }
    let options = set_options(arguments);
    let mut source = CaptureSet::open(&inputs, options)?;
    let flows = arguments.table_flows.unwrap_or_else(|| guess_flows(&source, options, config.decode));
    let tables = config.mode.tables() as u64;
    let limits = GrowthLimits {
        first_flows: clamp_u32(flows.div_ceil(tables)),
        flows_max: clamp_u32(arguments.flows_max.div_ceil(tables)),
        memory_max_bytes: memory::available_bytes().unwrap_or(u64::MAX) / tables,
    };
    let template = DHashConfig {
        timeouts: config.idle_timeout.map_or(Timeouts::NEVER, IdleTimeout::for_table),
        isa: Some(isa),
        huge_pages: match arguments.hugepages {
            HugePagesName::Auto => HugePages::Try,
            HugePagesName::Off => HugePages::No,
        },
        memory_limit_bytes: limits.memory_max_bytes,
        ..DHashConfig::for_flows(1)
    };

    let control = Arc::new(Control::default());
    stop_on_signals(&control);
    let label = format!("replay  {}", label(&arguments.inputs));
    let progress = Progress::start(label, source.progress(), Arc::clone(&control), common.quiet > 0);
    let workers =
        WorkerCount::new(config.mode.tables()).map_err(|error| Failure::Usage(error.to_string()))?;
    let mut placement: Box<dyn Placement> = match arguments.scheduler {
        SchedulerName::Dh => Box::new(DirectHash::new(workers)),
        SchedulerName::Hrw => Box::new(HrwFlat::new(workers)),
    };
    let report = match arguments.table {
        TableName::Dhash => flowloom::engine::run(
            &config,
            &mut source,
            &mut *placement,
            |_| growing::<A::Flow>(limits, template.clone()),
            |_| app(),
            &control,
        ),
    };
    let read_share = match source.progress().total_bytes() {
        0 => None,
        total => Some(source.progress().done_bytes() as f64 / total as f64),
    };
    drop(progress);
    let mut report = report?;
    let fault = undecodable(report.fault.take())?;

    let verified = if arguments.verify {
        let repeat = verify::Repeat {
            packets: report.input.packets,
            decode: config.decode,
            idle_timeout: config.idle_timeout,
        };
        let mut again = CaptureSet::open(&inputs, options)?;
        let oracle = verify::oracle(&mut again, app(), repeat)
            .map_err(|error| Failure::Usage(format!("the oracle cannot read the input again: {error}")))?;
        let difference = verify::compare(&report.flows, &oracle).err();
        Some(VerifyFigures { flows: oracle.len() as u64, agrees: difference.is_none(), difference })
    } else {
        None
    };

    let result = figures(Run {
        arguments,
        app: app_name,
        config: &config,
        isa,
        scheduler: placement.name(),
        source: &source,
        report: &report,
        fault: fault.as_ref(),
        verified,
        read_share,
    });
    for notice in source.notices() {
        let status =
            if arguments.strict && notice.is_partial_input() { Status::PartialInput } else { Status::Ok };
        warn(&with_status(&notice.to_string(), status), common);
    }
    print(&result, common)?;
    if let Some(path) = &arguments.flows {
        flow_file::write(path, &report.flows).map_err(|error| {
            Failure::Output(format!("cannot write flows to {}: {error}", path.display()))
        })?;
    }
    Ok(status(arguments, &source, &result, common))
}

/// Returns a table of DHash segments that grows up to its limits.
fn growing<V>(
    limits: GrowthLimits,
    template: DHashConfig,
) -> Result<impl FlowTable<FlowKey, V> + Send, BuildError>
where
    V: Send + 'static,
{
    Growing::try_new(limits, move |flows| {
        DHash::<FlowKey, V>::try_new(&DHashConfig { flows, ..template.clone() })
    })
}

fn clamp_u32(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX).min(DHashConfig::FLOWS_MAX)
}

fn status(arguments: &Replay, source: &CaptureSet, result: &ReplayResult, common: &Common) -> Status {
    if let Some(fault) = &result.fault {
        eprintln!("error: {}", with_status(fault, Status::Fault));
        return Status::Fault;
    }
    if result.interrupted {
        return Status::Interrupted;
    }
    if let Some(VerifyFigures { agrees: false, difference, .. }) = &result.verify {
        let difference = difference.as_deref().unwrap_or("no detail");
        eprintln!(
            "error: {}",
            with_status(
                &format!("the result differs from the oracle's: {difference}"),
                Status::CheckFailed
            )
        );
        return Status::CheckFailed;
    }
    if !result.balanced {
        warn("packets and drops do not add up: this is a mistake of flowloom, please report it", common);
        return Status::CheckFailed;
    }
    if arguments.strict && source.notices().iter().any(Notice::is_partial_input) {
        return Status::PartialInput;
    }
    Status::Ok
}

fn set_options(arguments: &Replay) -> SetOptions {
    let limits = UnpackLimits { bytes_max: arguments.unpack_max, ..UnpackLimits::default() };
    SetOptions {
        capture: CaptureOptions { map: !arguments.no_mmap, limits },
        passes: if arguments.forever { u32::MAX } else { arguments.passes },
    }
}

fn engine_config(arguments: &Replay) -> Result<EngineConfig, Failure> {
    let mode = match (arguments.mode, arguments.workers) {
        (Some(ModeName::Inline), Some(_)) => {
            return Err(Failure::Usage(String::from(
                "--mode inline has no workers\n  leave --workers away, or use --mode pipeline",
            )));
        }
        (Some(ModeName::Inline) | None, None) => Mode::Inline,
        (Some(ModeName::Pipeline) | None, Some(workers)) => Mode::Pipeline { workers },
        (Some(ModeName::Pipeline), None) => {
            let cpus = Topology::read().map_or(2, |topology| topology.cpus.len());
            Mode::Pipeline { workers: cpus.saturating_sub(1).clamp(1, 16) }
        }
    };
    let mut config = EngineConfig::new(mode);
    config.cores = if arguments.no_pin {
        Cores::Unpinned
    } else if arguments.cores == "auto" {
        Cores::Auto
    } else {
        Cores::List(parse_cpu_list(&arguments.cores).map_err(|error| Failure::Usage(error.to_string()))?)
    };
    if let Some(seed) = arguments.seed {
        config.hasher = FlowHasher::with_seed(seed);
    }
    config.decode = DecodeOptions { decap: arguments.decap };
    config.ring_slots = arguments.ring;
    config.when_full = match arguments.full {
        FullName::Block => WhenFull::Block,
        FullName::Drop => WhenFull::Drop,
    };
    config.idle_timeout = arguments.timeout.map(IdleTimeout::from_ns);
    config.packet_limit = arguments.limit;
    config.pace = arguments.speed;
    config.check().map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(config)
}

fn isa(arguments: &Replay) -> Result<Isa, Failure> {
    if arguments.isa == "auto" {
        return Ok(Isa::detect());
    }
    let available = || Isa::available().map(|isa| isa.to_string()).collect::<Vec<_>>().join(", ");
    match arguments.isa.parse::<Isa>() {
        Ok(isa) if isa.is_available() => Ok(isa),
        _ => Err(Failure::Usage(format!(
            "this processor has no instruction set '{}'\n  available: auto, {}",
            arguments.isa,
            available()
        ))),
    }
}

fn check_verifiable(arguments: &Replay, inputs: &[Input]) -> Result<(), Failure> {
    if arguments.full == FullName::Drop {
        return Err(Failure::Usage(String::from(
            "--verify needs every packet, --full drop loses some\n  use --full block",
        )));
    }
    if inputs.contains(&Input::Stdin) {
        return Err(Failure::Usage(String::from(
            "--verify reads the input twice, standard input can be read only once\n  save it to a file first",
        )));
    }
    if arguments.forever && arguments.limit.is_none() {
        return Err(Failure::Usage(String::from("--verify with --loop needs a --limit")));
    }
    Ok(())
}

/// Guesses how many flows a set of captures has, from its first packets and its size.
fn guess_flows(source: &CaptureSet, options: SetOptions, decode_options: DecodeOptions) -> u64 {
    let guess = || -> Option<u64> {
        let total = source.bytes_on_disk()?;
        let first = source.paths().next()?;
        let mut capture = Capture::open(first, options.capture).ok()?;
        let mut batch = PacketBatch::new();
        let mut keys = HashSet::new();
        while capture.packets() < SAMPLE_PACKETS && capture.next_batch(&mut batch).ok()? == Fill::Packets {
            let block = batch.block.as_ref()?;
            for raw in &batch.packets {
                let start = raw.position as usize;
                let bytes = &block.bytes()[start..start + raw.captured as usize];
                if let Ok(headers) = decode(raw.link, bytes, decode_options) {
                    keys.insert(headers.key);
                }
            }
        }
        let share = total as f64 / capture.taken_bytes().max(1) as f64;
        let passes = f64::from(options.passes.min(64));
        // New flows become rarer as a capture goes on: half of the straight line is closer than all of it, and a
        // table that is too small grows.
        Some((keys.len() as f64 * share * passes / 2.0) as u64)
    };
    guess().unwrap_or(FLOWS_UNKNOWN).clamp(*FLOWS_GUESS.start(), *FLOWS_GUESS.end())
}

pub(crate) fn stop_on_signals(control: &Arc<Control>) {
    let control = Arc::clone(control);
    // Fails only when a handler is set already; then that one stops the process.
    let _ = ctrlc::set_handler(move || {
        if control.is_stopped() {
            std::process::exit(Status::Interrupted as i32);
        }
        control.stop();
    });
}

pub(crate) fn label(inputs: &[std::path::PathBuf]) -> String {
    let name = inputs.first().map_or(Path::new("-"), |path| path.as_path());
    let name = name.file_name().unwrap_or(name.as_os_str()).to_string_lossy().into_owned();
    if inputs.len() > 1 { format!("{name} and {} more", inputs.len() - 1) } else { name }
}

/// Takes a fault that means "this input is nothing for us" out of the faults of the engine.
fn undecodable(fault: Option<Fault>) -> Result<Option<Fault>, Failure> {
    let Some(Fault::Source { packets, error }) = fault else { return Ok(fault) };
    if matches!(error.0.downcast_ref(), Some(CaptureError::NothingDecodable { .. })) {
        return Err(capture_failure(error));
    }
    Ok(Some(Fault::Source { packets, error }))
}

/// Returns in words what broke a source, unless it means that the input is nothing for us.
pub(crate) fn capture_error(error: SourceError) -> Result<String, Failure> {
    let text = error.to_string();
    match undecodable(Some(Fault::Source { packets: 0, error }))? {
        Some(_) | None => Ok(text),
    }
}

fn capture_failure(error: SourceError) -> Failure {
    match error.0.downcast::<CaptureError>() {
        Ok(error) => Failure::Input(*error),
        Err(error) => Failure::Output(error.to_string()),
    }
}

/// Everything that the figures are taken from.
struct Run<'a, F> {
    arguments: &'a Replay,
    app: &'static str,
    config: &'a EngineConfig,
    isa: Isa,
    scheduler: &'static str,
    source: &'a CaptureSet,
    report: &'a RunReport<F>,
    fault: Option<&'a Fault>,
    verified: Option<VerifyFigures>,
    read_share: Option<f64>,
}

fn figures<F: FlowState>(run: Run<'_, F>) -> ReplayResult {
    let Run { arguments, config, source, report, .. } = run;
    let input = &report.input;
    let totals = report.worker_totals();
    let pipeline = config.mode != Mode::Inline;
    let seconds = report.elapsed.as_secs_f64();
    let dropped: BTreeMap<&'static str, u64> =
        report.dropped().nonzero().map(|(reason, packets)| (reason.name(), packets)).collect();
    let files = source.files();
    ReplayResult {
        schema: "flowloom/replay/1",
        tool: Tool::THIS,
        host: Host::with_isa(run.isa),
        run: RunFigures {
            mode: if pipeline { "pipeline" } else { "inline" },
            workers: report.workers.len(),
            input_cpu: report.input_cpu,
            app: run.app,
            table: "dhash",
            scheduler: pipeline.then_some(run.scheduler),
            when_full: match config.when_full {
                WhenFull::Block => "block",
                WhenFull::Drop => "drop",
            },
            ring_slots: pipeline.then_some(config.ring_slots),
            seed: arguments.seed,
            passes: (!arguments.forever).then_some(arguments.passes),
            decap: config.decode.decap,
            idle_timeout_ns: arguments.timeout,
            mapped: !arguments.no_mmap,
        },
        inputs: files
            .iter()
            .map(|file| InputFigures {
                path: file.path.display().to_string(),
                format: file.format.clone(),
                link_types: file.links.iter().map(|link| link.0).collect(),
                interfaces: file.interfaces,
                packets: file.packets,
            })
            .collect(),
        packets: input.packets,
        bytes_on_wire: input.bytes_on_wire,
        bytes_captured: input.bytes_captured,
        decoded: input.decoded,
        processed: totals.processed,
        denied: totals.denied,
        flows: report.flows.len() as u64,
        flows_expired: totals.flows_expired,
        records_forgotten: totals.records_forgotten,
        seconds,
        packets_per_second: if seconds > 0.0 { input.packets as f64 / seconds } else { 0.0 },
        first_ns: input.first_ns,
        last_ns: input.last_ns,
        dropped,
        unsupported_links: input
            .unsupported_links
            .iter()
            .map(|(link, packets)| (link.to_string(), *packets))
            .collect(),
        time_backwards: input.time_backwards,
        captured_over_wire: input.captured_over_wire,
        lying_lengths: files.iter().map(|file| file.lying_lengths).sum(),
        digest: report.digest(),
        workers: report
            .workers
            .iter()
            .map(|worker| WorkerFigures {
                cpu: worker.cpu,
                sent: worker.sent,
                processed: worker.counters.processed,
                dropped: worker.counters.dropped.total(),
                flows: worker.counters.flows_begun,
                full_waits: worker.full_waits,
            })
            .collect(),
        table: table_figures(report),
        verify: run.verified,
        notices: source.notices().iter().map(ToString::to_string).collect(),
        interrupted: report.interrupted,
        read_share: if report.interrupted { run.read_share } else { None },
        fault: run.fault.map(ToString::to_string),
        balanced: report.is_balanced(),
        complete: !report.interrupted && run.fault.is_none(),
    }
}

fn table_figures<F: FlowState>(report: &RunReport<F>) -> TableFigures {
    let stats =
        report.workers.iter().filter_map(|worker| worker.table).reduce(TableStats::and).unwrap_or_default();
    let memory = report
        .workers
        .iter()
        .filter_map(|worker| worker.memory)
        .reduce(MemoryReport::and)
        .unwrap_or_default();
    TableFigures {
        flows_at_end: u64::from(stats.len),
        inserted: stats.inserted,
        refused: stats.refused,
        displaced: u64::from(stats.displaced),
        list_length_max: stats.list_length_max,
        segments: stats.segments,
        index_bytes: memory.index_bytes,
        state_bytes: memory.state_bytes,
        memory_bytes: memory.total_bytes(),
    }
}
