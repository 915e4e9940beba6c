//! Drops of 64 queues at full load [FLOWNP §6.4.1, Fig. 11].

use flowloom::scheduler::sim::models::Model;
use flowloom::scheduler::sim::{Machine, WhenFull};
use flowloom_measure::chart::{Axis, Chart, Series};

use super::ordering::queues;
use crate::experiment::{Agreement, Band, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::variation::Switch;
use crate::virtual_time::{arriving, run as run_scheme};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "flownp/fig11_drops",
    place: "Fig. 11, §6.4.1",
    claim: "with queues of 512, 1024 and 2048 packets, fewer than 6 % of the packets are dropped",
    numbers: "text of §6.4.1: a limit for all queues",
    fidelity: &[Fidelity::Simulated],
    switches: &[TUPLE],
    run,
    ..Item::PLAIN
};

const TUPLE: Switch =
    Switch::mechanism("five-tuple", "queues are chosen by the destination's address alone");

const BOUNDS: [u32; 3] = [512, 1024, 2048];
const FLOWS: [u32; 3] = [20_000, 5_000, 1_000];

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    // Queues of 2,048 packets take a while to fill: fewer packets would only show that they are not
    // yet full.
    let packets = context.scale.pick(60_000, 1_000_000, 4_000_000);
    let mut chart = Chart::new(
        "Drops at full load, 64 queues",
        Axis::log("packets a queue holds"),
        Axis::linear("dropped, %"),
    );
    let mut values = Vec::new();
    let (mut crc_many, mut ours_most, mut reorders) = (0.0_f64, 0.0_f64, 0);
    for flows in FLOWS {
        let machine =
            Machine { when_full: WhenFull::Drop, pool_packets: Machine::UNBOUNDED, ..queues(64)? };
        let model = Model::Zipf { flows, exponent_permille: 0 };
        let offered = arriving(context, model, packets, &machine, 100, 0)?;
        for scheme in ["crc", "dh", "flowpin"] {
            let mut points = Vec::new();
            for bound in BOUNDS {
                let machine = Machine { queue_packets: bound, ..machine.clone() };
                let is_off = scheme == "crc" && context.is_off(&TUPLE);
                let report = run_scheme(context, if is_off { "dst" } else { scheme }, &machine, &offered)?;
                let percent = report.drop_share() * 100.0;
                points.push((f64::from(bound), percent));
                reorders += report.reorders + report.races;
                let mut value = Value::new(format!("{flows} flows, queue {bound}: {scheme}"), "%", percent);
                match (scheme, flows) {
                    ("crc", 5_000..) => {
                        crc_many = crc_many.max(percent);
                        value = value.paper_below(6.0).within(Band::at_most(6.0));
                    }
                    ("flowpin", _) => ours_most = ours_most.max(percent),
                    _ => {}
                }
                values.push(value);
            }
            chart = chart.with(Series::line(format!("{scheme}, {flows} flows"), points));
        }
    }
    Ok(Outcome::new(Agreement::from_check(
        crc_many < 6.0,
        "with 5,000 live flows or more, all alike; with 1,000 a hash spreads them too unevenly, as it would unlike ones. The \
         load of a trace decides, and which it had is not stated",
        "even with thousands of live flows hashing drops more at full load here",
    ))
    .value(Value::new("most drops by CRC, 5,000 flows or more", "%", crc_many).paper_below(6.0).band(0.0, 6.0))
    .value(Value::new("most drops by flowpin, any number of flows", "%", ours_most).band(0.0, 2.5))
    .value(Value::new("packets out of order", "", reorders as f64).band(0.0, 0.0))
    .values(values)
    .chart(chart)
    .note(format!("{packets} packets at the rate that all threads together can serve, arriving by chance, each of any flow with the same chance. The trace of the paper is no longer available.")))
}
