//! The subjects of comparisons: columns, and values derived from several columns.

use std::borrow::Cow;
use std::net::IpAddr;

use flowloom_record::{Derived, Row, Schema, SchemaColumn};

/// The subject of a comparison.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    /// The value of a column, or of one of two: of either end.
    Column(usize, Option<usize>),
    /// A value that follows from columns.
    Derived(Derived),
}

impl Subject {
    /// Returns the subject of a name, and a column of the same kind that is computed with all
    /// that it reads.
    pub(super) fn named(name: &str, schema: &Schema) -> Option<(Self, SchemaColumn)> {
        if let Some([source, destination]) = schema.ends(name) {
            return Some((Self::Column(source.index, Some(destination.index)), source));
        }
        let found = schema.named(name)?;
        let derived = found.index.checked_sub(schema.columns().len());
        let derived = derived.map(|at| Self::Derived(Derived::all(schema)[at]));
        Some((derived.unwrap_or(Self::Column(found.index, None)), found))
    }

    /// Returns the numbers of a record.
    pub(super) fn numbers(&self, row: &Row) -> [Option<u64>; 2] {
        let number = |index: usize| row.value(index).number();
        match *self {
            Self::Column(one, other) => [number(one), other.and_then(number)],
            Self::Derived(derived) => [derived.value(row).number(), None],
        }
    }

    /// Returns the addresses of a record.
    pub(super) fn addresses(&self, row: &Row) -> [Option<IpAddr>; 2] {
        match *self {
            Self::Column(one, other) => {
                [row.value(one).address(), other.and_then(|other| row.value(other).address())]
            }
            Self::Derived(_) => [None, None],
        }
    }

    /// Returns the text of a record.
    pub(super) fn text<'a>(&self, row: &'a Row) -> Option<Cow<'a, str>> {
        match *self {
            Self::Column(one, _) => row.value(one).text(),
            Self::Derived(_) => None,
        }
    }
}
