//! The governor of a stage: gives it the time.

use std::time::Duration;

use tamarisk_control::Ratio;

use super::cpu::CpuMeter;

/// The governor looks at a stage this often: a tenth of the second that laws are
/// promised, so that what has become overdue in the queue is told so soon.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// A stage as its governor sees it.
pub(crate) trait Governed: Send + Sync {
    /// The time, and the share of the processors in use, where the system tells it.
    fn tick(&self, cpu: Option<Ratio>);
}

/// Ticks the stage for as long as it lives.
pub(crate) fn govern(runtime: &tokio::runtime::Handle, stage: std::sync::Weak<dyn Governed>) {
    runtime.spawn(async move {
        let mut cpu = CpuMeter::new();
        let mut interval = tokio::time::interval(TICK);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            let Some(stage) = stage.upgrade() else { return };
            stage.tick(cpu.busy());
        }
    });
}
