//! Memory and CPU pressure, signalled to the stages of a service.
//!
//! Memory is the share in use, CPU the kernel's pressure stall information: the share of time in
//! which something that could run had to wait for a processor.

use std::time::Duration;

use tamarisk_control::Ratio;

use crate::signal::{Level, Pressure, Signal, Signals};
use crate::system::System;

/// How often the system is asked; its own averages move no faster.
const INTERVAL: Duration = Duration::from_secs(1);

/// When pressure counts as high. It counts as normal again a tenth below, so that
/// a resource at the edge does not signal every second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Share of the memory limit in use.
    pub memory: Ratio,
    /// Share of time in which something waited for a processor.
    pub cpu: Ratio,
}

impl Default for Thresholds {
    /// Nine tenths of the memory, because the last tenth can be gone in one
    /// burst; half of the time for CPU, because a busy service waits at times.
    fn default() -> Self {
        Self { memory: Ratio::saturating(0.9), cpu: Ratio::saturating(0.5) }
    }
}

/// Watches the system and signals whenever a level changes, for as long as its
/// task runs.
///
/// # Errors
/// [`NotAccounted`] if the system reports neither.
pub fn watch(
    signals: &Signals,
    thresholds: Thresholds,
) -> Result<tokio::task::JoinHandle<()>, NotAccounted> {
    let system = System::own();
    if system.memory().is_none() && system.cpu_pressure().is_none() {
        return Err(NotAccounted);
    }
    let signals = signals.clone();
    Ok(tokio::spawn(async move {
        let mut memory = Gauge::new(thresholds.memory);
        let mut cpu = Gauge::new(thresholds.cpu);
        let mut interval = tokio::time::interval(INTERVAL);
        loop {
            interval.tick().await;
            if let Some(pressure) = system.memory().and_then(|share| memory.changed(share)) {
                signals.send(Signal::Memory(pressure));
            }
            if let Some(pressure) = system.cpu_pressure().and_then(|share| cpu.changed(share)) {
                signals.send(Signal::Cpu(pressure));
            }
        }
    }))
}

/// Bytes of memory that this process may use: the least limit of the control groups around it, or
/// what the machine has; `None` if neither is known.
pub fn memory_limit() -> Option<u64> {
    System::own().memory_limit()
}

/// The system tells neither its memory nor its pressure stall information.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this system reports neither memory nor CPU pressure")]
pub struct NotAccounted;

/// A resource's level, with hysteresis.
struct Gauge {
    high_from: Ratio,
    level: Level,
}

impl Gauge {
    fn new(high_from: Ratio) -> Self {
        Self { high_from, level: Level::Normal }
    }

    /// The pressure, if its level has changed.
    fn changed(&mut self, share: Ratio) -> Option<Pressure> {
        let level = match self.level {
            Level::Normal if share >= self.high_from => Level::High,
            Level::High if share.get() < 0.9 * self.high_from.get() => Level::Normal,
            same => same,
        };
        let changed = level != self.level;
        self.level = level;
        changed.then_some(Pressure { share, level })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(value: f64) -> Ratio {
        Ratio::new(value).unwrap()
    }

    #[test]
    fn a_resource_at_the_edge_signals_once() {
        let mut gauge = Gauge::new(ratio(0.5));
        let levels = [0.4, 0.5, 0.49, 0.51, 0.46, 0.44, 0.46]
            .map(|share| gauge.changed(ratio(share)).map(|pressure| pressure.level));
        let expected = [None, Some(Level::High), None, None, None, Some(Level::Normal), None];
        assert_eq!(levels, expected);
    }
}
