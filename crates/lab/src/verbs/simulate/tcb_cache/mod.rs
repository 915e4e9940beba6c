//! Simulates caches of connection state.

mod capture;
mod grid;
mod loaded;
pub(crate) mod source;
mod sweep;

use std::sync::Arc;
use std::time::Instant;

use flowloom::engine::Control;
use flowloom::tcb_cache::Trace;
use flowloom::tcb_cache::cost::OffloadEngine;

use crate::args::Common;
use crate::args::simulate::tcb_cache::{TcbCache, Warm};
use crate::exit::{Failure, Status};
use crate::render::simulate::tcb_cache::{Picture, PointFigures, SimulateResult, TraceFigures};
use crate::render::{counted, print, say_error, warn};
use crate::signals::stop_on_signals;

use grid::Point;
use loaded::Loaded;
use sweep::Sweep;

/// Runs the command.
pub(crate) fn run(arguments: &TcbCache, common: &Common) -> Result<Status, Failure> {
    let begun = Instant::now();
    let control = Arc::new(Control::default());
    stop_on_signals(&control);
    // Check shapes before reading a long trace; the default index function depends on the trace.
    grid::points(arguments, false)?;
    let picture = arguments.svg.as_deref().map(Picture::open).transpose()?;
    let loaded = source::load(arguments, &control)?;
    let points = grid::points(arguments, loaded.foreign)?;
    let accesses = loaded.accesses.len();
    let warm = match arguments.warm {
        Some(Warm::Share(share)) => (accesses as f64 * share) as usize,
        Some(Warm::Accesses(warm)) => usize::try_from(warm).unwrap_or(usize::MAX),
        None if arguments.overlap.is_some() => accesses / 4,
        None => 0,
    };
    if warm >= accesses && !control.is_stopped() {
        return Err(Failure::Usage(format!(
            "the trace has {accesses} accesses, but --warm leaves none of them to count\n  use a \
             smaller --warm"
        )));
    }
    let Loaded { accesses, figures, skipped, fault, .. } = loaded;
    if let Some(fault) = fault {
        say_error(fault.text(), Status::Interrupted);
    }
    let trace = Trace::new(accesses, warm);
    let sweep = sweep::run(&trace, &points, arguments, &control, common)?;
    let result = result(arguments, &trace, figures, &points, &sweep, &control, begun);
    if skipped > 0 {
        let text = format!("{} of the trace cannot be used", counted(skipped, "record"));
        if arguments.strict {
            say_error(&text, Status::PartialInput);
        } else {
            warn(&format!("{text}; --strict makes this an error"), common);
        }
    }
    // A run that was interrupted before its first point has no chart.
    let drawn = picture.filter(|_| !result.points.is_empty()).map(|picture| result.draw(picture));
    print(&result, common)?;
    if let Some(Err(error)) = drawn {
        return Err(error);
    }
    Ok(match (result.interrupted, arguments.strict && skipped > 0) {
        (true, _) => Status::Interrupted,
        (false, true) => Status::PartialInput,
        (false, false) => Status::Ok,
    })
}

fn result(
    arguments: &TcbCache,
    trace: &Trace,
    mut figures: TraceFigures,
    points: &[Point],
    sweep: &Sweep,
    control: &Control,
    begun: Instant,
) -> SimulateResult {
    figures.accesses = trace.accesses().len() as u64;
    figures.warm = trace.warm() as u64;
    figures.span_s = trace.accesses().last().map_or(0.0, |access| access.time_ms() as f64 / 1000.0);
    if let Some((keys, first_uses)) = sweep.keys {
        figures.keys = keys as u64;
        figures.compulsory_miss_ratio = first_uses as f64 / (figures.accesses - figures.warm) as f64;
    }
    let done =
        points.iter().zip(&sweep.points).filter_map(|(point, finished)| Some((point, finished.as_ref()?)));
    let points: Vec<PointFigures> = done
        .map(|(point, finished)| {
            let (spec, counts) = (&point.spec, &finished.counts);
            let banked = !spec.policy.is_fully_associative();
            let mean = finished.ratios.iter().sum::<f64>() / finished.ratios.len().max(1) as f64;
            PointFigures {
                policy: point.name.clone(),
                hash: banked.then(|| spec.index.to_string()),
                banks: banked.then(|| spec.geometry.banks()),
                sets: banked.then(|| spec.geometry.sets()),
                ways: banked.then(|| spec.geometry.ways()),
                bytes: spec.geometry.bytes(),
                lines: spec.geometry.lines(),
                fin: spec.uses_closing(),
                draws: finished.ratios.len() as u64,
                miss_ratio: mean,
                miss_ratio_low: finished.ratios.iter().copied().fold(f64::INFINITY, f64::min),
                miss_ratio_high: finished.ratios.iter().copied().fold(0.0, f64::max),
                accesses: counts.accesses,
                hits: counts.hits,
                auxiliary_hits: counts.auxiliary_hits,
                misses: counts.misses,
                evictions: counts.evictions,
                moves: counts.moves,
                closed: counts.closed,
                not_filled: counts.not_filled,
                offload_ns: [1.0, 2.0, 3.0].map(|k| OffloadEngine::paper(k).packet_time_ns(mean)),
            }
        })
        .collect();
    SimulateResult {
        schema: "flowloom/simulate-tcb-cache/1",
        trace: figures,
        seed: arguments.seed,
        points_asked: sweep.points.len() as u64,
        points,
        seconds: begun.elapsed().as_secs_f64(),
        interrupted: control.is_stopped(),
    }
}
