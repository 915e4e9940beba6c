//! Logarithm and exponential, computed with additions, multiplications and divisions only.
//!
//! The math libraries of two machines may differ in the last bit, and generated traces would then
//! differ too. These functions give the same results everywhere, and are exact to about fifteen
//! digits.

use core::f64::consts::{LN_2, SQRT_2};

/// Returns the natural logarithm of a positive, normal number.
pub(super) fn ln(x: f64) -> f64 {
    debug_assert!(x.is_normal() && x > 0.0);
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut mantissa = f64::from_bits(bits & 0x000F_FFFF_FFFF_FFFF | 1023 << 52);
    if mantissa > SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln m = 2 artanh s, and |s| is below 0.172.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    let mut odd = 23.0;
    while odd > 0.0 {
        sum = sum * square + 1.0 / odd;
        odd -= 2.0;
    }
    2.0 * s * sum + exponent as f64 * LN_2
}

/// Returns e to the power of `x`, which is limited to ±700.
pub(super) fn exp(x: f64) -> f64 {
    let x = x.clamp(-700.0, 700.0);
    let power = (x / LN_2).round();
    let rest = x - power * LN_2;
    let mut sum = 1.0;
    let mut n = 18.0;
    while n > 0.0 {
        sum = 1.0 + sum * rest / n;
        n -= 1.0;
    }
    let scale = f64::from_bits(((power as i64 + 1023) as u64) << 52);
    sum * scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_agree_with_the_library() {
        let mut x = 1e-9;
        while x < 1e9 {
            assert!((ln(x) - x.ln()).abs() <= 4e-15 * x.ln().abs().max(1.0), "ln {x}");
            x *= 1.37;
        }
        let mut x = -690.0;
        while x < 690.0 {
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-12, "exp {x}");
            x += 0.813;
        }
        assert_eq!((ln(1.0).to_bits(), exp(0.0).to_bits()), (0.0_f64.to_bits(), 1.0_f64.to_bits()));
        assert!(exp(1e300) > 1e300 && exp(-1e300) > 0.0);
    }
}
