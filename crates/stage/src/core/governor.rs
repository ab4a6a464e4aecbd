//! The governor of a stage: ticks it periodically.

use std::sync::Arc;
use std::time::Duration;

use tamarisk_control::Ratio;
use tokio::sync::Notify;

use super::cpu::CpuMeter;
use crate::panics::contained;

/// The period of ticks: a tenth of the second in which laws expect one, so that events
/// overdue in the queue are dropped within that time.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// A stage as its governor sees it.
pub(crate) trait Governed: Send + Sync {
    /// A tick, with the share of processor time in use, where the system reports it.
    fn tick(&self, cpu: Option<Ratio>);

    /// More workers are wanted than there are.
    fn start_workers(&self) {}
}

/// Ticks the stage for as long as it lives, and has workers started when `shortage` is notified.
pub(crate) fn spawn_governor(
    runtime: &tokio::runtime::Handle,
    stage: std::sync::Weak<dyn Governed>,
    shortage: Arc<Notify>,
) {
    runtime.spawn(async move {
        let mut cpu = CpuMeter::new();
        let mut interval = tokio::time::interval(TICK);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let ticks = tokio::select! {
                _ = interval.tick() => true,
                () = shortage.notified() => false,
            };
            let Some(stage) = stage.upgrade() else { return };
            // A law that panics is told the time again: what it did not do, the next tick does.
            let _ = contained(|| match ticks {
                true => stage.tick(cpu.busy()),
                false => stage.start_workers(),
            });
        }
    });
}
