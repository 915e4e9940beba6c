//! Columns that states of several applications have.

use flowloom_flow_key::Direction;
use flowloom_record::{Column, Group, Kind, Word, element};

/// The endpoint of the key that is the source.
pub(crate) const SOURCE_END: Column =
    source_end("source_end", "The endpoint of the key that is the source.");

/// The name of a flow's protocol.
pub(crate) const LABEL: Column =
    Column::new("l7_protocol", Kind::Word(&[]), "The name of the protocol; `-` if no pattern has matched.")
        .in_group(Group::Label)
        .with_elements(element::APPLICATION);

/// Returns the column of a name that says which endpoint of the key is the source.
pub(crate) const fn source_end(name: &'static str, description: &'static str) -> Column {
    const ENDS: &[Word] = &[Word::new("low", 0), Word::new("high", 0), Word::new("-", 0)];
    Column::new(name, Kind::Word(ENDS), description).in_group(Group::Internal)
}

/// Returns the word of such a column.
pub(crate) const fn end_word(source: Option<Direction>) -> &'static str {
    match source {
        Some(Direction::LowToHigh) => "low",
        Some(Direction::HighToLow) => "high",
        None => "-",
    }
}
