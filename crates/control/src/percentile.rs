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
