//! Numbers, sizes, shares and dates as text.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

/// Whether numbers are shown in groups of digits. Programs that read the output expect plain
/// numbers.
pub(super) static HAS_GROUPS: AtomicBool = AtomicBool::new(false);

/// Formats numbers in groups of digits, for every kind of output.
pub fn for_people<T>(format: impl FnOnce() -> T) -> T {
    let had_groups = HAS_GROUPS.swap(true, Ordering::Relaxed);
    let formatted = format();
    HAS_GROUPS.store(had_groups, Ordering::Relaxed);
    formatted
}

/// Returns a number, in groups of three digits if people read the output.
pub fn grouped(number: u64) -> String {
    if HAS_GROUPS.load(Ordering::Relaxed) { in_groups(number) } else { number.to_string() }
}

fn in_groups(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Returns a number with its noun: `1 rule`, `1000 rules`.
pub fn counted(number: u64, thing: &str) -> String {
    format!("{} {}", grouped(number), of_many(number, thing))
}

/// Returns the noun in the right number: `rule`, `rules`, `pass`, `passes`.
pub fn of_many(number: u64, thing: &str) -> String {
    let ending = if number == 1 {
        ""
    } else if thing.ends_with('s') {
        "es"
    } else {
        "s"
    };
    format!("{thing}{ending}")
}

/// Returns a time in nanoseconds since 1970 as a date in UTC, which options take as well.
pub fn date(time_ns: u64) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_nanos(time_ns)).to_string()
}

/// Returns the dates of the first and the last packet.
pub fn dates(first_ns: u64, last_ns: u64) -> String {
    format!("from {} to {}", date(first_ns), date(last_ns))
}

/// Returns a number of bytes with a suitable unit.
pub fn bytes(number: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = number as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{number} B") } else { format!("{value:.2} {}", units[unit]) }
}

/// Returns a rate with a suitable prefix: `18.2 M`.
pub fn scaled(value: f64) -> String {
    for (limit, prefix) in [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if value >= limit {
            return format!("{:.2} {prefix}", value / limit);
        }
    }
    format!("{value:.1} ")
}

/// Returns a share in percent.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { String::from("0 %") } else { format!("{:.2} %", part as f64 * 100.0 / whole as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_scaled() {
        assert_eq!([0, 999, 6_812_044].map(in_groups), ["0", "999", "6 812 044"]);
        assert_eq!(grouped(6_812_044), "6812044", "where no terminal was seen");
        assert_eq!([0, 1, 2].map(|rules| counted(rules, "rule")), ["0 rules", "1 rule", "2 rules"]);
        assert_eq!([0, 1, 2].map(|passes| counted(passes, "pass")), ["0 passes", "1 pass", "2 passes"]);
        assert_eq!(bytes(1536), "1.50 KiB");
        assert_eq!(scaled(18_200_000.0), "18.20 M");
        assert_eq!(percent(1, 0), "0 %");
        assert_eq!(percent(1, 8), "12.50 %");
    }
}
