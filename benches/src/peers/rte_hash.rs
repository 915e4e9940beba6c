//! DPDK's `rte_hash`, through the shim in `c/rte_hash.c`.
#![expect(unsafe_code, reason = "calls of a C library")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Result, bail};
use flowloom::cpu::pages::{CacheLine, HugePages, LineArray};
use flowloom_measure::Lap;
use flowloom_measure::lookup::contender::{Churn, Contender, Work};
use flowloom_measure::lookup::{Flows, KEYS_AHEAD, prefetched};

#[repr(C)]
struct Table {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn flowloom_dpdk_start(megabytes: *const c_char) -> c_int;
    fn flowloom_rte_hash_new(name: *const c_char, entries: u32, key_bytes: u32, seed: u32) -> *mut Table;
    fn flowloom_rte_hash_free(table: *mut Table);
    fn flowloom_rte_hash_add(table: *mut Table, key: *const c_void) -> i32;
    fn flowloom_rte_hash_delete(table: *mut Table, key: *const c_void) -> i32;
    fn flowloom_rte_hash_bulk(
        table: *const Table,
        keys: *const u8,
        count: u64,
        key_bytes: u32,
        ahead: u32,
        batch: u32,
        states: *const u64,
        hits: *mut u64,
    ) -> u64;
    fn flowloom_rte_hash_single(
        table: *const Table,
        keys: *const u8,
        count: u64,
        key_bytes: u32,
        ahead: u32,
        states: *const u64,
    ) -> u64;
    fn flowloom_rte_hash_count(
        table: *mut Table,
        keys: *const u8,
        count: u64,
        key_bytes: u32,
        ahead: u32,
        states: *mut u64,
    ) -> u64;
    fn flowloom_rte_hash_iterate(table: *const Table, states: *const u64) -> u64;
    fn flowloom_rte_hash_dependent(
        table: *const Table,
        keys: *const u64,
        count: u64,
        key_words: u32,
        ahead: u32,
        states: *const u64,
    ) -> u64;
}

/// Maximum number of keys that `rte_hash` accepts at once.
const BULK_MAX: usize = 64;

/// Number of keys between prefetch and use, as for all contenders.
#[expect(clippy::cast_possible_truncation, reason = "a page of keys")]
const AHEAD: u32 = KEYS_AHEAD as u32;

/// Starts DPDK's environment, once per process.
///
/// # Errors
///
/// Returns an error if DPDK does not start: it needs this many megabytes of reserved huge pages.
pub fn start(megabytes: u32) -> Result<()> {
    let text = CString::new(megabytes.to_string())?;
    // SAFETY: the text ends with a zero and outlives the call.
    if unsafe { flowloom_dpdk_start(text.as_ptr()) } < 0 {
        bail!("DPDK does not start; it needs {megabytes} MB of reserved huge pages (vm.nr_hugepages)");
    }
    Ok(())
}

/// A table that is freed when dropped.
#[derive(Debug)]
struct Owned(NonNull<Table>);

impl Owned {
    fn new(entries: u32, key_bytes: u32) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = CString::new(format!("flowloom{}", NUMBER.fetch_add(1, Ordering::Relaxed)))?;
        // SAFETY: the name outlives the call, which copies it.
        let table = unsafe { flowloom_rte_hash_new(name.as_ptr(), entries, key_bytes, 1) };
        NonNull::new(table)
            .map(Self)
            .ok_or_else(|| anyhow::anyhow!("rte_hash has no memory for {entries} entries"))
    }

    fn add<const W: usize>(&mut self, key: &[u64; W]) -> i32 {
        // SAFETY: the table lives and was made for keys of W words.
        unsafe { flowloom_rte_hash_add(self.0.as_ptr(), key.as_ptr().cast()) }
    }

    fn delete<const W: usize>(&mut self, key: &[u64; W]) -> i32 {
        // SAFETY: as in `add`.
        unsafe { flowloom_rte_hash_delete(self.0.as_ptr(), key.as_ptr().cast()) }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the table lives and is not used afterwards.
        unsafe { flowloom_rte_hash_free(self.0.as_ptr()) }
    }
}

/// `rte_hash`, with a cache line of state per position.
pub struct RteHash<'a, const W: usize> {
    name: String,
    flows: &'a Flows<W>,
    table: Owned,
    states: LineArray<CacheLine<[u64; 8]>>,
    entries: u32,
    churn: Churn,
}

impl<const W: usize> std::fmt::Debug for RteHash<'_, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RteHash").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Returns the size in bytes of a key of this many words.
fn key_bytes<const W: usize>() -> u32 {
    u32::try_from(8 * W).expect("keys are short")
}

fn flat<const W: usize>(keys: &[[u64; W]]) -> *const u8 {
    keys.as_ptr().cast()
}

impl<'a, const W: usize> RteHash<'a, W> {
    /// Returns the table, filled. `occupancy` is the occupied share of its entries.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no memory, or a flow does not fit.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "numbers of flows"
    )]
    pub fn new(name: &str, flows: &'a Flows<W>, occupancy: f64) -> Result<Self> {
        let entries = (flows.keys.len() as f64 / occupancy).ceil() as u32;
        let mut states = LineArray::try_new(entries as usize + 1, HugePages::Try)?;
        states.prefault();
        let mut peer = Self {
            name: name.to_owned(),
            flows,
            table: Owned::new(entries, key_bytes::<W>())?,
            states,
            entries,
            churn: Churn::default(),
        };
        for (key, number) in &flows.arrivals {
            let Ok(position) = usize::try_from(peer.table.add(key)) else {
                bail!("rte_hash with {entries} entries rejects a flow");
            };
            peer.states[position].0[0] = u64::from(*number);
        }
        Ok(peer)
    }

    fn bulk(&self, keys: &[[u64; W]], batch: usize) -> (u64, u64) {
        let batch = u32::try_from(batch.min(BULK_MAX)).expect("at most 64");
        let mut hits = 0;
        // SAFETY: `keys` are `len` consecutive keys of W words; positions are below `entries` + 1,
        // the number of states, each of eight words.
        let sum = unsafe {
            flowloom_rte_hash_bulk(
                self.table.0.as_ptr(),
                flat(keys),
                keys.len() as u64,
                key_bytes::<W>(),
                AHEAD,
                batch,
                self.states.as_ptr().cast(),
                &raw mut hits,
            )
        };
        (sum, hits)
    }
}

impl<const W: usize> Contender for RteHash<'_, W> {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(&mut self, work: Work, lap: &mut Lap) -> Option<u64> {
        Some(match work {
            Work::Hit { batch } | Work::HitAhead { batch, .. } => {
                lap.time(|| self.bulk(&self.flows.keys, batch).0)
            }
            Work::Miss { batch } => lap.time(|| self.bulk(&self.flows.missing, batch).1),
            Work::Single => lap.time(|| {
                let keys = &self.flows.keys;
                // SAFETY: as in `bulk`.
                unsafe {
                    flowloom_rte_hash_single(
                        self.table.0.as_ptr(),
                        flat(keys),
                        keys.len() as u64,
                        key_bytes::<W>(),
                        AHEAD,
                        self.states.as_ptr().cast(),
                    )
                }
            }),
            Work::FindOrInsert => lap.time(|| {
                let (keys, states) = (&self.flows.keys, self.states.as_mut_ptr().cast());
                // SAFETY: as in `bulk`; a new key has a position below the number of states too.
                unsafe {
                    let (table, count) = (self.table.0.as_ptr(), keys.len() as u64);
                    flowloom_rte_hash_count(table, flat(keys), count, key_bytes::<W>(), AHEAD, states)
                }
            }),
            // SAFETY: as in `bulk`.
            Work::Iterate => lap.time(|| unsafe {
                flowloom_rte_hash_iterate(self.table.0.as_ptr(), self.states.as_ptr().cast())
            }),
            Work::Dependent => lap.time(|| {
                const { assert!(W <= 8, "KEY_WORDS_MAX of rte_hash.c") };
                let keys = &self.flows.keys;
                // SAFETY: as in `bulk`; a key is copied into as many words as it has.
                unsafe {
                    flowloom_rte_hash_dependent(
                        self.table.0.as_ptr(),
                        keys.as_ptr().cast(),
                        keys.len() as u64,
                        key_bytes::<W>() / 8,
                        AHEAD,
                        self.states.as_ptr().cast(),
                    )
                }
            }),
            Work::Churn | Work::ChurnBatch { .. } => {
                let Self { flows, table, states, churn, .. } = self;
                lap.time(|| {
                    churn.exchange_each(flows, |old, new, number| {
                        let removed = table.delete(old) >= 0;
                        let Ok(position) = usize::try_from(table.add(new)) else { return false };
                        states[position].0[0] = u64::from(number);
                        removed
                    })
                })
            }
            Work::Build | Work::BuildBatch { .. } => {
                let mut table = Owned::new(self.entries, key_bytes::<W>()).ok()?;
                let flows = self.flows;
                let states = &mut self.states;
                lap.time(|| {
                    let mut taken = 0;
                    for (key, number) in prefetched(&flows.arrivals) {
                        if let Ok(position) = usize::try_from(table.add(key)) {
                            states[position].0[0] = u64::from(*number);
                            taken += 1;
                        }
                    }
                    taken
                })
            }
        })
    }
}
