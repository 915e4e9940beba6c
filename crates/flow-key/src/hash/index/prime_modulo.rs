//! The remainder by the largest prime that does not exceed the number of sets. A few sets stay
//! empty, and no power of two divides the stride of conflicts [TCBCACHE §2.3].

/// Returns the set of a key: the remainder by `prime`, or 0 if `prime` is 0.
#[inline]
#[must_use]
pub const fn prime_modulo(key: u64, prime: u32) -> u32 {
    if prime == 0 { 0 } else { (key % prime as u64) as u32 }
}

/// Returns the largest prime below or equal to `limit`, or 1 if there is none.
///
/// Cost: trial division, fewer than a hundred thousand steps for any limit.
#[must_use]
pub const fn largest_prime_at_most(limit: u32) -> u32 {
    let mut candidate = limit;
    while candidate > 2 {
        let mut divisor = 2;
        let mut composite = false;
        while divisor <= candidate / divisor {
            if candidate.is_multiple_of(divisor) {
                composite = true;
                break;
            }
            divisor += 1;
        }
        if !composite {
            return candidate;
        }
        candidate -= 1;
    }
    if candidate == 2 { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_primes() {
        assert_eq!(
            [0, 1, 2, 3, 4, 64, 128, 256, 65_536].map(largest_prime_at_most),
            [1, 1, 2, 3, 3, 61, 127, 251, 65_521]
        );
        assert_eq!(largest_prime_at_most(u32::MAX), 4_294_967_291);
    }

    #[test]
    fn remainders() {
        assert_eq!(prime_modulo(64, 61), 3);
        assert_eq!(prime_modulo(7, 0), 0);
    }
}
