//! Counts the lines that an operation touches, in tests only.
//!
//! A machine that pauses programs for longer than an operation lasts cannot show a maximum time.
//! The work can be counted instead: all loops of an operation are over lines of an index.

/// Counts lines of an index that the caller is about to read or write.
#[inline(always)]
pub(super) fn touch(lines: usize) {
    #[cfg(test)]
    counted::TOUCHED.with(|count| count.set(count.get() + lines));
    #[cfg(not(test))]
    let _ = lines;
}

/// Counts lines of a new index.
#[inline(always)]
pub(super) fn make(lines: usize) {
    #[cfg(test)]
    counted::MADE.with(|count| count.set(count.get() + lines));
    #[cfg(not(test))]
    let _ = lines;
}

#[cfg(test)]
mod counted {
    use core::cell::Cell;

    std::thread_local! {
        pub(super) static TOUCHED: Cell<usize> = const { Cell::new(0) };
        pub(super) static MADE: Cell<usize> = const { Cell::new(0) };
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::concurrent::{ConcurrentConfig, ConcurrentFlowTable};
    use flowloom_flow_key::KeyedState;

    /// Returns the most lines that one operation touched and made.
    fn most(most: [usize; 2], operation: impl FnOnce()) -> [usize; 2] {
        counted::TOUCHED.set(0);
        counted::MADE.set(0);
        operation();
        [most[0].max(counted::TOUCHED.get()), most[1].max(counted::MADE.get())]
    }

    /// Lets a table for few flows grow to many flows and shrink to a tenth of them, and returns the
    /// most lines per operation of both phases.
    fn grow_and_shrink(flows: u32) -> [[usize; 2]; 2] {
        let shards = (flows / 4096).next_power_of_two().max(1);
        let config = ConcurrentConfig { shards: Some(shards), ..ConcurrentConfig::for_flows(1) };
        let table = ConcurrentFlowTable::try_with_hasher(&config, KeyedState::with_seed(7)).unwrap();
        let (handle, mut growing, mut shrinking) = (table.handle(), [0; 2], [0; 2]);
        for key in 0..flows {
            growing = most(growing, || {
                handle.pin().insert(key, key).unwrap();
            });
            growing = most(growing, || assert_eq!(handle.pin().get(&key), Some(&key)));
        }
        for key in (0..flows).filter(|key| key % 10 != 0) {
            shrinking = most(shrinking, || assert_eq!(handle.pin().remove(&key), Some(&key)));
            shrinking = most(shrinking, || assert_eq!(handle.pin().get(&key), None));
        }
        assert_eq!(table.len(), flows.div_ceil(10) as usize);
        [growing, shrinking]
    }

    #[test]
    fn an_operation_touches_few_lines_while_a_table_grows_and_shrinks() {
        let flows = if cfg!(miri) { 3_000 } else { 400_000 };
        for [touched, made] in grow_and_shrink(flows) {
            // Four lines are moved, with seven entries each, and each entry may pass some lines.
            assert!(touched <= TOUCHED_MAX, "an operation touched {touched} lines");
            // Twice the lines of a shard with some more flows than the average.
            assert!(made <= MADE_MAX, "an operation made {made} lines");
        }
    }

    const TOUCHED_MAX: usize = 400;
    const MADE_MAX: usize = 1_100;

    /// `cargo test --release -p flowloom-flow-table --features concurrent --lib ten_million --
    /// --ignored --nocapture`.
    #[test]
    #[ignore = "takes a gigabyte and a minute"]
    fn an_operation_touches_few_lines_in_a_table_of_ten_million_flows() {
        for ([touched, made], phase) in grow_and_shrink(10_000_000).into_iter().zip(["grow", "shrink"]) {
            std::println!("{phase}: at most {touched} lines touched and {made} made per operation");
            assert!(touched <= TOUCHED_MAX && made <= MADE_MAX);
        }
    }
}
