//! Draws from the distributions of web traffic, with the same numbers on every machine.

use crate::random::Random;

use super::math::{exp, ln};

/// Returns a draw with density e^(−x/mean)/mean.
pub fn exponential(random: &mut Random, mean: f64) -> f64 {
    -ln(random.unit()) * mean
}

/// Returns a draw that is at least `least` and exceeds x with probability (least/x)^shape.
pub fn pareto(random: &mut Random, least: f64, shape: f64) -> f64 {
    least * exp(-ln(random.unit()) / shape)
}

/// Returns a draw that exceeds x with probability e^(−(x/scale)^shape).
pub fn weibull(random: &mut Random, scale: f64, shape: f64) -> f64 {
    let unit = -ln(random.unit());
    // The logarithm of 1 is 0, and 0 has no logarithm.
    if unit > 0.0 { scale * exp(ln(unit) / shape) } else { 0.0 }
}

/// Returns a draw of the standard normal distribution, by the polar method.
pub fn normal(random: &mut Random) -> f64 {
    loop {
        let (x, y) = (random.unit() * 2.0 - 1.0, random.unit() * 2.0 - 1.0);
        let square = x * x + y * y;
        if square < 1.0 && square > 1e-300 {
            return x * (-2.0 * ln(square) / square).sqrt();
        }
    }
}

/// Returns a draw whose logarithm is normal with the given mean and deviation.
pub fn lognormal(random: &mut Random, mean: f64, deviation: f64) -> f64 {
    exp(mean + deviation * normal(random))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantiles(mut draw: impl FnMut(&mut Random) -> f64) -> [f64; 3] {
        let mut random = Random::new(17);
        let mut values: Vec<f64> = (0..40_000).map(|_| draw(&mut random)).collect();
        values.sort_by(f64::total_cmp);
        [values[10_000], values[20_000], values[36_000]]
    }

    fn near(found: [f64; 3], expected: [f64; 3]) {
        for (found, expected) in found.into_iter().zip(expected) {
            assert!((found - expected).abs() < 0.04 * expected.abs() + 0.02, "{found} is not {expected}");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_distributions() {
        // At 1/4, 1/2 and 9/10.
        near(quantiles(|r| exponential(r, 4.0)), [1.151, 2.773, 9.210]);
        near(quantiles(|r| pareto(r, 3.0, 1.5)), [3.634, 4.762, 13.925]);
        near(quantiles(|r| weibull(r, 0.2, 0.5)), [0.016_55, 0.0961, 1.0604]);
        near(quantiles(normal), [-0.6745, 0.0, 1.2816]);
        near(quantiles(|r| lognormal(r, 2.0, 0.5)), [5.274, 7.389, 14.02]);
    }
}
