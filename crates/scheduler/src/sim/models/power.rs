//! Computes powers without the platform's math library, whose last digit may differ between
//! machines.

/// Returns log2 of a number of at least 1, to within 2⁻⁴⁰, by squaring.
fn log2(x: f64) -> f64 {
    let (mut x, mut log) = (x, 0.0);
    while x >= 2.0 {
        x /= 2.0;
        log += 1.0;
    }
    let mut bit = 0.5;
    for _ in 0..40 {
        x *= x;
        if x >= 2.0 {
            x /= 2.0;
            log += bit;
        }
        bit /= 2.0;
    }
    log
}

/// Returns 2 to the power of a number from 0 to 60, by square roots.
fn exp2(x: f64) -> f64 {
    let mut rest = x;
    let mut value = 1.0;
    while rest >= 1.0 {
        value *= 2.0;
        rest -= 1.0;
    }
    // IEEE 754 defines the square root exactly, to the last bit.
    let mut root = 2.0_f64;
    for _ in 0..40 {
        root = root.sqrt();
        rest *= 2.0;
        if rest >= 1.0 {
            value *= root;
            rest -= 1.0;
        }
    }
    value
}

/// Returns `x` to the power of `exponent`, for `x` of at least 1 and results below 2⁶⁰.
pub(super) fn power(x: f64, exponent: f64) -> f64 {
    exp2((log2(x.max(1.0)) * exponent).clamp(0.0, 60.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_agree_with_the_platforms() {
        for x in [1.0, 1.5, 2.0, 7.0, 3000.0, 1e6] {
            for exponent in [0.0, 0.5, 1.0, 1.1, 2.5] {
                let (found, expected) = (power(x, exponent), f64::powf(x, exponent));
                assert!((found / expected - 1.0).abs() < 1e-9, "{x}^{exponent}: {found} {expected}");
            }
        }
    }
}
