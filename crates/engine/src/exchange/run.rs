//! Builds what the threads of a sharded run share, and the report when they have ended.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use flowloom_packet::DropReason;
use flowloom_packet::drop_reason::DropCounts;

use super::{Exchange, Others, Outlet, SEGMENT_PACKET_BYTES, WINDOW, WINDOW_MIN};
use crate::config::EngineConfig;
use crate::control::{Publisher, ReaderPublisher};
use crate::error::{Fault, SinkError, StartError};
use crate::exchange::board::Board;
use crate::exchange::shard::{Shard, ShardPanic};
use crate::ingest::decode::{Decoder, Losses};
use crate::ingest::reader::Reader;
use crate::report::{RunReport, ShardedReport, WorkerReport};
use crate::runtime::assemble::{Builders, Parts};
use crate::runtime::finish::Finished;
use crate::runtime::pin::Pinning;
use crate::stage::panics::caught;
use crate::stage::shutdown::Halt;
use crate::sync::AtomicBool;
use crate::worker::inline::SinkOutput;
use crate::worker::process::FlowStage;

/// A thread that has ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemberEnd {
    pub(crate) pinned: bool,
    pub(crate) cpu: Option<Duration>,
    pub(crate) helped: u64,
}

/// Builds what the threads share.
pub(crate) fn build<'a>(
    config: &EngineConfig,
    parts: Parts<'a>,
    builders: &mut Builders<'_, 'a>,
) -> Result<Exchange<'a>, StartError> {
    let workers = config.layout.workers();
    let tables = builders.all_flows(workers)?;
    let halt: Arc<Halt> = Arc::default();
    let gauges = parts.control.begin(1, workers);
    let shards = tables.into_iter().enumerate().map(|(i, flows)| {
        let publisher = Publisher::new(parts.control, &gauges, i);
        let stage = FlowStage { runner: (builders.app)(i), flows };
        CachePadded::new(Mutex::new(Shard::new(stage, publisher)))
    });
    let publisher = ReaderPublisher::new(parts.control, &gauges, 0);
    Ok(Exchange {
        shards: shards.collect(),
        reader: Mutex::new(Reader::new(config, parts.source, None, publisher, Arc::clone(&halt))),
        decoder: Decoder::new(config.decode, config.hasher.clone(), config.digest),
        board: Board::new(workers, (WINDOW * workers).max(WINDOW_MIN)),
        control: parts.control,
        has_sink: parts.packets.is_some(),
        outlet: Mutex::new(Outlet {
            output: parts.packets.map(|sink| SinkOutput::new(sink, Arc::clone(&halt))),
            losses: Losses::default(),
            published: DropCounts::default(),
        }),
        halt,
        chunk_packets: config.chunk_packets,
        segment_bytes: config.chunk_packets as u64 * SEGMENT_PACKET_BYTES,
        start_after: config.threads_after_packets,
        others: Mutex::new(Others::default()),
        others_decided: Condvar::new(),
        have_all_started: AtomicBool::new(false),
    })
}

/// Returns the result of a run whose threads have ended.
pub(crate) fn finish(
    exchange: Exchange<'_>,
    members: &[MemberEnd],
    pinning: &Pinning,
    elapsed: Duration,
) -> Finished {
    let Exchange { reader, shards, outlet, board, .. } = exchange;
    let Reader { arrivals, mut losses, interrupted, mut fault, .. } =
        reader.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut outlet = outlet.into_inner().unwrap_or_else(PoisonError::into_inner);
    losses.merge(&outlet.losses, 0);
    let input = arrivals.finish(losses);
    let (mut workers, mut kept) = (Vec::with_capacity(shards.len()), Vec::with_capacity(shards.len()));
    for (worker, shard) in shards.into_iter().enumerate() {
        let Shard { stage, sent, panic, .. } =
            CachePadded::into_inner(shard).into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut counters = stage.counters();
        let processed = counters.processed;
        counters.dropped.add(DropReason::WorkerLost, sent - counters.done());
        let ended = match &panic {
            None => caught(|| Some(stage.finish())),
            // The state of the flow in process is unknown.
            Some(_) => caught(|| drop(stage)).map(|()| None),
        };
        let (end, at_end) = ended.map_or_else(|message| (None, Some(message)), |end| (end, None));
        let panic = panic.or(at_end.map(|message| ShardPanic { packet: None, message }));
        if let Some(ShardPanic { packet, message }) = panic {
            let packet = packet.map(|number| number + 1);
            fault.get_or_insert(Fault::WorkerPanicked { worker, packet, processed, message });
        }
        let member = members.get(worker).copied().unwrap_or_default();
        let (table, memory) = end.as_ref().map(|end| (end.table, end.memory)).unzip();
        workers.push(WorkerReport {
            cpu: pinning.workers.get(worker).copied().flatten().filter(|_| member.pinned),
            sent,
            counters,
            table,
            memory,
            busy: member.cpu,
            ..WorkerReport::default()
        });
        kept.extend(end.map(|end| (Some(worker), end.kept)));
    }
    if let Some(output) = &mut outlet.output
        && let Err(message) = caught(|| output.finish())
    {
        output.failed = Some(SinkError::of_panic(&message));
    }
    let (sink, failed) = outlet.output.map(|output| (output.counters, output.failed)).unzip();
    let sharded = ShardedReport {
        chunks: board.retired(),
        threads: members.len(),
        lists_moved: members.iter().map(|member| member.helped).sum(),
    };
    let report = RunReport {
        input,
        workers,
        sharded: Some(sharded),
        sink,
        elapsed,
        interrupted,
        fault,
        ..RunReport::default()
    };
    Finished { report, kept, sink_failed: failed.flatten() }
}
