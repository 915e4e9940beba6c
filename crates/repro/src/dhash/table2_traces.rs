//! The three traces: counts, lengths, concurrent sessions [DHASH §V-B, Tab. II].

use flowloom::traffic::synth::{PaperTrace, TraceProfile};
use flowloom_measure::chart::Axis;

use crate::experiment::{Agreement, Band, Context, Fidelity, Item, ItemError, Outcome, Scale, Value};
use crate::variation::NO_EFFECT;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "dhash/table2_traces",
    place: "§V-B, Tab. II",
    claim: "three files of 5.2, 10.5 and 21.0 million packets of 67 bytes; 249,036 to 996,189 concurrent sessions",
    numbers: "Tab. II as printed",
    fidelity: &[Fidelity::Measured],
    unswitched: NO_EFFECT,
    run,
    ..Item::PLAIN
};

/// Packets, sessions, average number of concurrent sessions.
const FILES: [(u32, u32, u32); 3] =
    [(5_242_880, 262_144, 249_036), (10_485_760, 524_288, 498_073), (20_971_520, 1_048_576, 996_189)];

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    // A smoke run generates a hundredth of File-1; its numbers scale with the number of sessions.
    let (files, divisor) = context.scale.pick((1, 128_u32), (1, 1), (3, 1));
    let mut outcome = Outcome::new(Agreement::definition(
        "counts and lengths exactly, averages within 0.005 %; the files themselves are not public, and ours are made to have the paper's numbers",
    ));
    for (number, &(packets, sessions, average)) in (1_u8..).zip(&FILES).take(files) {
        context.check_stop()?;
        let scaled = |number: u32| f64::from(number) / f64::from(divisor);
        let mut trace = PaperTrace::with_sessions(u64::from(sessions / divisor), context.seed)
            .map_err(ItemError::during("making the trace"))?;
        let profile = TraceProfile::from_generator(&mut trace);
        let exactly = |name: String, paper: f64, ours: f64| {
            Value::new(name, "", ours).paper(paper).within(Band::around(paper, 0.0))
        };
        outcome = outcome
            .value(exactly(format!("File-{number}: packets"), scaled(packets), profile.packets as f64))
            .value(exactly(
                format!("File-{number}: sessions"),
                scaled(sessions),
                profile.sessions_max as f64,
            ))
            .value(
                Value::new(format!("File-{number}: mean length"), "B", profile.mean_length_bytes)
                    .paper(67.0)
                    .band(67.0, 67.0),
            )
            .value(
                Value::new(format!("File-{number}: concurrent sessions"), "", profile.sessions_average)
                    .paper(scaled(average))
                    .within(Band::around(scaled(average), 0.01)),
            );
    }
    if context.scale < Scale::Full {
        outcome = outcome.note(format!(
            "{files} of 3 files made, with {} of its sessions; --scale full makes all",
            if divisor == 1 { String::from("all") } else { format!("1/{divisor}") }
        ));
    }
    Ok(outcome
        .chart_of("The traces", Axis::log("count"), |value| value.unit.is_empty())
        .note("Two packets of a session have all other sessions between them: the longest reuse distance.")
        .judged())
}
