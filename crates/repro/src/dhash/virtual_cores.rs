//! A model of more cores than the host has: one core reads and dispatches, the others work [DHASH
//! §VI-A].
//!
//! Cores wait for each other only at the rings, and the slower side determines the rate. A lookup's
//! time is measured; the other stages are the paper's cycles.
/// Time per packet of the input stage and of other work, from Table III at 3 GHz, each including
/// its side of the queue. The paper does not state how many of TCP's 700 cycles are the lookup, so
/// all of them count as other work.
const INPUT_NS: f64 = 115.0 / 3.0;
const OTHER_WORK_NS: f64 = 850.0 / 3.0;

/// Cores in the paper's tables: one for input and six pipelines.
pub(super) const MOST_CORES: f64 = 7.0;

/// Returns the rate of `cores` cores, two or more, in million packets per second, for a given
/// lookup time.
pub(super) fn mpps(lookup_ns: f64, cores: f64) -> f64 {
    1e3 / INPUT_NS.max((OTHER_WORK_NS + lookup_ns) / (cores - 1.0))
}

/// Why rates of seven cores have no band.
pub(super) const TIMED: &str = "modelled from lookups timed on this machine, which other programs may slow";

/// Returns the nanoseconds that a pipeline has per packet at a rate that the paper states for six
/// pipelines.
pub(super) fn pipeline_ns(mpps: f64) -> f64 {
    (MOST_CORES - 1.0) * 1e3 / mpps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipelines_limit_the_rate_until_the_input_does() {
        assert!((mpps(0.0, 2.0) - 1e3 / OTHER_WORK_NS).abs() < 1e-9);
        assert!((mpps(100.0, 7.0) / mpps(100.0, 4.0) - 2.0).abs() < 1e-9);
        assert!((mpps(0.0, 100.0) - 1e3 / INPUT_NS).abs() < 1e-9);
        assert!((pipeline_ns(mpps(100.0, MOST_CORES)) - OTHER_WORK_NS - 100.0).abs() < 1e-6);
    }
}
