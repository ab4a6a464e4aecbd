//! What batching by throughput is for, after the figure of the paper that shows it.

use std::time::Duration;

use tamarisk_control::*;
use tamarisk_laws_papers::ThroughputBatching;

/// [Welsh02 fig. 32]: one dear operation for each batch of up to 200 events, and
/// again for every further hundred.
#[test]
fn a_batch_settles_about_the_size_that_a_handler_is_made_for() {
    let throughput = |size: f64| {
        let dear = 1.0 + ((size - 200.0) / 100.0).max(0.0);
        size / (dear * 0.010 + size * 10e-6)
    };
    let mut law = ThroughputBatching::default();
    let (mut completed, mut size) = (0.0, 1000.0);
    let mut sizes = Vec::new();
    for second in 0..300 {
        completed += throughput(size);
        let backlog = Backlog {
            queued: &[100_000],
            running: &[1],
            queued_total: 100_000,
            running_total: 1,
            workers: Concurrency::ONE,
        };
        let completed = completed as u64;
        let activity =
            Activity { backlog, offered: completed, lost: 0, completed, workers_idle: 0 };
        size = law.on_tick(Timestamp::ZERO + Duration::from_secs(second), &activity).get().into();
        sizes.push(size);
    }
    let settled = &sizes[40..];
    assert!(settled.iter().all(|size| (110.0..=350.0).contains(size)), "{settled:?}");
    let mean = settled.iter().map(|&size| throughput(size)).sum::<f64>() / settled.len() as f64;
    assert!(mean > 0.85 * throughput(200.0), "{mean:.0} of {:.0} a second", throughput(200.0));
    let is_undamped = settled.windows(3).filter(|w| w[1] > w[0] && w[1] >= w[2]).count() > 4;
    assert!(is_undamped, "as the paper's, it swings: {settled:?}");
}
