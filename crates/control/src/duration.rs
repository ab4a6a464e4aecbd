//! Durations as people write them: `200ms`, `1.5s`, `2m`.

use std::time::Duration;

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDuration {
    /// There is no number in front: write `200ms`.
    #[error("`{0}` does not start with a number; write for example `200ms` or `1.5s`")]
    Number(String),
    /// The number has no unit, or one that is not known.
    #[error("`{0}` needs a unit: one of ns, us, ms, s, m, h; write for example `200ms` or `1.5s`")]
    Unit(String),
    /// Longer than a year, which is surely a slip.
    #[error("`{0}` is longer than a year")]
    TooLong(String),
}

/// The duration that `text` denotes: a decimal number and a unit (`ns`, `us`,
/// `ms`, `s`, `m`, `h`), to the nanosecond, at most a year. A plain `0` needs no unit.
///
/// # Errors
/// [`InvalidDuration`] says which part was not understood.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use tamarisk_control::parse_duration;
///
/// assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
/// assert!(parse_duration("1.5").is_err());
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, InvalidDuration> {
    const YEAR_SECONDS: f64 = 365.0 * 24.0 * 3600.0;
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| InvalidDuration::Number(text.to_owned()))?;
    let seconds_per_unit = match unit.trim_start() {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "" if number == 0.0 => 1.0,
        _ => return Err(InvalidDuration::Unit(text.to_owned())),
    };
    let seconds = number * seconds_per_unit;
    if seconds > YEAR_SECONDS {
        return Err(InvalidDuration::TooLong(text.to_owned()));
    }
    Ok(Duration::from_nanos((seconds * 1e9).round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Duration) {
        assert_eq!(parse_duration(text), Ok(expected), "{text}");
    }

    #[test]
    fn a_number_and_a_unit_make_a_duration() {
        check("200ms", Duration::from_millis(200));
        check("1.5s", Duration::from_millis(1500));
        check(" 2 m ", Duration::from_secs(120));
        check("1h", Duration::from_secs(3600));
        check("20us", Duration::from_micros(20));
        check("20µs", Duration::from_micros(20));
        check(".5ms", Duration::from_micros(500));
        check("0", Duration::ZERO);
        check("0.1s", Duration::from_millis(100));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for text in ["", "ms", "-1s", "1.2.3s", "fast", "."] {
            assert!(matches!(parse_duration(text), Err(InvalidDuration::Number(_))), "{text}");
        }
        for text in ["5", "5 parsecs", "1e3s", "5S"] {
            assert!(matches!(parse_duration(text), Err(InvalidDuration::Unit(_))), "{text}");
        }
        assert!(matches!(parse_duration("9999999h"), Err(InvalidDuration::TooLong(_))));
    }
}
