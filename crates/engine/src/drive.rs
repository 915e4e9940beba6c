//! The loop of the input stage: takes batches from the source until there is a reason to stop.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use flowloom_packet::{Fill, PacketBatch, PacketSource};

use crate::config::EngineConfig;
use crate::control::Control;
use crate::error::Fault;
use crate::input::Admission;
use crate::pace::Pacer;
use crate::ring::Gone;
use crate::wait::Wait;

/// How the loop ended: interrupted or not, on a fault, or with the panic of something it called.
pub(crate) type Driven = Result<Result<bool, Fault>, Box<dyn Any + Send>>;

/// Where the input stage puts what it admits.
pub(crate) trait Sink {
    /// Takes in these packets of a batch.
    fn take(&mut self, input: &mut Admission, batch: &PacketBatch, range: Range<usize>)
    -> Result<(), Gone>;
    /// Hands on whatever is held back.
    fn flush(&mut self, input: &mut Admission) -> Result<(), Gone>;
}

/// Drives the source until it ends. Says whether the run was interrupted; a panic of anything called is caught.
pub(crate) fn drive(
    config: &EngineConfig,
    source: &mut (dyn PacketSource + Send),
    input: &mut Admission,
    sink: &mut impl Sink,
    control: &Control,
) -> Driven {
    // Unwind safety: after a panic nothing is read but counters, which are whole at any moment.
    catch_unwind(AssertUnwindSafe(|| {
        let mut batch = PacketBatch::new();
        let mut pacer = Pacer::new(config.pace);
        let wait = Wait::default();
        let mut left = config.packet_limit.unwrap_or(u64::MAX);
        loop {
            if control.is_stopped() {
                // A worker that is gone has its own fault; here there is nothing left to do for it.
                let _ = sink.flush(input);
                return Ok(true);
            }
            if left == 0 {
                let _ = sink.flush(input);
                return Ok(false);
            }
            let fill = source.next_batch(&mut batch);
            input.withhold(&source.withheld());
            match fill {
                Ok(Fill::Packets) => wait.reset(),
                Ok(Fill::Starved) => {
                    if sink.flush(input).is_err() {
                        return Ok(false);
                    }
                    wait.snooze();
                    continue;
                }
                Ok(Fill::End) => {
                    let _ = sink.flush(input);
                    return Ok(false);
                }
                Err(error) => {
                    let _ = sink.flush(input);
                    return Err(Fault::Source { packets: input.packets(), error });
                }
            }
            batch.packets.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            left -= batch.packets.len() as u64;
            let taken = match &mut pacer {
                None => sink.take(input, &batch, 0..batch.packets.len()),
                Some(pacer) => paced(pacer, input, sink, &batch, control),
            };
            if taken.is_err() {
                return Ok(false);
            }
            control.publish(input.packets());
        }
    }))
}

/// Takes in a batch packet by packet, each at its time; stops between two packets when the run is stopped.
fn paced(
    pacer: &mut Pacer,
    input: &mut Admission,
    sink: &mut impl Sink,
    batch: &PacketBatch,
    control: &Control,
) -> Result<(), Gone> {
    for (i, packet) in batch.packets.iter().enumerate() {
        while let Some(nap) = pacer.wait(packet.time_ns) {
            sink.flush(input)?;
            if control.is_stopped() {
                return Ok(());
            }
            std::thread::sleep(nap);
        }
        sink.take(input, batch, i..i + 1)?;
        pacer.took();
        control.publish(input.packets());
    }
    Ok(())
}
