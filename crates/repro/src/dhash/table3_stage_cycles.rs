//! The stages of the pipeline and the balance between them [DHASH §VI-A, Tab. III, Fig. 5].

use std::hint::black_box;

use flowloom::flow_key::{FlowHasher, FlowKey};
use flowloom::packet::{DecodeOptions, LinkType, decode};
use flowloom::traffic::synth::{Generate, PaperTrace};
use flowloom_measure::chart::{Axis, Chart, Series};

use super::workload::{Flows, dhash};
use crate::experiment::{Context, Fidelity, Item, ItemError, Outcome, Value, Verdict};
use crate::timing::{Timed, nanoseconds};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "dhash/table3_stage_cycles",
    place: "§VI-A, Tab. III",
    claim: "input 35 + 30 + 50 cycles and application 50 + 100 + 700: seven pipelines balance one input",
    fidelity: &[Fidelity::Arithmetic, Fidelity::Measured],
    run,
};

const CAPTURE: f64 = 35.0;
const BALANCE: f64 = 30.0;
const FIFO: f64 = 50.0;
const NETWORK: f64 = 100.0;
const TRANSPORT: f64 = 700.0;

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
    let chart = Chart::bars("Our stages", stages, Axis::linear("ns"))
        .with(Series::bars("here", times.iter().copied()));
    let (our_input, our_work) = (times[0] + times[1] + times[2] / 2.0, times[2] / 2.0 + times[3]);
    let mut outcome = Outcome::new(Verdict::agrees(
        "the arithmetic is exact. How many workers balance one input with our own stages is the last of the values",
    ))
    .value(Value::new("input stage", "cycles", input).paper(115.0).band(115.0, 115.0))
    .value(Value::new("application by seven", "cycles", application / 7.0).paper(121.0).band(121.0, 122.0))
    .value(Value::new("pipelines that balance", "", application / input).paper(7.0).band(7.0, 8.0));
    for (name, time) in stages.into_iter().zip(&times) {
        outcome = outcome.value(Value::new(format!("ours: {name}"), "ns", *time));
    }
    Ok(outcome
        .value(Value::new("workers that balance one input, ours", "", our_work / our_input))
        .chart(chart)
        .note(format!("Lookups in {sessions} sessions, batches of 32. The queue is an ordinary one on one thread, a stand-in for a ring between two."))
        .judged())
}
