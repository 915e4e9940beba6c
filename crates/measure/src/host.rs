//! The machine on which figures were measured, and its noise.

use std::hint::black_box;

use serde::{Deserialize, Serialize};

use crate::clock::wall_ns;
use crate::cpu_distance::line_round_trips_ns;
use crate::stats::Summary;

/// The noise above which [`Host::is_quiet`] returns `false`.
pub const NOISE_MAX: f64 = 1.25;

/// The machine, as far as figures depend on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Host {
    /// Model name of the processor.
    pub cpu: String,
    /// Instruction set used by the hot paths, such as `avx512`.
    pub isa: String,
    /// Logical processors to which the run was pinned; empty if it was not pinned.
    pub cores: Vec<usize>,
    /// Number of runnable programs, averaged over the last minute.
    pub load1: f64,
    /// Release of the kernel.
    pub kernel: String,
    /// Version of the compiler, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rustc: Option<String>,
    /// Spread of a fixed loop: the 95th percentile of its time divided by the 5th. 1 means no
    /// noise.
    pub noise_p95_over_p5: f64,
    /// Shortest and longest round-trip time of a cache line between the first CPU and others, in
    /// nanoseconds, if there are others; the cost of communication depends on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_round_trip_ns: Option<[f64; 2]>,
}

impl Host {
    /// Reads the description of the machine, and measures its noise for about a tenth of a second.
    ///
    /// Unreadable properties are `unknown`; an unreadable load is 0.
    pub fn read(isa: impl Into<String>, cores: &[usize]) -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Self {
            cpu: cpu_model(&read("/proc/cpuinfo")),
            isa: isa.into(),
            cores: cores.to_vec(),
            load1: load1(&read("/proc/loadavg")),
            kernel: known(read("/proc/sys/kernel/osrelease").trim()),
            rustc: None,
            noise_p95_over_p5: noise(100, 1_000_000),
            line_round_trip_ns: line_round_trips_ns(),
        }
    }

    /// Returns whether absolute times of this machine are meaningful; ratios of interleaved rounds
    /// always are.
    pub fn is_quiet(&self) -> bool {
        self.noise_p95_over_p5 <= NOISE_MAX
    }
}

/// Runs a fixed loop of about `loop_ns` nanoseconds `samples` times, and returns the 95th
/// percentile of its wall-clock time divided by the 5th.
///
/// The loop does arithmetic in registers, so the spread comes from the clock rate and from other
/// programs.
pub fn noise(samples: usize, loop_ns: u64) -> f64 {
    const TRIAL: u64 = 20_000;
    let time = |steps: u64| {
        let start = wall_ns();
        black_box(spin(black_box(steps)));
        wall_ns() - start
    };
    let trial_ns = (0..5).map(|_| time(TRIAL)).min().unwrap_or(1).max(1);
    let steps = (TRIAL * loop_ns / trial_ns).max(1);
    #[expect(clippy::cast_precision_loss, reason = "milliseconds, in nanoseconds")]
    let summary = Summary::from_samples((0..samples).map(|_| time(steps) as f64));
    if summary.p5 > 0.0 { summary.p95 / summary.p5 } else { 1.0 }
}

/// A chain of multiplications that no compiler can shorten.
fn spin(steps: u64) -> u64 {
    (0..steps).fold(1, |x: u64, n| (x ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// Returns the model name of the first processor; on ARM, its numbers.
fn cpu_model(cpuinfo: &str) -> String {
    let field = |name: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    field("model name")
        .or_else(|| Some(format!("implementer {} part {}", field("CPU implementer")?, field("CPU part")?)))
        .unwrap_or_else(|| known(""))
}

fn load1(loadavg: &str) -> f64 {
    loadavg.split_whitespace().next().and_then(|text| text.parse().ok()).unwrap_or(0.0)
}

fn known(text: &str) -> String {
    if text.is_empty() { "unknown".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_read_on_either_architecture() {
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: Foo @ 2 GHz\n"), "Foo @ 2 GHz");
        let arm = "processor : 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(cpu_model(arm), "implementer 0x41 part 0xd0c");
        assert_eq!(cpu_model(""), "unknown");
    }

    #[test]
    fn the_load_is_the_first_number() {
        assert!((load1("0.52 0.58 0.59 1/467 12345\n") - 0.52).abs() < 1e-9);
        assert!(load1("").abs() < 1e-9);
    }

    #[test]
    fn noise_estimate_is_at_least_one() {
        assert!(noise(20, 50_000) >= 1.0);
    }
}
