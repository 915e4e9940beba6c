//! No work at all: what is left is the cost of the path.

use flowloom_engine::{App, Composed, FlowState, FlowValue, Verdict};
use flowloom_packet::PacketView;

/// Looks at nothing and accepts everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Null;

/// The state of a flow of which nothing is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoState;

impl FlowState for NoState {
    const COLUMNS: &'static [&'static str] = &[];

    fn values(&self, _out: &mut Vec<FlowValue>) {}

    fn merge(&mut self, _later: Self) {}

    fn compose(&mut self, _later: &mut Self) -> Composed {
        Composed::Joined
    }
}

impl App for Null {
    type Flow = NoState;

    #[inline(always)]
    fn on_packet(&mut self, _packet: &PacketView<'_>, _flow: &mut NoState) -> Verdict {
        Verdict::Accept
    }
}
