//! The parts of the result of `replay`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::args::replay::{AppName, FullName, LayoutName, TableName};
use crate::render::losses::LossFigures;
use crate::render::words::names;

/// Results of the simulated caches of connection state.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct TcbCacheFigures {
    /// Size of each cache, in bytes.
    pub(crate) bytes: u64,
    /// Its policy.
    pub(crate) policy: String,
    /// Its index function.
    pub(crate) hash: String,
    /// Number of caches, one per worker.
    pub(crate) caches: u64,
    /// TCP packets of sessions that had not ended.
    pub(crate) accesses: u64,
    /// Accesses that found their line.
    pub(crate) hits: u64,
    /// Hits that only the auxiliary functions found.
    pub(crate) auxiliary_hits: u64,
    /// Accesses that did not find their line.
    pub(crate) misses: u64,
    /// Misses per access.
    pub(crate) miss_ratio: f64,
    /// Lines that were evicted for others.
    pub(crate) evictions: u64,
    /// Lines that were moved within a cache.
    pub(crate) moves: u64,
    /// Lines that were dropped because their session ended.
    pub(crate) closed: u64,
}

/// The settings of the run.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct RunFigures {
    /// inline: a single thread; sharded: each worker processes a part of the input; pipeline: an
    /// input thread and workers.
    #[schemars(extend("enum" = names::<LayoutName>()))]
    pub(crate) layout: &'static str,
    /// The reason why the layout is not the usual one for these arguments; null if it is.
    pub(crate) why: Option<String>,
    /// Captures that overlap in time and were merged; null if none do.
    pub(crate) merged: Option<usize>,
    /// How the threads shared the work; null in other layouts.
    pub(crate) sharded: Option<ShardedFigures>,
    /// Workers; an inline run has one.
    pub(crate) workers: usize,
    /// CPU that the input thread is pinned to; null when not pinned, and without such a thread.
    pub(crate) input_cpu: Option<u32>,
    /// Application of the workers.
    #[schemars(extend("enum" = names::<AppName>()))]
    pub(crate) app: &'static str,
    /// Flow table.
    #[schemars(extend("enum" = names::<TableName>()))]
    pub(crate) table: &'static str,
    /// The placement policy; null in an inline run.
    pub(crate) scheduler: Option<&'static str>,
    /// Order of packets in the pipeline: none, of each flow by its scheduler, or of all.
    #[schemars(extend("enum" = ["none", "internal", "external", null]))]
    pub(crate) order: Option<&'static str>,
    /// Number of flow tables: one per worker, or the shards that all workers share.
    pub(crate) tables: usize,
    /// Action when a worker's ring is full: wait for it, or drop the packet.
    #[schemars(extend("enum" = names::<FullName>()))]
    pub(crate) when_full: &'static str,
    /// Descriptors of each ring; null in an inline run.
    pub(crate) ring_slots: Option<usize>,
    /// The given secret of the flow hash; null if the process drew one.
    pub(crate) seed: Option<u64>,
    /// Number of passes over the captures; null means until stopped.
    pub(crate) passes: Option<u32>,
    /// Whether tunnels were followed to the innermost headers.
    pub(crate) decap: bool,
    /// Whether IP fragments were joined into datagrams.
    pub(crate) defrag: bool,
    /// Idle packet time, in nanoseconds, that ends a flow; null for never.
    pub(crate) idle_timeout_ns: Option<u64>,
    /// Maximum duration of an accounting record in packet time, in nanoseconds; null means no
    /// limit.
    pub(crate) active_timeout_ns: Option<u64>,
    /// Idle packet time, in nanoseconds, that ends the record of a closed connection; null for the
    /// same as `idle_timeout_ns`.
    pub(crate) closed_timeout_ns: Option<u64>,
    /// Whether plain files were mapped; false when they were read.
    pub(crate) mapped: bool,
}

/// How the threads of a sharded run shared the work.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct ShardedFigures {
    /// Chunks of packets, each of which one thread decoded.
    pub(crate) chunks: u64,
    /// Threads that ran; a short input does not need all of them.
    pub(crate) threads: usize,
    /// Lists of packets that another thread than the shard's own has processed.
    pub(crate) lists_moved: u64,
}

/// One capture.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct InputFigures {
    /// Its path as given or found; - for standard input.
    pub(crate) path: String,
    /// Description of its format, including the compression.
    pub(crate) format: String,
    /// LINKTYPE numbers of its interfaces, each once.
    pub(crate) link_types: Vec<u16>,
    /// Interfaces it declares.
    pub(crate) interfaces: u64,
    /// Packets read from it in the last pass.
    pub(crate) packets: u64,
    /// What its interfaces lost in the capture; absent if it does not say it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) losses: Vec<LossFigures>,
}

/// One worker.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct WorkerFigures {
    /// CPU it is pinned to; null when not pinned.
    pub(crate) cpu: Option<u32>,
    /// Packets handed to it.
    pub(crate) sent: u64,
    /// Packets it completed.
    pub(crate) processed: u64,
    /// Packets it could not process.
    pub(crate) dropped: u64,
    /// Flows that it began; null if all workers share the flows.
    pub(crate) flows: Option<u64>,
    /// Packets dropped because its ring was full; part of the run's `dropped.ring_full`, not of its
    /// own sent and dropped.
    pub(crate) ring_full: u64,
    /// Number of times that the input stage waited for its full ring; if it drops instead, number
    /// of batches with drops.
    pub(crate) full_waits: u64,
}

/// The flow tables of all workers together.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct TableFigures {
    /// Flows in them at the end of the run.
    pub(crate) flows_at_end: u64,
    /// Flows inserted.
    pub(crate) inserted: u64,
    /// Flows refused because the table was full.
    pub(crate) refused: u64,
    /// Flows outside their bucket: in an alternate one, a list or the stash.
    pub(crate) displaced: u64,
    /// Flows in the longest conflict list.
    pub(crate) list_length_max: u32,
    /// Total number of segments of all tables.
    pub(crate) segments: u32,
    /// Bytes of the buckets with their signatures.
    pub(crate) index_bytes: u64,
    /// Bytes of the flow states.
    pub(crate) state_bytes: u64,
    /// Bytes of all memory of the tables.
    pub(crate) memory_bytes: u64,
    /// Steps of the searches of `DHash` as published; null for other tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) searches: Option<SearchFigures>,
    /// Whether huge pages were requested for parts of at least 2 MiB, and the request was accepted.
    pub(crate) huge_pages_requested: bool,
    /// Whether the kernel had provided some by the end; null if none were requested or the system
    /// does not report it.
    pub(crate) huge_pages_obtained: Option<bool>,
}

/// Steps of the searches of a table that counts them: [DHASH Tab. IV, Tab. V].
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct SearchFigures {
    /// Searches, those before an insertion included.
    pub(crate) lookups: u64,
    /// Signatures compared.
    pub(crate) comparisons_per_lookup: f64,
    /// Percentage of the searches with a result that find it in the first slot.
    pub(crate) first_hit_percent: f64,
    /// Equal signatures of other flows, in percent of the searches.
    pub(crate) false_match_percent: f64,
}

/// Accepted packets that were written to a file.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct WrittenFigures {
    /// The file.
    pub(crate) path: String,
    /// Packets written.
    pub(crate) packets: u64,
    /// Accepted packets that could not be written.
    pub(crate) refused: u64,
}

/// The result of the oracle.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct VerifyFigures {
    /// Flows that the oracle found.
    pub(crate) flows: u64,
    /// Whether values that depend on the order of a flow's packets were also compared; not if the
    /// scheduler keeps no order.
    pub(crate) in_order: bool,
    /// Whether every compared record equals that of the oracle.
    pub(crate) agrees: bool,
    /// Description of the first difference, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) difference: Option<String>,
}

/// Systematic sampling: the first of every `one_of` packets is taken.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub(crate) struct SamplingFigures {
    /// Packets of which one is taken.
    pub(crate) one_of: u32,
    /// Packets taken.
    pub(crate) packets: u64,
    /// A count of k sampled packets stands for `one_of` × k packets, with a probability of 95 %
    /// more or less this number × √k.
    pub(crate) error_per_root: f64,
}
