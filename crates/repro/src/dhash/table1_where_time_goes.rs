//! The breakdown of a packet's time in a stack with lists [DHASH §II-A, Tab. I].
//!
//! A packet is copied out of a ring of frames, its headers are decoded and the checksum of its IP
//! header verified, its session is found in a table of 1,040 lists, and the session's state is
//! updated as a network stack would: sequence numbers, counters, a checksum over a header's worth
//! of words. The paper measures the shares of these four parts.

use std::hint::black_box;

use flowloom::packet::checksum::ipv4_header_checksum_ok;
use flowloom::packet::{DecodeOptions, LinkType, decode};
use flowloom::traffic::synth::{Generate, PaperTrace};
use flowloom_measure::chart::{Axis, Chart, Series};

use super::workload::{Flows, chained, look_up};
use crate::experiment::{Agreement, Band, Context, Fidelity, Item, ItemError, Outcome, Scale, Value};
use crate::timing::{Timed, nanoseconds};
use crate::variation::Switch;
use flowloom::flow_table::baseline::PAPER_BUCKETS;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "dhash/table1_where_time_goes",
    place: "§II-A, Tab. I",
    claim: "finding the session takes nearly all of a packet's time at 131,072 sessions: 98.6 %",
    numbers: "Tab. I as printed: the rows for 10 and 131,072 sessions",
    fidelity: &[Fidelity::Measured],
    switches: &[LONG_LISTS],
    run,
    ..Item::PLAIN
};

const LONG_LISTS: Switch =
    Switch::mechanism("long-lists", "there are as many lists as sessions, not 1,040");

/// Why shares at few sessions have no band.
const STAND_IN: &str =
    "the rest of a packet's time is a stand-in for a stack, so only the growth is a result";

/// Share in percent from which the rest of a packet's time counts as nothing.
const NEARLY_ALL: f64 = 90.0;

/// Sessions in the rows of the paper that are in this sweep.
const SESSIONS: [u32; 5] = [10, 1024, 16_384, 65_536, 131_072];

/// Columns of the table: name, shares at the fewest and at the most sessions.
const COLUMNS: [(&str, f64, f64); 4] = [
    ("finding the session", 58.8, 98.6),
    ("packet I/O", 4.1, 0.14),
    ("IP", 4.6, 0.16),
    ("TCP without finding the session", 32.5, 1.1),
];

/// Number of frames in the ring.
const FRAMES: usize = 4096;

/// Length of an Ethernet header in bytes.
const ETHERNET: usize = 14;

/// Returns frames of the paper's kind.
fn frames(context: &Context<'_>) -> Result<Vec<Vec<u8>>, ItemError> {
    let mut trace =
        PaperTrace::with_sessions(1024, context.seed).map_err(ItemError::during("making the trace"))?;
    let (mut frames, mut frame) = (Vec::new(), Vec::new());
    while frames.len() < FRAMES && trace.next_into(&mut frame).is_some() {
        frames.push(frame.clone());
    }
    Ok(frames)
}

/// The work of a stack on a packet whose session was found: about forty dependent steps.
fn update(state: u64) -> u64 {
    (0..40).fold(state, |sum: u64, word| sum.rotate_left(5).wrapping_add(word ^ sum >> 3))
}

/// Returns the verdict on the shares in percent at the fewest and the most sessions.
fn verdict(first: f64, last: f64) -> Agreement {
    Agreement::from_check(
        last > first && last >= NEARLY_ALL,
        format!(
            "at the most sessions the share is {last:.1} %, and grows with the sessions. At ten it is {first:.1} %, and the paper's is 58.8: these are \
             not compared, since they depend on the rest of a packet's time, which is a stand-in for a stack"
        ),
        format!("the share grows from {first:.1} % to {last:.1}, and not to {NEARLY_ALL} or more"),
    )
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let sessions = if context.scale == Scale::Smoke { &SESSIONS[..3] } else { &SESSIONS[..] };
    let frames = frames(context)?;
    let mut shares: [Vec<(f64, f64)>; 4] = [const { Vec::new() }; 4];
    for &count in sessions {
        context.check_stop()?;
        let flows = Flows::new(count, context.seed);
        let lists = if context.is_off(&LONG_LISTS) { count } else { PAPER_BUCKETS };
        let table = chained(&flows, lists)?;
        let packets = flows.keys.len().min(FRAMES);
        let repeats = (FRAMES / packets).max(1);
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
                Timed::new("copy", frames.len() as u64, || {
                    let mut buffer = [0; 2048];
                    for frame in &frames {
                        buffer[..frame.len()].copy_from_slice(frame);
                        black_box(&buffer);
                    }
                }),
                Timed::new("decode", frames.len() as u64, || {
                    for frame in &frames {
                        black_box(ipv4_header_checksum_ok(&frame[ETHERNET..]));
                        black_box(decode(LinkType::ETHERNET, frame, DecodeOptions::default()).is_ok());
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
        let sum: f64 = times.iter().sum();
        for (points, time) in shares.iter_mut().zip(&times) {
            points.push((f64::from(count), time * 100.0 / sum));
        }
    }
    let ends = |points: &[(f64, f64)]| (points[0].1, points[points.len() - 1].1);
    let (first, last) = ends(&shares[0]);
    let checked = context.scale > Scale::Smoke;
    let chart = Chart::new("Share of finding the session", Axis::log("sessions"), Axis::linear("%"))
        .with(Series::line("here", shares[0].clone()))
        .with(Series::points("paper", vec![(10.0, 58.8), (131_072.0, 98.6)]));
    let mut outcome = Outcome::new(verdict(first, last))
        .value(Value::new("share at the fewest sessions", "%", first).paper(58.8).not_comparable(STAND_IN))
        .value(
            Value::new("share at the most by that at the fewest", "×", last / first)
                .paper(98.6 / 58.8)
                .within(Band::at_least(1.5))
                .checked_if(checked),
        )
        .value(
            Value::new("share at the most sessions", "%", last)
                .paper(98.6)
                .band(NEARLY_ALL, 99.99)
                .checked_if(checked),
        );
    for ((name, fewest, most), points) in COLUMNS.into_iter().zip(&shares).skip(1) {
        let (first, last) = ends(points);
        outcome = outcome
            .value(
                Value::new(format!("{name}, at the fewest"), "%", first)
                    .paper(fewest)
                    .not_comparable(STAND_IN),
            )
            .value(
                Value::new(format!("{name}, at the most"), "%", last)
                    .paper(most)
                    .band(0.0, 100.0 - NEARLY_ALL)
                    .checked_if(checked),
            );
    }
    let all = Chart::bars(
        "Parts of a packet's time at the most sessions",
        COLUMNS.map(|column| column.0),
        Axis::log("%"),
    )
    .with(Series::bars("here", shares.iter().map(|points| ends(points).1)))
    .with(Series::bars("paper", COLUMNS.map(|column| column.2)));
    Ok(outcome
    .chart(chart)
    .chart(all)
    .note("Packet I/O is a copy of the frame, IP our decoder and the header's checksum, TCP forty dependent steps on the session's state: \
           stand-ins for a stack's. The shares at few sessions depend on them, that all but one shrink to nothing does not."))
}
