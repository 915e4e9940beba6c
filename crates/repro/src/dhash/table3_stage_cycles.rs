//! The stages of the pipeline and the balance between them [DHASH §VI-A, Tab. III, Fig. 5].

use std::hint::black_box;

use flowloom::flow_key::{FlowHasher, FlowKey};
use flowloom::packet::{DecodeOptions, LinkType, decode};
use flowloom::traffic::synth::{Generate, PaperTrace};
use flowloom_measure::chart::{Axis, Chart, Series};
use flowloom_measure::clock::time_stamps_per_ns;

use super::workload::{Flows, dhash};
use crate::experiment::{Agreement, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::timing::{Timed, nanoseconds};
use crate::variation::NO_EFFECT;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "dhash/table3_stage_cycles",
    place: "§VI-A, Tab. III",
    claim: "input 35 + 30 + 50 cycles and application 50 + 100 + 700: seven pipelines balance one input",
    numbers: "Tab. III as printed, and the sums in the text of §VI-A",
    fidelity: &[Fidelity::Arithmetic, Fidelity::Measured],
    unswitched: NO_EFFECT,
    run,
    ..Item::PLAIN
};

const CAPTURE: f64 = 35.0;
const BALANCE: f64 = 30.0;
const FIFO: f64 = 50.0;
const NETWORK: f64 = 100.0;
const TRANSPORT: f64 = 700.0;

/// Cycles and names in the paper of the four stages; its queue has two entries, one per side.
const PAPER: [(f64, &str); 4] =
    [(NETWORK, "L3"), (BALANCE, "LB"), (2.0 * FIFO, "FIFO, twice"), (TRANSPORT, "TCP")];

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let input = CAPTURE + BALANCE + FIFO;
    let application = FIFO + NETWORK + TRANSPORT;
    let sessions = context.scale.pick(1024, 65_536, 262_144);
    let mut trace =
        PaperTrace::with_sessions(sessions, context.seed).map_err(ItemError::during("making the trace"))?;
    let mut frames = Vec::new();
    let mut frame = Vec::new();
    while frames.len() < 4096 && trace.next_into(&mut frame).is_some() {
        frames.push(frame.clone());
    }
    let hasher = FlowHasher::with_seed(context.seed);
    let tuple_of = |frame: &Vec<u8>| decode(LinkType::ETHERNET, frame, DecodeOptions::default()).ok();
    let keys: Vec<FlowKey> = frames.iter().filter_map(tuple_of).map(|headers| headers.key).collect();
    let flows = Flows::new(u32::try_from(sessions).unwrap_or(u32::MAX), context.seed);
    let table = dhash(&flows)?;
    let mut ring = std::collections::VecDeque::with_capacity(64);
    let count = frames.len() as u64;
    let times = nanoseconds(
        context,
        context.scale.pick(3, 9, 25),
        vec![
            Timed::new("decode and key", count, || {
                for frame in &frames {
                    black_box(tuple_of(frame).map(|headers| headers.key));
                }
            }),
            Timed::new("hash", count, || {
                for key in &keys {
                    black_box(hasher.hash(key));
                }
            }),
            Timed::new("queue, both sides", count, || {
                for number in 0..count {
                    ring.push_back([number; 4]);
                    black_box(ring.pop_front());
                }
            }),
            Timed::new("flow lookup and state", flows.keys.len() as u64, || {
                black_box(flows.hits(&table, 32));
            }),
        ],
    )?;
    let stages = ["decode and key", "hash", "queue, both sides", "flow lookup and state"];
    let (our_input, our_work) = (times[0] + times[1] + times[2] / 2.0, times[2] / 2.0 + times[3]);
    let mut outcome = Outcome::new(Agreement::definition(
        "the arithmetic is exact. How many workers balance one input with our own stages is the last of the values",
    ))
    .value(Value::new("T_IP, without the queue", "cycles", CAPTURE + BALANCE).paper(65.0).band(65.0, 65.0))
    .value(Value::new("T_AP, without the queue", "cycles", NETWORK + TRANSPORT).paper(800.0).band(800.0, 800.0))
    .value(Value::new("input stage", "cycles", input).paper(115.0).band(115.0, 115.0))
    .value(Value::new("application by seven", "cycles", application / 7.0).paper(121.0).band(121.0, 122.0))
    .value(Value::new("pipelines that balance", "", application / input).paper(7.0).band(7.0, 8.0));
    for (name, time) in stages.into_iter().zip(&times) {
        outcome = outcome.value(Value::new(format!("ours: {name}"), "ns", *time));
    }
    let per_ns = time_stamps_per_ns();
    if let Some(per_ns) = per_ns {
        for ((name, time), (paper, of)) in stages.into_iter().zip(&times).zip(PAPER) {
            let name = format!("ours: {name} (the paper's {of})");
            let value = Value::new(name, "TSC cycles", time * per_ns).paper(paper);
            outcome =
                outcome.value(value.not_comparable("another processor, and stages that do other work"));
        }
    }
    outcome = outcome.value(Value::new("workers that balance one input, ours", "", our_work / our_input));
    Ok(charted(outcome, stages, &times, per_ns)
        .note(format!("Lookups in {sessions} sessions, batches of 32. The queue is an ordinary one on one thread, a stand-in for a ring between two."))
        .note("The paper's processor is another one, and its stages do other work: L3 validates headers and defragments, TCP is all of it and not its lookup \
               alone. Pcap, 35 cycles, has no counterpart: our frames lie in memory.")
        .note(per_ns.map_or_else(
            || String::from("This processor has no time stamp counter that ticks at one rate, or the system does not say so: our stages are in nanoseconds only."),
            |per_ns| format!("TSC cycles are a thread's nanoseconds by {per_ns:.3}, the rate of the time stamp counter as counted here: it is not the core's clock, which changes."),
        ))
        .judged())
}

/// Adds the chart of the stages: in cycles, beside those of the paper, if cycles can be counted.
fn charted(outcome: Outcome, stages: [&str; 4], times: &[f64], per_ns: Option<f64>) -> Outcome {
    let (unit, scale) = per_ns.map_or(("ns", 1.0), |per_ns| ("TSC cycles", per_ns));
    let mut chart = Chart::bars("Stages of a packet", stages, Axis::linear(unit))
        .with(Series::bars("here", times.iter().map(|time| time * scale)));
    if per_ns.is_some() {
        chart = chart.with(Series::bars("paper", PAPER.map(|(cycles, _)| cycles)));
    }
    outcome.chart(chart)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chart_without_a_cycle_counter_is_in_nanoseconds() {
        let outcome = |per_ns| {
            charted(
                Outcome::new(Agreement::agrees("")),
                ["a", "b", "c", "d"],
                &[1.0, 2.0, 3.0, 4.0],
                per_ns,
            )
        };
        let chart = outcome(None).charts.remove(0);
        assert_eq!((chart.y.label.as_str(), chart.series.len()), ("ns", 1));
        let chart = outcome(Some(2.5)).charts.remove(0);
        assert_eq!((chart.y.label.as_str(), chart.series.len()), ("TSC cycles", 2));
        assert_eq!((chart.series[0].points[3].1, chart.series[1].points[3].1), (10.0, TRANSPORT));
    }
}
