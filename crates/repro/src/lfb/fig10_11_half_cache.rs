//! Throughput with half of the shared cache [LFB Figs. 10–11].

use flowloom::scheduler::sim::models::Model;
use flowloom_measure::chart::Axis;

use crate::experiment::{Agreement, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::variation::BOTH_RUN;
use crate::virtual_time::{CACHE_COST, run as run_scheme, saturating, xeon};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "lfb/fig10_11_half_cache",
    place: "Figs. 10–11",
    claim: "with half of the third-level cache bundles lose about 7 % on Dominant, hashing more; on Many all lose",
    numbers: "slide: about 7 %; the bars have no numbers",
    fidelity: &[Fidelity::Simulated],
    guesses: &[CACHE_COST],
    draws: 3,
    unswitched: BOTH_RUN,
    run,
    ..Item::PLAIN
};

/// Losses in percent below which the model has no effect to judge.
const MODEL_FLOOR: f64 = 1.0;

/// Returns the verdict on the losses of hashing, Packet Handoff, bundles and Flowloom's scheme, in
/// percent, on Dominant and then on Many.
fn verdict(losses: &[f64]) -> Agreement {
    let &[hashing, _, bundles, _, many_hashing, many_handing, many_bundles, _] = losses else {
        unreachable!("there are four schemes on two captures")
    };
    if losses.iter().all(|loss| loss.abs() < MODEL_FLOOR) {
        return Agreement::cannot_run(format!(
            "half of the cache changes nothing in a model in which a cache holds flows' states: at most {:.2} %. The loss of the slides comes from \
             what the model lacks, such as the inspector's own tables and code",
            losses.iter().fold(0.0_f64, |most, loss| most.max(loss.abs()))
        ));
    }
    let many_least = many_hashing.min(many_handing).min(many_bundles);
    Agreement::from_check(
        (5.0..9.0).contains(&bundles) && hashing > bundles && many_least > 1.0,
        format!(
            "on Dominant bundles lose {bundles:.1} % and hashing {hashing:.1} %; on Many each loses {many_least:.1} % or more"
        ),
        format!(
            "on Dominant bundles lose {bundles:.2} % and hashing {hashing:.2} %, on Many each {many_least:.2} % or more"
        ),
    )
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let whole = xeon(context)?;
    let mut half = whole.clone();
    half.cache.shared_flows /= 2;
    let mut losses = Vec::new();
    let mut values = Vec::new();
    let mut most = 0.0_f64;
    for (name, model) in [("Dominant", Model::Dominant), ("Many", Model::Many)] {
        let offered = saturating(context, model)?;
        for scheme in ["dh", "ph", "lfb", "flowpull"] {
            let full = run_scheme(context, scheme, &whole, &offered)?;
            let halved = run_scheme(context, scheme, &half, &offered)?;
            let loss = (1.0 - halved.speed_up(&full)) * 100.0;
            most = most.max(loss.abs());
            losses.push(loss);
            let value = Value::new(format!("{name}: {scheme} loses"), "%", loss);
            let is_stated = name == "Dominant" && scheme == "lfb";
            values.push(if is_stated { value.paper(7.0).band(-1.0, 9.0) } else { value });
        }
    }
    Ok(Outcome::new(verdict(&losses))
        .values(values)
        .chart_of("Loss with half the cache", Axis::linear("%"), |_| true)
        .value(Value::new("the most that half the cache changes, either way", "%", most).band(0.0, 1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_the_slides_agree_with_themselves() {
        let word = |losses: [f64; 8]| verdict(&losses).word();
        assert_eq!(word([12.0, 10.0, 7.0, 7.0, 5.0, 6.0, 4.0, 4.0]), "agrees");
        assert_eq!(
            word([6.0, 10.0, 7.0, 7.0, 5.0, 6.0, 4.0, 4.0]),
            "differs",
            "hashing loses less than bundles"
        );
        assert_eq!(
            word([12.0, 10.0, 7.0, 7.0, 5.0, 0.0, 4.0, 4.0]),
            "differs",
            "handing over loses nothing on Many"
        );
        assert_eq!(word([0.9, 0.0, 0.1, 0.0, 0.0, -0.9, 0.0, 0.0]), "cannot run");
    }
}
