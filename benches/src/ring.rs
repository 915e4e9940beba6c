//! Handing packets from one thread to another through a ring: what each side pays for each of them.
//!
//! | what travels | in the ring | beside it |
//! | --- | --- | --- |
//! | [`descriptors`] | a descriptor of 40 bytes a packet | nothing |
//! | [`trays`] | sixteen bytes for up to 64 packets, as in the engine: a tray, and which of its parcels are meant | parcels of 112 bytes, written past the caches |
//!
//! The ring, its slots and the waiting are those between the engine's input stage and a worker, with nothing done to the items. Time that
//! a side waits for the other counts, since a processor that spins does nothing else.

use std::collections::VecDeque;
use std::sync::Arc;

use crossbeam_utils::Backoff;
use flowloom::cpu::{prefetch, stream};
use flowloom_measure::Stopwatch;
use rtrb::{Consumer, Producer, RingBuffer};

/// What would travel for each packet without trays.
type Descriptor = [u64; 5];

/// Descriptors that move at once.
const CHUNK: usize = 32;
/// Packets that may be on the way.
const SLOTS: usize = 16 << 10;

/// Packets of a tray, and words of each, as in the engine.
const PARCELS: usize = 64;
const WORDS: usize = 14;

/// Where a thread writes packets for another.
#[repr(C, align(64))]
struct Tray([[u64; WORDS]; PARCELS]);

/// A tray, and a bit for each of its parcels that the other side shall have.
type Share = (Arc<Tray>, u64);

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
pub fn descriptors(items: u64) -> Result<Sides, String> {
    transfer(items, give, take)
}

/// Moves so many packets on trays, rounded up to whole ones, and returns the time of both sides.
///
/// # Errors
///
/// Where something else came out than went in.
pub fn trays(items: u64) -> Result<Sides, String> {
    transfer(items.next_multiple_of(PARCELS as u64), give_trays, take_trays)
}

/// Lets one thread give so many items and another take them, and compares the sums of their numbers.
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

/// Fills trays that have come back, and makes new ones as long as more packets may be on the way.
fn give_trays(mut ring: Producer<Share>, items: u64) {
    let backoff = Backoff::new();
    let mut on_the_way: VecDeque<Arc<Tray>> = VecDeque::new();
    let mut next = 0;
    while next < items {
        let oldest_is_back = on_the_way.front_mut().is_some_and(|tray| Arc::get_mut(tray).is_some());
        let mut tray = if oldest_is_back {
            on_the_way.pop_front().unwrap_or_else(|| unreachable!("there is an oldest"))
        } else if on_the_way.len() < SLOTS / PARCELS {
            Arc::new(Tray([[0; WORDS]; PARCELS]))
        } else {
            backoff.snooze();
            continue;
        };
        backoff.reset();
        let parcels = Arc::get_mut(&mut tray).unwrap_or_else(|| unreachable!("nobody else has it"));
        stream::past_caches(&mut parcels.0, |writer| {
            for number in next..next + PARCELS as u64 {
                writer.push([number; WORDS]);
            }
        });
        next += PARCELS as u64;
        let pushed = ring.push((Arc::clone(&tray), u64::MAX));
        debug_assert!(pushed.is_ok(), "a ring has room for all that may be on the way");
        on_the_way.push_back(tray);
    }
}

fn take_trays(mut ring: Consumer<Share>, items: u64) -> u64 {
    let backoff = Backoff::new();
    let (mut sum, mut taken) = (0_u64, 0);
    while taken < items {
        let Ok((tray, mut mask)) = ring.pop() else {
            backoff.snooze();
            continue;
        };
        backoff.reset();
        for parcel in &tray.0 {
            prefetch::read(parcel);
            prefetch::read(&raw const parcel[WORDS - 1]);
        }
        while mask != 0 {
            let parcel = &tray.0[mask.trailing_zeros() as usize];
            // Both of its lines.
            sum = sum.wrapping_add(parcel[0] ^ parcel[WORDS - 1] ^ parcel[WORDS / 2]);
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
    fn everything_comes_out() {
        for sides in [descriptors(100_001), trays(100_001)] {
            let sides = sides.unwrap();
            assert!(sides.producer_ns > 0 && sides.consumer_ns > 0);
        }
    }
}
