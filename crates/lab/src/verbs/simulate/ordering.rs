//! Internal compared with external order, in virtual time.

use flowloom::scheduler::registry::Scheme;
use flowloom::scheduler::sim::{ExternalOrder, Machine, Offered, Pace, WhenFull};
use flowloom::scheduler::{SetupError, Topology, WorkerCount};
use flowloom_measure::chart::{Axis, Chart, Series};

use crate::args::Common;
use crate::args::simulate::ordering::Ordering;
use crate::exit::{Failure, Status};
use crate::render::save::{Named, print_and_save};
use crate::render::simulate::ordering::{DropFigures, ExternalFigures, InternalFigures, OrderingResult};

use super::schedule::schemes;
use super::traffic::offer;

/// Maximum number of values in a list option; each value is a run.
const VALUES_MAX: usize = 32;
/// Cycles of each ordered section.
const SECTION_CYCLES: u32 = 20;

/// Runs the verb.
pub(super) fn run(arguments: &Ordering, common: &Common) -> Result<Status, Failure> {
    let usage = |error: SetupError| Failure::Usage(error.to_string());
    for (name, values) in
        [("threads", &arguments.threads), ("queue", &arguments.queue), ("locked", &arguments.locked)]
    {
        if values.len() > VALUES_MAX {
            return Err(Failure::Usage(format!(
                "--{name} has {} values: the limit is {VALUES_MAX}",
                values.len()
            )));
        }
    }
    let seed = arguments.traffic.seed;
    let schemes = schemes_in_order(&arguments.scheduler, seed)?;
    let machine = |threads: u32| -> Result<Machine, Failure> {
        let workers = WorkerCount::new(threads as usize).map_err(usage)?;
        let mut machine = Machine::xeon(Topology::flat(workers));
        // The machine of the paper: threads without caches, and a queue manager in hardware.
        machine.cache.shared_cycles = 0;
        machine.cache.remote_cycles = 0;
        machine.cache.memory_cycles = 0;
        machine.take_cycles = 0;
        machine.dispatch_cycles = 1;
        Ok(machine)
    };
    let most = arguments.threads.iter().copied().max().unwrap_or(64);
    for &threads in &arguments.threads {
        machine(threads)?;
    }
    let _kept = arguments.save.open()?;
    let offer = offer(&arguments.traffic, common)?;
    let jobs = offer.traffic.jobs.len() as u64;
    let work: u64 = offer.traffic.jobs.iter().map(|job| u64::from(job.work)).sum();
    // The arrival rate equals the capacity of all threads together.
    let gap = (work / jobs / u64::from(most)).max(1);
    let open =
        Offered::new(offer.traffic.clone().with_arrivals(gap, 0, seed), Pace::Open).map_err(usage)?;
    let closed = Offered::new(offer.traffic, Pace::Closed).map_err(usage)?;

    let mut drops = Vec::new();
    let mut internal = Vec::new();
    for scheme in &schemes {
        for &queue in &arguments.queue {
            let mut machine = machine(most)?;
            machine.queue_packets = queue;
            machine.pool_packets = Machine::UNBOUNDED;
            machine.when_full = WhenFull::Drop;
            let report = scheme.run(&machine, &open, seed).map_err(usage)?;
            drops.push(DropFigures {
                scheduler: scheme.name,
                queue_packets: queue,
                dropped: report.dropped,
                drop_share: report.drop_share(),
                reorders: report.reorders,
            });
        }
        for &threads in &arguments.threads {
            let report = scheme.run(&machine(threads)?, &closed, seed).map_err(usage)?;
            internal.push(InternalFigures {
                scheduler: scheme.name,
                threads,
                speed_up: report.parallelism(),
            });
        }
    }
    let mut external = Vec::new();
    for &locked in &arguments.locked {
        for &threads in &arguments.threads {
            let order = ExternalOrder {
                threads,
                locked_permille: locked.saturating_mul(10),
                enter_cycles: SECTION_CYCLES,
                leave_cycles: SECTION_CYCLES,
            };
            let report = order.run(closed.workload()).map_err(usage)?;
            external.push(ExternalFigures {
                locked_percent: locked,
                threads,
                speed_up: report.busy_cycles as f64 / report.cycles.max(1) as f64,
                lock_share: report.lock_cycles as f64 / report.busy_cycles.max(1) as f64,
            });
        }
    }
    let charts = charts(&offer.name, &drops, &internal, &external);
    let result = OrderingResult {
        schema: "flowloom/simulate-ordering/1",
        traffic: offer.name,
        jobs,
        flows: u64::from(closed.workload().flows()),
        seed,
        drops,
        internal,
        external,
        saved: arguments.save.save.as_ref().map(|folder| folder.display().to_string()),
    };
    print_and_save(&result, "simulate ordering", &arguments.save, || charts, common)?;
    Ok(Status::Ok)
}

/// Returns the named schemes that keep the order of a flow; for `all`, every such scheme.
fn schemes_in_order(names: &[String], seed: u64) -> Result<Vec<Scheme>, Failure> {
    let usage = |error: SetupError| Failure::Usage(error.to_string());
    let topology = Topology::flat(WorkerCount::new(1).map_err(usage)?);
    let mut kept = Vec::new();
    for scheme in schemes(names)? {
        if scheme.policy(&topology, seed).map_err(usage)?.order().keeps_flow_order() {
            kept.push(scheme);
        } else if names.iter().any(|name| name == scheme.name) {
            return Err(Failure::Usage(format!(
                "--scheduler {}: it keeps no order, but internal order needs a scheduler that does",
                scheme.name
            )));
        }
    }
    Ok(kept)
}

fn charts(
    name: &str,
    drops: &[DropFigures],
    internal: &[InternalFigures],
    external: &[ExternalFigures],
) -> Vec<Named> {
    let mut dropped = Chart::new(
        format!("Drops of internal order at full load, {name}"),
        Axis::log("packets a queue holds"),
        Axis::linear("dropped, %"),
    );
    for group in drops.chunk_by(|a, b| a.scheduler == b.scheduler) {
        let points = group.iter().map(|d| (f64::from(d.queue_packets), d.drop_share * 100.0)).collect();
        dropped = dropped.with(Series::line(group[0].scheduler, points));
    }
    let mut speed = Chart::new(
        format!("Speed-up by threads, {name}"),
        Axis::linear("threads"),
        Axis::linear("speed-up over one thread"),
    );
    for group in internal.chunk_by(|a, b| a.scheduler == b.scheduler) {
        let points = group.iter().map(|i| (f64::from(i.threads), i.speed_up)).collect();
        speed = speed.with(Series::line(format!("internal, {}", group[0].scheduler), points));
    }
    for group in external.chunk_by(|a, b| a.locked_percent == b.locked_percent) {
        let points = group.iter().map(|e| (f64::from(e.threads), e.speed_up)).collect();
        speed = speed.with(Series::line(format!("external, {} % locked", group[0].locked_percent), points));
    }
    vec![("drops", dropped), ("speed", speed)]
}
