//! Abseil's `flat_hash_map` and Boost's `unordered_flat_map`, through the shim in
//! `c/flat_maps.cc`.
#![expect(unsafe_code, reason = "calls of a C++ library")]

use std::ffi::c_void;
use std::ptr::NonNull;

use anyhow::{Context, Result};
use flowloom_measure::Lap;
use flowloom_measure::lookup::Flows;
use flowloom_measure::lookup::contender::{Churn, Contender, Work};

#[repr(C)]
struct Map {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn flowloom_flat_new(is_abseil: bool, words: u32, capacity: u64) -> *mut Map;
    fn flowloom_flat_free(map: *mut Map);
    fn flowloom_flat_fill(map: *mut Map, keys: *const c_void, numbers: *const u32, count: u64) -> u64;
    fn flowloom_flat_read(
        map: *const Map,
        keys: *const c_void,
        count: u64,
        batch: u64,
        found: *mut u64,
    ) -> u64;
    fn flowloom_flat_count(map: *mut Map, keys: *const c_void, count: u64) -> u64;
    fn flowloom_flat_exchange(
        map: *mut Map,
        old: *const c_void,
        fresh: *const c_void,
        numbers: *const u32,
        count: u64,
    ) -> u64;
    fn flowloom_flat_iterate(map: *const Map) -> u64;
}

/// Which of the two maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `absl::flat_hash_map` with its own hash; a batch is prefetched with its `prefetch`.
    Abseil,
    /// `boost::unordered_flat_map` with the hash of foldhash; it has no batches.
    Boost,
}

/// A map for keys of `W` words, which is freed when dropped.
#[derive(Debug)]
struct Owned<const W: usize>(NonNull<Map>);

impl<const W: usize> Owned<W> {
    fn new(kind: Kind, capacity: usize) -> Result<Self> {
        let words = u32::try_from(W)?;
        // SAFETY: the function takes numbers and returns an owned map, or null.
        let map = unsafe { flowloom_flat_new(kind == Kind::Abseil, words, capacity as u64) };
        Ok(Self(NonNull::new(map).context("the shim has maps for keys of 2 and 6 words")?))
    }

    fn fill(&mut self, keys: &[[u64; W]], numbers: &[u32]) -> u64 {
        assert_eq!(keys.len(), numbers.len());
        // SAFETY: the map lives and is for keys of W words; there are as many numbers as keys.
        unsafe {
            flowloom_flat_fill(self.0.as_ptr(), keys.as_ptr().cast(), numbers.as_ptr(), keys.len() as u64)
        }
    }

    fn read(&self, keys: &[[u64; W]], batch: usize) -> (u64, u64) {
        let mut found = 0;
        // SAFETY: as in `fill`; the batch is at least 1.
        let sum = unsafe {
            let (keys, count) = (keys.as_ptr().cast(), keys.len() as u64);
            flowloom_flat_read(self.0.as_ptr(), keys, count, batch.max(1) as u64, &raw mut found)
        };
        (sum, found)
    }
}

impl<const W: usize> Drop for Owned<W> {
    fn drop(&mut self) {
        // SAFETY: the map lives and is not used afterwards.
        unsafe { flowloom_flat_free(self.0.as_ptr()) }
    }
}

/// One of the maps as a contender.
pub struct FlatMap<'a, const W: usize> {
    name: &'static str,
    kind: Kind,
    flows: &'a Flows<W>,
    /// Keys and numbers in the order of insertion.
    arrivals: (Vec<[u64; W]>, Vec<u32>),
    map: Owned<W>,
    churn: Churn,
}

impl<const W: usize> std::fmt::Debug for FlatMap<'_, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlatMap").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<'a, const W: usize> FlatMap<'a, W> {
    /// Returns the map, filled.
    ///
    /// # Errors
    ///
    /// Returns an error if the shim has no map for keys of `W` words.
    pub fn new(name: &'static str, kind: Kind, flows: &'a Flows<W>) -> Result<Self> {
        let arrivals: (Vec<_>, Vec<_>) = flows.arrivals.iter().copied().unzip();
        let mut map = Owned::new(kind, flows.keys.len())?;
        map.fill(&arrivals.0, &arrivals.1);
        Ok(Self { name, kind, flows, arrivals, map, churn: Churn::default() })
    }
}

impl<const W: usize> Contender for FlatMap<'_, W> {
    fn name(&self) -> &str {
        self.name
    }

    fn can(&self, work: Work) -> bool {
        match work {
            Work::Hit { .. } => self.kind == Kind::Abseil,
            Work::Miss { batch } => batch == 1 || self.kind == Kind::Abseil,
            Work::Single | Work::Churn | Work::FindOrInsert | Work::Iterate | Work::Build => true,
            _ => false,
        }
    }

    fn run(&mut self, work: Work, lap: &mut Lap) -> Option<u64> {
        let Self { flows, map, churn, .. } = self;
        let keys = flows.keys.as_ptr().cast();
        let count = flows.keys.len() as u64;
        Some(match work {
            Work::Hit { batch } => lap.time(|| map.read(&flows.keys, batch).0),
            Work::Single => lap.time(|| map.read(&flows.keys, 1).0),
            Work::Miss { batch } => lap.time(|| map.read(&flows.missing, batch).1),
            // SAFETY: as in `fill`.
            Work::FindOrInsert => lap.time(|| unsafe { flowloom_flat_count(map.0.as_ptr(), keys, count) }),
            // SAFETY: the map lives.
            Work::Iterate => lap.time(|| unsafe { flowloom_flat_iterate(map.0.as_ptr()) }),
            Work::Churn => {
                let (old, new, numbers) = churn.swap(flows);
                let count = old.len().min(new.len()).min(numbers.len()) as u64;
                let (old, new) = (old.as_ptr().cast(), new.as_ptr().cast());
                // SAFETY: as in `fill`, for two lists of keys.
                lap.time(|| unsafe {
                    flowloom_flat_exchange(map.0.as_ptr(), old, new, numbers.as_ptr(), count)
                })
            }
            Work::Build => {
                let mut map = Owned::<W>::new(self.kind, flows.keys.len()).ok()?;
                lap.time(|| map.fill(&self.arrivals.0, &self.arrivals.1))
            }
            _ => return None,
        })
    }
}
