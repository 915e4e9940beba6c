//! What the passes over the parts of an input share.

use std::sync::Arc;

use flowloom_packet::clock::PacketClock;

use crate::config::EngineConfig;
use crate::control::{Control, Gauges};

/// The true state of the input before a part that began with another state.
#[derive(Clone)]
pub(crate) struct Begin<B> {
    pub(crate) boundary: B,
    /// The state of the clock.
    pub(crate) clock: PacketClock,
}

/// The data that all parts of a run share.
pub(crate) struct RunContext<'a, C> {
    pub(crate) config: &'a EngineConfig,
    pub(crate) cut: &'a C,
    pub(crate) control: &'a Control,
    pub(crate) gauges: Arc<Gauges>,
    pub(crate) cpus: Vec<Option<u32>>,
}
