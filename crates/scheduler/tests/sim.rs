//! Properties that hold for every policy on every machine in virtual time.

use flowloom_scheduler::registry::{Policy, Scheme};
use flowloom_scheduler::sim::models::Model;
use flowloom_scheduler::sim::{ExternalOrder, Job, Machine, Pace, Report, WhenFull, Workload, pull, push};
use flowloom_scheduler::{Decision, DirectHash, LoadView, OrderGuarantee, Placement, WorkItem};
use proptest::prelude::*;

/// Runs every combination and checks the properties of each report.
fn run_all(machine: &Machine, workload: &Workload) -> Vec<(Report, OrderGuarantee)> {
    let mut reports = Vec::new();
    for scheme in Scheme::ALL.iter().filter(|scheme| !scheme.is_simulated_only) {
        reports.push(match scheme.policy(&machine.topology, 1).expect("a sound machine") {
            Policy::Push(mut policy) => (push(machine, &mut *policy, workload), policy.order()),
            Policy::Pull(mut policy) => (pull(machine, &mut *policy, workload), policy.order()),
        });
    }
    let reports: Vec<(Report, OrderGuarantee)> =
        reports.into_iter().map(|(report, order)| (report.expect("a sound machine"), order)).collect();
    for (report, order) in &reports {
        let name = &report.scheduler;
        assert_eq!(report.completed + report.dropped, report.jobs, "{name} loses jobs");
        assert_eq!(report.latency.count(), report.completed, "{name}");
        if order.keeps_flow_order() {
            assert_eq!((report.reorders, report.races), (0, 0), "{name} promises order");
            if report.dropped == 0 {
                assert!(report.share_of_bound() <= 1.0 + 1e-9, "{name} is faster than can be");
            }
        }
    }
    reports
}

#[test]
fn only_policies_without_a_guarantee_reorder_packets() {
    for (model, shape) in [
        (Model::Dominant, "8"),
        (Model::Many, "2x2x4,-0"),
        (Model::L7 { elephant_permille: 50 }, "8x2x4,-0"),
    ] {
        let workload = model.generate(20_000, 1).unwrap().workload(Pace::Closed).unwrap();
        for machine in [Machine::xeon(shape.parse().unwrap()), Machine::niagara(shape.parse().unwrap())] {
            for (report, order) in run_all(&machine, &workload) {
                if order == OrderGuarantee::None {
                    assert!(report.races > 0 && report.reorders > 0, "{}: {report:?}", report.scheduler);
                }
            }
        }
    }
}

#[test]
fn simulation_continues_after_days_of_idleness() {
    let arrivals = [0, 1 << 41, (1 << 41) + 1, 1 << 50];
    let jobs = (0..).zip(arrivals).map(|(flow, arrival)| Job {
        arrival,
        flow,
        digest: flow << 30,
        bytes: 100,
        work: 1000,
    });
    let workload = Workload::new(jobs.collect(), Pace::Open).unwrap();
    for machine in [Machine::xeon("2x2".parse().unwrap()), Machine::niagara("2x2".parse().unwrap())] {
        for (report, _) in run_all(&machine, &workload) {
            assert_eq!(report.completed, 4, "{}", report.scheduler);
            assert!(report.latency.max() < 20_000, "{}: {}", report.scheduler, report.latency.max());
        }
    }
}

#[test]
fn bounded_queues_drop_or_block_as_configured() {
    let traffic = Model::Zipf { flows: 500, exponent_permille: 1000 }.generate(20_000, 1).unwrap();
    let workload = traffic.with_arrivals(600, 0, 1).workload(Pace::Open).unwrap();
    let mut machine = Machine::xeon("8".parse().unwrap());
    machine.queue_packets = 16;
    for (report, _) in run_all(&machine, &workload) {
        assert_eq!(report.dropped, 0, "{}", report.scheduler);
    }
    machine.when_full = WhenFull::Drop;
    for (report, _) in run_all(&machine, &workload) {
        assert!(report.dropped > 0, "{}", report.scheduler);
        assert!(report.queue_max.iter().all(|&max| max <= 16 * 8), "{}", report.scheduler);
    }
}

/// Drops two of three items, and places the third.
struct Picky(usize);

impl Placement for Picky {
    fn place(&mut self, _: &[WorkItem], _: &LoadView<'_>, decisions: &mut [Decision]) {
        for decision in decisions {
            self.0 += 1;
            *decision = if self.0 % 3 == 2 { Decision::To(0.into()) } else { Decision::Drop };
        }
    }

    fn order(&self) -> OrderGuarantee {
        OrderGuarantee::Home
    }

    fn name(&self) -> &'static str {
        "picky"
    }
}

#[test]
fn drops_by_a_policy_are_counted() {
    let workload = Model::Bursts.generate(3000, 1).unwrap().workload(Pace::Closed).unwrap();
    let report = push(&Machine::xeon("2".parse().unwrap()), &mut Picky(0), &workload).unwrap();
    assert_eq!((report.jobs, report.completed, report.dropped), (3000, 1000, 2000));
}

#[test]
fn impossible_machine_is_refused() {
    let workload = Model::Bursts.generate(1000, 1).unwrap().workload(Pace::Closed).unwrap();
    let sound = Machine::xeon("2".parse().unwrap());
    let mut policy = DirectHash::new(sound.topology.workers());
    for broken in [
        Machine { queue_packets: 0, ..sound.clone() },
        Machine { pool_packets: 0, ..sound.clone() },
        Machine { batch: 0, ..sound.clone() },
        Machine { chunk: 0, ..sound.clone() },
        Machine { thread_demand_permille: 0, ..sound.clone() },
        Machine { take_cycles: u32::MAX, ..sound.clone() },
    ] {
        assert!(push(&broken, &mut policy, &workload).is_err());
    }
    // More workers than flows is not an error: most workers have no work.
    let one =
        Workload::new(vec![Job { arrival: 0, flow: 0, digest: 9, bytes: 60, work: 100 }], Pace::Closed);
    run_all(&Machine::xeon("64".parse().unwrap()), &one.unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_workload_on_any_machine_gives_a_balanced_report(
        shape in prop::sample::select(vec!["1", "3", "2x2", "2x2x2,-0,3=25"]),
        jobs in prop::collection::vec((0_u32..12, 0_u32..3000, 0_u32..1500, 0_u64..400), 1..400),
        queue in 1_u32..40,
        pool in 1_u32..60,
        batch in 1_u32..40,
        chunk in 1_u32..40,
        demand in 1_u32..=1000,
        dispatch in 0_u32..200,
        flags in 0_u32..16,
    ) {
        let mut now = 0;
        let jobs = jobs.into_iter().map(|(flow, work, bytes, gap)| {
            now += gap;
            Job { arrival: now, flow, digest: flow.wrapping_mul(0x9E37_79B9), bytes, work }
        });
        let pace = if flags & 1 == 0 { Pace::Closed } else { Pace::Open };
        let workload = Workload::new(jobs.collect(), pace).unwrap();
        let machine = Machine {
            queue_packets: queue,
            pool_packets: pool,
            batch,
            chunk,
            thread_demand_permille: demand,
            dispatch_cycles: dispatch,
            when_full: if flags & 2 == 0 { WhenFull::Block } else { WhenFull::Drop },
            pooled: flags & 4 != 0,
            dispatcher_on_first_pipeline: flags & 8 != 0,
            ..Machine::xeon(shape.parse().unwrap())
        };
        run_all(&machine, &workload);
        let external =
            ExternalOrder { threads: 4, locked_permille: demand, enter_cycles: 5, leave_cycles: 5 };
        let report = external.run(&workload).unwrap();
        prop_assert_eq!(report.reorders, 0);
        prop_assert_eq!(report.busy_cycles, workload.work());
    }
}
