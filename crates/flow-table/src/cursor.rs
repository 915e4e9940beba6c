//! The position of a walk over a table.

/// A position in the order of slots, for walking over a table that changes meanwhile.
///
/// A walk begins with the default; your own table continues from a [`slot`](Cursor::slot).
///
/// ```
/// use flowloom_flow_table::{Cursor, FlowId};
/// // Generations of tenants by slot, even where there is none.
/// let next_live = |generations: &[u32], cursor: Cursor| {
///     let mut rest = (0..).zip(generations).skip(cursor.slot() as usize);
///     rest.find_map(|(slot, &generation)| {
///         Some((FlowId::new(slot, generation)?, Cursor::before(slot + 1)))
///     })
/// };
/// let (first, cursor) = next_live(&[0, 5, 2, 7], Cursor::default()).unwrap();
/// let (second, cursor) = next_live(&[0, 5, 2, 7], cursor).unwrap();
/// assert_eq!((first.slot(), second.slot(), next_live(&[0, 5, 2, 7], cursor)), (1, 3, None));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Cursor(pub(crate) u32);

impl Cursor {
    /// Returns the position before a slot.
    pub const fn before(slot: u32) -> Self {
        Self(slot)
    }

    /// Returns the first slot that the walk has not visited.
    pub const fn slot(self) -> u32 {
        self.0
    }
}
