//! Machines, traffic and runs in virtual time, shared by the items on schedulers.

use flowloom::flow_key::hash::fold::split_mix;
use flowloom::scheduler::placement::adaptive::{AdaptiveForm, Threshold};
use flowloom::scheduler::registry::{Policy, Scheme};
use flowloom::scheduler::sim::models::Model;
use flowloom::scheduler::sim::{Machine, Offered, Pace, Report, pull, push};
use flowloom::scheduler::{
    Adaptive, HrwTree2009, LastFlowBundle, Placement, SetupError, Topology, WorkerCount, laws,
};

use crate::experiment::{Context, ItemError};
use crate::variation::{Guess, Switch};

/// The preference for the last worker that gives Last Flow Bundle its name.
pub(crate) const LAST_WORKER: Switch =
    Switch::mechanism("last-worker", "bundles go to any worker, not to their last one");

/// The order of service, the slides' reason for the highest maximum latency.
pub(crate) const SERVICE_ORDER: Switch =
    Switch::mechanism("service-order", "the receive queue is served before bundles");

/// The caches, because of which the location of a flow's state and of a packet matters.
pub(crate) const CACHES: Switch =
    Switch::mechanism("caches", "flows' states and packets cost nothing to fetch, wherever they are");

/// The imbalance of hashing.
pub(crate) const IMBALANCE: Switch = Switch::mechanism(
    "imbalance",
    "in place of hashing, a flow's first packet chooses the least loaded worker",
);

/// The adaptive tree's feedback.
pub(crate) const FEEDBACK: Switch =
    Switch::mechanism("feedback", "queue lengths never overrule the hash of the adaptive tree");

/// The operating system's scheduler.
pub(crate) const OS_MOVES: Switch =
    Switch::mechanism("os-moves", "the operating system leaves threads where they are");

const FACTORS: &[f64] = &[0.0, 0.5, 2.0, 4.0];
const FACTOR_MAX: f64 = 100.0;

/// Cost of fetching a packet's cache lines from the core that has inspected it.
pub(crate) const MOVE_COST: Guess = Guess::new(
    "move-cost",
    "×",
    1.0,
    FACTORS,
    "cycles to fetch a packet that another core inspected, of the model's",
)
.within(0.0, FACTOR_MAX);
/// Cost of a lock.
pub(crate) const LOCK_COST: Guess =
    Guess::new("lock-cost", "×", 1.0, FACTORS, "cycles of a contended lock, of the model's")
        .within(0.0, FACTOR_MAX);
/// Cost of fetching a flow's state.
pub(crate) const CACHE_COST: Guess =
    Guess::new("cache-cost", "×", 1.0, FACTORS, "cycles to fetch a flow's state, of the model's")
        .within(0.0, FACTOR_MAX);
/// Jobs of one flow in the HTTP-like traffic.
pub(crate) const ELEPHANT: Guess = Guess::new(
    "elephant",
    "‰",
    0.0,
    &[20.0, 50.0, 150.0],
    "jobs that are one connection's, for a tail of sizes",
)
.within(0.0, 900.0);
/// The weights of the tree without feedback.
pub(crate) const TREE_WEIGHTS: Guess = Guess::new(
    "tree-weights",
    "",
    0.0,
    &[1.0],
    "weights of the tree's nodes: 0 a mixing function, 1 the formula of §3.1, both with numbers that are unique in the tree",
);
/// Number of packets that wait for a thread.
pub(crate) const QUEUE: Guess = Guess::new(
    "queue",
    "packets",
    16.0,
    &[4.0, 8.0, 64.0, 1024.0],
    "packets that wait for a thread at most",
)
.within(1.0, 1e6);

/// What a thread uses of its pipeline, where threads are alike to those of the paper's bound:
/// sixteen pipelines do at most sixteen times one thread's work.
pub(crate) const DEMAND: Guess = demand(1000.0);
/// The same where threads wait for memory, so that those of a pipeline hardly slow each other down.
pub(crate) const DEMAND_WAITING: Guess = demand(400.0);

const fn demand(default: f64) -> Guess {
    let values: &[f64] = &[250.0, 400.0, 700.0, 1000.0];
    Guess::new("demand", "‰", default, values, "share of a pipeline that one thread uses")
        .within(1.0, 1000.0)
}

/// Returns a note on the share of a pipeline that one thread uses.
pub(crate) fn demand_note(context: &Context<'_>, demand: &Guess) -> String {
    format!(
        "A thread uses {} % of its pipeline; --guess demand=N sets it in thousandths.",
        context.guess(demand) / 10.0
    )
}

fn failed(what: &str) -> impl FnOnce(SetupError) -> ItemError {
    ItemError::during(what.to_owned())
}

/// Parses a topology.
pub(crate) fn topology(text: &str) -> Result<Topology, ItemError> {
    text.parse().map_err(failed("reading a topology"))
}

/// Returns the machine of [HRWTREE §4.1]: 63 threads, because thread 0 dispatches.
pub(crate) fn niagara(context: &Context<'_>, demand: &Guess) -> Result<Machine, ItemError> {
    let machine = guessed(context, Machine::niagara(topology("8x2x4,-0")?));
    Ok(Machine {
        queue_packets: rounded(context.guess(&QUEUE)),
        thread_demand_permille: rounded(context.guess(demand)).clamp(1, 1000),
        ..machine
    })
}

/// Returns the eight cores that the captures of [LFB Tab. 1] ran on.
pub(crate) fn xeon(context: &Context<'_>) -> Result<Machine, ItemError> {
    Ok(guessed(context, Machine::xeon(topology("8")?)))
}

/// Returns a machine whose guessed costs are multiplied by the context's guesses.
fn guessed(context: &Context<'_>, mut machine: Machine) -> Machine {
    let times = |cycles: &mut u32, factor: f64| *cycles = rounded(f64::from(*cycles) * factor);
    let of_caches = |guess| if context.is_off(&CACHES) { 0.0 } else { context.guess(guess) };
    times(&mut machine.pull.move_cycles, of_caches(&MOVE_COST));
    times(&mut machine.pull.lock_cycles, context.guess(&LOCK_COST));
    let factor = of_caches(&CACHE_COST);
    let cache = &mut machine.cache;
    for cycles in [&mut cache.shared_cycles, &mut cache.remote_cycles, &mut cache.memory_cycles] {
        times(cycles, factor);
    }
    machine
}

/// Rounds a non-negative number to an integer.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
fn rounded(number: f64) -> u32 {
    number as u32
}

/// Returns the HTTP-like traffic of [HRWTREE §4.2].
pub(crate) fn l7(context: &Context<'_>) -> Model {
    Model::L7 { elephant_permille: rounded(context.guess(&ELEPHANT)) }
}

/// Returns jobs for a saturated machine: a tenth of the model's jobs at the smallest scale, all at
/// the largest.
pub(crate) fn saturating(context: &Context<'_>, model: Model) -> Result<Offered, ItemError> {
    let packets = model.packets() / context.scale.pick(20, 4, 1);
    let traffic = model.generate(packets, context.seed).map_err(failed("making traffic"))?;
    Offered::new(traffic, Pace::Closed).map_err(failed("making traffic"))
}

/// Returns such jobs, each with `cycles` cycles of work.
pub(crate) fn saturating_alike(
    context: &Context<'_>,
    model: Model,
    cycles: u32,
) -> Result<Offered, ItemError> {
    let packets = model.packets() / context.scale.pick(20, 4, 1);
    let mut traffic = model.generate(packets, context.seed).map_err(failed("making traffic"))?;
    for job in &mut traffic.jobs {
        job.work = cycles;
    }
    Offered::new(traffic, Pace::Closed).map_err(failed("making traffic"))
}

/// Returns jobs that arrive at random at `percent` percent of the machine's throughput, in waves of
/// `wave_cycles` if this is not 0.
pub(crate) fn arriving(
    context: &Context<'_>,
    model: Model,
    packets: u32,
    machine: &Machine,
    percent: u32,
    wave_cycles: u64,
) -> Result<Offered, ItemError> {
    let traffic = model.generate(packets, context.seed).map_err(failed("making traffic"))?;
    let jobs = traffic.jobs.len() as u64;
    let whole = Offered::new(traffic.clone(), Pace::Closed).map_err(failed("making traffic"))?;
    let least = whole.workload().least_cycles(machine) / jobs;
    let mean = (least * 100).checked_div(u64::from(percent)).unwrap_or(1).max(1);
    let traffic = traffic.with_arrivals(mean, wave_cycles, context.seed);
    Offered::new(traffic, Pace::Open).map_err(failed("making traffic"))
}

/// Returns these schedulers, and the rivals behind them.
pub(crate) fn with_rivals(context: &Context<'_>, own: &[&'static str]) -> Vec<&'static str> {
    own.iter().copied().chain(context.rivals.schedulers.iter().map(|rival| rival.name)).collect()
}

/// Runs a scheduler by name.
pub(crate) fn run(
    context: &Context<'_>,
    name: &str,
    machine: &Machine,
    offered: &Offered,
) -> Result<Report, ItemError> {
    context.check_stop()?;
    if let Some(rival) = context.rivals.schedulers.iter().find(|rival| rival.name == name) {
        let topology = machine.topology.clone().with_thread_demand(machine.thread_demand_permille);
        let make = || (rival.make)(&topology, context.seed).map_err(failed(name));
        if let Policy::Push(mut policy) = make()? {
            keeps_promised_order(name, &mut *policy, topology.workers(), context.seed)?;
        }
        let policy = make()?;
        let mut report = match policy {
            Policy::Push(mut policy) => push(machine, &mut *policy, offered.workload()),
            Policy::Pull(mut policy) => pull(machine, &mut *policy, offered.workload()),
        }
        .map_err(failed(name))?;
        name.clone_into(&mut report.scheduler);
        return Ok(report);
    }
    let name = if name == "dh" && context.is_off(&IMBALANCE) { "fixed" } else { name };
    let Some(mut scheme) = Scheme::named(name) else {
        return Err(ItemError::during("choosing a scheduler")(format!("unknown scheduler {name}")));
    };
    scheme.pooled &= !context.is_off(&OS_MOVES);
    let jobs = offered.workload();
    let form = match name {
        "adaptive" | "adaptive-fitted" => Some(AdaptiveForm::OrderSafe),
        "adaptive-racy" => Some(AdaptiveForm::Corrected),
        "adaptive-2009" => Some(AdaptiveForm::Printed),
        _ => None,
    };
    let (forgets, receives_first) = (context.is_off(&LAST_WORKER), context.is_off(&SERVICE_ORDER));
    if (forgets || receives_first) && name.starts_with("lfb") {
        let bundles = LastFlowBundle::new(&machine.topology, LastFlowBundle::BITS, name == "lfb")
            .map_err(failed(name))?;
        let mut policy = if forgets { bundles.forgetting() } else { bundles.receiving_first() };
        return pull(&scheme.machine(machine), &mut policy, jobs).map_err(failed(name));
    }
    if name == "hrw3" && context.guess(&TREE_WEIGHTS) > 0.5 {
        let tree = machine.topology.clone().with_thread_demand(machine.thread_demand_permille);
        let mut policy = HrwTree2009::with_unique_numbers(&tree);
        return push(&scheme.machine(machine), &mut policy, jobs).map_err(failed(name));
    }
    if let (true, Some(form)) = (context.is_off(&FEEDBACK), form) {
        let tree = machine.topology.clone().with_thread_demand(machine.thread_demand_permille);
        let threshold = Threshold { permille: None, least_permille: 0 };
        let mut policy = Adaptive::new(&tree, form, threshold, Adaptive::BITS).map_err(failed(name))?;
        return push(&scheme.machine(machine), &mut policy, jobs).map_err(failed(name));
    }
    scheme.run(machine, offered, context.seed).map_err(failed(name))
}

/// Returns an error if a policy promises an order and breaks it: its speed would be compared with
/// that of policies that solve a harder problem.
fn keeps_promised_order(
    name: &str,
    policy: &mut dyn Placement,
    workers: WorkerCount,
    seed: u64,
) -> Result<(), ItemError> {
    let mut state = seed;
    let broken = laws::order_broken(policy, workers, &mut || split_mix(&mut state));
    if broken == 0 || !policy.order().keeps_flow_order() {
        return Ok(());
    }
    Err(ItemError::during("judging ".to_owned() + name)(format!(
        "it promises {:?} and breaks it for {broken} packets of scheduler::laws::check_order; return OrderGuarantee::None, or keep flows on their workers",
        policy.order()
    )))
}

/// Returns the properties of a run other than its speed.
pub(crate) fn order_of(report: &Report) -> String {
    format!("{} {} reorders, {} races", report.scheduler, report.reorders, report.races)
}
