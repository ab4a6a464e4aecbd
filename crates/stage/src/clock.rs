//! The one place where the runtime reads the time.

use std::sync::LazyLock;
use std::time::Instant;

use tamarisk_control::Timestamp;

/// Where a stage takes its time from.
///
/// All stages through which one event passes must share a clock, so that its
/// deadline means the same instant in each.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    Monotonic(quanta::Clock),
    Runtime,
}

/// What `Source::Runtime` counts from; any instant will do.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Clock {
    /// The processor's time-stamp counter, calibrated against the system's
    /// monotonic clock: less than half the cost of asking the system. The default.
    pub fn monotonic() -> Self {
        Self(Source::Monotonic(quanta::Clock::new()))
    }

    /// The clock of the async runtime, which stands still and jumps when a test
    /// pauses it.
    pub fn runtime() -> Self {
        LazyLock::force(&ORIGIN);
        Self(Source::Runtime)
    }

    /// Whether both read the same time.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(&self.0) == std::mem::discriminant(&other.0)
    }

    /// The current instant.
    #[inline]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::Monotonic(clock) => Timestamp::from_nanos(clock.delta_as_nanos(0, clock.raw())),
            Source::Runtime => of_runtime(),
        }
    }
}

#[cold]
fn of_runtime() -> Timestamp {
    // A paused runtime may have stopped its clock before the origin.
    const MIDDLE: Timestamp = Timestamp::from_nanos(1 << 62);
    let now = tokio::time::Instant::now().into_std();
    match now.checked_duration_since(*ORIGIN) {
        Some(after) => MIDDLE + after,
        None => {
            let before = ORIGIN.duration_since(now).as_nanos() as u64;
            Timestamp::from_nanos(MIDDLE.as_nanos() - before)
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::monotonic()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_monotonic_clock_keeps_pace_with_the_system() {
        let clock = Clock::monotonic();
        let (ours, system) = (clock.now(), Instant::now());
        while system.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        let (ours, system) = (clock.now().since(ours), system.elapsed());
        let ratio = ours.as_secs_f64() / system.as_secs_f64();
        assert!((0.9..1.1).contains(&ratio), "{ours:?} passed in {system:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_runtime_clock_follows_paused_time() {
        let clock = Clock::runtime();
        let start = clock.now();
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(clock.now().since(start), Duration::from_secs(3));
    }
}
