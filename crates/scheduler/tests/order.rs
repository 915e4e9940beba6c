//! Every push policy keeps the order that its type guarantees, and policies without a guarantee are
//! shown to break it.

use flowloom_scheduler::placement::adaptive::{AdaptiveForm, Threshold};
use flowloom_scheduler::{
    Adaptive, Cached, DirectHash, Fixed, FlowBurst, FlowPin, HrwFlat, HrwTree, HrwTree2009, Indirection,
    MinLoad, Modulo, OrderGuarantee, Placement, RoundRobin, Topology, TwoChoices, laws,
};
use proptest::prelude::*;

/// Every policy, with small tables, so that flows share slots.
fn policies(topology: &Topology, bits: u32) -> Vec<Box<dyn Placement>> {
    let workers = topology.workers();
    let adaptive = |form| Adaptive::new(topology, form, Threshold::PAPER, bits).expect("tables are small");
    vec![
        Box::new(RoundRobin::new(workers)),
        Box::new(DirectHash::new(workers)),
        Box::new(Modulo::new(workers, "crc")),
        Box::new(Indirection::fixed(topology, 128).expect("tables are small")),
        Box::new(Indirection::rebalanced(topology, 16, 100).expect("tables are small")),
        Box::new(Fixed::new(topology, bits).expect("tables are small")),
        Box::new(MinLoad::new(topology)),
        Box::new(HrwFlat::new(workers)),
        Box::new(Cached::new(HrwFlat::new(workers), bits).expect("tables are small")),
        Box::new(HrwTree::new(topology)),
        Box::new(Cached::new(HrwTree::new(topology), bits).expect("tables are small")),
        Box::new(HrwTree2009::new(topology)),
        Box::new(adaptive(AdaptiveForm::Corrected)),
        Box::new(adaptive(AdaptiveForm::OrderSafe)),
        Box::new(adaptive(AdaptiveForm::OrderSafe).with_fitted_costs(topology)),
        Box::new(adaptive(AdaptiveForm::Printed)),
        Box::new(FlowBurst::new(topology, bits).expect("tables are small")),
        Box::new(TwoChoices::new(topology, bits, 1).expect("tables are small")),
        Box::new(FlowPin::new(topology, bits).expect("tables are small")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn promised_order_is_kept_under_any_worker_timing(
        shape in prop::sample::select(vec!["1", "2", "5", "4x2", "2x2x4,-0,5=50"]),
        bits in prop::sample::select(vec![0_u32, 3, 8]),
        seed in any::<u64>(),
    ) {
        let topology: Topology = shape.parse().expect("tables are small");
        for mut policy in policies(&topology, bits) {
            laws::check_order(&mut *policy, topology.workers(), seed);
        }
    }
}

#[test]
fn policies_without_an_order_promise_do_reorder() {
    let topology: Topology = "2x2x4".parse().unwrap();
    let mut racy = Vec::new();
    for mut policy in policies(&topology, 8) {
        if policy.order() == OrderGuarantee::None {
            let mut state = 1;
            let mut draw = || flowloom_flow_key::hash::fold::split_mix(&mut state);
            let broken = laws::order_broken(&mut *policy, topology.workers(), &mut draw);
            assert!(broken > 100, "{}: {broken}", policy.name());
            racy.push(policy.name());
        }
    }
    assert_eq!(racy, ["rr", "minload", "adaptive-racy", "adaptive-2009"]);
}

#[test]
fn names_are_distinct() {
    let mut names: Vec<&str> = policies(&"2x2".parse().unwrap(), 4).iter().map(Placement::name).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}
