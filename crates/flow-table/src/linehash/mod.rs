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
//! Nothing ever moves, so ids stay valid. At its design load of three quarters of the lanes, a flow
//! takes 2.97 bytes of lookup structure. One flow in twenty is in an alternate line, and fewer than
//! one in ten thousand in the stash.
//!
//! * A hit reads its home line and its state. A miss reads one line, and both alternates if the
//!   filter gives a false positive.
//! * The hash also names a favourite lane, which a flow takes if it is empty. A single lookup
//!   prefetches that lane's state along with the line. In a freshly filled table this is the right
//!   state for three flows in five, and under churn as often as a lane is empty.
//! * The filter of a line has a bit for each of 32 classes of displaced flows. It is cleared when
//!   the last displaced flow has ended. Their number is in a separate array that no lookup reads.
//! * Without the secret of the caller's hash, an attacker cannot choose the position of a flow. If
//!   the hash is not keyed, the damage is bounded: the stash has a pool, and lists with a cap.
//!
//! The design comes from no paper. One line per bucket and a fixed state per lane are ideas of
//! `dhash`.

mod batch;
mod indexed;
mod lanes;
pub mod layout;
mod sizes;
pub mod table;
mod walk;

pub use table::LineHash;
pub(crate) use walk::{Flows, FlowsMut};

/// A table of ids without values, for states that the caller keeps in an array of
/// [`slot_count`](crate::FlowTable::slot_count) elements, indexed by [`slot`](crate::FlowId::slot).
///
/// # Examples
///
/// ```
/// use flowloom_flow_table::TableHash;
/// use flowloom_flow_table::{FlowIndex, FlowTable, TableOptions, Tick, TimeoutClass};
/// let mut index = FlowIndex::<u64>::try_new(&TableOptions::for_flows(100))?;
/// let mut packets = vec![0_u32; index.slot_count() as usize];
/// let id = index.insert(7, TableHash::from_weak(0x42), (), TimeoutClass(0), Tick(0))?;
/// packets[id.slot() as usize] += 1;
/// assert_eq!(index.lookup(&7, TableHash::from_weak(0x42)), Some(id));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type FlowIndex<K> = LineHash<K, ()>;
