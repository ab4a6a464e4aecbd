//! Closed loop: users who send a request, wait for the answer and think.

use std::rc::Rc;
use std::time::Duration;

use tokio_util::task::TaskTracker;

use super::Worker;
use crate::outcome::Outcome;
use crate::workload::{ClosedLoop, RetryAfter};

/// The shortest pause after a failure. Without it, users who do not think would
/// spin on a port where nobody listens.
const PAUSE_AFTER_FAILURE_MIN: Duration = Duration::from_millis(100);

/// Starts this thread's users; each is a task that ends with the schedule.
pub(crate) fn start(worker: &Rc<Worker>, closed: &ClosedLoop, tasks: &TaskTracker) {
    let threads = worker.plan().settings().threads;
    for user in (worker.assignment().number..closed.users_max()).step_by(threads) {
        tasks.spawn_local(live(Rc::clone(worker), closed.clone(), user));
    }
}

/// The life of a user: on stage while the schedule's level exceeds the user's number.
async fn live(worker: Rc<Worker>, closed: ClosedLoop, user: usize) {
    let mut idle = None;
    let mut ready = Duration::ZERO;
    while let Some(planned) = closed.users.next_above(user as f64, ready) {
        if planned > ready {
            // Off stage until then: whoever leaves, hangs up.
            idle = None;
        }
        worker.sleep_until(planned).await;
        let due = worker.elapsed();
        let lag = due.saturating_sub(planned);
        if closed.users.next_above(user as f64, due) != Some(due) {
            // The curtain fell in the moment of waking.
            ready = due;
            continue;
        }
        let (outcome, connection) = worker.ask(Some(user), due, lag, idle.take()).await;
        idle = connection;
        let pause = closed.spread.vary(pause(&closed, outcome), worker.draw());
        ready = worker.elapsed() + pause;
    }
}

fn pause(closed: &ClosedLoop, outcome: Outcome) -> Duration {
    match (outcome, closed.retry_after) {
        (Outcome::Completed, _) => closed.think,
        (Outcome::Rejected { retry_after: Some(asked) }, RetryAfter::Honour) => asked,
        (Outcome::Rejected { .. }, _) => closed.after_reject,
        (Outcome::Failed(_), _) => closed.after_reject.max(PAUSE_AFTER_FAILURE_MIN),
    }
}
