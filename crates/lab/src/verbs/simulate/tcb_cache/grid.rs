//! The parameter combinations of a sweep.

use flowloom::tcb_cache::{CacheSpec, Geometry, IndexFunction};

use crate::args::simulate::tcb_cache::{Fin, PolicyName, TcbCache};
use crate::exit::Failure;

/// Maximum number of points in a sweep.
const POINTS_MAX: usize = 100_000;

/// A cache to simulate, and the name that the user gave.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) name: String,
    pub(super) spec: CacheSpec,
}

/// Returns every combination of the listed values, each once. `foreign`: the keys are not addresses
/// and ports.
pub(super) fn points(arguments: &TcbCache, foreign: bool) -> Result<Vec<Point>, Failure> {
    let usage = |error: &dyn std::fmt::Display| Failure::Usage(error.to_string());
    let own =
        [if foreign { IndexFunction::H3 { key_bits: 64, full_rank: false } } else { IndexFunction::PAPER }];
    let hashes = if arguments.hash.is_empty() { &own[..] } else { &arguments.hash };
    let asked = [
        arguments.policy.len(),
        arguments.fin.len(),
        arguments.banks.len(),
        arguments.ways.len(),
        hashes.len(),
        arguments.size.len(),
    ];
    let count = asked.iter().try_fold(1_usize, |product, length| product.checked_mul(*length));
    if count.is_none_or(|count| count > POINTS_MAX) {
        return Err(Failure::Usage(format!(
            "the lists give more than {POINTS_MAX} combinations; shorten \
            them"
        )));
    }
    let mut points: Vec<Point> = Vec::new();
    for policy in &arguments.policy {
        for fin in &arguments.fin {
            for banks in &arguments.banks {
                for ways in &arguments.ways {
                    for hash in hashes {
                        for size in &arguments.size {
                            let geometry = Geometry::new(*size, arguments.line, *banks, *ways)
                                .map_err(|error| usage(&error))?;
                            points.push(point(*policy, *fin, geometry, *hash, arguments.seed)?);
                        }
                    }
                }
            }
        }
    }
    let mut seen: Vec<CacheSpec> = Vec::new();
    points.retain(|point| {
        let new = !seen.contains(&point.spec);
        if new {
            seen.push(point.spec);
        }
        new
    });
    Ok(points)
}

fn point(
    policy: PolicyName,
    fin: Fin,
    geometry: Geometry,
    index: IndexFunction,
    seed: u64,
) -> Result<Point, Failure> {
    let drops_closed = fin == Fin::On;
    let (name, spec) = match policy {
        PolicyName::Baseline => {
            (String::from("mod"), CacheSpec { drops_closed, seed, ..CacheSpec::baseline(geometry) })
        }
        PolicyName::Policy(policy) => {
            let drops_closed = drops_closed || policy.always_drops_closed();
            let spec = CacheSpec { geometry, index, policy, drops_closed, seed };
            // Banks and functions do not affect a fully associative cache, so these points are
            // equal.
            let spec = if policy.is_fully_associative() {
                CacheSpec { geometry: geometry.single_set(), index: IndexFunction::Modulo, ..spec }
            } else {
                spec
            };
            (policy.to_string(), spec)
        }
    };
    spec.indexing().map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(Point { name, spec })
}
