//! Cost of a scheduling decision [HRWTREE §4.6, Fig. 7, Fig. 8].

use std::hint::black_box;

use flowloom::dpi::reference::Rescanner;
use flowloom::dpi::{Transport, builtin};
use flowloom::flow_key::FlowHasher;
use flowloom::flow_key::hash::fold::split_mix;
use flowloom::packet::{DecodeOptions, LinkType, decode};
use flowloom::scheduler::placement::adaptive::{AdaptiveForm, Threshold};
use flowloom::scheduler::{
    Adaptive, Cached, Decision, DirectHash, FlowPin, HrwFlat, HrwTree, LoadView, Placement, SetupError,
    WorkItem,
};
use flowloom::traffic::synth::{FrameSize, Generate, Mix, MixConfig};
use flowloom_measure::chart::{Axis, Chart, Series};
use flowloom_measure::{Ratio, Rounds, Summary};

use crate::experiment::{Agreement, Band, Context, Fidelity, Item, ItemError, Outcome, Scale, Value};
use crate::timing::{Timed, compare, nanoseconds};
use crate::variation::BOTH_RUN;
use crate::virtual_time::{l7, topology};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "hrwtree/fig7_8_overhead",
    place: "Figs. 7–8, §4.6",
    claim: "a scheduler takes 0.49 to 0.57 µs per packet, about a tenth of all; matching takes 76 %",
    numbers: "text of §4.6: three shares and two times",
    fidelity: &[Fidelity::Measured],
    unswitched: BOTH_RUN,
    run,
    ..Item::PLAIN
};

const BATCH: usize = 32;

/// The lowest and the highest cost of a scheduler in the paper, in nanoseconds. That these belong
/// to flat HRW and the adaptive tree is an interpretation of a figure without numbers.
const FLAT_NS: f64 = 490.0;
const ADAPTIVE_NS: f64 = 570.0;

/// Parts of a packet's time and their shares in the paper, in percent.
const PARTS: [(&str, f64); 3] = [("preprocessing", 5.0), ("scheduling", 10.0), ("matching", 76.0)];

/// Returns the nanoseconds of preprocessing a packet, and of matching its connection's buffer: each
/// pattern in turn over the whole buffer, which has the sizes of the model's and no match.
fn preprocessing_and_matching(context: &Context<'_>) -> Result<[f64; 2], ItemError> {
    let count = context.scale.pick(32, 256, 1024);
    let config = MixConfig {
        flows: count,
        packets: count,
        size: FrameSize::Fixed(700),
        seed: context.seed,
        ..MixConfig::default()
    };
    let mut mix = Mix::new(config).map_err(ItemError::during("making packets"))?;
    let (mut frames, mut frame) = (Vec::new(), Vec::new());
    while mix.next_into(&mut frame).is_some() {
        frames.push(frame.clone());
    }
    let mut state = context.seed;
    let traffic = l7(context).generate(10_000, context.seed).map_err(ItemError::during("making jobs"))?;
    let buffers: Vec<Vec<u8>> = traffic.jobs[..frames.len().min(traffic.jobs.len())]
        .iter()
        .map(|job| (0..job.bytes).map(|_| (split_mix(&mut state) >> 56) as u8).collect())
        .collect();
    let matcher = Rescanner::new(&builtin()).map_err(ItemError::during("compiling patterns"))?;
    let hasher = FlowHasher::with_seed(context.seed);
    let times = nanoseconds(
        context,
        context.scale.pick(3, 5, 9),
        vec![
            Timed::new("preprocessing", frames.len() as u64, || {
                let mut buffer = [0; 2048];
                for frame in &frames {
                    if let Ok(headers) = decode(LinkType::ETHERNET, frame, DecodeOptions::default()) {
                        buffer[..frame.len()].copy_from_slice(frame);
                        black_box((hasher.hash(&headers.key), &buffer));
                    }
                }
            }),
            Timed::new("matching", buffers.len() as u64, || {
                for buffer in &buffers {
                    black_box(matcher.first(Transport::Tcp, buffer));
                }
            }),
        ],
    )?;
    Ok([times[0], times[1]])
}

/// Adds the shares of a packet's time, of which scheduling takes some nanoseconds.
fn with_parts(
    context: &Context<'_>,
    mut outcome: Outcome,
    scheduling_ns: f64,
) -> Result<Outcome, ItemError> {
    let [preprocessing, matching] = preprocessing_and_matching(context)?;
    let parts = [preprocessing, scheduling_ns, matching];
    let shares = parts.map(|part| part * 100.0 / parts.iter().sum::<f64>());
    for ((name, paper), share) in PARTS.into_iter().zip(shares) {
        let value = Value::new(format!("{name}, of a packet's time"), "%", share).paper(paper);
        outcome = outcome.value(match name {
            "matching" => value.within(Band::at_least(50.0)).checked_if(context.scale > Scale::Smoke),
            _ => value.not_comparable("the paper's trace, patterns and stack are not available"),
        });
    }
    Ok(outcome.chart(
        Chart::bars("Parts of a packet's time", PARTS.map(|part| part.0), Axis::log("%"))
            .with(Series::bars("here", shares))
            .with(Series::bars("paper", PARTS.map(|part| part.1))),
    ))
}

/// Returns whether one time is within a factor of two of another.
fn is_near(ours: f64, paper: f64) -> bool {
    (paper / 2.0..=paper * 2.0).contains(&ours)
}

/// The limit for a decision of Flowloom's own policy.
const FLOWPIN_NS_MAX: f64 = 35.0;

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let tree = topology("8x2x4")?;
    let workers = tree.workers();
    let failed = |error: SetupError| ItemError::during("setting up a policy")(error);
    let adaptive =
        Adaptive::new(&tree, AdaptiveForm::OrderSafe, Threshold::PAPER, Adaptive::BITS).map_err(failed)?;
    let mut policies: Vec<(&str, Box<dyn Placement>)> = vec![
        ("direct hash", Box::new(DirectHash::new(workers))),
        ("flat HRW", Box::new(HrwFlat::new(workers))),
        ("flat HRW, remembered", Box::new(Cached::new(HrwFlat::new(workers), 16).map_err(failed)?)),
        ("tree", Box::new(HrwTree::new(&tree))),
        ("tree, remembered", Box::new(Cached::new(HrwTree::new(&tree), 16).map_err(failed)?)),
        ("adaptive, order-safe", Box::new(adaptive)),
        ("flowpin", Box::new(FlowPin::new(&tree, FlowPin::BITS).map_err(failed)?)),
    ];
    let count = context.scale.pick(4_096, 65_536, 262_144);
    let mut state = context.seed;
    let items: Vec<WorkItem> = (0..count)
        .map(|_| {
            // Two thousand flows.
            let mut flow = split_mix(&mut state) % 2000;
            WorkItem { digest: (split_mix(&mut flow) >> 32) as u32, bytes: 700 }
        })
        .collect();
    let policies_count = policies.len();
    let mut rounds = Rounds::new(context.scale.pick(3, 15, 31));
    for (name, policy) in &mut policies {
        let items = &items;
        // Workers whose counters lag by a batch.
        let (mut sent, mut completed) = (vec![0_u64; 64], vec![0_u64; 64]);
        rounds = rounds.variant(*name, move || {
            let mut decisions = [Decision::Drop; BATCH];
            for batch in items.chunks(BATCH) {
                let load = LoadView { sent: &sent, completed: &completed, ..LoadView::idle() };
                policy.place(batch, &load, &mut decisions[..batch.len()]);
                completed.copy_from_slice(&sent);
                for decision in &decisions[..batch.len()] {
                    if let Decision::To(worker) = decision {
                        sent[worker.index()] += 1;
                    }
                }
                black_box(&decisions);
            }
            items.len()
        });
    }
    let outcome = compare(rounds, context)?;
    context.check_stop()?;
    let nanos = |at: usize| {
        Summary::from_samples(outcome.samples[at].cpu_ns.iter().map(|&ns| ns as f64 / f64::from(count)))
            .median
    };
    let is_timed = context.scale > Scale::Smoke;
    let remembered = Ratio::of_rounds(&outcome.samples[1].cpu_ns, &outcome.samples[2].cpu_ns);
    let pinned = Ratio::of_rounds(&outcome.samples[1].cpu_ns, &outcome.samples[6].cpu_ns);
    let times: Vec<f64> = (0..policies_count).map(nanos).collect();
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    let most = times.iter().copied().fold(0.0, f64::max);
    let (flat, adaptive) = (times[1], times[5]);
    let mut result = Outcome::new(Agreement::from_check(
        is_near(flat, FLAT_NS) && is_near(adaptive, ADAPTIVE_NS),
        format!("flat HRW takes {flat:.0} ns and feedback {adaptive:.0}, within a factor of two of the paper's"),
        format!(
            "decisions cost {least:.1} to {most:.0} ns on a processor of today, flat HRW {flat:.0} and feedback {adaptive:.0}, not \
             {FLAT_NS:.0} to {ADAPTIVE_NS:.0}. What the paper spends on weights, a memory of eight bytes per flow saves; feedback costs \
             more than any hash"
        ),
    ))
    .value(Value::new("remembered flat HRW: times faster than flat", "", remembered.median).band(2.0, 100.0).checked_if(is_timed))
    .value(Value::new("flowpin: times faster than flat HRW", "", pinned.median).band(0.5, 100.0).checked_if(is_timed));
    // The bands are within the paper's lowest cost. Weights of all threads, or the load of all of
    // them, take time; a hash or a memory of decisions takes little.
    for (at, (name, paper, (least, most))) in [
        ("direct hash", None, (0.3, 30.0)),
        ("flat HRW", Some(FLAT_NS), (10.0, FLAT_NS)),
        ("flat HRW, remembered", None, (0.5, 50.0)),
        ("tree", None, (3.0, 300.0)),
        ("tree, remembered", None, (0.5, 50.0)),
        ("adaptive, order-safe", Some(ADAPTIVE_NS), (10.0, FLAT_NS)),
        ("flowpin", None, (0.5, FLOWPIN_NS_MAX)),
    ]
    .into_iter()
    .enumerate()
    {
        let value = Value::new(name, "ns", nanos(at)).band(least, most).checked_if(is_timed);
        result = result.value(match paper {
            Some(paper) => value.paper(paper),
            None => value,
        });
    }
    Ok(with_parts(context, result, adaptive)?
        .chart_of("A decision", Axis::log("ns"), |value| value.unit == "ns")
        .note("Over 64 threads, 32 packets at a time, thread CPU time, the bookkeeping of counters included.")
        .note(
            "The parts of a packet's time are ours: a decoder, a hash and a copy; the adaptive tree; each of the built-in patterns over buffers of \
             the model's sizes that match none. That matching is most of the time does not depend on them, the shares beside it do.",
        ))
}
