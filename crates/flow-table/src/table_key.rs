//! The key of a flow.

use core::fmt;

use flowloom_flow_key::FlowKey;

/// A type that can be the key of a flow: plain words of fixed size, compared by their [`Eq`].
///
/// A marker trait: your own type needs nothing but these traits. Wrap a foreign type, such as a
/// tuple, in a `struct`.
///
/// # Examples
///
/// ```
/// use flowloom_flow_table::{FlowIndex, LineHashConfig, TableKey};
///
/// #[derive(Clone, Copy, PartialEq, Eq, Debug)]
/// struct Endpoint {
///     address: u128,
///     port: u16,
/// }
///
/// impl TableKey for Endpoint {}
///
/// let index = FlowIndex::<Endpoint>::try_new(&LineHashConfig::for_flows(100))?;
/// # Ok::<(), flowloom_flow_table::BuildError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the key of a flow",
    label = "not `TableKey`",
    note = "a key is `Copy + Eq + Debug + 'static` and implements the marker: `impl TableKey for …`; wrap a foreign type in a struct"
)]
pub trait TableKey: Copy + Eq + fmt::Debug + 'static {}

impl TableKey for FlowKey {}
impl TableKey for u32 {}
impl TableKey for u64 {}
impl TableKey for u128 {}
impl<const N: usize> TableKey for [u8; N] {}
impl<const N: usize> TableKey for [u32; N] {}
impl<const N: usize> TableKey for [u64; N] {}
