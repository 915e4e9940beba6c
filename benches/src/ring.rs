//! Moving descriptors between two threads: what each side pays.
//!
//! The same ring, chunk, slots and waiting as between the engine's input stage and a worker, with nothing done to
//! the items. Time a side waits for the other counts, since a processor that spins does nothing else.

use crossbeam_utils::Backoff;
use flowloom_measure::Stopwatch;
use rtrb::{Consumer, Producer, RingBuffer};

/// As large as the engine's descriptor.
type Descriptor = [u64; 5];

/// Descriptors that move at once.
pub const CHUNK: usize = 32;
/// Slots of the ring.
pub const SLOTS: usize = 16 << 10;

/// Processor time of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sides {
    /// Of the thread that fills the ring.
    pub producer_ns: u64,
    /// Of the thread that empties it.
    pub consumer_ns: u64,
}

/// Moves so many descriptors and returns the time of both sides.
///
/// # Errors
///
/// Where something else came out than went in.
pub fn transfer(items: u64) -> Result<Sides, String> {
    let (producer, consumer) = RingBuffer::new(SLOTS);
    let ((received, consumer_ns), producer_ns) = std::thread::scope(|scope| {
        let consumer = scope.spawn(move || {
            let stopwatch = Stopwatch::start();
            let sum = take(consumer, items);
            (sum, stopwatch.elapsed().cpu_ns)
        });
        let producer = scope.spawn(move || {
            let stopwatch = Stopwatch::start();
            give(producer, items);
            stopwatch.elapsed().cpu_ns
        });
        (consumer.join(), producer.join())
    })
    .into_results()?;
    let expected = (0..items).fold(0, u64::wrapping_add);
    if received != expected {
        return Err(format!("the ring gave out a sum of {received}, {expected} went in"));
    }
    Ok(Sides { producer_ns, consumer_ns })
}

/// Both threads' results, or what to say of one that died.
trait IntoResults<A, B> {
    fn into_results(self) -> Result<(A, B), String>;
}

impl<A, B> IntoResults<A, B> for (std::thread::Result<A>, std::thread::Result<B>) {
    fn into_results(self) -> Result<(A, B), String> {
        match self {
            (Ok(a), Ok(b)) => Ok((a, b)),
            _ => Err(String::from("a side of the ring died")),
        }
    }
}

fn give(mut ring: Producer<Descriptor>, items: u64) {
    let backoff = Backoff::new();
    let mut staged: Vec<Descriptor> = Vec::with_capacity(CHUNK);
    let mut next = 0;
    while next < items || !staged.is_empty() {
        while staged.len() < CHUNK && next < items {
            staged.push([next; 5]);
            next += 1;
        }
        let room = ring.slots().min(staged.len());
        match ring.write_chunk_uninit(room) {
            Ok(chunk) if room > 0 => {
                chunk.fill_from_iter(staged.drain(..room));
                backoff.reset();
            }
            _ => backoff.snooze(),
        }
    }
}

fn take(mut ring: Consumer<Descriptor>, items: u64) -> u64 {
    let backoff = Backoff::new();
    let (mut sum, mut taken) = (0_u64, 0);
    while taken < items {
        let ready = ring.slots().min(CHUNK);
        match ring.read_chunk(ready) {
            Ok(chunk) if ready > 0 => {
                let (first, second) = chunk.as_slices();
                for part in [first, second] {
                    sum = part.iter().fold(sum, |sum, item| sum.wrapping_add(item[0]));
                }
                chunk.commit_all();
                taken += ready as u64;
                backoff.reset();
            }
            _ => backoff.snooze(),
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_comes_out() {
        let sides = transfer(100_001).unwrap();
        assert!(sides.producer_ns > 0 && sides.consumer_ns > 0);
    }
}
