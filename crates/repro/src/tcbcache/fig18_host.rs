//! A host's protocol time and response time [TCBCACHE §4.5, Figs. 18–19].

use flowloom::tcb_cache::cost::HostModel;
use flowloom_measure::chart::Axis;

use crate::experiment::{Agreement, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::variation::NO_EFFECT;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "tcbcache/fig18_host",
    place: "§4.5, Figs. 18–19",
    claim: "in a processor, up to 23 % of TCP/IP time and up to 5 % of response time are saved",
    numbers: "text of §4.5: two limits, which no item computes",
    fidelity: &[Fidelity::OutOfReach],
    unswitched: NO_EFFECT,
    run,
    ..Item::PLAIN
};

fn run(_context: &Context<'_>) -> Result<Outcome, ItemError> {
    let mut outcome = Outcome::new(Agreement::cannot_run(
        "the figures come from a full-system simulator with models of the processor, the card and the stack of 2010; \
         miss ratios alone do not give them. Below is what the latencies of the paper's Table 1 add up to",
    ));
    for packet_cycles in [2000.0, 5000.0] {
        for lines in [1.0, 4.0] {
            let host = HostModel::paper_latencies(packet_cycles, lines);
            let saved = (1.0 - host.packet_cycles(0.28) / host.packet_cycles(0.56)) * 100.0;
            let name = format!("additive model, {packet_cycles} cycles per packet, {lines} lines per miss");
            outcome = outcome.value(Value::new(name, "%", saved));
        }
    }
    Ok(outcome.chart_of("What the additive model saves", Axis::linear("%"), |value| value.unit == "%").note("from the paper's miss ratios for BU, 56 and 28 %; how many cycles per packet takes otherwise is not stated"))
}
