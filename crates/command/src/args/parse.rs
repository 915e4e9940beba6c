//! Parsers for option values with a syntax of their own.

use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use flowloom::engine::Pace;
use flowloom::scheduler::placement::adaptive::Threshold;

/// Reads a number without a sign. `FromStr` would accept a plus.
pub fn unsigned<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

/// Reads a whole number, with the suffixes of [`count`].
pub fn whole<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    T::try_from(count(text)?).map_err(|_| format!("'{text}' is too large"))
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

/// Reads a count: digits, with `k`, `M`, `G` or `T` for powers of 1000, or `Ki` and so on for
/// powers of 1024.
pub fn count(text: &str) -> Result<u64, String> {
    scaled(text, 1000).ok_or_else(|| {
        refused(text, "a count: write digits, optionally followed by k, M, G or T, such as 10k")
    })?
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

/// Reads a number of bytes that is not zero.
pub fn positive_bytes(text: &str) -> Result<u64, String> {
    match bytes(text)? {
        0 => Err(String::from("must be at least 1")),
        number => Ok(number),
    }
}

/// Reads a number of bytes: digits, with `k`, `M`, `G` or `T` for powers of 1024, as `KiB` and so
/// on; `kB`, `MB` and so on are powers of 1000, as in `dd`.
pub fn bytes(text: &str) -> Result<u64, String> {
    scaled(text, 1024).ok_or_else(|| {
        refused(
            text,
            "a size: write bytes, optionally followed by k, M, G or T, such as 64M, 64MiB or 64MB",
        )
    })?
}

fn refused(text: &str, expected: &str) -> String {
    format!("'{text}' is not {expected}")
}

/// Reads a number with a prefix of units, which is a power of `base` if it stands alone. The outer
/// value is missing for another form.
fn scaled(text: &str, base: u64) -> Option<Result<u64, String>> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '_' && c != '.').unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let (prefix, base) = match suffix.strip_suffix(['B', 'b']) {
        Some(rest) => rest.strip_suffix('i').map_or((rest, 1000), |prefix| (prefix, 1024)),
        None => suffix.strip_suffix('i').map_or((suffix, base), |prefix| (prefix, 1024)),
    };
    let power = ["", "k", "m", "g", "t"].iter().position(|one| prefix.eq_ignore_ascii_case(one))?;
    if power == 0 && suffix.contains('i') {
        return None;
    }
    let factor = u128::from(base).pow(u32::try_from(power).ok()?);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let digits = |text: &str| text.replace('_', "");
    let (whole, fraction) = (digits(whole), digits(fraction));
    if whole.is_empty() || whole.contains('.') || fraction.contains('.') || fraction.len() > 9 {
        return None;
    }
    let ones = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = factor * if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    if !part.is_multiple_of(ones) || power == 0 && text.contains('.') {
        return None;
    }
    let number =
        whole.parse::<u128>().ok().and_then(|whole| whole.checked_mul(factor)?.checked_add(part / ones));
    let number = number.and_then(|number| u64::try_from(number).ok());
    Some(number.ok_or_else(|| format!("'{text}' is too large")))
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

/// Reads a positive duration as nanoseconds: seconds, or numbers with units, such as `1h30m`.
pub fn seconds(text: &str) -> Result<u64, String> {
    match duration(text) {
        Some(seconds) if seconds.is_finite() && seconds > 0.0 && seconds < 1e9 => {
            Ok((seconds * 1e9) as u64)
        }
        _ => Err(format!(
            "'{text}' is not a number of seconds above 0 and below 1e9, or one with ms, s, m, h or d, such as 5m \
             or 1h30m"
        )),
    }
}

/// Units of durations in seconds. A unit that ends in another one comes before it.
const UNITS: [(&str, f64); 8] = [
    ("us", 1e-6),
    ("ms", 1e-3),
    ("sec", 1.0),
    ("min", 60.0),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
    ("d", 86_400.0),
];

/// Reads seconds, or numbers with units, the largest unit first.
fn duration(text: &str) -> Option<f64> {
    if let Some(seconds) = unsigned::<f64>(text) {
        return Some(seconds);
    }
    let (mut rest, mut sum, mut least) = (text, 0.0, f64::INFINITY);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, behind) = rest.split_at(end);
        let end = behind.find(|c: char| c.is_ascii_digit()).unwrap_or(behind.len());
        let (_, factor) = UNITS.iter().find(|(unit, _)| *unit == &behind[..end])?;
        if *factor >= least {
            return None;
        }
        sum += unsigned::<f64>(number)? * factor;
        (rest, least) = (&behind[end..], *factor);
    }
    (least < f64::INFINITY).then_some(sum)
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
            "'{text}' is not a time: write 2026-11-25T17:00:00Z (UTC), 2026-11-25, seconds since 1970, or +30 \
             or +1h30m for the time after the first packet"
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
        let with_units =
            || Some((duration(after).filter(|seconds| (0.0..1e9).contains(seconds))? * 1e9) as u64);
        return seconds(after).or_else(with_units).map(Instant::After).ok_or_else(wrong);
    }
    if let Some(at) = seconds(text) {
        return Ok(Instant::At(at));
    }
    let whole = [text, &format!("{text}:00"), &format!("{text}T00:00:00")];
    let time = whole.into_iter().find_map(|text| humantime::parse_rfc3339_weak(text).ok());
    let time = time.ok_or_else(wrong)?;
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
        assert_eq!((count("3M"), count("2Ki"), count("1.5k")), (Ok(3_000_000), Ok(2048), Ok(1500)));
        assert!(count("").is_err() && count("k").is_err() && count("-1").is_err());
        assert!(positive("0").is_err());
        for text in ["18446744073709551616", "18446744073709551616k", "99999999999G"] {
            let said = format!("'{text}' is too large");
            assert_eq!((count(text).unwrap_err(), bytes(text).unwrap_err()), (said.clone(), said));
        }
    }

    #[test]
    fn whole_numbers_are_counts_of_a_type() {
        assert_eq!(
            (whole::<u32>("12"), whole::<usize>("0"), whole::<u32>("12k")),
            (Ok(12), Ok(0), Ok(12_000))
        );
        for text in ["abc", "", "-1", "+1", "+", "1.5", "1..5k", "1Ki5", "1i", "1iB", "+4294967296"] {
            let said = whole::<u32>(text).unwrap_err();
            assert!(said.starts_with(&format!("'{text}' is not a count: write digits")), "{said}");
        }
        assert_eq!(whole::<u32>("4294967296").unwrap_err(), "'4294967296' is too large");
    }

    #[test]
    fn whole_number_out_of_bounds_names_the_bounds() {
        let some = within(1..=1024_u16);
        assert_eq!((some("1"), some("1024")), (Ok(1), Ok(1024)));
        for text in ["0", "1025", "99999999", "abc", "", "+8"] {
            let said = format!("'{text}' is not a whole number between 1 and 1024");
            assert_eq!(some(text), Err(said));
        }
    }

    #[test]
    fn signed_number_is_refused() {
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
        for (text, number) in
            [("1KiB", 1 << 10), ("1kB", 1000), ("1MB", 1_000_000), ("1MiB", 1 << 20), ("1.5k", 1536)]
        {
            assert_eq!(bytes(text), Ok(number), "{text}");
        }
        assert_eq!((bytes("7B"), bytes("1TiB")), (Ok(7), Ok(1 << 40)));
        assert!(bytes("k").is_err() && bytes("1.0001k").is_err() && bytes("99999999999G").is_err());
        assert!(bytes("1X").unwrap_err().contains("such as 64M, 64MiB or 64MB"));
    }

    #[test]
    fn pace_is_unlimited_a_multiple_or_a_rate() {
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
        assert_eq!(instant("+1h30m"), Ok(Instant::After(5_400_000_000_000)));
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
        assert_eq!((seconds("1h30m"), seconds("1m2.5s")), (Ok(5_400_000_000_000), Ok(62_500_000_000)));
        assert_eq!((seconds("5min"), seconds("10us")), (Ok(300_000_000_000), Ok(10_000)));
        for text in ["m", "5 m", "20000d", "30m1h", "1m1m", "1h30", "1.2.3s", "1w"] {
            assert!(seconds(text).is_err(), "{text}");
        }
        assert!(seconds("0").is_err() && seconds("nan").is_err());
    }
}
