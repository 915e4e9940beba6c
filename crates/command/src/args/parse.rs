//! Parsers for option values with a syntax of their own.

use std::fmt::Display;
use std::net::SocketAddr;
use std::num::{IntErrorKind, ParseIntError};
use std::ops::RangeInclusive;
use std::str::FromStr;

use flowloom::engine::Pace;
use flowloom::scheduler::placement::adaptive::Threshold;

/// Reads a number without a sign. `FromStr` would accept a plus.
pub fn unsigned<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

/// Reads a whole number.
pub fn whole<T: FromStr<Err = ParseIntError>>(text: &str) -> Result<T, String> {
    unsigned(text).ok_or_else(|| match text.parse::<T>() {
        Err(error) if *error.kind() == IntErrorKind::PosOverflow && !text.starts_with('+') => {
            format!("'{text}' is too large")
        }
        _ => format!("'{text}' is not a whole number: write digits, such as 8"),
    })
}

/// Reads a whole number within bounds.
pub fn within<T: FromStr + PartialOrd + Display + Clone>(
    bounds: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| match unsigned(text) {
        Some(number) if bounds.contains(&number) => Ok(number),
        _ => Err(format!("'{text}' is not a whole number between {} and {}", bounds.start(), bounds.end())),
    }
}

/// Reads the threshold of an adaptive scheduler: a percentage, or `none`.
pub fn threshold(text: &str) -> Result<Threshold, String> {
    let percent = if text == "none" { None } else { Some(within(0..=1_000_000_u32)(text)?) };
    Ok(Threshold::from_percent(percent))
}

/// Reads a count: digits, with `k`, `M` or `G` for thousands, millions and thousand millions.
pub fn count(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1_000),
        Some((at, 'm' | 'M')) => (&text[..at], 1_000_000),
        Some((at, 'g' | 'G')) => (&text[..at], 1_000_000_000),
        _ => (text, 1),
    };
    times(text, &digits.replace('_', ""), factor, "count")
}

/// Reads a range of offsets, of which the second one is excluded.
pub fn extent(text: &str) -> Result<Extent, String> {
    let (from, to) = text.split_once("..").ok_or("a range is FROM..TO, such as 0..1000000")?;
    if from.is_empty() && to.is_empty() {
        return Ok(Extent(None));
    }
    let (from, to) = (whole(from)?, whole(to)?);
    if from < to { Ok(Extent(Some(from..to))) } else { Err(String::from("FROM is not before TO")) }
}

/// A range of the bytes of a file, or all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent(pub Option<std::ops::Range<u64>>);

/// Reads a count that is not zero.
pub fn positive(text: &str) -> Result<u64, String> {
    match count(text)? {
        0 => Err(String::from("must be at least 1")),
        number => Ok(number),
    }
}

/// Reads a number of bytes: digits, with `k`, `M` or `G` for 1024 and its powers.
pub fn bytes(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    times(text, digits, factor, "size")
}

/// Returns the product of a number, which `text` has as digits, and a factor.
fn times(text: &str, digits: &str, factor: u64, what: &str) -> Result<u64, String> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("'{text}' is not a {what}: write digits, optionally followed by k, M or G"));
    }
    let number = digits.parse().ok().and_then(|number: u64| number.checked_mul(factor));
    number.ok_or_else(|| format!("'{text}' is too large"))
}

/// Reads the factor for pauses.
pub fn think_factor(text: &str) -> Result<f64, String> {
    match unsigned(text) {
        Some(factor) if (0.0..=1e6).contains(&factor) => Ok(factor),
        _ => Err(format!("'{text}' is not a factor: write a number between 0 and 1000000")),
    }
}

/// Reads a percentage, with or without its sign.
pub fn percent(text: &str) -> Result<f64, String> {
    match unsigned(text.trim_end_matches('%').trim_end()) {
        Some(percent) if (0.0..=1e6).contains(&percent) => Ok(percent),
        _ => Err(format!("'{text}' is not a percentage: write a number, such as 5")),
    }
}

/// Reads a number with or without a fraction; the caller checks its bounds.
pub fn real(text: &str) -> Result<f64, String> {
    unsigned(text).ok_or_else(|| format!("'{text}' is not a number: write digits, such as 1.1"))
}

/// Reads an address with a port.
pub fn socket(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!(
            "'{text}' is not an address with a port (0 to 65535): write 127.0.0.1:9100, or \
            [::1]:9100"
        )
    })
}

/// Reads a value by its `FromStr`.
pub fn from_str<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

/// Reads a pace: `max`, a factor with `x` before or after it, or packets per second.
pub fn pace(text: &str) -> Result<Pace, String> {
    if text == "max" {
        return Ok(Pace::Max);
    }
    if let Some(factor) = text.strip_prefix('x').or_else(|| text.strip_suffix('x')) {
        return match unsigned::<f64>(factor) {
            Some(factor) if factor.is_finite() && factor > 0.0 => Ok(Pace::Times(factor)),
            _ => Err(format!(
                "'{text}' is not a pace: write x and a positive factor, such as x1, x10 or \
                x0.5"
            )),
        };
    }
    match count(text) {
        Ok(rate) if rate > 0 => Ok(Pace::PerSecond(rate as f64)),
        _ => Err(format!("'{text}' is not a pace: write max, x1, x10, or packets per second such as 100k")),
    }
}

/// Reads a positive duration as nanoseconds: seconds, or a number with `ms`, `s`, `m`, `h` or `d`.
pub fn seconds(text: &str) -> Result<u64, String> {
    let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];
    let of_unit = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (number, factor) = of_unit.unwrap_or((text, 1.0));
    match unsigned::<f64>(number).map(|number| number * factor) {
        Some(seconds) if seconds.is_finite() && seconds > 0.0 && seconds < 1e9 => {
            Ok((seconds * 1e9) as u64)
        }
        _ => Err(format!(
            "'{text}' is not a number of seconds above 0 and below 1e9, or one with ms, s, m, h or d, such as 5m"
        )),
    }
}

/// A point in time, absolute or relative to the first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instant {
    /// Nanoseconds since 1970.
    At(u64),
    /// Nanoseconds after the first packet.
    After(u64),
}

/// Reads a time: seconds since 1970, a date and time of day in UTC, or a plus and seconds after the
/// first packet.
pub fn instant(text: &str) -> Result<Instant, String> {
    let wrong = || {
        format!(
            "'{text}' is not a time: write 2026-11-25T17:00:00Z (UTC), seconds since 1970, or +30 for \
             seconds after the first packet"
        )
    };
    // Parse digit by digit: a floating-point number of seconds since 1970 has no nanosecond
    // precision.
    let seconds = |text: &str| -> Option<u64> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        if fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let ns = unsigned::<u64>(&format!("{fraction:0<9}"))?;
        unsigned::<u64>(whole)?.checked_mul(1_000_000_000)?.checked_add(ns)
    };
    if let Some(after) = text.strip_prefix('+') {
        return seconds(after.strip_suffix('s').unwrap_or(after)).map(Instant::After).ok_or_else(wrong);
    }
    if let Some(at) = seconds(text) {
        return Ok(Instant::At(at));
    }
    let time = humantime::parse_rfc3339_weak(text).map_err(|_| wrong())?;
    let since = time.duration_since(std::time::UNIX_EPOCH).map_err(|_| wrong())?;
    u64::try_from(since.as_nanos()).map(Instant::At).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_suffixes() {
        assert_eq!(count("12k"), Ok(12_000));
        assert_eq!(count("1_000"), Ok(1_000));
        assert_eq!(count("3M"), Ok(3_000_000));
        assert!(count("").is_err() && count("k").is_err() && count("-1").is_err());
        assert!(positive("0").is_err());
        for text in ["18446744073709551616", "18446744073709551616k", "99999999999G"] {
            let said = format!("'{text}' is too large");
            assert_eq!((count(text).unwrap_err(), bytes(text).unwrap_err()), (said.clone(), said));
        }
    }

    #[test]
    fn whole_numbers_are_digits_and_say_so() {
        assert_eq!((whole::<u32>("12"), whole::<usize>("0")), (Ok(12), Ok(0)));
        for text in ["abc", "", "-1", "+1", "+", "1.5", "12k", "+4294967296"] {
            let said = format!("'{text}' is not a whole number: write digits, such as 8");
            assert_eq!(whole::<u32>(text), Err(said));
        }
        assert_eq!(whole::<u32>("4294967296").unwrap_err(), "'4294967296' is too large");
    }

    #[test]
    fn whole_numbers_within_bounds_name_them() {
        let some = within(1..=1024_u16);
        assert_eq!((some("1"), some("1024")), (Ok(1), Ok(1024)));
        for text in ["0", "1025", "99999999", "abc", "", "+8"] {
            let said = format!("'{text}' is not a whole number between 1 and 1024");
            assert_eq!(some(text), Err(said));
        }
    }

    #[test]
    fn no_number_has_a_sign() {
        for text in ["+1", "-1"] {
            assert!(count(text).is_err() && positive(text).is_err() && bytes(text).is_err(), "{text}");
            assert!(seconds(text).is_err() && percent(text).is_err() && think_factor(text).is_err());
            assert!(pace(text).is_err() && pace(&format!("x{text}")).is_err(), "{text}");
        }
        assert!(real("+1.1").is_err());
    }

    #[test]
    fn sizes_are_in_powers_of_two() {
        assert_eq!((bytes("32k"), bytes("2M"), bytes("100")), (Ok(32 << 10), Ok(2 << 20), Ok(100)));
        assert!(bytes("k").is_err() && bytes("1.5k").is_err() && bytes("99999999999G").is_err());
    }

    #[test]
    fn paces_have_three_forms() {
        assert_eq!(pace("max"), Ok(Pace::Max));
        assert_eq!(pace("x10"), Ok(Pace::Times(10.0)));
        assert_eq!(pace("5k"), Ok(Pace::PerSecond(5000.0)));
        assert!(
            pace("x0").is_err() && pace("0").is_err() && pace("fast").is_err() && pace("xinf").is_err()
        );
    }

    #[test]
    fn times_are_absolute_or_after_the_first_packet() {
        assert_eq!(instant("1700000000.000000001"), Ok(Instant::At(1_700_000_000_000_000_001)));
        assert_eq!(instant("2023-11-14T22:13:20Z"), Ok(Instant::At(1_700_000_000_000_000_000)));
        assert_eq!(instant("2023-11-14 22:13:20.5"), Ok(Instant::At(1_700_000_000_500_000_000)));
        assert_eq!(
            (instant("+1.5"), instant("+60s")),
            (Ok(Instant::After(1_500_000_000)), Ok(Instant::After(60_000_000_000)))
        );
        for text in ["", "+", "-1", "noon", "1e9", "1.2.3", "2023-13-01T00:00:00Z", "99999999999999999999"]
        {
            assert!(instant(text).is_err(), "{text}");
        }
    }

    #[test]
    fn seconds_may_have_a_fraction() {
        assert_eq!(seconds("0.5"), Ok(500_000_000));
        assert_eq!(seconds("60s"), Ok(60_000_000_000));
        assert_eq!((seconds("5m"), seconds("1.5h")), (Ok(300_000_000_000), Ok(5_400_000_000_000)));
        assert_eq!((seconds("250ms"), seconds("2d")), (Ok(250_000_000), Ok(172_800_000_000_000)));
        assert!(seconds("m").is_err() && seconds("5 m").is_err() && seconds("20000d").is_err());
        assert!(seconds("0").is_err() && seconds("nan").is_err());
    }
}
