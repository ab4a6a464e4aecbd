//! Percentiles as people read and write them.

use std::fmt;

use crate::Ratio;

/// A percentile by its ratio: 0.9 is shown as `p90`, 0.999 as `p99.9`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Percentile(pub Ratio);

/// Digits behind the decimal point of the ratio: as many as configuration files can state.
const DIGITS_MAX: usize = 5;

impl Percentile {
    /// As configuration files have it: `p` and the digits behind the decimal point of the ratio, two
    /// at least. 0.9 is `p90`, 0.999 is `p999`.
    pub fn key(self) -> String {
        let ratio = format!("{:.DIGITS_MAX$}", self.0.get());
        let digits = ratio.trim_start_matches("0.").trim_end_matches('0');
        format!("p{digits:0<2}")
    }

    /// The percentile that [`key`](Self::key) gives: `p` and the digits behind the decimal point of
    /// the ratio, two of them as a rule, more to be finer than 90 %. `p5` is rejected: it could mean
    /// 5 % or 50 %; and `p100`, which nobody means as 10 %.
    pub fn of_key(key: &str) -> Option<Self> {
        let digits = key.strip_prefix('p')?;
        let is_long_enough = digits.len() == 2
            || (3..=DIGITS_MAX).contains(&digits.len()) && digits.starts_with('9');
        let plain = is_long_enough && digits.bytes().all(|byte| byte.is_ascii_digit());
        let ratio = plain.then(|| format!("0.{digits}"))?.parse().ok()?;
        Ratio::new(ratio).ok().filter(|ratio| *ratio > Ratio::ZERO).map(Self)
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Two of the digits have moved in front of the point.
        write!(f, "p{}", (self.0.get() * 1e5).round() / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_digits_of_their_ratio() {
        let of_key = |key| Percentile::of_key(key).map(|Percentile(ratio)| ratio.get());
        for (key, ratio) in
            [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("p01", 0.01)]
        {
            assert_eq!(of_key(key), Some(ratio), "{key}");
        }
        for key in ["p", "p9", "p00", "p9x", "90", "path", "p999999", "p100", "p125"] {
            assert_eq!(of_key(key), None, "{key}");
        }
    }

    #[test]
    fn a_percentile_is_shown_with_all_digits_that_can_be_configured() {
        let check = |ratio: f64, shown: &str, key: &str| {
            let percentile = Percentile(Ratio::new(ratio).unwrap());
            assert_eq!((&*percentile.to_string(), &*percentile.key()), (shown, key));
        };
        check(0.01, "p1", "p01");
        check(0.05, "p5", "p05");
        check(0.5, "p50", "p50");
        check(0.57, "p57", "p57");
        check(0.9, "p90", "p90");
        check(0.95, "p95", "p95");
        check(0.99, "p99", "p99");
        check(0.999, "p99.9", "p999");
        check(0.9999, "p99.99", "p9999");
        check(0.999_99, "p99.999", "p99999");
    }
}
