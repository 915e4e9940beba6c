//! The breakdown of a packet's time in a stack with lists [DHASH §II-A, Tab. I].
//!
//! For each packet, it finds the session in a table of 1,040 lists, and then updates its state as a
//! network stack would: sequence numbers, counters, a checksum over a header's worth of words. The
//! paper measures the share of the first part.

use std::hint::black_box;

use flowloom_measure::chart::{Axis, Chart, Series};

use super::workload::{Flows, chained, look_up};
use crate::experiment::{Band, Context, Fidelity, Item, ItemError, Outcome, Scale, Value, Verdict};
use crate::timing::{Timed, nanoseconds};
use crate::variation::Switch;
use flowloom::flow_table::baseline::ChainedConfig;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "dhash/table1_where_time_goes",
    place: "§II-A, Tab. I",
    claim: "finding the session takes 58.8 % of a packet's time at 10 sessions and 98.6 % at 131,072",
    fidelity: &[Fidelity::Measured],
    switches: &[LONG_LISTS],
    run,
    ..Item::PLAIN
};

const LONG_LISTS: Switch =
    Switch::mechanism("long-lists", "there are as many lists as sessions, not 1,040");

/// Share in percent from which the rest of a packet's time counts as nothing.
const NEARLY_ALL: f64 = 90.0;

/// Sessions in the rows of the paper that are in this sweep.
const SESSIONS: [u32; 5] = [10, 1024, 16_384, 65_536, 131_072];

/// The work of a stack on a packet whose session was found: about forty dependent steps.
fn update(state: u64) -> u64 {
    (0..40).fold(state, |sum: u64, word| sum.rotate_left(5).wrapping_add(word ^ sum >> 3))
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let sessions = if context.scale == Scale::Smoke { &SESSIONS[..3] } else { &SESSIONS[..] };
    let mut shares = Vec::new();
    for &count in sessions {
        context.check_stop()?;
        let flows = Flows::new(count, context.seed);
        let lists = if context.is_off(&LONG_LISTS) { count } else { ChainedConfig::PAPER_BUCKETS };
        let table = chained(&flows, lists)?;
        let packets = flows.keys.len().min(4096);
        let repeats = (4096 / packets).max(1);
        let items = (packets * repeats) as u64;
        let times = nanoseconds(
            context,
            context.scale.pick(3, 7, 15),
            vec![
                Timed::new("find", items, || {
                    for _ in 0..repeats {
                        black_box(look_up(&table, &flows, packets));
                    }
                }),
                Timed::new("update", items, || {
                    let mut sum = 0;
                    for number in 0..items {
                        sum ^= update(black_box(number));
                    }
                    black_box(sum);
                }),
            ],
        )?;
        shares.push((f64::from(count), times[0] * 100.0 / (times[0] + times[1])));
    }
    let (first, last) = (shares[0].1, shares[shares.len() - 1].1);
    let grows = last > first && last >= NEARLY_ALL;
    let checked = context.scale > Scale::Smoke;
    let chart = Chart::new("Share of finding the session", Axis::log("sessions"), Axis::linear("%"))
        .with(Series::line("here", shares.clone()))
        .with(Series::points("paper", vec![(10.0, 58.8), (131_072.0, 98.6)]));
    Ok(Outcome::new(Verdict::of(
        grows,
        "the share grows with the sessions until nothing else counts",
        "the share did not grow to nearly all of the time in this run",
    ))
    .value(Value::new("share at the fewest sessions", "%", first).paper(58.8).not_comparable(
        "the rest of a packet's time is a stand-in for a stack, so only the growth is a result",
    ))
    .value(Value::new("share at the most by that at the fewest", "×", last / first).paper(98.6 / 58.8).within(Band::at_least(1.5)).checked_if(checked))
    .value(Value::new("share at the most sessions", "%", last).paper(98.6).band(NEARLY_ALL, 99.99).checked_if(checked))
    .chart(chart)
    .note("The rest of a packet's time is forty dependent steps on its state, a stand-in for a stack's: the share at few sessions \
           depends on it, that the share grows does not."))
}
