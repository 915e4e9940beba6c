//! Processes the packets of flows again if their summaries cannot be composed.

use flowloom_flow_key::TableHash;
use std::sync::Arc;
use std::thread::Builder;

use flowloom_flow_key::FlowKey;
use flowloom_flow_table::FlowTable;
use flowloom_packet::SourceError;
use flowloom_packet::census::Census;

use crate::app::{App, ReprocessedPackets};
use crate::config::EngineConfig;
use crate::control::{Control, ReaderPublisher};
use crate::egress::records::RecordOutput;
use crate::error::Fault;
use crate::ingest::decode::Decoder;
use crate::ingest::reader::{Next, Reader};
use crate::report::counters::FlowCounts;
use crate::runtime::panics::caught;
use crate::runtime::pin::pin;
use crate::sharded::compose::{Composer, Crossing, PartRecords};
use crate::sharded::context::{Begin, RunContext};
use crate::sharded::hashes::{PacketHashes, ShortHashes};
use crate::sharded::parts::PartitionedSource;
use crate::worker::flows::{Flows, FlowsEnd};
use crate::worker::process::{Burst, FlowStage};

/// Minimum number of flows per additional thread, which must also read the part.
const FLOWS_PER_THREAD: usize = 256;

/// A part whose packets are processed again.
#[derive(Clone)]
pub(crate) struct SecondPass<'h, B> {
    pub(crate) part: usize,
    /// The true state before the part.
    pub(crate) begin: Begin<B>,
    /// The packets of the first pass.
    pub(crate) packets: u64,
    /// The hashes of these packets.
    pub(crate) hashes: &'h PacketHashes,
}

/// The table and the application of a second pass, and others for the packets without the earlier
/// states.
pub(crate) type Stages<T, A> = (Option<(T, A)>, (T, A));

impl<C: PartitionedSource> RunContext<'_, C> {
    /// Returns how many threads process a number of flows again, after the workers have ended.
    pub(crate) fn threads_for(&self, flows: usize) -> usize {
        flows.div_ceil(FLOWS_PER_THREAD).clamp(1, self.cpus.len())
    }

    /// Processes the packets of some flows in a part again, with one thread per entry of `stages`.
    /// A panic is returned as an error.
    #[expect(clippy::type_complexity, reason = "two kinds of errors")]
    pub(crate) fn process_again<A, T>(
        &self,
        pass: &SecondPass<'_, C::Boundary>,
        mut stages: Vec<Stages<T, A>>,
        unresolved: Vec<(Crossing, A::Flow)>,
        composer: &Composer<A::Flow>,
    ) -> Result<Result<Vec<Reprocessed<A::Flow>>, SourceError>, String>
    where
        A: App,
        T: FlowTable<FlowKey, A::Flow> + Send,
    {
        let mut shares: Vec<Vec<_>> = stages.iter().map(|_| Vec::new()).collect();
        for (nth, flow) in unresolved.into_iter().enumerate() {
            let share = nth % shares.len();
            shares[share].push(flow);
        }
        let again = |stages, share| caught(|| self.process_share(pass.clone(), stages, share, composer));
        let again = &again;
        std::thread::scope(|scope| {
            let (first, share) = (stages.swap_remove(0), shares.swap_remove(0));
            let mut threads = Vec::with_capacity(stages.len());
            for (nth, work) in stages.into_iter().zip(shares).enumerate() {
                let run = move || {
                    pin(self.cpus.get(nth + 1).copied().flatten());
                    again(work.0, work.1)
                };
                match Builder::new().name(format!("again-{nth}")).spawn_scoped(scope, run) {
                    Ok(thread) => threads.push(thread),
                    Err(error) => return Ok(Err(SourceError(error.into()))),
                }
            }
            let mut results = vec![again(first, share)];
            for thread in threads {
                results.push(thread.join().unwrap_or_else(|_| Err("a thread died".into())));
            }
            results.into_iter().collect()
        })
    }

    /// Processes the packets of some flows in a part again, from the states before the part.
    /// `composer` has the records that the part alone has of them.
    fn process_share<A, T>(
        &self,
        SecondPass { part, begin, packets, hashes }: SecondPass<'_, C::Boundary>,
        (undo, (table, app)): Stages<T, A>,
        unresolved: Vec<(Crossing, A::Flow)>,
        composer: &Composer<A::Flow>,
    ) -> Result<Reprocessed<A::Flow>, SourceError>
    where
        A: App,
        T: FlowTable<FlowKey, A::Flow>,
    {
        let mut part = self.cut.open_at(part, begin.boundary)?;
        // The limit does not count packets that the source withholds.
        let config = EngineConfig { packet_limit: Some(packets), ..self.config.clone() };
        let again = Control::default();
        let publisher = ReaderPublisher::new(&again, &again.begin(1, 1), 0);
        let mut reader = Reader::new(&config, &mut part, None, publisher, Arc::default());
        reader.arrivals.begin_at(&begin.clock);
        let decoder = Decoder::new(config.decode, config.hasher.clone(), config.digest);
        let keep = RecordOutput::Keep { records_max: config.records_max };
        let mut flows = Flows::new(table, config.timeouts(), keep.clone()).with_spans();
        let mut wanted = Vec::with_capacity(unresolved.len());
        for (flow, state) in unresolved {
            let hash = config.hasher.hash(&flow.key).table;
            if !flows.resume((flow.key, hash), flow.span, state) {
                return Err(SourceError(
                    "the flow table is full and cannot hold flows that are processed again".into(),
                ));
            }
            let packets = composer.packets(&flow);
            let seen = ReprocessedPackets::default();
            wanted.push(WantedFlow { hash, flow: Some(flow), seen, packets });
        }
        let mut wanted = Wanted::new(wanted);
        let mut stage = FlowStage::new(app, flows);
        // This stage processes the same packets as the first pass, without the earlier states, so
        // that its application can subtract what the first pass counted.
        let mut undo =
            undo.map(|(table, app)| FlowStage::new(app, Flows::new(table, config.timeouts(), keep)));
        let (mut burst, mut undo_burst) = (Burst::new(), Burst::new());
        let mut completed = Vec::new();
        let mut census = Census::default();
        'packets: loop {
            let (number, range) = match reader.next() {
                Next::Packets { first, range } => (first, range),
                Next::Pending(_) => continue,
                Next::Over => break,
            };
            let batch = &reader.batch;
            let Some(block) = &batch.block else { continue };
            let open = block.open();
            let block = open.bytes;
            let mut ahead = batch.lookahead();
            for (number, raw) in (number..).zip(&batch.packets[range]) {
                match hashes.get(number) {
                    Some(hash) if !wanted.short.contains(hash) => continue,
                    Some(_) => {}
                    None => ahead.request(block),
                }
                let mut found = None;
                // The first pass has counted packets without a key, and encapsulations.
                let (at, pass) = ((number, raw), batch.pass);
                let _ = decoder.admit(at, block, pass, &mut census, |headers, hash, place| {
                    found = wanted.find(hash.table, &headers.key);
                    if found.is_some() {
                        burst.push(hash.table, headers, place);
                        if undo.is_some() {
                            undo_burst.push(hash.table, headers, place);
                        }
                    }
                });
                let Some(at) = found else { continue };
                stage.run(open, &mut burst, &mut |_, _, _| {});
                let mut is_last = wanted.count(at, raw.wire_bytes);
                let FlowStage { runner, flows } = &mut stage;
                let (hash, flow, seen) = wanted.flow(at);
                if let Some(undo) = &mut undo {
                    undo.run(open, &mut undo_burst, &mut |_, _, _| {});
                } else if let Some(id) = flows.table.lookup(&flow.key, hash)
                    && let Some(state) = flows.table.get_mut(id)
                    && runner.app_mut().complete(state, composer.first(flow), seen)
                {
                    let state = std::mem::take(state);
                    flows.table.remove(id);
                    completed.push((wanted.take(at), state));
                    is_last = false;
                }
                if is_last {
                    wanted.leave();
                }
                if wanted.is_empty() {
                    break 'packets;
                }
            }
        }
        let mut denied_before = 0;
        if let Some(FlowStage { runner, .. }) = undo {
            denied_before = runner.counters.denied;
            runner.into_app().cancel();
        }
        if let Some(Fault::Source { error, .. }) = reader.fault.take() {
            return Err(error);
        }
        let (counts, denied) = (stage.flows.counts(), stage.runner.counters.denied);
        let FlowsEnd { records, ended, spans, .. } = stage.finish();
        let records = PartRecords::new(records, ended, spans);
        Ok(Reprocessed { completed, replaced: wanted.rest(), records, counts, denied, denied_before })
    }
}

/// The result of processing flows of a part again.
pub(crate) struct Reprocessed<F> {
    /// Flows that were completed with the records of the first pass.
    pub(crate) completed: Vec<(Crossing, F)>,
    /// The other flows; `records` replace their records.
    pub(crate) replaced: Vec<Crossing>,
    pub(crate) records: PartRecords<F>,
    pub(crate) counts: FlowCounts,
    /// Packets of these flows that were denied.
    pub(crate) denied: u64,
    /// Packets of these flows that the first pass denied.
    pub(crate) denied_before: u64,
}

/// The flows to process again: sets of their hashes, and the flows sorted by hash.
struct Wanted {
    short: ShortHashes,
    bits: Vec<u64>,
    flows: Vec<WantedFlow>,
    /// The number of flows that may have further packets.
    left: usize,
}

struct WantedFlow {
    hash: TableHash,
    /// `None` once the flow was completed.
    flow: Option<Crossing>,
    seen: ReprocessedPackets,
    /// The number of its packets in the part, if known.
    packets: Option<u64>,
}

impl Wanted {
    fn new(mut flows: Vec<WantedFlow>) -> Self {
        flows.sort_unstable_by_key(|wanted| wanted.hash);
        let short = ShortHashes::of(flows.iter().map(|wanted| wanted.hash));
        let words = (flows.len() / 4).next_power_of_two().clamp(64, 1 << 20);
        let left = flows.len();
        let mut wanted = Self { short, bits: vec![0; words], flows, left };
        for at in 0..left {
            let (word, bit) = wanted.bit(wanted.flows[at].hash);
            wanted.bits[word] |= bit;
        }
        wanted
    }

    fn bit(&self, hash: TableHash) -> (usize, u64) {
        let at = (hash.bits() >> 6) as usize & (self.bits.len() - 1);
        (at, 1 << (hash.bits() & 63))
    }

    /// Returns the index of a packet's flow, if the flow is still wanted.
    #[inline]
    fn find(&self, hash: TableHash, key: &FlowKey) -> Option<usize> {
        let (at, bit) = self.bit(hash);
        if self.bits[at] & bit == 0 { None } else { self.find_key(hash, key) }
    }

    #[cold]
    fn find_key(&self, hash: TableHash, key: &FlowKey) -> Option<usize> {
        let from = self.flows.partition_point(|wanted| wanted.hash < hash);
        let alike = self.flows[from..].iter().take_while(|wanted| wanted.hash == hash);
        alike
            .enumerate()
            .find(|(_, wanted)| wanted.flow.as_ref().is_some_and(|flow| flow.key == *key))
            .map(|(nth, _)| from + nth)
    }

    /// Counts a packet of a flow. Returns whether it is the flow's last one in the part.
    fn count(&mut self, at: usize, wire_bytes: u32) -> bool {
        let WantedFlow { seen, packets, .. } = &mut self.flows[at];
        seen.packets += 1;
        seen.bytes += u64::from(wire_bytes);
        *packets == Some(seen.packets)
    }

    fn flow(&self, at: usize) -> (TableHash, &Crossing, ReprocessedPackets) {
        let WantedFlow { hash, flow, seen, .. } = &self.flows[at];
        (*hash, flow.as_ref().expect("a flow that was found is there"), *seen)
    }

    fn take(&mut self, at: usize) -> Crossing {
        self.left -= 1;
        self.flows[at].flow.take().expect("a flow that was found is there")
    }

    /// Notes that a flow has no more packets in the part.
    fn leave(&mut self) {
        self.left -= 1;
    }

    fn is_empty(&self) -> bool {
        self.left == 0
    }

    fn rest(self) -> Vec<Crossing> {
        self.flows.into_iter().filter_map(|wanted| wanted.flow).collect()
    }
}
