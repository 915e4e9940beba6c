//! Time to put 40-byte descriptors into a queue and take them out again, on one thread.
//!
//! The `ring` rows of `cargo xtask bench replay` also include the transfer between processors. This
//! bench measures the bookkeeping of each queue, which is the reason why the engine moves
//! descriptors in chunks.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use crossbeam_queue::ArrayQueue;
use rtrb::RingBuffer;

/// Same size as the engine's descriptor.
type Descriptor = [u64; 5];

const SLOTS: usize = 1024;
const CHUNK: usize = 32;
const ITEMS: usize = 1024;

fn hand_over(criterion: &mut Criterion) {
    let items: Vec<Descriptor> = (0..ITEMS as u64).map(|i| [i, i + 1, i + 2, i + 3, i + 4]).collect();
    let expected: u64 = items.iter().map(|item| item[0]).sum();
    let mut group = criterion.benchmark_group("hand_over");
    group.throughput(Throughput::Elements(ITEMS as u64)).sample_size(20);

    let (mut producer, mut consumer) = RingBuffer::new(SLOTS);
    let mut by_chunks = || {
        let mut sum = 0;
        for chunk in items.chunks(CHUNK) {
            let chunk_space = producer.write_chunk_uninit(chunk.len()).expect("the ring was emptied");
            chunk_space.fill_from_iter(chunk.iter().copied());
            let ready = consumer.read_chunk(chunk.len()).expect("the ring was filled");
            let (first, second) = ready.as_slices();
            sum += first.iter().chain(second).map(|item| item[0]).sum::<u64>();
            ready.commit_all();
        }
        sum
    };
    assert_eq!(by_chunks(), expected);
    group.bench_function("rtrb, chunks of 32", |b| b.iter(|| black_box(by_chunks())));

    let (mut producer, mut consumer) = RingBuffer::new(SLOTS);
    let mut one_by_one = || {
        let mut sum = 0;
        for chunk in items.chunks(CHUNK) {
            for &item in chunk {
                producer.push(item).expect("the ring was emptied");
            }
            sum += chunk.iter().map(|_| consumer.pop().expect("the ring was filled")[0]).sum::<u64>();
        }
        sum
    };
    assert_eq!(one_by_one(), expected);
    group.bench_function("rtrb, one by one", |b| b.iter(|| black_box(one_by_one())));

    let queue = ArrayQueue::new(SLOTS);
    let array_queue = || {
        let mut sum = 0;
        for chunk in items.chunks(CHUNK) {
            for &item in chunk {
                queue.push(item).expect("the queue was emptied");
            }
            sum += chunk.iter().map(|_| queue.pop().expect("the queue was filled")[0]).sum::<u64>();
        }
        sum
    };
    assert_eq!(array_queue(), expected);
    group.bench_function("crossbeam ArrayQueue", |b| b.iter(|| black_box(array_queue())));

    let (sender, receiver) = crossbeam_channel::bounded(SLOTS);
    let channel = || {
        let mut sum = 0;
        for chunk in items.chunks(CHUNK) {
            for &item in chunk {
                sender.send(item).expect("the receiver is here");
            }
            sum += chunk.iter().map(|_| receiver.recv().expect("the sender is here")[0]).sum::<u64>();
        }
        sum
    };
    assert_eq!(channel(), expected);
    group.bench_function("crossbeam channel", |b| b.iter(|| black_box(channel())));
    group.finish();
}

criterion_group!(benches, hand_over);
criterion_main!(benches);
