//! A thread of the sharded layout: reads, decodes or processes the next chunk.

use super::{CHUNK_BYTES, Exchange, Others, lock, try_lock};
use crate::error::{Fault, SinkError};
use crate::exchange::board::Ticket;
use crate::exchange::chunk::{Chunk, Decoding};
use crate::ingest::reader::{Next, Reader};
use crate::stage::panics::caught;
use crate::stage::poll::Polled;
use crate::sync::Ordering;

/// Polls without work before a thread processes the list of another shard. The thread of that shard
/// has its table in its cache, and is mostly about to process it.
const PATIENCE: u32 = 16;

/// One of the threads. It never waits for another: each poll does a step of work, if there is one.
pub(crate) struct Member<'x, 'a> {
    exchange: &'x Exchange<'a>,
    /// The shard that it prefers.
    id: usize,
    /// A chunk that it has read and not decoded yet.
    held: Option<Held>,
    doing: Doing,
    /// The changes of the board when it found no work at all.
    idle_at: Option<u64>,
    /// Polls without work before it processes other shards.
    patience: u32,
    /// Lists of other shards that it has processed.
    pub(crate) helped: u64,
}

/// A chunk that a thread reads or decodes.
struct Held {
    chunk: Chunk,
    /// Its place, once it has packets.
    ticket: Option<Ticket>,
}

/// What a panic would interrupt.
#[derive(Clone, Copy, Debug)]
enum Doing {
    Nothing,
    Reading,
    Confirming,
    Decoding,
    Processing(usize),
    Releasing,
}

impl<'x, 'a> Member<'x, 'a> {
    pub(crate) fn new(exchange: &'x Exchange<'a>, id: usize) -> Self {
        Self {
            exchange,
            id,
            held: None,
            doing: Doing::Nothing,
            idle_at: None,
            patience: PATIENCE,
            helped: 0,
        }
    }

    /// Does a step of work. A panic of a source, an application or a sink ends only the interrupted
    /// operation.
    pub(crate) fn poll(&mut self) -> Polled {
        match caught(|| self.step()) {
            Ok(polled) => polled,
            Err(message) => {
                self.settle(message);
                Polled::Worked
            }
        }
    }

    fn step(&mut self) -> Polled {
        let exchange = self.exchange;
        if self.held.is_some() {
            self.doing = Doing::Decoding;
            self.decode();
            return Polled::Worked;
        }
        let changes = exchange.board.changes();
        if self.idle_at == Some(changes) {
            return Polled::Idle;
        }
        if self.process(self.id) {
            return self.worked();
        }
        self.doing = Doing::Releasing;
        if exchange.retire() {
            return self.worked();
        }
        let (read, silent_ns) = self.read();
        if read == Polled::Worked {
            return self.worked();
        }
        self.patience = self.patience.saturating_sub(1);
        let helps = self.patience == 0 || !exchange.have_all_started.load(Ordering::Relaxed);
        if helps && (0..exchange.shards.len()).any(|other| other != self.id && self.process(other)) {
            self.helped += 1;
            return Polled::Worked;
        }
        self.doing = Doing::Nothing;
        if exchange.board.is_done() {
            exchange.decide_others(Others::NotNeeded);
            return Polled::Done;
        }
        if read == Polled::Idle {
            self.idle_at = helps.then_some(changes);
            self.keep_shard(self.id, None);
        } else if exchange.board.is_empty() {
            // Flows may end only when all packets before this time are processed.
            (0..exchange.shards.len()).for_each(|shard| self.keep_shard(shard, silent_ns));
            self.doing = Doing::Releasing;
            if let Some(output) =
                try_lock(&exchange.outlet).as_mut().and_then(|outlet| outlet.output.as_mut())
            {
                output.flush();
            }
        }
        read
    }

    fn worked(&mut self) -> Polled {
        self.patience = PATIENCE;
        self.idle_at = None;
        Polled::Worked
    }

    /// Processes the next list of a shard. Returns whether there was one.
    fn process(&mut self, shard: usize) -> bool {
        self.doing = Doing::Processing(shard);
        self.exchange.process(shard)
    }

    /// Does for a shard what does not depend on packets: sends its records, and lets time pass.
    fn keep_shard(&mut self, shard: usize, silent_ns: Option<u64>) {
        self.doing = Doing::Processing(shard);
        let held = try_lock(&self.exchange.shards[shard]).filter(|shard| shard.panic.is_none());
        if let Some(mut shard) = held {
            match silent_ns {
                Some(time_ns) => shard.stage.pass_time(time_ns),
                None => shard.stage.flows.flush_if_requested(),
            }
        }
    }

    /// Confirms the chunk that comes next in the input, if it is decoded. Returns whether it was.
    fn confirm(&self, reader: &mut Reader<'_>) -> bool {
        let board = &self.exchange.board;
        let Some(mut chunk) = board.take_decoded() else { return false };
        let is_right = !chunk.is_of_segment() || {
            let counted = chunk.untake().and_then(|read| reader.rejoin(read, chunk.stamps()));
            counted.map(|(first, has_changed)| chunk.number(first, has_changed)).is_some()
        };
        if is_right {
            board.confirmed(chunk);
        } else {
            board.drop_unconfirmed();
            chunk.clear();
            board.give_back(chunk);
        }
        if reader.is_over && !self.exchange.reader.is_poisoned() {
            board.finish();
        }
        true
    }

    /// Does the next step at the reader, if no other thread is there: confirms a chunk, or takes
    /// the next one if the window is not full. Also returns the time that has passed while a live
    /// input was silent.
    ///
    /// Both steps are under one lock. A thread that finds the lock held may then give up: the
    /// thread that holds it either has seen the latest change of the board, or looks again because
    /// of it.
    fn read(&mut self) -> (Polled, Option<u64>) {
        let exchange = self.exchange;
        let Some(mut reader) = try_lock(&exchange.reader) else { return (Polled::Idle, None) };
        // After a panic of the source no thread calls it again, nor adds a chunk before the thread
        // that panicked has added its own.
        reader.is_over |= exchange.reader.is_poisoned();
        self.doing = Doing::Confirming;
        if self.confirm(&mut reader) {
            return (Polled::Worked, None);
        }
        self.doing = Doing::Reading;
        if reader.is_over {
            return (Polled::Idle, None);
        }
        if reader.arrivals.yielded() >= exchange.start_after {
            exchange.decide_others(Others::Needed);
        }
        let Some(mut chunk) = exchange.board.buffer() else { return (Polled::Idle, None) };
        if let Some(segment) = reader.split(exchange.segment_bytes) {
            chunk.take(segment);
            self.held = Some(Held { chunk, ticket: Some(exchange.board.add()) });
            return (Polled::Worked, None);
        }
        if !exchange.board.is_confirmed() {
            // Only then the source knows where it goes on.
            exchange.board.give_back(chunk);
            return (Polled::Idle, None);
        }
        // A panic of the source loses none of the packets that it has yielded.
        let Held { chunk, ticket } = self.held.insert(Held { chunk, ticket: None });
        let pending = loop {
            match reader.next_up_to(exchange.chunk_packets - chunk.len()) {
                Next::Packets { first, range } => chunk.add(first, &reader.batch, range, &reader.stamps),
                Next::Pending(polled) => break Some(polled),
                Next::Over => break None,
            }
            if chunk.len() >= exchange.chunk_packets || chunk.bytes >= CHUNK_BYTES {
                break Some(Polled::Worked);
            }
        };
        reader.publish();
        if chunk.len() > 0 {
            *ticket = Some(exchange.board.add());
        }
        let (is_over, silent_ns) = (reader.is_over, reader.silent_ns);
        if is_over {
            exchange.board.finish();
        }
        if ticket.is_none()
            && let Some(Held { chunk, .. }) = self.held.take()
        {
            exchange.board.give_back(chunk);
            return (pending.unwrap_or(Polled::Worked), silent_ns);
        }
        (Polled::Worked, None)
    }

    /// Decodes the chunk, and hands it over to be confirmed.
    fn decode(&mut self) {
        let Exchange { decoder, shards, has_sink, .. } = self.exchange;
        let Some(Held { chunk, .. }) = &mut self.held else { return };
        chunk.decode(Decoding { decoder, shards: shards.len(), has_sink: *has_sink });
        self.hand_over();
    }

    fn hand_over(&mut self) {
        let Some(Held { chunk, ticket: Some(ticket) }) = self.held.take() else { return };
        if let Some(mut dropped) = self.exchange.board.decoded(ticket, chunk) {
            dropped.clear();
            self.exchange.board.give_back(dropped);
        }
    }

    /// Settles what a panic has interrupted.
    #[cold]
    fn settle(&mut self, message: String) {
        let exchange = self.exchange;
        let fail_input = |message: &str| {
            let mut reader = lock(&exchange.reader);
            reader.fail(|packets| Fault::InputPanicked { packets, message: message.to_owned() });
            exchange.board.finish();
        };
        match self.doing {
            Doing::Reading => {
                if let Some(Held { chunk, ticket }) = &mut self.held
                    && chunk.len() > 0
                {
                    ticket.get_or_insert_with(|| exchange.board.add());
                } else {
                    self.held = None;
                }
                fail_input(&message);
            }
            Doing::Decoding => {
                if let Some(Held { chunk, .. }) = &mut self.held {
                    lock(&exchange.outlet).lose(chunk.lose());
                }
                fail_input(&message);
                self.hand_over();
            }
            Doing::Confirming => {
                exchange.board.drop_unconfirmed();
                fail_input(&message);
            }
            Doing::Processing(shard) => {
                exchange.halt.halt();
                lock(&exchange.shards[shard]).fail(message);
                exchange.board.complete(shard);
            }
            Doing::Releasing => {
                let mut outlet = lock(&exchange.outlet);
                if let Some(output) = &mut outlet.output {
                    output.fail(SinkError::of_panic(&message));
                }
            }
            Doing::Nothing => {}
        }
    }
}
