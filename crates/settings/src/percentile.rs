//! `p90`: a percentile as a key.

use tamarisk_control::Ratio;

/// Whether a key names a percentile: `p50`, `p95`, `p999` (99.9 %) and so on.
pub fn is_percentile(key: &str) -> bool {
    percentile(key).is_some()
}

/// `p` and the digits behind the decimal point of the ratio: two of them as a
/// rule, more to be finer than 90 %. `p5` is rejected: it could mean 5 % or 50 %; and `p100`, which
/// nobody means as 10 %.
pub fn percentile(key: &str) -> Option<Ratio> {
    let digits = key.strip_prefix('p')?;
    let is_long_enough =
        digits.len() == 2 || (3..=5).contains(&digits.len()) && digits.starts_with('9');
    let plain = is_long_enough && digits.bytes().all(|byte| byte.is_ascii_digit());
    let ratio = plain.then(|| format!("0.{digits}"))?.parse().ok()?;
    Ratio::new(ratio).ok().filter(|ratio| *ratio > Ratio::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_digits_of_their_ratio() {
        for (key, ratio) in
            [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("p01", 0.01)]
        {
            assert_eq!(percentile(key).map(Ratio::get), Some(ratio), "{key}");
        }
        for key in ["p", "p9", "p00", "p9x", "90", "path", "p999999", "p100", "p125"] {
            assert_eq!(percentile(key), None, "{key}");
        }
    }
}
