//! Throughput with half of the shared cache [LFB Figs. 10–11].

use flowloom::scheduler::sim::models::Model;
use flowloom_measure::chart::Axis;

use crate::experiment::{Context, Fidelity, Item, ItemError, Outcome, Value, Verdict};
use crate::virtual_time::{run as run_scheme, saturating, xeon};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "lfb/fig10_11_half_cache",
    place: "Figs. 10–11",
    claim: "with half of the third-level cache bundles lose about 7 % on Dominant, hashing more; on Many all lose",
    fidelity: &[Fidelity::Simulated],
    run,
};

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let whole = xeon()?;
    let mut half = whole.clone();
    half.cache.shared_flows /= 2;
    let mut outcome = Outcome::new(Verdict::differs(
        "a model in which a cache holds so many flows hardly sees half of it missing: the flows of a moment fit either way. The loss \
         of the slides must come from the inspector's own tables and code, which the model does not have",
    ));
    let mut most = 0.0_f64;
    for (name, model) in [("Dominant", Model::Dominant), ("Many", Model::Many)] {
        let offered = saturating(context, model)?;
        for scheme in ["dh", "ph", "lfb", "flowpull"] {
            let full = run_scheme(context, scheme, &whole, &offered)?;
            let halved = run_scheme(context, scheme, &half, &offered)?;
            let loss = (1.0 - halved.speed_up(&full)) * 100.0;
            most = most.max(loss);
            let value = Value::new(format!("{name}: {scheme} loses"), "%", loss);
            let is_stated = name == "Dominant" && scheme == "lfb";
            outcome = outcome.value(if is_stated { value.paper(7.0) } else { value });
        }
    }
    Ok(outcome.value(Value::new("the most that any loses", "%", most).band(-1.0, 10.0)).chart_of(
        "Loss with half the cache",
        Axis::linear("%"),
        |value| value.name.ends_with("loses"),
    ))
}
