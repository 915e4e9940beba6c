//! Values that follow from two columns of a record.

use crate::{Column, Kind, Row, Schema, SchemaColumn, Value, element};

/// A value that records do not have, but that follows from two of their columns.
///
/// # Examples
///
/// ```
/// use flowloom_flow_key::FlowKey;
/// use flowloom_record::{Column, Derived, Kind, Row, Schema, Value, element};
///
/// let schema = Schema::new([
///     Column::new("start", Kind::Time, "The first packet.").with_elements(element::START),
///     Column::new("end", Kind::Time, "The last packet.").with_elements(element::END),
/// ]);
/// let mut row = Row::new(FlowKey::from_v4(1, 2, 3, 4, 6).0);
/// row.values.extend([Value::Number(5), Value::Number(7)]);
/// let duration = Derived::all(&schema)[0];
/// assert_eq!((duration.column().name, duration.value(&row)), ("duration", Value::Number(2)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Derived {
    column: Column,
    from: usize,
    to: Option<usize>,
    is_difference: bool,
}

impl Derived {
    /// Returns the derived values of records with this schema.
    #[must_use]
    pub fn all(schema: &Schema) -> Vec<Self> {
        let sum = |name: &'static str, of: &str, reverse: &str| {
            let (from, to) = (schema.stored(of)?, schema.stored(reverse));
            let column = Column::new(name, from.column.kind, "The sum of both directions.");
            Some(Self::new(column, from, to, false))
        };
        let duration = || {
            let time = |elements: &[element::Element]| schema.with_element(elements[0].number);
            let (start, end) = (time(element::START)?, time(element::END)?);
            let column = Column::new("duration", Kind::Duration, "The time from start to end.");
            Some(Self::new(column, start, Some(end), true))
        };
        let sums = [
            sum("total_packets", "packets", "reverse_packets"),
            sum("total_bytes", "bytes", "reverse_bytes"),
        ];
        sums.into_iter().chain([duration()]).flatten().collect()
    }

    fn new(column: Column, from: SchemaColumn, to: Option<SchemaColumn>, is_difference: bool) -> Self {
        let column = column.in_group(from.column.group);
        Self { column, from: from.index, to: to.map(|to| to.index), is_difference }
    }

    /// Returns the column that shows the value. Its group is that of the columns that the value
    /// follows from.
    #[must_use]
    pub const fn column(&self) -> &Column {
        &self.column
    }

    /// Returns the value of a record.
    #[must_use]
    pub fn value(&self, row: &Row) -> Value {
        let number = |index: usize| row.value(index).number();
        let (from, to) = (number(self.from), self.to.and_then(number));
        if self.is_difference {
            return from.zip(to).map_or(Value::None, |(from, to)| Value::Number(to.saturating_sub(from)));
        }
        Value::Number(from.unwrap_or(0).saturating_add(to.unwrap_or(0)))
    }
}
