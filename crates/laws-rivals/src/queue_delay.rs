//! The target delay and the interval of the CoDel family.

use std::time::Duration;

use tamarisk_laws::constants::constants;

constants! {
    /// Of the CoDel family: [`QueueDelay::PUBLISHED`].
    pub(crate) struct QueueDelayConstants {
        /// acceptable wait while a queue stands
        wait_target_seconds: Duration = 0.005 in 0.000_001..=3600.0,
        /// after this time a queue counts as standing
        interval_seconds: Duration = 0.1 in 0.000_01..=36000.0,
    }
}

/// How long an event may wait in a queue that stands, and how long a queue must
/// have stood to count as standing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueDelay {
    pub(super) target: Duration,
    pub(super) interval: Duration,
}

/// Why two times are no [`QueueDelay`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a queueing delay of {target:?} is not between zero and the interval of {interval:?}")]
pub struct InvalidQueueDelay {
    target: Duration,
    interval: Duration,
}

impl QueueDelay {
    /// 5 ms and 100 ms: TARGET and INTERVAL of [RFC8289 §4.2, §4.3], and the M and
    /// the N that \[Maurer15\] recommends for servers.
    pub const PUBLISHED: Self =
        Self { target: Duration::from_millis(5), interval: Duration::from_millis(100) };

    /// Times of one's own.
    ///
    /// # Errors
    /// [`InvalidQueueDelay`] unless `target` is positive and less than `interval`:
    /// a longer one would never be seen to have stood for an interval.
    pub fn new(target: Duration, interval: Duration) -> Result<Self, InvalidQueueDelay> {
        if target.is_zero() || target >= interval {
            return Err(InvalidQueueDelay { target, interval });
        }
        Ok(Self { target, interval })
    }

    pub(crate) fn of(its: &QueueDelayConstants) -> Result<Self, InvalidQueueDelay> {
        Self::new(its.wait_target_seconds, its.interval_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_of_the_catalogue_are_the_published_times() {
        assert_eq!(QueueDelay::of(&QueueDelayConstants::default()), Ok(QueueDelay::PUBLISHED));
    }

    #[test]
    fn a_target_is_positive_and_below_the_interval() {
        let ms = Duration::from_millis;
        assert!(QueueDelay::new(ms(50), ms(1000)).is_ok());
        assert!(QueueDelay::new(ms(0), ms(100)).is_err());
        let error = QueueDelay::new(ms(100), ms(100)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a queueing delay of 100ms is not between zero and the interval of 100ms"
        );
    }
}
