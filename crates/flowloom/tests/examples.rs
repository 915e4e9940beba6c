//! The examples that bring their own traffic, each of which checks its result.

#[path = "../examples/flow_limiter.rs"]
mod flow_limiter;
#[path = "../examples/load_balancer.rs"]
mod load_balancer;
#[cfg(target_os = "linux")]
#[expect(dead_code, reason = "its main function opens interfaces")]
#[path = "../examples/nat.rs"]
mod nat;
#[path = "../examples/sensor.rs"]
mod sensor;
#[path = "../examples/translator.rs"]
mod translator;

type Outcome = Result<(), Box<dyn std::error::Error>>;

#[test]
fn a_translator_returns_every_answer_to_its_host() -> Outcome {
    translator::main()
}

#[test]
fn a_limiter_lets_no_flow_exceed_its_rate() -> Outcome {
    flow_limiter::main()
}

#[test]
fn a_sensor_names_protocols_on_any_port() -> Outcome {
    sensor::main()
}

#[test]
fn a_balancer_keeps_connections_while_backends_come_and_go() -> Outcome {
    load_balancer::main()
}

/// The sample has 31 flows, of which at most 20 have a packet within a second. Flows end between
/// batches of packets, so a few more are live.
#[cfg(target_os = "linux")]
#[test]
fn a_port_of_the_translator_returns_when_its_flow_ends() -> Outcome {
    use flowloom::engine::{Control, run};
    use flowloom::flow_table::LineHash;
    use flowloom::scheduler::{DirectHash, WorkerCount};
    use flowloom::traffic::capture::{CaptureSet, Input, SetOptions};
    use nat::linux::{Nat, settings};

    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/small/names.pcap");
    let denied = |timeout_s| -> Result<u64, Box<dyn std::error::Error>> {
        let mut source = CaptureSet::open(&[Input::Path(path.into())], SetOptions::default())?;
        let (config, table) = settings(timeout_s);
        let mut policy = DirectHash::new(WorkerCount::new(1)?);
        let table = |_| LineHash::try_new(&table);
        let app = |_| Nat::new([198, 51, 100, 1].into(), 1..=27);
        let report = run(&config, &mut source, &mut policy, table, app, &Control::default())?;
        Ok(report.workers.iter().map(|worker| worker.counters.denied).sum())
    };
    assert_eq!(denied(1)?, 0);
    assert!(denied(60)? > 0);
    Ok(())
}
