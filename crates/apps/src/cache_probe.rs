//! Runs any application together with a simulated cache of connection state [TCBCACHE §3.1].
//!
//! Each TCP packet is one access to the cache, in the order in which the worker processes packets.
//! The wrapped application behaves as without the cache. The probe collects accesses by the
//! thousand before it simulates them. It adds its counts to the run's when it is dropped, so it
//! shares nothing while packets flow.
//!
//! Within a record of the application the probe distinguishes consecutive sessions of the same
//! address and port. When the application ends a record, as [`Accounting`](crate::Accounting) does
//! at a new session, or the idle timeout ends it, the next record's first session has the same key
//! as this record's first.

use std::sync::{Arc, Mutex, PoisonError};

use flowloom_engine::{App, FlowState, Verdict};
use flowloom_packet::PacketView;
use flowloom_record::{Column, Value};
use flowloom_tcb_cache::from_packets::{Closing, Seen, TCP, is_from_client, session_key};
use flowloom_tcb_cache::{Access, Counts, Simulator};

/// Number of accesses collected before the cache processes them.
const BATCH: usize = 1024;

/// The counts of all probes of a run: one entry per worker.
#[derive(Clone, Debug, Default)]
pub struct ProbeCounts(Arc<Mutex<Vec<Counts>>>);

impl ProbeCounts {
    /// Returns the sum over all workers whose application has been dropped, and their number.
    #[must_use]
    pub fn total(&self) -> (Counts, usize) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (all.iter().copied().fold(Counts::default(), |sum, counts| sum + counts), all.len())
    }
}

/// The state of a probed flow: the application's state, and the progress of the session's end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probed<F> {
    inner: F,
    closing: Closing,
}

impl<F> Probed<F> {
    /// Returns the state of the wrapped application.
    pub fn inner(&self) -> &F {
        &self.inner
    }
}

impl<F: FlowState> FlowState for Probed<F> {
    const COLUMNS: &'static [Column] = F::COLUMNS;

    const EVICTABLE: bool = F::EVICTABLE;

    fn values(&self, out: &mut Vec<Value>) {
        self.inner.values(out);
    }

    fn is_established(&self) -> bool {
        self.inner.is_established()
    }

    fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }
}

/// An application with a simulated cache of its packets.
#[derive(Debug)]
pub struct CacheProbe<A> {
    inner: A,
    cache: Box<dyn Simulator>,
    batch: Vec<Access>,
    origin_ns: Option<u64>,
    counts: ProbeCounts,
}

impl<A: App> CacheProbe<A> {
    /// Combines `inner` with a simulated cache. The probe adds its counts to `counts` when it is
    /// dropped.
    #[must_use]
    pub fn new(inner: A, cache: Box<dyn Simulator>, counts: ProbeCounts) -> Self {
        Self { inner, cache, batch: Vec::with_capacity(BATCH), origin_ns: None, counts }
    }
}

impl<A> CacheProbe<A> {
    #[cold]
    #[inline(never)]
    fn flush(&mut self) {
        self.cache.run(&self.batch);
        self.batch.clear();
    }
}

impl<A> Drop for CacheProbe<A> {
    fn drop(&mut self) {
        self.flush();
        self.counts.0.lock().unwrap_or_else(PoisonError::into_inner).push(self.cache.counts());
    }
}

impl<A: App> App for CacheProbe<A> {
    type Flow = Probed<A::Flow>;

    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut Self::Flow) -> Verdict {
        let headers = &packet.headers;
        if headers.key.protocol() == TCP && !headers.later_fragment {
            let from_client = is_from_client(&headers.key, headers.direction);
            let seen = flow.closing.packet(headers.tcp_flags, from_client);
            if seen != Seen::Over {
                let origin_ns = *self.origin_ns.get_or_insert(packet.time_ns);
                let time_ms = packet.time_ns.saturating_sub(origin_ns) / 1_000_000;
                let access = Access::new(flow.closing.key(session_key(&headers.key)), time_ms);
                self.batch.push(if seen == Seen::Closes { access.closing() } else { access });
                if self.batch.len() == BATCH {
                    self.flush();
                }
            }
        }
        self.inner.on_packet(packet, &mut flow.inner)
    }

    #[inline(always)]
    fn next_record(&self, packet: &PacketView<'_>, flow: &mut Self::Flow) -> Option<Self::Flow> {
        let inner = self.inner.next_record(packet, &mut flow.inner)?;
        Some(Probed { inner, closing: Closing::default() })
    }
}

#[cfg(test)]
mod tests {
    use flowloom_flow_key::FlowKey;
    use flowloom_packet::Headers;
    use flowloom_tcb_cache::{CacheSpec, Policy};

    use super::*;
    use crate::Null;

    fn packet(client: u32, protocol: u8, tcp_flags: u16) -> PacketView<'static> {
        let (key, direction) = FlowKey::from_v4(client, 1, 5000, 80, protocol);
        let mut headers = Headers::new(key, direction);
        headers.tcp_flags = tcp_flags;
        headers.network_offset = 14;
        headers.transport_offset = 34;
        headers.payload_offset = 54;
        PacketView::new(&[], headers, 1_000_000_000, 60)
    }

    #[test]
    fn flow_ends_where_the_combined_application_ends_it() {
        use crate::accounting::Accounting;
        let cache = CacheSpec::PAPER.with_policy(Policy::FullLru).build().expect("a valid cache");
        let mut probe = CacheProbe::new(Accounting::new(Some(1)), cache, ProbeCounts::default());
        let mut flow = Probed::default();
        let mut later = packet(9, TCP, 16);
        probe.on_packet(&later, &mut flow);
        assert!(probe.next_record(&later, &mut flow).is_none());
        later.time_ns += 1;
        assert!(probe.next_record(&later, &mut flow).is_some(), "it is as old as a record may be");
    }

    #[test]
    fn tcp_packets_are_accesses_until_their_session_ends() {
        let spec = CacheSpec { drops_closed: true, ..CacheSpec::PAPER.with_policy(Policy::FullLru) };
        let counts = ProbeCounts::default();
        let mut probe = CacheProbe::new(Null, spec.build().expect("a valid cache"), counts.clone());
        let (ack, rst, udp) = (16, 4, 17);
        let mut flows: [Probed<crate::NoState>; 2] = Default::default();
        for _ in 0..1500 {
            probe.on_packet(&packet(9, TCP, ack), &mut flows[0]);
        }
        probe.on_packet(&packet(8, udp, 0), &mut flows[1]);
        probe.on_packet(&packet(9, TCP, rst), &mut flows[0]);
        probe.on_packet(&packet(9, TCP, ack), &mut flows[0]);
        assert_eq!(counts.total().1, 0, "nothing is handed over while it runs");
        drop(probe);
        let (counts, workers) = counts.total();
        assert_eq!(workers, 1);
        assert_eq!((counts.accesses, counts.misses, counts.closed), (1501, 1, 1));
    }
}
