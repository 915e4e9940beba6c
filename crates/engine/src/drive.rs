//! The input stage: takes batches from the source and gives them to a sink, until there is a reason to stop.

use std::ops::Range;
use std::sync::Arc;

use flowloom_packet::reason::DropCounts;
use flowloom_packet::{Fill, PacketBatch, PacketSource, SourceError};

use crate::actor::{Polled, Room};
use crate::config::EngineConfig;
use crate::control::Control;
use crate::counters::InputCounters;
use crate::error::Fault;
use crate::halt::Halt;
use crate::input::Admission;
use crate::pace::Pacer;

/// Where the input stage puts what it admits. Never waits.
pub(crate) trait Intake {
    /// Hands on what fills a stage; says whether so many packets from `batch` on may be taken.
    fn room(&mut self, input: &mut Admission, batch: &PacketBatch, range: &Range<usize>) -> Room;
    /// Takes in these packets of a batch; there is room for them.
    fn take(&mut self, input: &mut Admission, batch: &PacketBatch, range: Range<usize>);
    /// Hands on whatever is held back, as far as there is room.
    fn flush(&mut self, input: &mut Admission) -> Room;
    /// After the last packet: hands on what is left and says that nothing follows. To be called until it returns `Free`.
    fn end(&mut self, input: &mut Admission) -> Room;
    /// After a panic: counts as lost what was taken in and is neither with a worker nor dropped.
    fn settle(&mut self, input: &mut Admission);
}

/// How far the input stage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    Ending,
    Ended,
}

/// The input stage.
pub(crate) struct InputStage<'a, S> {
    source: &'a mut (dyn PacketSource + Send),
    pub(crate) intake: S,
    input: Admission,
    control: &'a Control,
    halt: Arc<Halt>,
    batch: PacketBatch,
    /// Packets of the batch that were taken.
    taken: usize,
    pacer: Option<Pacer>,
    left: u64,
    phase: Phase,
    interrupted: bool,
    fault: Option<Fault>,
    known: DropCounts,
}

/// How the input stage ended.
#[derive(Debug)]
pub(crate) struct InputEnd {
    pub(crate) counters: InputCounters,
    pub(crate) interrupted: bool,
    pub(crate) fault: Option<Fault>,
}

impl<'a, S: Intake> InputStage<'a, S> {
    pub(crate) fn new(
        config: &EngineConfig,
        source: &'a mut (dyn PacketSource + Send),
        intake: S,
        control: &'a Control,
        halt: Arc<Halt>,
    ) -> Self {
        Self {
            source,
            intake,
            input: Admission::new(config.decode, config.hasher.clone(), config.digest),
            control,
            halt,
            batch: PacketBatch::new(),
            taken: 0,
            pacer: Pacer::new(config.pace),
            left: config.packet_limit.unwrap_or(u64::MAX),
            phase: Phase::Running,
            interrupted: false,
            fault: None,
            known: DropCounts::default(),
        }
    }

    /// Takes one batch, or a part of it.
    pub(crate) fn poll(&mut self) -> Polled {
        let polled = match self.phase {
            Phase::Running => self.run(),
            Phase::Ending => match self.intake.end(&mut self.input) {
                Room::Free | Room::Gone => {
                    self.phase = Phase::Ended;
                    Polled::Done
                }
                Room::Full => Polled::Idle,
            },
            Phase::Ended => Polled::Done,
        };
        self.publish();
        polled
    }

    #[inline]
    fn run(&mut self) -> Polled {
        if self.halt.is_halted() {
            return self.begin_end();
        }
        if self.control.is_stopped() {
            return self.begin_end();
        }
        if self.taken == self.batch.packets.len() {
            match self.fetch() {
                Polled::Worked if self.phase == Phase::Running => {}
                other => return other,
            }
        }
        let range = self.taken..self.batch.packets.len();
        match (self.intake.room(&mut self.input, &self.batch, &range), &mut self.pacer) {
            (Room::Free, None) => {
                self.intake.take(&mut self.input, &self.batch, range);
                self.taken = self.batch.packets.len();
            }
            (Room::Free, Some(pacer)) => {
                // Packet by packet, each at its time.
                if let Some(nap) = pacer.wait(self.batch.packets[self.taken].time_ns) {
                    self.intake.flush(&mut self.input);
                    return Polled::Nap(nap);
                }
                self.intake.take(&mut self.input, &self.batch, self.taken..self.taken + 1);
                self.taken += 1;
                pacer.took();
            }
            (Room::Full, _) => {
                // Those with room get theirs: a worker may wait for what is held back for another.
                self.intake.flush(&mut self.input);
                return Polled::Idle;
            }
            (Room::Gone, _) => return self.begin_end(),
        }
        Polled::Worked
    }

    /// Gets another batch from the source.
    #[inline]
    fn fetch(&mut self) -> Polled {
        if self.left == 0 {
            return self.begin_end();
        }
        self.taken = 0;
        self.batch.packets.clear();
        let fill = self.source.next_batch(&mut self.batch);
        self.input.withhold(&self.source.withheld());
        match fill {
            Ok(Fill::Packets) if self.batch.block.is_none() => {
                self.batch.packets.clear();
                let error = SourceError("it yields packets that lie in no block".into());
                self.fault = Some(Fault::Source { packets: self.input.packets(), error });
                self.begin_end()
            }
            Ok(Fill::Packets) => {
                self.batch.packets.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
                self.left -= self.batch.packets.len() as u64;
                Polled::Worked
            }
            Ok(Fill::Starved) => {
                self.batch.packets.clear();
                self.intake.flush(&mut self.input);
                Polled::Starved
            }
            Ok(Fill::End) => {
                self.batch.packets.clear();
                self.begin_end()
            }
            Err(error) => {
                self.batch.packets.clear();
                self.fault = Some(Fault::Source { packets: self.input.packets(), error });
                self.begin_end()
            }
        }
    }

    fn begin_end(&mut self) -> Polled {
        // A source may end because of the stop that it was told of.
        self.interrupted |= self.control.is_stopped();
        // A last time: what the source holds and will not yield any more counts as taken in.
        self.input.withhold(&self.source.withheld());
        self.phase = Phase::Ending;
        Polled::Worked
    }

    /// Publishes progress.
    #[inline]
    fn publish(&mut self) {
        self.control.publish(self.input.packets(), self.input.dropped(), &mut self.known);
    }

    /// After a panic of anything called: what is staged is handed on, what is lost is counted.
    pub(crate) fn settle(&mut self, fault: impl FnOnce(u64) -> Fault) {
        self.intake.settle(&mut self.input);
        self.fault = Some(fault(self.input.packets()));
        self.phase = Phase::Ending;
    }

    /// Returns the counts and what is left of the intake.
    pub(crate) fn finish(mut self) -> (InputEnd, S) {
        self.publish();
        let Self { input, interrupted, fault, intake, .. } = self;
        (InputEnd { counters: input.finish(), interrupted, fault }, intake)
    }

    /// Counts packets as lost that were handed on and that nobody has taken.
    pub(crate) fn lose(&mut self, reason: flowloom_packet::DropReason, packets: u64) {
        self.input.lose(reason, packets);
    }
}
