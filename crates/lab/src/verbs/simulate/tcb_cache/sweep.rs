//! Runs points on threads. The results do not depend on the number of threads.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use flowloom::engine::Control;
use flowloom::tcb_cache::bounds::NextUses;
use flowloom::tcb_cache::{CacheSpec, Counts, SimulateError, Simulated, Trace};

use crate::args::Common;
use crate::args::simulate::tcb_cache::TcbCache;
use crate::exit::Failure;
use crate::progress::Steps;

use super::grid::Point;

/// A point that was simulated with all its draws.
#[derive(Clone, Debug)]
pub(super) struct Finished {
    /// Sum over the draws.
    pub(super) counts: Counts,
    /// Miss ratio of each draw.
    pub(super) ratios: Vec<f64>,
}

/// Next uses, computed once for all points that need them.
#[derive(Debug, Default)]
struct Future {
    with_ends: OnceLock<Result<NextUses, SimulateError>>,
    without: OnceLock<Result<NextUses, SimulateError>>,
}

impl Future {
    fn next_uses(&self, trace: &Trace, spec: &CacheSpec) -> Result<Option<&NextUses>, SimulateError> {
        if !spec.policy.needs_future() {
            return Ok(None);
        }
        if !spec.uses_closing() {
            return self.without(trace).map(Some);
        }
        self.with_ends.get_or_init(|| trace.next_uses(true)).as_ref().map(Some).map_err(|error| *error)
    }

    fn without(&self, trace: &Trace) -> Result<&NextUses, SimulateError> {
        self.without.get_or_init(|| trace.next_uses(false)).as_ref().map_err(|error| *error)
    }
}

/// The next job of a thread.
enum Job {
    /// Count distinct keys, which takes as long as a simulation.
    Keys,
    /// One draw of one point.
    Draw { point: usize, draw: u32 },
}

/// The results of a sweep.
pub(super) struct Sweep {
    /// The result of each point; `None` if an interrupt prevented it.
    pub(super) points: Vec<Option<Finished>>,
    /// The number of distinct keys, and of keys that first occur in the measured part; `None` after
    /// an interrupt.
    pub(super) keys: Option<(usize, usize)>,
}

/// Simulates all points.
pub(super) fn run(
    trace: &Trace,
    points: &[Point],
    arguments: &TcbCache,
    control: &Control,
    common: &Common,
) -> Result<Sweep, Failure> {
    let draws = arguments.draws;
    let all = (0..points.len()).flat_map(|point| (0..draws).map(move |draw| Job::Draw { point, draw }));
    let jobs: Vec<Job> = std::iter::once(Job::Keys).chain(all).collect();
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = arguments.threads.map_or(processors, usize::from).min(jobs.len()).max(1);
    let results: Vec<OnceLock<Counts>> = jobs.iter().map(|_| OnceLock::new()).collect();
    let keys = OnceLock::new();
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let error: Mutex<Option<SimulateError>> = Mutex::new(None);
    let done = Arc::new(AtomicU64::new(0));
    let progress = Steps::start("simulate", jobs.len() as u64, Arc::clone(&done), common.quiet > 0);
    let future = Future::default();
    let stop = || control.is_stopped() || failed.load(Ordering::Relaxed);
    let work = || {
        while !stop() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(number) else { break };
            let &Job::Draw { point, draw } = job else {
                if let Ok(uses) = future.without(trace) {
                    let _ = keys.set((uses.first_uses_from(0), uses.first_uses_from(trace.warm())));
                }
                done.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            let spec = points[point].spec;
            let spec = CacheSpec { seed: spec.seed.wrapping_add(u64::from(draw)), ..spec };
            let outcome =
                future.next_uses(trace, &spec).and_then(|future| trace.simulate(&spec, future, &stop));
            match outcome {
                Ok(Simulated::Finished(counts)) => {
                    let _ = results[number].set(counts);
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Ok(Simulated::Stopped) => break,
                Err(found) => {
                    *error.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
                    failed.store(true, Ordering::Relaxed);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Fewer threads take longer and give the same results.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    drop(progress);
    if let Some(error) = error.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(Failure::Usage(error.to_string()));
    }
    let points = results[1..]
        .chunks(draws as usize)
        .map(|draws| {
            let counts: Option<Vec<Counts>> = draws.iter().map(|cell| cell.get().copied()).collect();
            counts.map(|counts| Finished {
                ratios: counts.iter().map(Counts::miss_ratio).collect(),
                counts: counts.into_iter().fold(Counts::default(), |sum, counts| sum + counts),
            })
        })
        .collect();
    Ok(Sweep { points, keys: keys.into_inner() })
}
