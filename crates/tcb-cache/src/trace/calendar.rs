//! Days of the Gregorian calendar.

/// Counts days; years begin in March, so that the leap day is the last.
pub(super) fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = if month <= 2 { month + 9 } else { month - 3 };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    days.saturating_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_over_leap_years_and_centuries() {
        assert_eq!(days_since_1970(1970, 1, 1), 0);
        assert_eq!(days_since_1970(1970, 3, 1), 59);
        assert_eq!(days_since_1970(2000, 3, 1) - days_since_1970(2000, 2, 28), 2);
        assert_eq!(days_since_1970(2100, 3, 1) - days_since_1970(2100, 2, 28), 1);
        assert_eq!(days_since_1970(2015, 5, 17), 16_572);
    }
}
