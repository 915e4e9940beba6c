//! A shard: some of the flows of a run, in a table that one thread at a time processes.

use flowloom_flow_key::{FlowKey, TableHash};
use flowloom_packet::PacketView;

use crate::app::{Outcome, Verdict};
use crate::batch::packet::PacketDescriptor;
use crate::batch::pool::BATCH_DESCRIPTORS;
use crate::control::Publisher;
use crate::exchange::chunk::Chunk;
use crate::worker::process::{Decider, Done, FlowStage, Packets};

/// The flows of a shard with their application.
pub(crate) struct Shard<'a> {
    pub(crate) stage: FlowStage<'a>,
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

impl<'a> Shard<'a> {
    pub(crate) fn new(stage: FlowStage<'a>, publisher: Publisher<'a>) -> Self {
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
                descriptor.request(open.block(descriptor.packet).bytes);
                keys[i] = descriptor.key;
                hashes[i] = descriptor.packet.hash;
                latest_ns = descriptor.packet.time_ns;
            }
            let FlowStage { runner, flows } = &mut *stage;
            flows.prefetch(&hashes[..group.len()]);
            let mut accept = |_: &mut dyn Decider, i: usize, _: &PacketView<'_>, outcome: Outcome| {
                if outcome == Some(Verdict::Accept) {
                    chunk.accept(PacketDescriptor::of_words(&group[i]).packet);
                }
            };
            runner.work(
                &mut **flows,
                (&keys[..group.len()], &hashes[..group.len()]),
                &Packets::Listed(group, &open),
                has_sink.then_some(&mut accept as &mut Done<'_>),
            );
            runner.expire(&mut **flows, latest_ns);
        }
        stage.runner.expire(&mut *stage.flows, chunk.last_ns());
        publisher.publish(&stage.runner.tally);
    }

    /// Keeps the panic of the application, and publishes what was counted before.
    pub(crate) fn fail(&mut self, message: String) {
        let packet = self.stage.runner.recover();
        self.panic = Some(ShardPanic { packet, message });
        self.publisher.publish(&self.stage.runner.tally);
    }
}
