//! Workers that have been idle for long enough to be removed.

use std::time::Duration;

use tamarisk_control::Timestamp;

/// [Welsh02 §5.4.1]
const IDLE: Duration = Duration::from_secs(5);

/// The least number of workers that were idle at once since some instant.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdleWorkers {
    since: Option<Timestamp>,
    least: u32,
}

impl IdleWorkers {
    /// How many workers have been idle for the whole time, each told of once.
    pub fn on_tick(&mut self, now: Timestamp, idle: u32) -> u32 {
        let Some(since) = self.since.filter(|_| idle > 0) else {
            *self = Self { since: (idle > 0).then_some(now), least: idle };
            return 0;
        };
        self.least = self.least.min(idle);
        if now.since(since) < IDLE {
            return 0;
        }
        self.since = Some(now);
        std::mem::replace(&mut self.least, idle)
    }
}
