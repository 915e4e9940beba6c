//! Which end of a flow is its source, of every application that knows.

use flowloom_flow_key::Direction;

use crate::accounting::Accounted;
use crate::firewall::FirewallFlow;
use crate::{L7Flow, NoState, Probed, TcpFlow};

/// A flow state that may know which end is the source.
pub trait SourceWay {
    /// Returns the way of packets from the source to the destination; `None` where the state does not know it.
    fn source_way(&self) -> Option<Direction>;
}

impl SourceWay for NoState {
    fn source_way(&self) -> Option<Direction> {
        None
    }
}

impl SourceWay for TcpFlow {
    fn source_way(&self) -> Option<Direction> {
        Some(self.source().0)
    }
}

impl SourceWay for Accounted {
    fn source_way(&self) -> Option<Direction> {
        Some(self.way())
    }
}

/// The end that the flow was judged for.
impl SourceWay for FirewallFlow {
    fn source_way(&self) -> Option<Direction> {
        self.way()
    }
}

/// The end that sent the first packet.
impl SourceWay for L7Flow {
    fn source_way(&self) -> Option<Direction> {
        self.way()
    }
}

impl<F: SourceWay> SourceWay for Probed<F> {
    fn source_way(&self) -> Option<Direction> {
        self.inner().source_way()
    }
}
