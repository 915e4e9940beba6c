//! Compares the cost of scheduling decisions.

use std::sync::Arc;

use flowloom::cpu::features::Isa;
use flowloom::engine::Control;
use flowloom::scheduler::registry::Policy;
use flowloom::scheduler::registry::Scheme;
use flowloom::scheduler::sim::models::Model;
use flowloom::scheduler::{
    Decision, HrwFlat, HrwTree, LoadView, Placement, SetupError, Topology, WorkItem, WorkerId,
};
use flowloom_measure::{Host, RatioRow, Report, ResultRow, Rounds};
use serde_json::json;

use crate::args::Common;
use crate::args::bench::schedule::Schedule;
use crate::exit::{Failure, Status};
use crate::host::tool;
use crate::render::bench::BenchResult;
use crate::signals::stop_on_signals;

/// Packets placed per round.
const PACKETS: u32 = 1 << 17;
/// Packets between the placement of a packet and its completion.
const IN_FLIGHT: usize = 256;
/// Maximum batch size; larger batches say nothing about the engine.
const BATCH_MAX: u64 = 4096;

/// Runs the command.
pub(crate) fn run(arguments: &Schedule, common: &Common) -> Result<Status, Failure> {
    if arguments.rounds == 0 || arguments.batch > BATCH_MAX {
        return Err(Failure::Usage(format!(
            "--rounds must be at least 1, and --batch at most {BATCH_MAX}"
        )));
    }
    let _kept = arguments.save.open()?;
    let flows = u32::try_from(arguments.flows).unwrap_or(u32::MAX);
    let model = Model::Zipf { flows, exponent_permille: 1000 };
    let usage = |error: SetupError| Failure::Usage(error.to_string());
    let traffic = model.generate(PACKETS, arguments.seed).map_err(usage)?;
    let items: Vec<WorkItem> =
        traffic.jobs.iter().map(|job| WorkItem { digest: job.digest, bytes: job.bytes }).collect();
    let control = Arc::new(Control::default());
    stop_on_signals(&control);
    let mut report = Report::new(tool(), Host::read(Isa::detect().to_string(), &[]));
    report.input = Some(json!({
        "kind": "generated",
        "model": "zipf 1.0",
        "flows": arguments.flows,
        "packets": PACKETS,
        "batch": arguments.batch,
        "in_flight": IN_FLIGHT,
        "seed": arguments.seed,
    }));
    let batch = usize::try_from(arguments.batch).unwrap_or(1);
    for text in &arguments.topology {
        let topology: Topology =
            text.parse().map_err(|error| Failure::Usage(format!("--topology {text}: {error}")))?;
        let workers = usize::from(topology.workers().get());
        let mut rounds = Rounds::new(arguments.rounds);
        for name in &arguments.schedulers {
            let mut policy = policy(name, &topology, arguments.seed)?;
            let mut dispatcher = Dispatcher::new(workers);
            let items = &items;
            rounds = rounds.variant(name, move || dispatcher.place_all(&mut *policy, items, batch));
        }
        let mut lower_bound = LowerBound { next: 0, workers: topology.workers().get() };
        let mut dispatcher = Dispatcher::new(workers);
        let outcome = rounds
            .variant("lower bound", || dispatcher.place_all(&mut lower_bound, &items, batch))
            .run_while(|| !control.is_stopped());
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(_) if control.is_stopped() => {
                report.complete = false;
                break;
            }
            Err(error) => return Err(Failure::Experiment(error.to_string())),
        };
        report.complete &= outcome.complete;
        let (work, size) = (format!("place, {text}"), arguments.flows);
        let samples = &outcome.samples;
        report.results.extend(
            samples.iter().map(|samples| ResultRow::new(&*work, size, u64::from(PACKETS), samples)),
        );
        let Some((first, others)) = samples.split_first() else { continue };
        report.ratios.extend(others.iter().map(|rival| {
            let work = format!("{work}: {}", first.name);
            RatioRow::of_times(work, size, &rival.name, &rival.cpu_ns, &first.cpu_ns).with_items(
                u64::from(PACKETS),
                &rival.cpu_ns,
                &first.cpu_ns,
            )
        }));
        if control.is_stopped() {
            report.complete = false;
            break;
        }
    }
    let status = if report.complete { Status::Ok } else { Status::Interrupted };
    BenchResult { title: "bench schedule", report }.finish(&arguments.save, common)?;
    Ok(status)
}

fn policy(name: &str, topology: &Topology, seed: u64) -> Result<Box<dyn Placement>, Failure> {
    match name {
        "hrw-flat" => return Ok(Box::new(HrwFlat::new(topology.workers()))),
        "hrw3-tree" => return Ok(Box::new(HrwTree::new(topology))),
        _ => {}
    }
    match Scheme::named(name).map(|scheme| scheme.policy(topology, seed)) {
        Some(Ok(Policy::Push(policy))) => Ok(policy),
        Some(Err(error)) => Err(Failure::Usage(error.to_string())),
        Some(Ok(Policy::Pull(_))) | None => {
            let names: Vec<&str> = Scheme::ALL
                .iter()
                .filter(|scheme| {
                    scheme.policy(topology, seed).is_ok_and(|policy| matches!(policy, Policy::Push(_)))
                })
                .map(|scheme| scheme.name)
                .collect();
            Err(Failure::Usage(format!(
                "there is no push scheduler '{name}'\n  schedulers: hrw-flat, hrw3-tree, {}",
                names.join(", ")
            )))
        }
    }
}

/// The state that the engine's input stage keeps in addition to a policy.
struct Dispatcher {
    sent: Vec<u64>,
    completed: Vec<u64>,
    sent_bytes: Vec<u64>,
    completed_bytes: Vec<u64>,
    /// Worker and bytes of the last packets; the oldest is completed next.
    in_flight: Vec<(u16, u32)>,
    at: usize,
}

impl Dispatcher {
    fn new(workers: usize) -> Self {
        let zero = || vec![0; workers];
        Self {
            sent: zero(),
            completed: zero(),
            sent_bytes: zero(),
            completed_bytes: zero(),
            in_flight: vec![(u16::MAX, 0); IN_FLIGHT],
            at: 0,
        }
    }

    /// Places all items, and returns how many were placed.
    fn place_all(&mut self, policy: &mut dyn Placement, items: &[WorkItem], batch: usize) -> u64 {
        let mut decisions = vec![Decision::Drop; batch];
        let mut placed = 0;
        for items in items.chunks(batch) {
            let load = LoadView {
                sent: &self.sent,
                completed: &self.completed,
                sent_bytes: &self.sent_bytes,
                completed_bytes: &self.completed_bytes,
                busy: &[],
            };
            policy.place(items, &load, &mut decisions[..items.len()]);
            for (item, decision) in items.iter().zip(&decisions) {
                let Decision::To(worker) = *decision else { continue };
                placed += 1;
                let worker = worker.index();
                self.sent[worker] += 1;
                self.sent_bytes[worker] += u64::from(item.bytes);
                let (done, bytes) =
                    std::mem::replace(&mut self.in_flight[self.at], (worker as u16, item.bytes));
                self.at = (self.at + 1) % IN_FLIGHT;
                if let Some(completed) = self.completed.get_mut(usize::from(done)) {
                    *completed += 1;
                    self.completed_bytes[usize::from(done)] += u64::from(bytes);
                }
            }
        }
        placed
    }
}

/// Decides nothing: measures everything else.
struct LowerBound {
    next: u16,
    workers: u16,
}

impl Placement for LowerBound {
    fn place(&mut self, items: &[WorkItem], _load: &LoadView<'_>, decisions: &mut [Decision]) {
        self.next = (self.next + 1) % self.workers;
        decisions[..items.len()].fill(Decision::To(WorkerId::from(self.next)));
    }

    fn order(&self) -> flowloom::scheduler::OrderGuarantee {
        flowloom::scheduler::OrderGuarantee::None
    }

    fn name(&self) -> &'static str {
        "lower bound"
    }
}
