//! The major-location functions that fit each signature [DHASH §III-C].

use flowloom::flow_key::TableHash;
use flowloom::flow_key::hash::fold::split_mix;
use flowloom::flow_table::dhash::major_location::{Folded, LowBits, MajorLocation};
use flowloom::flow_table::dhash::signature::{Algorithm1, Algorithm4, Session, Signature, non_zero};
use flowloom_measure::chart::Axis;

use crate::experiment::{Agreement, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::variation::BOTH_RUN;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "dhash/section3_symmetry",
    place: "§III-C",
    claim: "function (1) is for signatures that are the same in both directions, such as algorithm 4",
    numbers: "none: §III-C states a property",
    fidelity: &[Fidelity::Arithmetic],
    unswitched: BOTH_RUN,
    run,
    ..Item::PLAIN
};

/// Returns the percentage of sessions whose two directions have the same major location.
#[expect(clippy::cast_possible_truncation, reason = "any bits of a random word will do")]
fn equal_share<S: Signature<Session> + Default, M: MajorLocation + Default>(seed: u64, count: u32) -> f64 {
    let mut state = seed;
    let same = (0..count).filter(|_| {
        let (a, b) = (split_mix(&mut state), split_mix(&mut state));
        let session = Session {
            source: a as u32,
            destination: (a >> 32) as u32,
            source_port: b as u16,
            destination_port: (b >> 16) as u16,
        };
        let slot = |session: &Session| {
            M::default().slot(non_zero(S::default().raw(session, TableHash::default())))
        };
        slot(&session) == slot(&session.reversed())
    });
    same.count() as f64 * 100.0 / f64::from(count)
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let count = context.scale.pick(10_000, 100_000, 1_000_000);
    let seed = context.seed;
    let first = equal_share::<Algorithm4, LowBits>(seed, count);
    Ok(Outcome::new(Agreement::from_check(
        first > 99.99,
        "both directions of algorithm 4 begin at the same slot by function (1)",
        format!(
            "algorithm 4 is not the same for both directions: its halves change places. Function (2) is the one that does not see \
             that; by function (1) {first:.1} % of the sessions agree, by chance one of sixteen. A line of the text may be lost"
        ),
    ))
    .value(Value::new("algorithm 4, function (1)", "%", first).paper(100.0).band(5.0, 7.5).apart("the halves of the signature change places with the direction"))
    .value(Value::new("algorithm 4, function (2)", "%", equal_share::<Algorithm4, Folded>(seed, count)).band(100.0, 100.0))
    .value(Value::new("algorithm 1, function (1)", "%", equal_share::<Algorithm1, LowBits>(seed, count)).band(100.0, 100.0))
    .value(Value::new("algorithm 1, function (2)", "%", equal_share::<Algorithm1, Folded>(seed, count)).band(100.0, 100.0))
    .chart_of("Both directions begin at the same slot", Axis::linear("% of sessions"), |value| value.unit == "%")
    .note(format!("{count} sessions; the share whose two directions have the same major location.")))
}
