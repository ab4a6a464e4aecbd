//! Formats times in UTC: RFC 3339 and calendar fields.

use std::time::{SystemTime, UNIX_EPOCH};

/// An instant on the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// Of our era.
    pub year: u64,
    /// From 1.
    pub month: u64,
    /// Of the month, from 1.
    pub day: u64,
    /// From 0 to 23.
    pub hour: u64,
    /// From 0 to 59.
    pub minute: u64,
    /// From 0 to 59.
    pub second: u64,
    /// From 0 to 999.
    pub millisecond: u32,
}

impl Civil {
    /// `time`, or 1970 if it is before then.
    ///
    /// The year begins in March, so that the odd day is its last
    /// [H. Hinnant, *chrono-compatible low-level date algorithms*](https://howardhinnant.github.io/date_algorithms.html#civil_from_days).
    pub fn of(time: SystemTime) -> Self {
        const DAYS_OF_ERA: u64 = 146_097;
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
        let days = days + 719_468;
        let (era, day) = (days / DAYS_OF_ERA, days % DAYS_OF_ERA);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let civil_month = if month < 10 { month + 3 } else { month - 9 };
        Self {
            year: era * 400 + year + u64::from(civil_month <= 2),
            month: civil_month,
            day: day - (153 * month + 2) / 5 + 1,
            hour: seconds / 3600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            millisecond: since.subsec_millis(),
        }
    }
}

/// As in `2000-10-10T13:55:36.123Z`.
#[derive(Clone, Copy, Debug)]
pub struct Rfc3339(pub SystemTime);

impl std::fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Civil { year, month, day, hour, minute, second, millisecond } = Civil::of(self.0);
        write!(f, "{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn check(seconds: u64, date: (u64, u64, u64), time: (u64, u64, u64)) {
        let civil = Civil::of(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!((civil.year, civil.month, civil.day), date, "{seconds}");
        assert_eq!((civil.hour, civil.minute, civil.second), time, "{seconds}");
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        check(0, (1970, 1, 1), (0, 0, 0));
        check(951_782_400, (2000, 2, 29), (0, 0, 0));
        check(1_000_000_000, (2001, 9, 9), (1, 46, 40));
        check(1_709_251_199, (2024, 2, 29), (23, 59, 59));
        check(1_709_251_200, (2024, 3, 1), (0, 0, 0));
        check(4_102_444_800, (2100, 1, 1), (0, 0, 0));
        check(4_107_542_400, (2100, 3, 1), (0, 0, 0));
    }

    #[test]
    fn every_day_of_eight_centuries_is_the_one_that_the_date_field_names() {
        for day in 0..292_000 {
            let time = UNIX_EPOCH + Duration::from_secs(day * 86_400);
            let civil = Civil::of(time);
            let field = httpdate::fmt_http_date(time);
            let expected = format!("{:02} ", civil.day);
            assert_eq!(field[5..8], expected, "{field}");
            assert_eq!(field[12..16], civil.year.to_string(), "{field}");
        }
    }
}
