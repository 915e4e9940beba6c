//! The memory that the text and the collected bytes of fields may take in addition to the flow
//! table.
//!
//! ```text
//!  FieldMemory   one limit for a run
//!   └─ FieldStore   one per worker: credit, and a queue of what its flows hold, the oldest first
//!       └─ Held      a buffer or a text of one flow
//! ```
//!
//! Where the limit would be exceeded, the oldest contents of all workers go, and the fields that
//! lose them say so. Records stay. A worker takes memory from the limit in chunks, so that workers
//! rarely share a cache line.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Bytes that a worker takes from the limit at a time.
const CHUNK_BYTES: i64 = 64 << 10;
/// A shortage frees at least this part of the limit, so that it is rare.
const FREED_PART: u64 = 64;
/// Entries of a queue whose contents are gone, in addition to as many as have contents.
const GONE_MAX: usize = 1024;
/// Bytes that a held content takes in addition to itself, for allocator and queue.
const ENTRY_BYTES: usize = 128;

/// A limit of the memory for fields of a run.
///
/// # Examples
///
/// ```
/// use flowloom_apps::Accounting;
/// use flowloom_apps::accounting::fields::{AllFields, DetailedAccounting, FieldMemory};
///
/// let memory = FieldMemory::new(64 << 20);
/// let app = |_worker: usize| {
///     DetailedAccounting::<AllFields>::new(Accounting::default()).with_memory(&memory)
/// };
/// # let _ = app(0);
/// assert_eq!(memory.dropped(), 0);
/// ```
#[derive(Clone, Debug)]
pub struct FieldMemory(Arc<Limit>);

#[derive(Debug)]
struct Limit {
    bytes: AtomicU64,
    /// Bytes that workers have taken.
    taken: AtomicU64,
    dropped: AtomicU64,
    workers: Mutex<Vec<Weak<Worker>>>,
}

impl FieldMemory {
    /// Returns a limit in bytes.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self(Arc::new(Limit {
            bytes: AtomicU64::new(bytes),
            taken: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            workers: Mutex::default(),
        }))
    }

    /// Changes the limit, and drops the oldest contents beyond it. A flow table that grows calls
    /// this before it allocates.
    pub fn set_limit(&self, bytes: u64) {
        self.0.bytes.store(bytes, Relaxed);
        let excess = self.0.taken.load(Relaxed).saturating_sub(bytes);
        if excess > 0 {
            self.0.free(excess);
        }
    }

    /// Returns the limit in bytes.
    #[must_use]
    pub fn limit_bytes(&self) -> u64 {
        self.0.bytes.load(Relaxed)
    }

    /// Returns how many buffers and texts were dropped for lack of memory.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.dropped.load(Relaxed)
    }

    /// Returns the bytes that workers have taken.
    #[must_use]
    pub fn taken_bytes(&self) -> u64 {
        self.0.taken.load(Relaxed)
    }

    /// Returns the store of one worker.
    pub(crate) fn store(&self) -> FieldStore {
        let worker = Arc::new(Worker {
            limit: Arc::clone(&self.0),
            credit: AtomicI64::new(0),
            held: AtomicUsize::new(0),
            queue: Mutex::default(),
        });
        let mut workers = lock(&self.0.workers);
        workers.retain(|worker| worker.strong_count() > 0);
        workers.push(Arc::downgrade(&worker));
        FieldStore(Some(worker))
    }
}

impl Limit {
    fn try_take(&self, bytes: u64) -> bool {
        let limit = self.bytes.load(Relaxed);
        let more = |taken: u64| taken.checked_add(bytes).filter(|taken| *taken <= limit);
        self.taken.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.taken.fetch_sub(bytes, Relaxed);
    }

    /// Drops the oldest contents of all workers until `bytes` are free. Returns whether any went.
    #[cold]
    fn free(&self, bytes: u64) -> bool {
        let goal = bytes.max(self.bytes.load(Relaxed) / FREED_PART);
        let workers: Vec<Arc<Worker>> = lock(&self.workers).iter().filter_map(Weak::upgrade).collect();
        let mut freed = 0;
        while freed < goal {
            let oldest = workers.iter().filter_map(|worker| Some((worker.oldest_ns()?, worker)));
            let Some((_, worker)) = oldest.min_by_key(|(time_ns, _)| *time_ns) else { break };
            let Some(bytes) = worker.drop_oldest(goal - freed) else { break };
            freed += bytes;
        }
        freed > 0
    }
}

/// The share of a worker in the memory for fields. The default is without a limit.
#[derive(Clone, Debug, Default)]
pub struct FieldStore(Option<Arc<Worker>>);

struct Worker {
    limit: Arc<Limit>,
    /// Bytes taken from the limit that no content uses. Negative for an instant at most.
    credit: AtomicI64,
    /// Number of contents.
    held: AtomicUsize,
    /// What its flows hold or held, with the time of the packet that began it.
    queue: Mutex<VecDeque<(u64, Weak<dyn Droppable>)>>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (credit, held) = (&self.credit, &self.held);
        f.debug_struct("Worker").field("credit", credit).field("held", held).finish_non_exhaustive()
    }
}

impl Worker {
    /// Takes bytes for a content, and drops older ones if there are too few.
    fn charge(&self, bytes: usize) {
        let bytes = signed(bytes);
        let left = self.credit.fetch_sub(bytes, Relaxed) - bytes;
        if left < 0 {
            self.take(CHUNK_BYTES.max(-left));
        }
    }

    #[cold]
    fn take(&self, bytes: i64) {
        let wanted = bytes.unsigned_abs();
        while !self.limit.try_take(wanted) {
            if !self.limit.free(wanted) {
                // Nothing can go, since all contents are in use at this instant, or are credit.
                self.limit.taken.fetch_add(wanted, Relaxed);
                break;
            }
        }
        self.credit.fetch_add(bytes, Relaxed);
    }

    fn release(&self, bytes: usize) {
        let bytes = signed(bytes);
        let left = self.credit.fetch_add(bytes, Relaxed) + bytes;
        if left > 4 * CHUNK_BYTES {
            let back = left - CHUNK_BYTES;
            self.credit.fetch_sub(back, Relaxed);
            self.limit.give_back(back.unsigned_abs());
        }
    }

    fn enter(&self, time_ns: u64, content: Weak<dyn Droppable>) {
        let held = self.held.fetch_add(1, Relaxed) + 1;
        let mut queue = lock(&self.queue);
        if queue.len() > 2 * held + GONE_MAX {
            queue.retain(|(_, content)| content.strong_count() > 0);
        }
        queue.push_back((time_ns, content));
    }

    fn oldest_ns(&self) -> Option<u64> {
        lock(&self.queue).front().map(|(time_ns, _)| *time_ns)
    }

    /// Drops its oldest contents until `goal` bytes are free, at most a few. Returns the bytes, or
    /// `None` if all of these contents are in use at this instant.
    fn drop_oldest(&self, goal: u64) -> Option<u64> {
        const AT_A_TIME: usize = 64;
        let mut queue = lock(&self.queue);
        let mut oldest: VecDeque<_> = (0..AT_A_TIME).map_while(|_| queue.pop_front()).collect();
        drop(queue);
        let (mut freed, mut dropped, mut busy) = (0, 0, Vec::new());
        let count = oldest.len();
        while freed < goal
            && let Some((time_ns, content)) = oldest.pop_front()
        {
            match content.upgrade().map(|content| content.drop_content()) {
                Some(Ok(bytes)) if bytes > 0 => {
                    freed += bytes as u64;
                    dropped += 1;
                }
                Some(Err(InUse)) => busy.push((time_ns, content)),
                Some(Ok(_)) | None => {}
            }
        }
        self.held.fetch_sub(dropped, Relaxed);
        self.limit.give_back(freed);
        self.limit.dropped.fetch_add(dropped as u64, Relaxed);
        let is_stuck = busy.len() == count;
        let mut queue = lock(&self.queue);
        oldest.into_iter().rev().for_each(|entry| queue.push_front(entry));
        queue.extend(busy);
        (!is_stuck).then_some(freed)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let credit = *self.credit.get_mut();
        self.limit.give_back(u64::try_from(credit).unwrap_or(0));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// A content that can be dropped while a flow holds it.
trait Droppable: Send + Sync {
    /// Drops the content. Returns the bytes that were charged for it.
    fn drop_content(&self) -> Result<usize, InUse>;
}

/// The content is being read or changed at this instant.
struct InUse;

/// Contents say how many bytes they take outside of themselves.
pub(super) trait Content: Clone + Send + 'static {
    fn heap_bytes(&self) -> usize;
}

struct Slot<T> {
    content: Mutex<Option<T>>,
    /// Bytes charged for the content. Zero once it is dropped, or without a limit.
    charged: AtomicUsize,
    worker: Option<Arc<Worker>>,
}

impl<T> Slot<T> {
    const BYTES: usize = ENTRY_BYTES + 2 * size_of::<Self>();
}

impl<T: Send> Droppable for Slot<T> {
    fn drop_content(&self) -> Result<usize, InUse> {
        let mut content = self.content.try_lock().map_err(|_| InUse)?;
        *content = None;
        Ok(self.charged.swap(0, Relaxed))
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        let charged = *self.charged.get_mut();
        if let (Some(worker), true) = (&self.worker, charged > 0) {
            worker.held.fetch_sub(1, Relaxed);
            worker.release(charged);
        }
    }
}

/// A buffer or a text that a flow holds as long as there is memory. Clones share it.
pub(super) struct Held<T>(Arc<Slot<T>>);

impl<T: Content> Held<T> {
    /// Holds a content that a packet with this time began.
    pub(super) fn new(content: T, store: &FieldStore, time_ns: u64) -> Self {
        let charged = if store.0.is_some() { Slot::<T>::BYTES + content.heap_bytes() } else { 0 };
        if let Some(worker) = &store.0 {
            worker.charge(charged);
        }
        let slot = Arc::new(Slot {
            content: Mutex::new(Some(content)),
            charged: AtomicUsize::new(charged),
            worker: store.0.clone(),
        });
        if let Some(worker) = &store.0 {
            let weak: Weak<Slot<T>> = Arc::downgrade(&slot);
            worker.enter(time_ns, weak);
        }
        Self(slot)
    }

    /// Changes the content, unless it was dropped. Clones keep theirs.
    pub(super) fn change<R>(&mut self, time_ns: u64, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        if Arc::strong_count(&self.0) > 1 {
            let content = self.get()?;
            *self = Self::new(content, &FieldStore(self.0.worker.clone()), time_ns);
        }
        let mut content = lock(&self.0.content);
        let result = change(content.as_mut()?);
        let bytes = Slot::<T>::BYTES + content.as_ref().map_or(0, T::heap_bytes);
        let Some(worker) = &self.0.worker else { return Some(result) };
        let before = self.0.charged.swap(bytes, Relaxed);
        // Nothing waits for this lock while it holds another one.
        if bytes > before {
            worker.charge(bytes - before);
        } else {
            worker.release(before - bytes);
        }
        Some(result)
    }

    /// Returns the content, unless it was dropped.
    pub(super) fn get(&self) -> Option<T> {
        lock(&self.0.content).clone()
    }

    /// Returns whether the content was dropped.
    pub(super) fn is_dropped(&self) -> bool {
        lock(&self.0.content).is_none()
    }
}

impl<T> Clone for Held<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: fmt::Debug> fmt::Debug for Held<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.content.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Bytes(Vec<u8>);

    impl Content for Bytes {
        fn heap_bytes(&self) -> usize {
            self.0.capacity()
        }
    }

    const SLOT_BYTES: u64 = Slot::<Bytes>::BYTES as u64;

    fn hold(bytes: usize, store: &FieldStore, time_ns: u64) -> Held<Bytes> {
        Held::new(Bytes(vec![7; bytes]), store, time_ns)
    }

    #[test]
    fn oldest_contents_of_all_workers_are_dropped_first() {
        let memory = FieldMemory::new(1 << 20);
        let stores = [memory.store(), memory.store()];
        // Two of three are too many for a mebibyte.
        let held: Vec<_> =
            (0..300).map(|nth| hold(10_000, &stores[usize::from(nth % 3 == 0)], nth)).collect();
        let dropped: Vec<bool> = held.iter().map(Held::is_dropped).collect();
        assert!(dropped.is_sorted_by(|a, b| a >= b), "{dropped:?}");
        assert_eq!(dropped.iter().filter(|dropped| **dropped).count() as u64, memory.dropped());
        assert!((195..=210).contains(&memory.dropped()), "{}", memory.dropped());
        assert!(memory.taken_bytes() <= 1 << 20);
        assert_eq!(held[299].get(), Some(Bytes(vec![7; 10_000])));
    }

    #[test]
    fn memory_that_flows_return_is_reused() {
        let memory = FieldMemory::new(1 << 20);
        let store = memory.store();
        for nth in 0..10_000 {
            let mut held = hold(100, &store, nth);
            held.change(nth, |bytes| bytes.0.resize(50_000, 0)).unwrap();
            assert_eq!(held.get().map(|bytes| bytes.0.len()), Some(50_000));
        }
        assert_eq!(memory.dropped(), 0);
        drop(store);
        assert_eq!(memory.taken_bytes(), 0);
    }

    #[test]
    fn growing_content_evicts_others_and_an_evicted_content_stays_unchanged() {
        let memory = FieldMemory::new(300_000);
        let store = memory.store();
        let (mut first, mut second) = (hold(100_000, &store, 1), hold(100, &store, 2));
        assert!(second.change(3, |bytes| bytes.0.resize(250_000, 0)).is_some());
        assert_eq!((first.is_dropped(), second.is_dropped(), memory.dropped()), (true, false, 1));
        assert_eq!(first.change(4, |_| unreachable!("it is gone")), None);
        memory.set_limit(0);
        assert!(second.is_dropped());
        assert!(memory.taken_bytes() < SLOT_BYTES + CHUNK_BYTES.unsigned_abs());
        // Each new one is kept until the next one comes.
        let one = hold(1000, &store, 5);
        assert!(!one.is_dropped());
        let _other = hold(100_000, &store, 6);
        assert!(one.is_dropped());
    }

    #[test]
    fn a_clone_keeps_its_content_when_another_changes() {
        for store in [FieldStore::default(), FieldMemory::new(1 << 20).store()] {
            let one = hold(10, &store, 1);
            let mut other = one.clone();
            other.change(2, |bytes| bytes.0.push(8)).unwrap();
            assert_eq!((one.get().unwrap().0.len(), other.get().unwrap().0.len()), (10, 11));
        }
    }

    #[test]
    fn freed_contents_leave_the_queue() {
        let memory = FieldMemory::new(1 << 20);
        let store = memory.store();
        for nth in 0..100_000 {
            let _ = hold(1, &store, nth);
        }
        let worker = store.0.as_ref().unwrap();
        assert!(lock(&worker.queue).len() <= 2 * GONE_MAX);
        assert_eq!(worker.held.load(Relaxed), 0);
    }

    #[test]
    fn threads_that_drop_each_others_contents_lose_no_bytes() {
        let memory = FieldMemory::new(1 << 20);
        let sent = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| {
                scope.spawn(|| {
                    let store = memory.store();
                    let mut kept = VecDeque::new();
                    for nth in 0..3000_usize {
                        let time_ns = nth as u64;
                        kept.push_back(hold(1000, &store, time_ns));
                        if kept.len() > 400 {
                            kept.pop_front();
                        }
                        let at = nth % kept.len();
                        kept[at].change(time_ns, |bytes| bytes.0.resize(1000 + nth % 2000, 1));
                    }
                    kept
                })
            });
            threads.map(|thread| thread.join().unwrap())
        });
        assert!(memory.dropped() > 100);
        drop(sent);
        assert_eq!(memory.taken_bytes(), 0);
    }
}
