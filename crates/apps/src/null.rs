//! An application that does nothing, to measure the cost of everything else.

use flowloom_engine::{App, Composed, FlowState, Verdict};
use flowloom_packet::PacketView;

use crate::save_state::SaveState;

/// Accepts every packet without reading it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Null;

/// An empty flow state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoState;

impl FlowState for NoState {
    fn compose(&mut self, _later: &mut Self) -> Composed {
        Composed::Joined
    }
}

impl SaveState for NoState {
    const BYTES: usize = 0;

    fn save(&self, _out: &mut Vec<u8>) {}

    fn load(_bytes: &[u8]) -> Option<Self> {
        Some(Self)
    }
}

impl App for Null {
    type Flow = NoState;

    #[inline(always)]
    fn on_packet(&mut self, _packet: &PacketView<'_>, _flow: &mut NoState) -> Verdict {
        Verdict::Accept
    }
}
