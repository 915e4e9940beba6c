//! Passing packets from one thread to another through a ring: the cost of each side per packet.
//!
//! | what travels | in the ring | beside it |
//! | --- | --- | --- |
//! | [`descriptors`] | a descriptor of 40 bytes a packet | nothing |
//! | [`descriptor_batches`] | sixteen bytes for up to 64 packets, as in the engine: a batch, and which of its descriptors are meant | descriptors of 112 bytes, written past the caches |
//!
//! The ring, its slots and the waiting are those between the engine's input stage and a worker,
//! without work on the items. The time that a side waits for the other counts, because a spinning
//! processor does nothing else.

use std::collections::VecDeque;
use std::sync::Arc;

use crossbeam_utils::Backoff;
use flowloom::cpu::{prefetch, stream};
use flowloom_measure::Stopwatch;
use rtrb::{Consumer, Producer, RingBuffer};

/// The descriptor of a packet that moves through the ring itself.
type Descriptor = [u64; 5];

/// Number of descriptors that move at once.
const CHUNK: usize = 32;
/// Maximum number of packets in flight.
const SLOTS: usize = 16 << 10;

/// Number of packets per batch, and of words per packet, as in the engine.
const DESCRIPTORS: usize = 64;
const WORDS: usize = 14;

/// The memory in which a thread writes packets for another thread.
#[repr(C, align(64))]
struct DescriptorBatch([[u64; WORDS]; DESCRIPTORS]);

/// A batch, and one bit per descriptor that belongs to the other side.
type Share = (Arc<DescriptorBatch>, u64);

/// Processor time of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sides {
    /// Time of the thread that fills the ring.
    pub producer_ns: u64,
    /// Time of the thread that empties it.
    pub consumer_ns: u64,
}

/// Moves a number of descriptors and returns the time of both sides.
///
/// # Errors
///
/// Returns an error if the received items differ from the sent ones.
pub fn descriptors(items: u64) -> Result<Sides, String> {
    transfer(items, give, take)
}

/// Moves a number of packets in descriptor batches, rounded up to whole ones. Returns the time of
/// both sides.
///
/// # Errors
///
/// Returns an error if the received items differ from the sent ones.
pub fn descriptor_batches(items: u64) -> Result<Sides, String> {
    transfer(items.next_multiple_of(DESCRIPTORS as u64), send_batches, receive_batches)
}

/// Lets one thread send items and another receive them, and compares the sums of their numbers.
fn transfer<T: Send>(
    items: u64,
    give: impl FnOnce(Producer<T>, u64) + Send,
    take: impl FnOnce(Consumer<T>, u64) -> u64 + Send,
) -> Result<Sides, String> {
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
        return Err(format!("the sum of received items is {received}, that of sent items {expected}"));
    }
    Ok(Sides { producer_ns, consumer_ns })
}

/// Both threads' results, or the message of a panic.
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
        let space = ring.slots().min(staged.len());
        match ring.write_chunk_uninit(space) {
            Ok(chunk) if space > 0 => {
                chunk.fill_from_iter(staged.drain(..space));
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

/// Fills batches that have returned, and creates new ones while more packets may be in flight.
fn send_batches(mut ring: Producer<Share>, items: u64) {
    let backoff = Backoff::new();
    let mut in_flight: VecDeque<Arc<DescriptorBatch>> = VecDeque::new();
    let mut next = 0;
    while next < items {
        let oldest_is_back = in_flight.front_mut().is_some_and(|batch| Arc::get_mut(batch).is_some());
        let mut batch = if oldest_is_back {
            in_flight.pop_front().unwrap_or_else(|| unreachable!("there is an oldest"))
        } else if in_flight.len() < SLOTS / DESCRIPTORS {
            Arc::new(DescriptorBatch([[0; WORDS]; DESCRIPTORS]))
        } else {
            backoff.snooze();
            continue;
        };
        backoff.reset();
        let descriptors =
            Arc::get_mut(&mut batch).unwrap_or_else(|| unreachable!("the batch has no other owner"));
        stream::past_caches(&mut descriptors.0, |writer| {
            for number in next..next + DESCRIPTORS as u64 {
                writer.push([number; WORDS]);
            }
        });
        next += DESCRIPTORS as u64;
        let pushed = ring.push((Arc::clone(&batch), u64::MAX));
        debug_assert!(pushed.is_ok(), "a ring has space for all items in flight");
        in_flight.push_back(batch);
    }
}

fn receive_batches(mut ring: Consumer<Share>, items: u64) -> u64 {
    let backoff = Backoff::new();
    let (mut sum, mut taken) = (0_u64, 0);
    while taken < items {
        let Ok((batch, mut mask)) = ring.pop() else {
            backoff.snooze();
            continue;
        };
        backoff.reset();
        for descriptor in &batch.0 {
            prefetch::read(descriptor);
            prefetch::read(&raw const descriptor[WORDS - 1]);
        }
        while mask != 0 {
            let descriptor = &batch.0[mask.trailing_zeros() as usize];
            // Both of its lines.
            sum = sum.wrapping_add(descriptor[0] ^ descriptor[WORDS - 1] ^ descriptor[WORDS / 2]);
            mask &= mask - 1;
            taken += 1;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_is_written() {
        for sides in [descriptors(100_001), descriptor_batches(100_001)] {
            let sides = sides.unwrap();
            assert!(sides.producer_ns > 0 && sides.consumer_ns > 0);
        }
    }
}
