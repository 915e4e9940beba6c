//! Counts the bytes that maps allocate.

#![expect(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use flowloom_flow_table::{FlowMap, HugePages, Tick, TimeoutClass, Timeouts};

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: all calls are passed on to the system's allocator; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get().wrapping_add(layout.size()));
        MOST.set(MOST.get().max(ALLOCATED.get()));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // Another thread may have allocated the block.
        ALLOCATED.set(ALLOCATED.get().wrapping_sub(layout.size()));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the bytes that the result of a function takes on the heap.
fn heap_bytes<T>(make: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATED.get();
    let made = make();
    (made, ALLOCATED.get().wrapping_sub(before))
}

#[test]
fn an_empty_map_takes_less_than_a_kibibyte() {
    let build = || {
        let timeouts = Timeouts::NEVER.with(TimeoutClass(0), 30);
        FlowMap::builder().timeouts(timeouts).max_flows(100).build::<[u64; 5], [u64; 8]>().unwrap()
    };
    let (maps, bytes) = heap_bytes(|| (0..1000).map(|_| build()).collect::<Vec<_>>());
    assert!(bytes < 1000 * 1024, "{bytes} bytes for a thousand");
    assert_eq!(bytes, maps.capacity() * size_of_val(&maps[0]), "only the vector allocates");
    let (_, bytes) = heap_bytes(|| maps[7].clone());
    assert_eq!(bytes, 0);
}

#[test]
fn a_small_map_grows_from_nothing_and_stays_small() {
    let (mut map, bytes) = heap_bytes(FlowMap::<u32, u64>::new);
    assert_eq!((bytes, map.memory().total_bytes(), map.stats().segments), (0, 0, 1));
    let ((), bytes) = heap_bytes(|| map.extend((0..64).map(|key| (key, 0))));
    assert!(bytes < 16_000, "{bytes} bytes for 64 flows");
    assert_eq!((map.len(), map.stats().segments), (64, 1));
}

#[test]
fn a_map_allocates_no_more_than_its_limit_even_for_a_moment() {
    const LIMIT: usize = 1 << 20;
    let before = ALLOCATED.get();
    MOST.set(before);
    let builder = FlowMap::builder().memory_max_bytes(LIMIT as u64).huge_pages(HugePages::No);
    let mut map = builder.build::<u64, u64>().unwrap();
    let count = (0..100_000).take_while(|&key| map.insert(key, key).is_ok()).count();
    let (most, reported) = (MOST.get() - before, map.memory().total_bytes());
    // Arrays are aligned to lines within larger blocks.
    assert!(most < LIMIT + 10_000, "{most} bytes, reported {reported}");
    assert!(count > 8000, "{count} flows");
}

#[test]
fn new_map_answers_as_an_emptied_one() {
    let emptied = {
        let mut map = FlowMap::<u32, u64>::from([(7, 7)]);
        map.clear();
        map
    };
    for mut map in [FlowMap::new(), emptied] {
        let keys: Vec<u32> = (0..600).collect();
        map.get_batch(&keys, |_, _| unreachable!());
        map.get_batch(&keys[..20], |_, _| unreachable!());
        map.get_batch_mut(&keys, |_, _| unreachable!());
        assert_eq!((map.get(&7), map.id_of(&7), map.len()), (None, None, 0));
        assert!(map.get_mut(&7).is_none() && map.peek_mut(&7).is_none());
        assert_eq!((map.remove(&7), map.remove_entry(&7)), (None, None));
        assert_eq!(map.get_disjoint_mut([&7, &8]), [None, None]);
        assert_eq!(map.iter().next(), None);
        assert_eq!(map.drain().next(), None);
        assert_eq!(map.iter_mut().next(), None);
        assert_eq!((map.compact(9, |_, _| ()).moved, map.shrink(9, |_, _| ()).moved), (0, 0));
        map.set_now(Tick(100));
        assert_eq!(map.expire(9, |_, _, _| ()).removed, 0);
        map.retain(|_, _| unreachable!());
        map.try_reserve(0).unwrap();
        map.clear();
        let mut all_kept = flowloom_flow_table::evict::UnestablishedFirst::new(|_: &u64| true);
        assert_eq!(map.clone().get_or_evict_with(7, || 3, &mut all_kept), Ok(&mut 3));
        assert_eq!(map.clone().entry(7).or_insert(3), Ok(&mut 3));
        assert_eq!(map.clone().get_or_insert_with(7, || 3), Ok(&mut 3));
        map.try_reserve(10).unwrap();
        assert_eq!(map.insert(7, 3), Ok(None));
        assert_eq!(map.into_iter().collect::<Vec<_>>(), [(7, 3)]);
    }
}
