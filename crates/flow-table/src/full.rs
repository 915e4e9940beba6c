//! What a table answers when it has no space for a new flow.

use core::fmt;

/// The reason why a table refused a flow. An outcome to count, not a failure of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FullReason {
    /// The table contains the number of flows for which it was built.
    Capacity,
    /// The bucket is full, and the pool has no state left.
    PoolExhausted,
    /// The bucket's conflict list has its maximum length: chance if rare, an attack if frequent.
    ListCap,
    /// Growing further would exceed the memory limit or the memory of the machine.
    Memory,
}

impl fmt::Display for FullReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Capacity => "the table holds as many flows as it may",
            Self::PoolExhausted => "the bucket is full and the pool is empty",
            Self::ListCap => "the bucket's conflict list is at its cap",
            Self::Memory => "no memory to grow",
        })
    }
}

/// The table refused a new flow, whose value was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// The limit that was reached.
    pub reason: FullReason,
}

impl Full {
    /// Adds the value that was to be inserted, which a table that refuses a flow has not taken.
    pub(crate) fn with_value<V>(self, value: Option<V>) -> Refused<V> {
        let value = value.expect("a table calls `make` only if it has space");
        Refused { value, reason: self.reason }
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl core::error::Error for Full {}

/// The table refused a new flow, and gives its value back.
///
/// It converts into [`Full`] with `?`, where the value is not needed.
///
/// # Examples
///
/// ```
/// use flowloom_flow_table::{FlowMap, FullReason};
/// let mut map = FlowMap::builder().max_flows(1).build()?;
/// map.insert(1, String::from("first"))?;
/// let refused = map.insert(2, String::from("second")).expect_err("the map has one flow");
/// assert_eq!((refused.value.as_str(), refused.reason), ("second", FullReason::Capacity));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Refused<V> {
    /// The value that was to be inserted.
    pub value: V,
    /// The limit that was reached.
    pub reason: FullReason,
}

impl<V> fmt::Debug for Refused<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<V> fmt::Display for Refused<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<V> core::error::Error for Refused<V> {}

impl<V> From<Refused<V>> for Full {
    fn from(refused: Refused<V>) -> Self {
        Self { reason: refused.reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString;

    #[test]
    fn refusal_states_its_reason_for_any_value() {
        struct Plain;
        let refused = Refused { value: Plain, reason: FullReason::Memory };
        assert_eq!(refused.to_string(), "no memory to grow");
        assert_eq!(format!("{refused:?}"), "Refused { reason: Memory, .. }");
        assert_eq!(Full::from(refused), Full { reason: FullReason::Memory });
    }
}
