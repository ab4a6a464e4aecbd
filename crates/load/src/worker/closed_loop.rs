//! Closed loop: users who send a request, wait for the answer and think; partly open if they send
//! another one when the answer is late.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::timeout_at;
use tokio_util::task::TaskTracker;

use super::{Wish, Worker};
use crate::connection::Connection;
use crate::outcome::Outcome;
use crate::workload::{ClosedLoop, RetryAfter, UNANSWERED_MAX};

/// The shortest pause after a failure. Without it, users who do not think would
/// spin on a port where nobody listens.
const PAUSE_AFTER_FAILURE_MIN: Duration = Duration::from_millis(100);

/// Starts this thread's users; each is a task that ends with the schedule.
pub(crate) fn start(worker: &Rc<Worker>, closed: &ClosedLoop, tasks: &TaskTracker) {
    let threads = worker.plan().settings().threads;
    for user in (worker.assignment().number..closed.users_max()).step_by(threads) {
        let user = User {
            worker: Rc::clone(worker),
            closed: closed.clone(),
            tasks: tasks.clone(),
            number: user,
        };
        tasks.spawn_local(user.live());
    }
}

struct User {
    worker: Rc<Worker>,
    closed: ClosedLoop,
    /// Of its requests, if it does not always wait for them.
    tasks: TaskTracker,
    number: usize,
}

impl User {
    /// The life of a user: on stage while the schedule's level exceeds the user's number.
    async fn live(self) {
        let Self { worker, closed, number, .. } = &self;
        let is_next = |ready| closed.users.next_above(*number as f64, ready);
        let population = worker.plan().population();
        let mut emulated = population.map(|population| population.user(*number));
        let (mut idle, mut unanswered) = (None, 0);
        let mut ready = Duration::ZERO;
        while let Some(planned) = is_next(ready) {
            if planned > ready {
                // Off stage until then: whoever leaves, hangs up.
                idle = None;
            }
            worker.sleep_until(planned).await;
            let due = worker.elapsed();
            let lag = due.saturating_sub(planned);
            if is_next(due) != Some(due) {
                // The curtain fell in the moment of waking.
                ready = due;
                continue;
            }
            let resend = closed.resend.filter(|_| unanswered + 1 < UNANSWERED_MAX);
            let wish = Wish { user: Some(*number), due, lag };
            let answer = match (&mut emulated, resend) {
                (Some(user), _) => Some(worker.ask_as(user.as_mut(), wish, idle.take()).await),
                (None, None) => Some(worker.ask(wish, idle.take()).await),
                (None, Some(after)) => self.ask_for(after, wish, idle.take()).await,
            };
            if let Some((outcome, connection)) = answer {
                idle = connection;
                unanswered = 0;
                let pause = closed.spread.vary(pause(closed, outcome), worker.draw());
                ready = worker.elapsed() + pause;
            } else {
                unanswered += 1;
                ready = worker.elapsed();
            }
        }
    }

    /// Asks, and waits for so long; an answer that comes later is read and counted.
    async fn ask_for(
        &self,
        after: Duration,
        wish: Wish,
        idle: Option<Connection>,
    ) -> Option<(Outcome, Option<Connection>)> {
        let worker = Rc::clone(&self.worker);
        let request = async move { worker.ask(wish, idle).await };
        let mut answer = self.tasks.spawn_local(request);
        let late = self.worker.assignment().origin + wish.due + after;
        // A task that was cut off ends with the run, and so does this one.
        timeout_at(late, &mut answer).await.ok()?.ok()
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
