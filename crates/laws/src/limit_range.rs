//! The least and the greatest value of a concurrency limit. For laws of one's own, too.

use tamarisk_control::{Backlog, Concurrency, Decision, Reason, Rejection};

/// Where a concurrency limit starts, and what it never leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitRange {
    min: u32,
    initial: u32,
    max: u32,
}

/// Why three numbers are no [`LimitRange`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("initial limit ({initial}) is not between minimum ({min}) and maximum ({max})")]
pub struct InvalidLimitRange {
    min: Concurrency,
    initial: Concurrency,
    max: Concurrency,
}

impl LimitRange {
    /// From `min` to `max`, at first `initial`.
    ///
    /// # Errors
    /// [`InvalidLimitRange`] unless they stand in this order.
    pub fn new(
        min: Concurrency,
        initial: Concurrency,
        max: Concurrency,
    ) -> Result<Self, InvalidLimitRange> {
        if min > initial || initial > max {
            return Err(InvalidLimitRange { min, initial, max });
        }
        Ok(Self::of(min.get(), initial.get(), max.get()))
    }

    /// The same of three numbers that are known to stand in this order.
    ///
    /// # Panics
    /// If they do not.
    pub const fn of(min: u32, initial: u32, max: u32) -> Self {
        assert!(min <= initial && initial <= max, "a limit begins within its bounds");
        Self { min, initial, max }
    }

    /// The least limit.
    pub const fn least(&self) -> u32 {
        self.min
    }

    /// The limit at first.
    pub const fn initial(&self) -> u32 {
        self.initial
    }

    /// The whole limit nearest below `value`, within the bounds.
    pub fn whole(&self, value: f64) -> u32 {
        (value as u32).clamp(self.min, self.max)
    }

    /// The limit nearest to `value` within the bounds.
    pub fn clamp(&self, value: f64) -> f64 {
        value.clamp(f64::from(self.min), f64::from(self.max))
    }
}

/// How many are inside: waiting or being worked on.
pub fn inside(backlog: &Backlog<'_>) -> u32 {
    backlog.queued_total.saturating_add(backlog.running_total)
}

/// Lets one in while fewer than `limit` are inside.
pub fn admit_below(limit: u32, backlog: &Backlog<'_>) -> Decision {
    if inside(backlog) < limit {
        Decision::Admit
    } else {
        Decision::Reject(Rejection::new(Reason::ConcurrencyLimit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_stand_in_order() {
        let range = |min, initial, max| {
            let [min, initial, max] = [min, initial, max].map(Concurrency::new);
            LimitRange::new(min, initial, max)
        };
        assert!(range(1, 20, 1000).is_ok());
        assert!(range(30, 20, 1000).is_err());
        let error = range(1, 20, 10).unwrap_err();
        assert_eq!(
            error.to_string(),
            "initial limit (20) is not between minimum (1) and maximum (10)"
        );
    }
}
