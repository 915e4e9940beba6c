//! The parts of the result of `replay`.

use serde::Serialize;

/// Results of the simulated caches of connection state.
#[derive(Debug, Serialize)]
pub(crate) struct TcbCacheFigures {
    pub(crate) bytes: u64,
    pub(crate) policy: String,
    pub(crate) hash: String,
    /// Number of caches, one per worker.
    pub(crate) caches: u64,
    pub(crate) accesses: u64,
    pub(crate) hits: u64,
    pub(crate) auxiliary_hits: u64,
    pub(crate) misses: u64,
    pub(crate) miss_ratio: f64,
    pub(crate) evictions: u64,
    pub(crate) moves: u64,
    pub(crate) closed: u64,
}

/// The settings of the run.
#[derive(Debug, Serialize)]
pub(crate) struct RunFigures {
    pub(crate) layout: &'static str,
    /// The reason why the layout is not the expected one.
    pub(crate) why: Option<String>,
    /// Number of captures that overlap in time and were merged.
    pub(crate) merged: Option<usize>,
    /// How the threads shared the work, in the sharded layout.
    pub(crate) sharded: Option<ShardedFigures>,
    pub(crate) workers: usize,
    pub(crate) input_cpu: Option<u32>,
    pub(crate) app: &'static str,
    pub(crate) table: &'static str,
    pub(crate) scheduler: Option<&'static str>,
    /// Packet order, in the pipeline.
    pub(crate) order: Option<&'static str>,
    /// Number of flow tables: one per worker, or the shards that all workers share.
    pub(crate) tables: usize,
    pub(crate) when_full: &'static str,
    pub(crate) ring_slots: Option<usize>,
    pub(crate) seed: Option<u64>,
    pub(crate) passes: Option<u32>,
    pub(crate) decap: bool,
    pub(crate) defrag: bool,
    pub(crate) idle_timeout_ns: Option<u64>,
    pub(crate) active_timeout_ns: Option<u64>,
    pub(crate) closed_timeout_ns: Option<u64>,
    pub(crate) mapped: bool,
}

/// How the threads of a sharded run shared the work.
#[derive(Debug, Serialize)]
pub(crate) struct ShardedFigures {
    /// Chunks of packets, each of which one thread decoded.
    pub(crate) chunks: u64,
    /// Threads that ran.
    pub(crate) threads: usize,
    /// Lists of packets that another thread than the shard's own has processed.
    pub(crate) lists_moved: u64,
}

/// One capture.
#[derive(Debug, Serialize)]
pub(crate) struct InputFigures {
    pub(crate) path: String,
    pub(crate) format: String,
    pub(crate) link_types: Vec<u16>,
    pub(crate) interfaces: u64,
    pub(crate) packets: u64,
}

/// One worker.
#[derive(Debug, Serialize)]
pub(crate) struct WorkerFigures {
    pub(crate) cpu: Option<u32>,
    pub(crate) sent: u64,
    pub(crate) processed: u64,
    pub(crate) dropped: u64,
    /// Flows that the worker began; absent if workers share flows.
    pub(crate) flows: Option<u64>,
    /// Packets dropped because the ring was full; not included in those sent.
    pub(crate) ring_full: u64,
    pub(crate) full_waits: u64,
}

/// The flow tables of all workers together.
#[derive(Debug, Serialize)]
pub(crate) struct TableFigures {
    pub(crate) flows_at_end: u64,
    pub(crate) inserted: u64,
    pub(crate) refused: u64,
    pub(crate) displaced: u64,
    pub(crate) list_length_max: u32,
    pub(crate) segments: u32,
    pub(crate) index_bytes: u64,
    pub(crate) state_bytes: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) huge_pages_requested: bool,
    /// Whether the kernel provided huge pages; `None` if none were requested or the kernel does not
    /// say.
    pub(crate) huge_pages_obtained: Option<bool>,
}

/// Accepted packets that were written to a file.
#[derive(Debug, Serialize)]
pub(crate) struct WrittenFigures {
    pub(crate) path: String,
    pub(crate) packets: u64,
    /// Accepted packets that could not be written.
    pub(crate) refused: u64,
}

/// The result of the oracle.
#[derive(Debug, Serialize)]
pub(crate) struct VerifyFigures {
    pub(crate) flows: u64,
    /// Whether the comparison included values that depend on packet order.
    pub(crate) in_order: bool,
    pub(crate) agrees: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) difference: Option<String>,
}
