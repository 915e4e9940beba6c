//! `LineHash`: the table to use unless you need a paper's design.
//!
//! ```text
//!  home line     │ s0 │ s1 │ … │ s29 │ filter │   thirty 16-bit signatures and a filter of 32 bits
//!                  │
//!  state 30·b+j  ◀─┘ lane j of line b, by arithmetic
//!
//!  full?  ─▶ the emptier of two alternate lines, noted in the home's filter  ─▶  a bounded stash
//! ```
//!
//! Nothing ever moves, so ids stay valid. At its design load, three quarters of the lanes, a flow
//! takes 2.97 bytes of lookup structure; one flow in twenty is in an alternate line, and fewer than
//! one in ten thousand in the stash.
//!
//! * A hit reads its home line and its state; a miss reads one line, and both alternates with the
//!   chance that the filter is wrong.
//! * The hash also names a favourite lane, which a flow takes if it is empty. A single lookup
//!   prefetches that lane's state along with the line: in a freshly filled table it is the right
//!   one for three flows in five, and under churn as often as a lane is empty.
//! * The filter of a line has a bit for each of 32 classes of displaced flows. It is cleared when
//!   the last displaced flow has ended; their number is counted in an array of its own, which no
//!   lookup reads.
//! * Without the secret of the caller's hash an attacker cannot choose where a flow goes, and what
//!   is not keyed is bounded: the stash has lists with a cap, and a pool.
//!
//! The design comes from no paper; one line per bucket and a fixed state for each lane are ideas of
//! [`dhash`](crate::dhash).

mod batch;
mod config;
mod lanes;
pub mod layout;
pub mod table;
mod walk;

pub use table::{LineHash, LineHashConfig};
pub(crate) use walk::FlowsMut;

/// Ids without values, for states that the caller keeps elsewhere: an array of
/// [`slot_count`](crate::FlowTable::slot_count) places, indexed by [`slot`](crate::FlowId::slot).
///
/// # Examples
///
/// ```
/// use flowloom_flow_table::TableHash;
/// use flowloom_flow_table::{FlowIndex, FlowTable, LineHashConfig, Tick, TimeoutClass};
/// let mut index = FlowIndex::<u64>::try_new(&LineHashConfig::for_flows(100))?;
/// let mut packets = vec![0_u32; index.slot_count() as usize];
/// let id = index.insert(7, TableHash::from_weak(0x42), (), TimeoutClass(0), Tick(0))?;
/// packets[id.slot() as usize] += 1;
/// assert_eq!(index.lookup(&7, TableHash::from_weak(0x42)), Some(id));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type FlowIndex<K> = LineHash<K, ()>;
