//! Schedulers on a machine in virtual time.

use flowloom::scheduler::registry::Scheme;
use flowloom::scheduler::sim::{Machine, Offered, Pace, Report, WhenFull};
use flowloom_measure::chart::{Axis, Chart, Series};

use crate::args::Common;
use crate::args::simulate::schedule::{FullName, MachineName, Schedule};
use crate::exit::{Failure, Status};
use crate::render::print;
use crate::render::save::{Named, print_and_save};
use crate::render::simulate::schedule::{ScheduleResult, SchemeFigures, SchemeList};
use crate::topology;

use super::traffic::offer;

/// Length of a wave of arrivals.
const WAVE_SECONDS: f64 = 0.002;

/// Runs the command.
pub(super) fn run(arguments: &Schedule, common: &Common) -> Result<Status, Failure> {
    if arguments.scheduler.iter().any(|name| name == "list") {
        print(&SchemeList::all(), common)?;
        return Ok(Status::Ok);
    }
    let schemes = schemes(&arguments.scheduler)?;
    let usage = |error: flowloom::scheduler::SetupError| Failure::Usage(error.to_string());
    let machine = machine(arguments)?;
    machine.check().map_err(usage)?;
    let _kept = arguments.save.open()?;
    let offer = offer(&arguments.traffic, common)?;
    let (mut traffic, mut pace) = (offer.traffic, Pace::Closed);
    if let Some(load) = arguments.load {
        let work: u64 = traffic.jobs.iter().map(|job| u64::from(job.work)).sum();
        let at_once = machine.parallelism_permille() as f64 / 1000.0 * f64::from(load) / 100.0;
        let mean = work as f64 / traffic.jobs.len() as f64 / at_once;
        let wave = if arguments.waves { (WAVE_SECONDS * machine.hertz as f64) as u64 } else { 0 };
        traffic = traffic.with_arrivals((mean as u64).max(1), wave, arguments.traffic.seed);
        pace = Pace::Open;
    }
    let bytes: u64 = traffic.jobs.iter().map(|job| u64::from(job.bytes)).sum();
    let offered = Offered::new(traffic, pace).map_err(usage)?;
    machine.check_flows(offered.workload().flows()).map_err(usage)?;
    let mut reports: Vec<(Scheme, Report)> = Vec::new();
    for scheme in schemes {
        let scheme = scheme.with_threshold(arguments.threshold);
        let report = scheme.run(&machine, &offered, arguments.traffic.seed).map_err(usage)?;
        reports.push((scheme, report));
    }
    let charts = charts(&offer.name, &machine, &reports);
    let first = reports[0].1.clone();
    let result = ScheduleResult {
        schema: "flowloom/simulate-schedule/1",
        traffic: offer.name,
        jobs: offered.workload().jobs().len() as u64,
        flows: u64::from(offered.workload().flows()),
        bytes,
        work_cycles: offered.workload().work(),
        seed: arguments.traffic.seed,
        topology: machine.topology.to_string(),
        workers: u64::from(machine.topology.workers().get()),
        least_cycles: first.least_cycles,
        hertz: machine.hertz,
        load_percent: arguments.load,
        schedulers: reports
            .iter()
            .map(|(scheme, report)| SchemeFigures::new(*scheme, report, &first, &machine))
            .collect(),
        saved: arguments.save.save.as_ref().map(|folder| folder.display().to_string()),
    };
    print_and_save(&result, "simulate schedule", &arguments.save, || charts, common)?;
    Ok(Status::Ok)
}

/// Returns the named schemes, each once.
pub(super) fn schemes(names: &[String]) -> Result<Vec<Scheme>, Failure> {
    let mut schemes: Vec<Scheme> = Vec::new();
    for name in names {
        let some: Vec<Scheme> =
            if name == "all" { Scheme::ALL.to_vec() } else { Scheme::named(name).into_iter().collect() };
        if some.is_empty() {
            let names: Vec<&str> = Scheme::ALL.iter().map(|scheme| scheme.name).collect();
            return Err(Failure::Usage(format!(
                "there is no scheduler '{name}'\n  schedulers: all, {}",
                names.join(", ")
            )));
        }
        for scheme in some {
            if !schemes.contains(&scheme) {
                schemes.push(scheme);
            }
        }
    }
    Ok(schemes)
}

fn machine(arguments: &Schedule) -> Result<Machine, Failure> {
    let usual = match arguments.machine {
        MachineName::Xeon => "8",
        MachineName::Niagara => "8x2x4,-0",
    };
    let topology = topology::named(arguments.topology.as_deref().unwrap_or(usual))?;
    let mut machine = match arguments.machine {
        MachineName::Xeon => Machine::xeon(topology),
        MachineName::Niagara => Machine::niagara(topology),
    };
    machine.thread_demand_permille = arguments.demand * 10;
    machine.replay_cycles = arguments.replay_cycles;
    machine.queue_packets = arguments.queue.unwrap_or(machine.queue_packets);
    machine.pool_packets = arguments.pool.unwrap_or(machine.pool_packets);
    machine.when_full = match arguments.full {
        FullName::Block => WhenFull::Block,
        FullName::Drop => WhenFull::Drop,
    };
    Ok(machine)
}

fn charts(name: &str, machine: &Machine, reports: &[(Scheme, Report)]) -> Vec<Named> {
    let names: Vec<&str> = reports.iter().map(|(scheme, _)| scheme.name).collect();
    let mut throughput =
        Chart::bars(format!("Throughput, {name}"), names.clone(), Axis::linear("speed-up over one thread"))
            .with(Series::bars("done", reports.iter().map(|(_, report)| report.parallelism())));
    let bound = reports.first().map_or(0.0, |(_, report)| report.work as f64 / report.least_cycles as f64);
    throughput = throughput.with(Series::bars("bound", reports.iter().map(|_| bound)));
    let mut charts = vec![("throughput", throughput)];
    let mut levels =
        Chart::bars(format!("Use of the most and the least used, {name}"), names, Axis::linear("%"));
    for level in 0..machine.topology.levels() {
        let level_name = machine.topology.level_name(level);
        let range = |report: &Report| report.levels[level].range();
        let percent = |permille: u32| f64::from(permille) / 10.0;
        levels = levels
            .with(Series::bars(
                format!("most used {level_name}"),
                reports.iter().map(|(_, report)| percent(range(report).1)),
            ))
            .with(Series::bars(
                format!("least used {level_name}"),
                reports.iter().map(|(_, report)| percent(range(report).0)),
            ));
    }
    charts.push(("levels", levels));
    let mut queues = Chart::new(
        format!("Mean run queue of each thread, {name}"),
        Axis::linear("thread"),
        Axis::linear("packets"),
    );
    let mut latency = Chart::new(
        format!("Latency, {name}"),
        Axis::log("microseconds"),
        Axis::linear("share of packets, %"),
    );
    let micros = |cycles: u64| cycles as f64 * 1e6 / machine.hertz as f64;
    for (scheme, report) in reports {
        if !report.queue_mean_milli.is_empty() {
            let points = report.queue_mean_milli.iter().enumerate();
            let points = points.map(|(thread, &milli)| (thread as f64, milli as f64 / 1000.0));
            queues = queues.with(Series::line(scheme.name, points.collect()));
        }
        let points = (1..=999)
            .filter(|permille| permille % 10 == 0 || *permille > 980)
            .map(|permille| (micros(report.latency.permille(permille)), permille as f64 / 10.0));
        latency = latency.with(Series::line(scheme.name, points.collect()));
    }
    if !queues.series.is_empty() {
        charts.push(("queues", queues));
    }
    charts.push(("latency", latency));
    charts
}
