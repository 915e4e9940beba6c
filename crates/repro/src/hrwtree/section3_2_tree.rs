//! The tree of three levels: exactly as printed, and with unique node numbers [HRWTREE §3.2].

use flowloom::flow_key::hash::fold::split_mix;
use flowloom::scheduler::{HrwTree, HrwTree2009};
use flowloom_measure::chart::{Axis, Chart, Series};

use super::shares::Shares;
use crate::experiment::{Agreement, Band, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::virtual_time::{TREE_WEIGHTS, topology};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "hrwtree/section3_2_tree",
    place: "§3.2",
    claim: "hashing level by level balances connections at every level; it takes 400 KB more of weights",
    numbers: "text of §3.2 and §3.3",
    fidelity: &[Fidelity::Simulated, Fidelity::Arithmetic],
    switches: &[NUMBERS],
    guesses: &[TREE_WEIGHTS],
    run,
    ..Item::PLAIN
};
use crate::variation::Switch;

const NUMBERS: Switch =
    Switch::fault("unique-numbers", "node numbers restart below each node in our tree as well");

const SAME_WINNERS: &str = "by the printed formula the winner of a level wins below it as well";

/// Number of samples of flows: 64 counts of one sample deviate by about a tenth of the noise, those
/// of this many samples by a fiftieth.
const DRAWS: usize = 32;

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let tree = topology("8x2x4")?;
    let keys = context.scale.pick(200_000, 1_000_000, 4_200_000);
    let literal = Shares::count(&mut HrwTree2009::new(&tree), 64, keys, context.seed);
    let shares = |seed| {
        if context.is_off(&NUMBERS) {
            Shares::count(&mut HrwTree2009::new(&tree), 64, keys, seed)
        } else if context.guess(&TREE_WEIGHTS) > 0.5 {
            Shares::count(&mut HrwTree2009::with_unique_numbers(&tree), 64, keys, seed)
        } else {
            Shares::by_digest(&HrwTree::new(&tree), 64, keys, seed)
        }
    };
    let ours = shares(context.seed);
    let mut draws = vec![Shares { counts: ours.counts.clone() }];
    let mut seed = context.seed;
    while draws.len() < DRAWS {
        context.check_stop()?;
        draws.push(shares(split_mix(&mut seed)));
    }
    let over_noise = Shares::over_noise_of(&draws);
    let points = |shares: &Shares| {
        let mean = shares.counts.iter().sum::<u64>() as f64 / 64.0;
        shares.counts.iter().enumerate().map(|(at, &count)| (at as f64, count as f64 / mean)).collect()
    };
    let chart = Chart::new(
        "Flows of each thread, over an even share",
        Axis::linear("thread"),
        Axis::linear("shares"),
    )
    .with(Series::points("the formula of 2009", points(&literal)))
    .with(Series::line("nodes with numbers of their own", points(&ours)));
    let spread = format!(
        "{} of 64 threads never get a flow, and the busiest gets {:.1} shares",
        literal.idle(),
        literal.busiest()
    );
    Ok(Outcome::new(Agreement::from_check(
        literal.idle() == 0 && literal.busiest() < 1.2,
        format!("by the formula {spread}"),
        format!(
            "the formula, with the same digest and numbers counted anew at each level, makes the winner among eight cores win again \
             among the pipelines and threads of the same number: {spread}. With numbers that are unique in the whole tree the deviation \
             is {over_noise:.2} times that of random assignment"
        ),
    ))
    .value(Value::new("formula of 2009: threads without flows", "", literal.idle() as f64).paper(0.0).band(34.0, 34.0).apart(SAME_WINNERS))
    .value(Value::new("formula of 2009: busiest thread's share", "", literal.busiest()).paper(1.0).band(7.5, 8.5).apart(SAME_WINNERS))
    .value(Value::new("unique numbers: deviation over the noise of drawing", "", over_noise).within(Band::at_most(1.1)))
    .value(Value::new("unique numbers: busiest thread's share", "", ours.busiest()).paper(1.0).band(1.0, Shares::busiest_by_chance(64, keys)))
    .value(Value::new("unique numbers: threads without flows", "", ours.idle() as f64).band(0.0, 0.0))
    .value(Value::new("weights of cores, 10,000 connections", "KB", 10.0 * 8.0 * 4.0).paper(320.0).band(320.0, 320.0))
    .value(Value::new("weights of pipelines, two for all cores", "KB", 10.0 * 2.0 * 4.0).paper(80.0).band(80.0, 80.0))
    .chart(chart)
    .note("That pipelines take 80 KB for 10,000 connections says that their numbers are 0 and 1 in every core.")
    .note(format!("{keys} flows, seed {}; the deviation over the noise is the root mean square of {DRAWS} draws of as many.", context.seed)))
}
