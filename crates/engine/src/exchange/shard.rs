//! A shard: some of the flows of a run, in a table that one thread at a time processes.

use flowloom_flow_key::{FlowKey, TableHash};
use flowloom_flow_table::FlowTable;

use crate::app::{App, Verdict};
use crate::batch::packet::PacketDescriptor;
use crate::batch::pool::BATCH_DESCRIPTORS;
use crate::control::Publisher;
use crate::exchange::chunk::Chunk;
use crate::worker::process::FlowStage;

/// The flows of a shard with their application.
pub(crate) struct Shard<'a, A: App, T> {
    pub(crate) stage: FlowStage<A, T>,
    publisher: Publisher<'a>,
    /// Packets of the lists that were taken.
    pub(crate) sent: u64,
    /// What its application panicked with; it is not called again.
    pub(crate) panic: Option<ShardPanic>,
    keys: [FlowKey; BATCH_DESCRIPTORS],
    hashes: [TableHash; BATCH_DESCRIPTORS],
}

/// A panic of an application.
#[derive(Debug)]
pub(crate) struct ShardPanic {
    /// The number of the packet in process.
    pub(crate) packet: Option<u64>,
    pub(crate) message: String,
}

impl<'a, A: App, T: FlowTable<FlowKey, A::Flow>> Shard<'a, A, T> {
    pub(crate) fn new(stage: FlowStage<A, T>, publisher: Publisher<'a>) -> Self {
        Self {
            stage,
            publisher,
            sent: 0,
            panic: None,
            keys: [FlowKey::default(); BATCH_DESCRIPTORS],
            hashes: [TableHash::default(); BATCH_DESCRIPTORS],
        }
    }

    /// Processes the packets of a chunk that belong to shard `index`, which is this one.
    pub(crate) fn process(&mut self, chunk: &Chunk, index: usize, has_sink: bool) {
        let list = chunk.list(index);
        self.sent += list.len() as u64;
        if self.panic.is_some() {
            return;
        }
        let Self { stage, keys, hashes, publisher, .. } = self;
        let open = chunk.open();
        for group in list.chunks(BATCH_DESCRIPTORS) {
            let mut latest_ns = 0;
            for (i, words) in group.iter().enumerate() {
                let descriptor = PacketDescriptor::of_words(words);
                stage.prefetch(descriptor.packet.hash);
                descriptor.request(open.block(descriptor.packet).bytes);
                keys[i] = descriptor.key;
                hashes[i] = descriptor.packet.hash;
                latest_ns = descriptor.packet.time_ns;
            }
            let FlowStage { runner, flows } = &mut *stage;
            runner.work(
                flows,
                (&keys[..group.len()], &hashes[..group.len()]),
                |i| open.view(&PacketDescriptor::of_words(&group[i])),
                |_, i, _, outcome| {
                    if has_sink && outcome == Some(Verdict::Accept) {
                        chunk.accept(PacketDescriptor::of_words(&group[i]).packet);
                    }
                },
            );
            flows.expire(latest_ns);
        }
        stage.flows.expire(chunk.last_ns());
        publisher.publish(&stage.runner.counters, stage.runner.begun);
    }

    /// Keeps the panic of the application, and publishes what was counted before.
    pub(crate) fn fail(&mut self, message: String) {
        let packet = self.stage.runner.recover();
        self.panic = Some(ShardPanic { packet, message });
        self.publisher.publish(&self.stage.runner.counters, self.stage.runner.begun);
    }
}
