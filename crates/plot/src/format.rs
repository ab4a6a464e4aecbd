//! Formats numbers for people.

/// A duration in seconds, to three significant digits: `340 µs`, `12.3 ms`, `1.25 s`.
pub fn seconds(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 0.000_000_5 => return "0 s".to_owned(),
        s if s < 0.999_5e-3 => (s * 1e6, "µs"),
        s if s < 0.999_5 => (s * 1e3, "ms"),
        s => (s, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// A rate or a level: to three significant digits below a thousand, and with
/// separated thousands from there. Less than a billionth is `0`.
pub fn rate(rate: f64) -> String {
    if rate < 999.5 { three_digits(rate) } else { count(rate.round() as u64) }
}

/// A count with separated thousands: `12,345`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// Less than a billionth is what sums of floating-point numbers are off by.
const DECIMALS_MAX: f64 = 9.0;

fn three_digits(value: f64) -> String {
    let decimals = match value {
        v if v > 0.0 && v < 1.0 => (2.0 - v.log10().floor()).min(DECIMALS_MAX) as usize,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    let shown = format!("{value:.decimals$}");
    match shown.contains('.') {
        true => shown.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_significant_digits() {
        let check = |value, expected: &str| assert_eq!(seconds(value), expected);
        check(0.0, "0 s");
        check(0.000_000_4, "0 s");
        check(0.000_34, "340 µs");
        check(0.012_345, "12.3 ms");
        check(0.2, "200 ms");
        check(0.999_9, "1 s");
        check(1.2547, "1.25 s");
        check(754.4, "754 s");
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1000), "1,000");
        assert_eq!(count(12_345_678), "12,345,678");
        assert_eq!(rate(999.6), "1,000");
        assert_eq!(rate(0.5), "0.5");
        assert_eq!(rate(387.4), "387");
    }

    #[test]
    fn small_numbers_have_three_significant_digits_too() {
        assert_eq!(rate(0.0), "0");
        assert_eq!(rate(0.008), "0.008");
        assert_eq!(rate(0.012_345), "0.0123");
        assert_eq!(rate(0.999_96), "1");
        assert_eq!(rate(0.000_123_4), "0.000123");
        assert_eq!(rate(1e-10), "0");
        assert_eq!(seconds(0.000_000_734_4), "0.734 µs");
    }
}
