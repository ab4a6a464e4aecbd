//! `p90`: a percentile as a key.

use tamarisk_control::{Percentile, Ratio};

/// Whether a key names a percentile: `p50`, `p95`, `p999` (99.9 %) and so on.
pub fn is_percentile(key: &str) -> bool {
    percentile(key).is_some()
}

/// The percentile that a key names; see [`Percentile::of_key`].
pub fn percentile(key: &str) -> Option<Ratio> {
    Percentile::of_key(key).map(|Percentile(ratio)| ratio)
}
