//! Computes shares that fall with a power of the rank.
//!
//! The last digit of the platform's `powf` may differ between C libraries, and a difference can
//! move a packet from one flow to another. Logarithm and exponential are therefore series of
//! additions, multiplications and divisions, which IEEE 754 defines to the bit.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "ranks and totals are below 2^53, exponents of halvings above -1023"
)]

use std::f64::consts::{LN_2, SQRT_2};

const MANTISSA_BITS: u32 = 52;

/// Returns the natural logarithm of a normal number above zero.
fn ln(x: f64) -> f64 {
    debug_assert!(x >= f64::MIN_POSITIVE && x.is_finite(), "ln of {x}");
    let bits = x.to_bits();
    let exponent = ((bits >> MANTISSA_BITS) & 0x7FF) as i32 - 1023;
    let mantissa = f64::from_bits((bits & ((1 << MANTISSA_BITS) - 1)) | 1023 << MANTISSA_BITS);
    let (exponent, mantissa) =
        if mantissa > SQRT_2 { (exponent + 1, mantissa / 2.0) } else { (exponent, mantissa) };
    // 2 artanh(t), where |t| < 0.172: eleven terms give an error below one unit in the last place.
    let t = (mantissa - 1.0) / (mantissa + 1.0);
    let square = t * t;
    let (mut power, mut sum) = (t, 0.0);
    for odd in (1..=21).step_by(2) {
        sum += power / f64::from(odd);
        power *= square;
    }
    f64::from(exponent) * LN_2 + 2.0 * sum
}

/// Returns e to the power of `x`, for `x` from −700 to 0.
fn exp(x: f64) -> f64 {
    debug_assert!((-700.0..=0.0).contains(&x), "exp of {x}");
    let halvings = (x / LN_2 - 0.5) as i32;
    let rest = x - f64::from(halvings) * LN_2;
    let (mut term, mut sum) = (1.0, 1.0);
    for n in 1..=18 {
        term *= rest / f64::from(n);
        sum += term;
    }
    sum * f64::from_bits(((1023 + halvings) as u64) << MANTISSA_BITS)
}

/// Returns `rank` to the power of −`exponent`, for ranks from 1 and exponents from 0 to 10.
pub(super) fn weight(rank: u64, exponent: f64) -> f64 {
    exp(-(exponent * ln(rank as f64)))
}

/// Divides `total` among `count` ranks in proportion to their weights, and calls `give` with each
/// share in order.
///
/// The shares sum to `total` exactly: each is the difference of two rounded running sums.
pub(super) fn apportion(total: u64, count: u64, exponent: f64, mut give: impl FnMut(u64)) {
    let mut whole = 0.0;
    for rank in 1..=count {
        whole += weight(rank, exponent);
    }
    let (mut sum, mut dealt) = (0.0, 0);
    for rank in 1..=count {
        sum += weight(rank, exponent);
        let up_to = if rank == count { total } else { ((sum / whole * total as f64) as u64).min(total) };
        give(up_to - dealt);
        dealt = up_to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_agree_with_the_platform_to_fourteen_digits() {
        for rank in [1_u64, 2, 3, 10, 1000, 999_983, 1 << 26] {
            for exponent in [0.0, 0.5, 1.0, 1.1, 2.5, 4.0] {
                let expected = (rank as f64).powf(-exponent);
                let found = weight(rank, exponent);
                assert!((found / expected - 1.0).abs() < 1e-14, "{rank} {exponent}: {found} {expected}");
            }
        }
    }

    #[test]
    fn shares_sum_to_the_total_and_fall() {
        for (total, count, exponent) in [(1000, 7, 1.1), (0, 5, 1.0), (10, 100, 0.0), (1_000_000, 999, 2.0)]
        {
            let mut shares = Vec::new();
            apportion(total, count, exponent, |share| shares.push(share));
            assert_eq!(shares.len() as u64, count);
            assert_eq!(shares.iter().sum::<u64>(), total);
            // Rounding may raise a share by one above the previous share.
            assert!(shares.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{shares:?}");
        }
    }
}
