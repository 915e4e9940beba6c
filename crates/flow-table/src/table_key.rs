//! The key of a flow.

use core::fmt;

/// A type that can be the key of a flow: plain data of fixed size, compared with [`Eq`].
///
/// Every type with these traits implements it automatically.
///
/// # Examples
///
/// ```
/// use flowloom_flow_table::{FlowIndex, TableOptions};
///
/// #[derive(Clone, Copy, PartialEq, Eq, Debug)]
/// struct Endpoint {
///     address: u128,
///     port: u16,
/// }
///
/// let index = FlowIndex::<Endpoint>::try_new(&TableOptions::for_flows(100))?;
/// # Ok::<(), flowloom_flow_table::BuildError>(())
/// ```
pub trait TableKey: Copy + Eq + fmt::Debug + 'static {}

impl<T: Copy + Eq + fmt::Debug + 'static> TableKey for T {}
