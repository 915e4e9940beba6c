//! The low bits of the key, as the caches of offload engines use them [TCBCACHE §2.1.1].

/// Returns the set of a key among `2^r` sets; `r` is below 32.
#[inline]
#[must_use]
pub const fn modulo(key: u64, r: u32) -> u32 {
    (key & ((1 << r) - 1)) as u32
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_low_bits_are_the_set() {
        assert_eq!(super::modulo(0xFFFF_0401, 6), 1);
        assert_eq!(super::modulo(u64::MAX, 0), 0);
    }
}
