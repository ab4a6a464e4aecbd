//! Dates, sizes and authors, as people read them.

use time::OffsetDateTime;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A date in a list, seen at `now`: the time of today, day and month of this year, else the
/// whole date. In UTC, because pages know nobody's time zone.
pub(super) fn short_date(seconds: i64, now_seconds: i64) -> String {
    let (Some(date), Some(now)) = (calendar(seconds), calendar(now_seconds)) else {
        return "no date".to_owned();
    };
    if date.date() == now.date() {
        format!("{:02}:{:02}", date.hour(), date.minute())
    } else if date.year() == now.year() {
        format!("{} {}", date.day(), month(date))
    } else {
        format!("{} {} {}", date.day(), month(date), date.year())
    }
}

/// A date in full, in UTC.
pub(super) fn long_date(seconds: i64) -> String {
    calendar(seconds).map_or_else(
        || "no date".to_owned(),
        |date| {
            let (day, year) = (date.day(), date.year());
            format!("{day} {} {year}, {:02}:{:02} UTC", month(date), date.hour(), date.minute())
        },
    )
}

/// A size in bytes, kilobytes or megabytes.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0..1000 => format!("{bytes} B"),
        1000..1_000_000 => format!("{} kB", bytes.div_ceil(1000)),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}

/// The name of an author without the address, where there is one.
pub(super) fn author(from: &str) -> &str {
    let name = from.split('<').next().unwrap_or(from).trim().trim_matches('"');
    if name.is_empty() { from } else { name }
}

/// `1 message`, `2 messages`.
pub(super) fn counted(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

fn calendar(seconds: i64) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp(seconds).ok()
}

fn month(date: OffsetDateTime) -> &'static str {
    MONTHS[usize::from(u8::from(date.month())) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-25 03:31:46 UTC, by `date -u -d 2026-11-25T03:31:46 +%s`.
    const NOW: i64 = 1_795_577_506;

    #[test]
    fn a_date_in_a_list_is_as_short_as_it_can_be() {
        for (seconds, expected) in [
            (NOW, "03:31"),
            (NOW - 4 * 3600, "24 Nov"),
            (0, "1 Jan 1970"),
            (i64::MAX, "no date"),
            (i64::MIN, "no date"),
        ] {
            assert_eq!(short_date(seconds, NOW), expected, "{seconds}");
        }
        assert_eq!(long_date(0), "1 Jan 1970, 00:00 UTC");
    }

    #[test]
    fn sizes_have_the_unit_that_fits() {
        for (bytes, expected) in
            [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (1001, "2 kB"), (1_550_000, "1.5 MB")]
        {
            assert_eq!(size(bytes), expected);
        }
    }

    #[test]
    fn an_author_is_shown_by_name() {
        for (from, expected) in [
            ("Ada <ada@example.org>", "Ada"),
            ("\"Ada L\" <ada@example.org>", "Ada L"),
            ("<ada@example.org>", "<ada@example.org>"),
            ("ada@example.org", "ada@example.org"),
            ("", ""),
        ] {
            assert_eq!(author(from), expected);
        }
    }
}
