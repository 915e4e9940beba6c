//! Replacement policies of the two-bank cache [TCBCACHE §4.4, Fig. 14], and the rivals and bounds.

use flowloom::tcb_cache::{CacheSpec, Counted, Policy, Tie};
use flowloom_measure::chart::{Axis, Chart, Series};

use super::workload::{draws, misses, notes, workloads};
use crate::experiment::{Band, Context, Fidelity, Item, ItemError, Outcome, Scale, Value, Verdict};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "tcbcache/fig14_policies",
    place: "§4.4, Fig. 14",
    claim: "the speculative policy misses least; TCB(16), TCB(RR) and TCB(Access) are alike",
    fidelity: &[Fidelity::Simulated],
    run,
};

fn policies() -> Vec<(&'static str, Policy)> {
    vec![
        ("spec", Policy::Speculative { tie: Tie::Left }),
        ("RR", Policy::RoundRobin),
        ("Access", Policy::AccessCount { counted: Counted::Searches }),
        ("TCB(16)", Policy::Timestamp { bits: 16 }),
        ("Access, uses", Policy::AccessCount { counted: Counted::Uses }),
        ("TCB(24)", Policy::Timestamp { bits: 24 }),
        ("2-hash", Policy::Enru),
        ("LRU", Policy::Lru),
        ("FlowLRU", Policy::FlowLru),
        ("FlowLRU, 8 bits of age", Policy::FlowLruCoarse),
        ("zcache", Policy::Zcache),
        ("SRRIP", Policy::Srrip),
        ("DRRIP", Policy::Drrip),
        ("SHiP", Policy::Ship),
        ("full LRU", Policy::FullLru),
        ("full FIFO", Policy::FullFifo),
        ("CLOCK", Policy::Clock),
        ("ARC", Policy::Arc),
        ("2Q", Policy::TwoQ),
        ("S3-FIFO", Policy::S3Fifo),
        ("LIRS", Policy::Lirs),
        ("W-TinyLFU", Policy::WTinyLfu),
        ("SIEVE", Policy::Sieve),
        ("OPT in banks", Policy::GreedyOpt),
        ("MIN", Policy::Min),
    ]
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let (policies, workloads) = (policies(), workloads(context)?);
    let names: Vec<&str> = policies.iter().map(|(name, _)| *name).collect();
    let mut chart = Chart::bars("Misses by policy, of those of spec", names, Axis::linear("of spec"));
    let mut outcome = Outcome::new(Verdict::differs(
        "spec misses least of the paper's policies on the model, but its alternatives are not alike: TCB(16), which \
         wraps every 65,536 accesses, is clearly worst. On sessions of the real day even that fails: plain LRU over both \
         banks misses a tenth less than spec, whose ties all go to the left bank",
    ));
    let long = context.scale > Scale::Smoke;
    for workload in &workloads {
        let short = workload.short;
        let mut percents = Vec::new();
        for (_, policy) in &policies {
            let spec = CacheSpec::PAPER.with_policy(*policy);
            let draws = if policy.is_fully_associative() { 1 } else { draws(context) };
            percents.push(misses(context, &workload.trace, spec, draws)?.percent);
        }
        let spec = percents[0];
        let of = |name: &str| {
            policies.iter().position(|(known, _)| *known == name).map_or(f64::NAN, |at| percents[at] / spec)
        };
        let model = workload.is_model;
        outcome = outcome.values([
            Value::new(format!("spec, {short}"), "%", spec),
            Value::new(format!("RR, {short}"), "", of("RR")).band(1.0, 1.08).checked_if(model),
            Value::new(format!("Access, {short}"), "", of("Access")).band(1.02, 1.2).checked_if(model),
            Value::new(format!("Access above RR, {short}"), "", of("Access") / of("RR"))
                .band(1.0, 1.2)
                .checked_if(model),
            Value::new(format!("TCB(16), {short}"), "", of("TCB(16)"))
                .band(1.08, 1.35)
                .checked_if(model && long),
            Value::new(format!("TCB(16) above Access, {short}"), "", of("TCB(16)") / of("Access"))
                .within(Band::at_least(1.0))
                .checked_if(model && long),
            Value::new(format!("FlowLRU, {short}"), "", of("FlowLRU")).band(0.5, 1.0),
            Value::new(format!("FlowLRU, 8 bits of age, {short}"), "", of("FlowLRU, 8 bits of age"))
                .band(0.5, 1.0),
            Value::new(format!("MIN, {short}"), "", of("MIN")).band(0.3, 1.0),
        ]);
        let shown = ["RR", "Access", "TCB(16)", "FlowLRU", "FlowLRU, 8 bits of age", "MIN", "spec"];
        let rest = policies.iter().zip(&percents).filter(|((name, _), _)| !shown.contains(name));
        outcome = outcome.values(
            rest.map(|((name, _), percent)| Value::new(format!("{name}, {short}"), "", percent / spec)),
        );
        chart = chart.with(Series::bars(short, percents.iter().map(|percent| percent / spec)));
    }
    outcome.notes = notes(&workloads);
    Ok(outcome
        .chart(chart)
        .note("values are of spec's; FlowLRU knows of sessions that end, the others do not"))
}
