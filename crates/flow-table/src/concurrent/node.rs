//! The state of one flow.

use flowloom_flow_key::TableHash;

use super::sync::{AtomicU8, AtomicU64, Ordering};
use crate::table::{Tick, TimeoutClass};

/// A flow of a [`ConcurrentFlowTable`](super::ConcurrentFlowTable).
///
/// The fields that a lookup reads come first.
#[repr(C)]
pub(super) struct Node<K, V> {
    pub(super) key: K,
    pub(super) value: V,
    pub(super) hash: TableHash,
    /// The number of the flow within its shard, never reused.
    pub(super) number: u64,
    last_seen: AtomicU64,
    class: AtomicU8,
}

impl<K, V> Node<K, V> {
    pub(super) fn new(
        key: K,
        hash: TableHash,
        number: u64,
        value: V,
        class: TimeoutClass,
        now: Tick,
    ) -> Self {
        let (last_seen, class) = (AtomicU64::new(now.0), AtomicU8::new(class.0));
        Self { key, value, hash, number, last_seen, class }
    }

    pub(super) fn last_seen(&self) -> Tick {
        Tick(self.last_seen.load(Ordering::Relaxed))
    }

    /// Records that the flow was seen. It writes only if the time changes, so that readers of one
    /// flow do not contend for its line more than once per tick.
    #[inline(always)]
    pub(super) fn touch(&self, now: Tick) {
        if self.last_seen.load(Ordering::Relaxed) != now.0 {
            self.last_seen.store(now.0, Ordering::Relaxed);
        }
    }

    pub(super) fn class(&self) -> TimeoutClass {
        TimeoutClass(self.class.load(Ordering::Relaxed))
    }

    pub(super) fn set_class(&self, class: TimeoutClass) {
        self.class.store(class.0, Ordering::Relaxed);
    }
}
