//! One run of a situation.

use std::time::Duration;

use anyhow::Result;
use tokio::time::Instant;

use super::front::Front;
use super::load;
use super::situations::Situation;
use crate::process::Scratch;

/// Runs the situation once, with a proxy that has seen nothing before, and judges it: one
/// number for each of its bars.
///
/// # Errors
/// If the proxy cannot be started, or Ctrl-C ended the run.
pub fn run(situation: &Situation, front: &Front, seed: u64) -> Result<Vec<f64>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let scratch = Scratch::new(&format!("real-traffic-{}-{seed}", situation.name))?;
    let judged = runtime.block_on(async {
        let start = Instant::now() + STARTS_AFTER;
        let upstream = situation.upstream.clone().serve(start, seed).await?;
        let proxy = front.start(&scratch, situation, upstream)?;
        tokio::time::sleep_until(start).await;
        for hostile in &situation.hostile {
            hostile.start(proxy.address);
        }
        let times = (situation.seconds, situation.grace);
        tokio::select! {
            seen = load::send(&situation.streams, proxy.address, (start, seed), times) => {
                Ok(situation.bars.iter().map(|bar| (bar.measure)(&seen)).collect())
            }
            _ = tokio::signal::ctrl_c() => anyhow::bail!("ended by Ctrl-C"),
        }
    });
    // Clients and the upstream end with the runtime, whatever they wait for.
    runtime.shutdown_timeout(Duration::from_secs(1));
    judged
}

/// The proxy has this long to listen before the clock of the situation starts.
const STARTS_AFTER: Duration = Duration::from_secs(1);
