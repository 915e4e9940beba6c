//! The values in comparisons.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::UNIX_EPOCH;

use flowloom_flow_key::protocol::service;
use flowloom_record::{Kind, PROTOCOL_NAMES, nearest};

use super::Prefix;

/// Factors of numbers, by their suffixes.
const FACTORS: [(&str, u64); 8] = [
    ("K", 1_000),
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
];

/// Nanoseconds of the units of durations. A unit that ends in another one comes before it.
const UNITS: [(&str, u64); 9] = [
    ("d", 86_400_000_000_000),
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("sec", 1_000_000_000),
    ("min", 60_000_000_000),
];

/// Returns whether a word is a unit.
pub(super) fn is_unit(word: &str) -> bool {
    let is = |units: &[(&str, u64)], word| units.iter().any(|(unit, _)| *unit == word);
    is(&UNITS, word) || is(&FACTORS, word.strip_suffix('B').unwrap_or(word)) || word == "B"
}

/// The flags of TCP, by their bits.
const FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];

fn flag(text: &str) -> Option<u64> {
    FLAGS.iter().position(|flag| text.eq_ignore_ascii_case(flag)).map(|bit| 1 << bit)
}

/// Reads a number of a subject of this kind.
pub(super) fn number(text: &str, kind: Kind) -> Result<u64, String> {
    match kind {
        Kind::Duration => scaled(text, &UNITS).or_else(|| compound(text)).ok_or_else(|| {
            format!(
                "'{text}' is not a duration: write a number with ns, us, ms, s, m, h or d, such as 1.5s or 1h30m"
            )
        }),
        Kind::Time => scaled(text, &[]).or_else(|| time(text)).ok_or_else(|| {
            format!(
                "'{text}' is not a time: write 2026-11-25T17:00:00Z (UTC), 2026-11-25, or nanoseconds since 1970"
            )
        }),
        Kind::Protocol => scaled(text, &[]).or_else(|| protocol(text)).ok_or_else(|| {
            let names: Vec<&str> = PROTOCOL_NAMES.iter().map(|word| word.name).collect();
            let meant = nearest(&text.to_ascii_lowercase(), &names);
            let meant = meant.map_or(String::new(), |meant| format!(": did you mean {meant}?"));
            format!(
                "'{text}' is not a protocol{meant}\n  write a number, or a name such as tcp, udp, icmp or \
                ipv6-icmp; l7_protocol has application protocols"
            )
        }),
        Kind::Bits => scaled(text, &[]).or_else(|| flag(text)).ok_or_else(|| {
            format!(
                "'{text}' is not a set of bits: write a number such as 0x12, or one of {}",
                FLAGS.join(", ")
            )
        }),
        Kind::Port => scaled(text, &[]).or_else(|| service(text).map(u64::from)).ok_or_else(|| {
            format!("'{text}' is not a port: write a number from 0 to 65535, or the name of a service such as https")
        }),
        Kind::Packets
        | Kind::Bytes
        | Kind::Number
        | Kind::Real
        | Kind::Digest
        | Kind::Address
        | Kind::Word(_)
        | Kind::Text => scaled(without_unit(text), &FACTORS).ok_or_else(|| {
            format!(
                "'{text}' is not a number: write digits, optionally followed by k, M, G, T, Ki, Mi \
                or Gi, such as 10k or 64MiB"
            )
        }),
    }
}

/// Returns a number without the B of `64MiB` or `64MB`, which the prefix does without.
fn without_unit(text: &str) -> &str {
    let rest = text.strip_suffix('B').filter(|_| !text.starts_with("0x"));
    rest.filter(|rest| rest.ends_with(|c: char| c.is_ascii_alphabetic())).unwrap_or(text)
}

/// Parses durations that follow each other, the one with the largest unit first.
fn compound(text: &str) -> Option<u64> {
    let (mut rest, mut sum, mut least) = (text, 0_u64, u64::MAX);
    while !rest.is_empty() {
        let unit = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let end =
            rest[unit..].find(|c: char| !c.is_ascii_alphabetic()).map_or(rest.len(), |end| unit + end);
        let &(_, factor) = UNITS.iter().find(|(name, _)| *name == &rest[unit..end])?;
        if factor >= least {
            return None;
        }
        sum = sum.checked_add(scaled(&rest[..end], &UNITS)?)?;
        (rest, least) = (&rest[end..], factor);
    }
    (least < u64::MAX).then_some(sum)
}

/// Parses a number, or a range that includes both ends.
pub(super) fn range(text: &str, kind: Kind) -> Result<(u64, u64), String> {
    if kind != Kind::Time
        && let Some((first, last)) = text.split_once('-')
        && let (Ok(first), Ok(last)) = (number(first, kind), number(last, kind))
    {
        if first > last {
            return Err(format!("the range '{text}' ends before it begins"));
        }
        return Ok((first, last));
    }
    number(text, kind).map(|number| (number, number))
}

/// Parses digits, with a fraction if a suffix makes the number whole, or a hexadecimal number.
fn scaled(text: &str, suffixes: &[(&str, u64)]) -> Option<u64> {
    if let Some(digits) = text.strip_prefix("0x") {
        let is_hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        return is_hex.then(|| u64::from_str_radix(digits, 16).ok()).flatten();
    }
    let with_suffix =
        suffixes.iter().find_map(|&(suffix, factor)| Some((text.strip_suffix(suffix)?, factor)));
    let (digits, factor) = with_suffix.unwrap_or((text, 1));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    if whole.is_empty() || !are_digits(whole) || !are_digits(fraction) || fraction.len() > 18 {
        return None;
    }
    let whole: u64 = whole.replace('_', "").parse().ok()?;
    let fraction = fraction.replace('_', "").trim_end_matches('0').to_owned();
    let part = if fraction.is_empty() { 0 } else { fraction.parse::<u128>().ok()? };
    let ones = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let scaled = part * u128::from(factor);
    if !scaled.is_multiple_of(ones) {
        return None;
    }
    whole.checked_mul(factor)?.checked_add(u64::try_from(scaled / ones).ok()?)
}

fn time(text: &str) -> Option<u64> {
    let whole = [text, &format!("{text}:00"), &format!("{text}T00:00:00")]
        .into_iter()
        .find_map(|text| humantime::parse_rfc3339_weak(text).ok());
    let time = whole?;
    u64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()
}

fn protocol(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let name = match &*text {
        "icmp6" | "icmpv6" => "ipv6-icmp",
        name => name,
    };
    PROTOCOL_NAMES.iter().find(|word| word.name == name).map(|word| word.code.into())
}

/// Parses an address, or with `many` a prefix.
pub(super) fn prefix(text: &str, many: bool) -> Result<Prefix, String> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let wrong = || {
        format!("'{text}' is not an address{}", if many { " or a prefix, as in 10.0.0.0/8" } else { "" })
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let (width, own) = match address {
        IpAddr::V4(address) => (32, u128::from(address.to_bits()) << 96),
        IpAddr::V6(address) => (128, address.to_bits()),
    };
    let Some(bits) = bits else { return Ok(Prefix { address, bits: width }) };
    if !many {
        return Err(format!("'{text}' is a prefix\n  write in {text}"));
    }
    let is_short = !bits.is_empty() && bits.len() <= 3 && bits.bytes().all(|byte| byte.is_ascii_digit());
    let bits = bits.parse::<u8>().ok().filter(|&bits| is_short && bits <= width);
    let bits = bits.ok_or_else(|| format!("'{text}': a prefix has 0 to {width} bits"))?;
    let after = u128::MAX.checked_shr(bits.into()).unwrap_or(0);
    if own & after != 0 {
        let cleared = own & !after;
        let cleared: IpAddr = match address {
            IpAddr::V4(_) => Ipv4Addr::from_bits((cleared >> 96) as u32).into(),
            IpAddr::V6(_) => Ipv6Addr::from_bits(cleared).into(),
        };
        return Err(format!(
            "'{text}' has bits after its prefix\n  write {cleared}/{bits}, or use /{width} for one address"
        ));
    }
    Ok(Prefix { address, bits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_suffixes_and_exact_fractions() {
        let parsed = |text: &str| number(text, Kind::Number).ok();
        for (text, value) in [
            ("0", 0),
            ("1_000", 1_000),
            ("1M", 1_000_000),
            ("1.5k", 1_500),
            ("0x1f", 31),
            ("2Ki", 2_048),
            ("2K", 2_000),
            ("2KiB", 2_048),
            ("2MB", 2_000_000),
            ("0xAB", 0xAB),
            ("0.5Mi", 1 << 19),
            ("18446744073709551615", u64::MAX),
            ("3T", 3_000_000_000_000),
        ] {
            assert_eq!(parsed(text), Some(value), "{text}");
        }
        for text in [
            "", "k", "-1", "+1", "1.5", "1.0001k", "0x", "0x+1", "18446744073709551616", "99999999999G",
            "1XB", "1B", ".",
        ] {
            assert_eq!(parsed(text), None, "{text}");
        }
        let duration = |text: &str| number(text, Kind::Duration).ok();
        assert_eq!(
            (duration("1.5s"), duration("250"), duration("2m")),
            (Some(1_500_000_000), Some(250), Some(120_000_000_000))
        );
        assert_eq!(
            (duration("3ms"), duration("1h"), duration("0.1ns")),
            (Some(3_000_000), Some(3_600_000_000_000), None)
        );
        assert_eq!(
            (duration("1h30min"), duration("1m1.5sec")),
            (Some(5_400_000_000_000), Some(61_500_000_000))
        );
        assert_eq!(
            (duration("2d"), duration("30m1h"), duration("1h30")),
            (Some(172_800_000_000_000), None, None)
        );
        assert_eq!(number("1970-01-01T00:00:01Z", Kind::Time), Ok(1_000_000_000));
        assert_eq!(number("1970-01-01T00:01", Kind::Time), Ok(60_000_000_000));
        assert_eq!(number("1970-01-02", Kind::Time), Ok(86_400_000_000_000));
        assert_eq!((number("https", Kind::Port), number("443", Kind::Port)), (Ok(443), Ok(443)));
        assert!(number("htps", Kind::Port).unwrap_err().contains("name of a service"));
        assert_eq!(number("tcp", Kind::Protocol), Ok(6));
        assert_eq!(number("icmp6", Kind::Protocol), Ok(58));
    }

    #[test]
    fn ranges_include_both_ends() {
        assert_eq!(range("8000-8999", Kind::Number), Ok((8000, 8999)));
        assert_eq!(range("1k-2k", Kind::Number), Ok((1000, 2000)));
        assert!(range("2-1", Kind::Number).unwrap_err().contains("ends before it begins"));
        assert!(range("1-", Kind::Number).is_err());
    }

    #[test]
    fn prefixes_contain_their_addresses() {
        let holds = |text: &str, address: &str| prefix(text, true).unwrap().holds(address.parse().unwrap());
        assert!(holds("10.0.0.0/8", "10.255.0.1") && !holds("10.0.0.0/8", "11.0.0.0"));
        assert!(holds("0.0.0.0/0", "255.255.255.255") && !holds("0.0.0.0/0", "::"));
        assert!(holds("10.0.0.1", "10.0.0.1") && !holds("10.0.0.1", "10.0.0.0"));
        assert!(holds("2001:db8::/32", "2001:db8::7") && !holds("2001:db8::/32", "2001:db9::"));
        assert!(holds("::1", "::1") && !holds("::1", "::2"));
        for text in ["10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "10/8", "::/129", "x"] {
            assert!(prefix(text, true).is_err(), "{text}");
        }
        assert!(prefix("10.1.2.3/16", true).unwrap_err().contains("10.1.0.0/16"));
        assert!(prefix("fe80::1:2/64", true).unwrap_err().contains("fe80::/64"));
        assert!(prefix("10.0.0.0/8", false).unwrap_err().contains("write in 10.0.0.0/8"));
    }
}
