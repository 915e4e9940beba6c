//! The share of misses in an offload engine's time [TCBCACHE §2.1.1, Fig. 1b].

use flowloom::tcb_cache::cost::OffloadEngine;
use flowloom_measure::chart::Axis;

use crate::experiment::{Agreement, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::variation::NO_EFFECT;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "tcbcache/fig1b_miss_share",
    place: "§2.1.1, Fig. 1b",
    claim: "on a miss, access to connection state is more than half of an offload engine's time",
    numbers: "text of §2.1.1: a limit",
    fidelity: &[Fidelity::Arithmetic],
    unswitched: NO_EFFECT,
    run,
    ..Item::PLAIN
};

fn run(_context: &Context<'_>) -> Result<Outcome, ItemError> {
    let engine = OffloadEngine::paper(1.0);
    let memory = engine.memory_ns / (engine.packet_ns + engine.memory_ns) * 100.0;
    let state = engine.memory_ns + engine.hit_ns;
    let with_search = state / (engine.packet_ns + state) * 100.0;
    let several = |k: f64| k * engine.memory_ns / (engine.packet_ns + k * engine.memory_ns) * 100.0;
    Ok(Outcome::new(Agreement::agrees(
        "on the edge: 49.4 % by memory alone, 52.4 % with the search before it; clear with two accesses per miss",
    ))
    .value(Value::new("memory access of packet and memory", "%", memory).paper_above(50.0).band(49.0, 50.0).apart("50 ns of 101.2 ns are 49.4 %"))
    .value(Value::new("search and memory access of all", "%", with_search).paper_above(50.0).band(52.0, 53.0))
    .value(Value::new("with two memory accesses", "%", several(2.0)).band(66.0, 67.0))
    .note("51.2 ns per packet in order, 6.4 ns per hit, 50 ns per memory access, as in the paper")
    .chart_of("Share of a miss in the time of a packet", Axis::linear("%"), |value| value.unit == "%")
    .judged())
}
