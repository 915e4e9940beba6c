//! The sharded layout: threads exchange packets by chunks, and each flow lives in one shard.
//!
//! ```text
//!                        any thread           in input order         one thread per shard
//!  chunk k      ─ read, decode into lists ─ number, set times ─┬─ list of shard 0 ─ flows ─ app
//!  chunk k + 1  ─ read, decode into lists ─ number, set times ─┴─ list of shard 1 ─ flows ─ app
//! ```
//!
//! A thread without work takes the next chunk, decodes it, and sorts its descriptors into a list
//! for each shard. Where the source [can be split](flowloom_packet::PacketSource::split), threads
//! read chunks at the same time; otherwise one at a time reads. A thread processes the lists of a
//! shard in the order of the chunks. There is a shard for each thread, which processes it unless it
//! is behind; then an idle thread helps. Since all packets of a flow pass through one shard in the
//! order of the input, every application gets the same calls as with one thread. Threads meet once
//! per chunk and shard, not per packet.
//!
//! At most a [window](WINDOW) of chunks is in work, so a slow shard ends reading until it catches
//! up. When all shards have processed the oldest chunk, it leaves, and its accepted packets go to
//! the sink in the order of the input.

pub(crate) mod board;
pub(crate) mod chunk;
pub(crate) mod member;
pub(crate) mod run;
pub(crate) mod shard;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

use crossbeam_utils::CachePadded;
use flowloom_packet::DropReason;
use flowloom_packet::drop_reason::DropCounts;

use crate::control::Control;
use crate::egress::reorder::Released;
use crate::exchange::board::Board;
use crate::exchange::chunk::Chunk;
use crate::exchange::shard::Shard;
use crate::ingest::decode::{Decoder, Losses};
use crate::ingest::reader::Reader;
use crate::stage::shutdown::Halt;
use crate::sync::{AtomicBool, Ordering};
use crate::worker::inline::SinkOutput;

/// Chunks in work at a time, for each thread.
const WINDOW: usize = 4;
/// Minimum number of chunks in work.
const WINDOW_MIN: usize = 8;
/// Captured bytes after which a chunk that is read in order ends.
const CHUNK_BYTES: u64 = 1 << 20;

/// A shard behind its lock, on separate cache lines.
type LockedShard<'a> = CachePadded<Mutex<Shard<'a>>>;

/// Bytes of a segment for each packet of a chunk: the size of a short mean packet.
const SEGMENT_PACKET_BYTES: u64 = 256;

/// What the threads of a sharded run share.
pub(crate) struct Exchange<'a> {
    reader: Mutex<Reader<'a>>,
    decoder: Decoder,
    board: Board<Chunk>,
    shards: Box<[LockedShard<'a>]>,
    outlet: Mutex<Outlet<'a>>,
    control: &'a Control,
    has_sink: bool,
    halt: Arc<Halt>,
    chunk_packets: usize,
    /// Bytes of the segments into which a source is split.
    segment_bytes: u64,
    /// Packets after which it is worth starting all threads.
    start_after: u64,
    others: Mutex<Others>,
    others_decided: Condvar,
    /// Whether every thread has started, so that each shard has its own.
    have_all_started: AtomicBool,
}

/// Whether the first thread needs the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Others {
    #[default]
    Unknown,
    Needed,
    NotNeeded,
}

/// Where chunks leave, in the order of the input.
struct Outlet<'a> {
    output: Option<SinkOutput<'a>>,
    losses: Losses,
    published: DropCounts,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // After a panic the counts are consistent, and what panicked is not called again.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl Exchange<'_> {
    /// Processes the next list of a shard. Returns whether there was one.
    fn process(&self, shard: usize) -> bool {
        let Some(chunk) = self.board.claim(shard) else { return false };
        lock(&self.shards[shard]).process(&chunk, shard, self.has_sink);
        drop(chunk);
        self.board.complete(shard);
        true
    }

    /// Lets the oldest chunk leave, if every shard has processed it. Returns whether one has left.
    fn retire(&self) -> bool {
        let Some(mut outlet) = try_lock(&self.outlet) else { return false };
        let Some(mut chunk) = self.board.retire() else { return false };
        outlet.release(&mut chunk);
        outlet.publish(self.control);
        chunk.clear();
        self.board.give_back(chunk);
        true
    }

    /// Waits until it is known whether the other threads are needed.
    pub(crate) fn needs_others(&self) -> bool {
        let others = lock(&self.others);
        let known = self.others_decided.wait_while(others, |others| *others == Others::Unknown);
        *known.unwrap_or_else(PoisonError::into_inner) == Others::Needed
    }

    /// Tells the first thread how many threads there are now. A shard without its own thread is
    /// processed by the others at once.
    pub(crate) fn note_started(&self, threads: usize) {
        self.have_all_started.store(threads == self.shards.len(), Ordering::Relaxed);
    }

    fn decide_others(&self, decision: Others) {
        let mut others = lock(&self.others);
        if *others == Others::Unknown {
            *others = decision;
            self.others_decided.notify_all();
        }
    }
}

impl Outlet<'_> {
    /// Counts the losses of a chunk, and passes its accepted packets to the sink.
    fn release(&mut self, chunk: &mut Chunk) {
        let (before, losses) = chunk.losses();
        self.losses.merge(losses, before);
        if let Some(output) = &mut self.output {
            chunk.for_each_accepted(|number, raw, bytes| {
                output.release(&Released {
                    bytes,
                    wire_bytes: raw.wire_bytes,
                    time_ns: raw.time_ns,
                    link: raw.link,
                    number,
                });
            });
        }
    }

    fn publish(&mut self, control: &Control) {
        control.publish_drops(self.losses.dropped(), &mut self.published);
    }

    /// Counts packets that a panic has lost before a shard got them.
    fn lose(&mut self, packets: u64) {
        self.losses.lose(DropReason::WorkerLost, packets);
    }
}
