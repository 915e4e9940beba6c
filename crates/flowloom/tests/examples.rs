//! The examples that bring their own traffic, each of which checks its result.

#[path = "../examples/flow_limiter.rs"]
mod flow_limiter;
#[path = "../examples/load_balancer.rs"]
mod load_balancer;
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
