//! Parses numbers from bytes, without conversion to text.

/// Parses at most 19 decimal digits.
pub(super) fn digits(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes.len() > 19 {
        return None;
    }
    bytes.iter().try_fold(0_u64, |value, byte| {
        byte.is_ascii_digit().then(|| value.wrapping_mul(10).wrapping_add(u64::from(byte - b'0')))
    })
}

/// Parses decimal digits as a small number.
pub(crate) fn decimal(text: &str) -> Option<u32> {
    digits(text.as_bytes()).and_then(|number| u32::try_from(number).ok())
}

/// Parses a number of seconds, with or without a fraction, as milliseconds; at most about 10¹⁵ s.
pub(super) fn seconds_as_ms(bytes: &[u8]) -> Option<u64> {
    let dot = bytes.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = dot.map_or((bytes, &b""[..]), |dot| (&bytes[..dot], &bytes[dot + 1..]));
    let whole = digits(whole).filter(|seconds| *seconds < 1_000_000_000_000_000)?;
    let mut ms = 0;
    for place in 0..3 {
        ms = ms * 10 + fraction.get(place).map_or(0, |byte| u64::from(byte.wrapping_sub(b'0')));
    }
    let decimal = fraction.iter().all(u8::is_ascii_digit);
    decimal.then_some(whole * 1000 + ms)
}

/// Parses a size: digits. Empty text or a dash is 0.
pub(super) fn size(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes == b"-" { Some(0) } else { digits(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_parsed_and_other_text_is_refused() {
        assert_eq!(
            (digits(b"0"), digits(b"9999999999999999999")),
            (Some(0), Some(9_999_999_999_999_999_999))
        );
        for bad in [&b""[..], b"-1", b"1a", b"12345678901234567890", b" 1"] {
            assert_eq!(digits(bad), None);
        }
        assert_eq!(seconds_as_ms(b"12"), Some(12_000));
        assert_eq!(seconds_as_ms(b"12.3456"), Some(12_345));
        assert_eq!(seconds_as_ms(b"12.3"), Some(12_300));
        assert_eq!(
            (seconds_as_ms(b"12.x"), seconds_as_ms(b".5"), seconds_as_ms(b"1.2.3")),
            (None, None, None)
        );
        assert_eq!((size(b"-"), size(b""), size(b"7"), size(b"x")), (Some(0), Some(0), Some(7), None));
    }
}
