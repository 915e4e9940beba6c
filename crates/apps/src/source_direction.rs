//! The direction of packets from a flow's source, for every application that knows the source.

use flowloom_flow_key::Direction;
use flowloom_record::{Column, Group, Kind, Word, element};

#[cfg(feature = "l7-filter")]
use crate::L7Flow;
#[cfg(feature = "cache-probe")]
use crate::Probed;
use crate::accounting::Accounted;
#[cfg(feature = "l7-filter")]
use crate::accounting::Labelled;
use crate::accounting::fields::Detailed;
#[cfg(feature = "firewall")]
use crate::firewall::FirewallFlow;
use crate::{NoState, TcpFlow};

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

/// A flow state that may know which endpoint is the source.
pub trait SourceDirection {
    /// Returns the direction of packets from the source to the destination, or `None` if the state
    /// does not know it.
    fn source_direction(&self) -> Option<Direction>;
}

impl SourceDirection for NoState {
    fn source_direction(&self) -> Option<Direction> {
        None
    }
}

impl SourceDirection for TcpFlow {
    fn source_direction(&self) -> Option<Direction> {
        Some(self.source().0)
    }
}

impl SourceDirection for Accounted {
    fn source_direction(&self) -> Option<Direction> {
        Some(self.source_direction())
    }
}

impl<F> SourceDirection for Detailed<F> {
    fn source_direction(&self) -> Option<Direction> {
        Some(self.record().source_direction())
    }
}

#[cfg(feature = "l7-filter")]
impl<F> SourceDirection for Labelled<F> {
    fn source_direction(&self) -> Option<Direction> {
        Some(self.detailed().record().source_direction())
    }
}

/// The direction for which the flow was judged.
#[cfg(feature = "firewall")]
impl SourceDirection for FirewallFlow {
    fn source_direction(&self) -> Option<Direction> {
        self.source_direction()
    }
}

/// The direction of the first packet.
#[cfg(feature = "l7-filter")]
impl SourceDirection for L7Flow {
    fn source_direction(&self) -> Option<Direction> {
        self.source_direction()
    }
}

#[cfg(feature = "cache-probe")]
impl<F: SourceDirection> SourceDirection for Probed<F> {
    fn source_direction(&self) -> Option<Direction> {
        self.inner().source_direction()
    }
}
