//! Closed loop: users who send a request, wait for the answer and think; partly open if they send
//! another one when the answer is late.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout_at;
use tokio_util::task::TaskTracker;

use super::{Wish, Worker};
use crate::connection::Connection;
use crate::outcome::{ErrorKind, Outcome};
use crate::workload::{ClosedLoop, RetryAfter, UNANSWERED_MAX};

/// The shortest pause after a failure without an answer. Without it, users who do not think would
/// spin on a port where nobody listens.
const PAUSE_AFTER_FAILURE_MIN: Duration = Duration::from_millis(100);

/// Runs this thread's users; each is a task that ends with the schedule. Fails if one panics.
pub(crate) async fn run(
    worker: &Rc<Worker>,
    closed: &ClosedLoop,
    tasks: &TaskTracker,
) -> io::Result<()> {
    let threads = worker.plan().settings().threads;
    let mut users = JoinSet::new();
    for user in (worker.assignment().number..closed.users_max()).step_by(threads) {
        let user = User {
            worker: Rc::clone(worker),
            closed: closed.clone(),
            tasks: tasks.clone(),
            under_way: Rc::default(),
            number: user,
        };
        users.spawn_local(user.live());
    }
    while let Some(ended) = users.join_next().await {
        ended?;
    }
    Ok(())
}

struct User {
    worker: Rc<Worker>,
    closed: ClosedLoop,
    /// Of its requests, if it does not always wait for them.
    tasks: TaskTracker,
    /// Held by each of those requests too, for as long as it is under way.
    under_way: Rc<()>,
    number: usize,
}

impl User {
    /// The life of a user: on stage while the schedule's level exceeds the user's number.
    async fn live(self) {
        let Self { worker, closed, number, .. } = &self;
        let is_next = |ready| closed.users.next_above(*number as f64, ready);
        let population = worker.plan().population();
        let mut emulated = population.map(|population| population.user(*number));
        let mut idle = None;
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
            let resend = closed.resend.filter(|_| self.unanswered() + 1 < UNANSWERED_MAX);
            let wish = Wish { user: Some(*number), due, lag };
            let answer = match (&mut emulated, resend) {
                (Some(user), _) => Some(worker.ask_as(user.as_mut(), wish, idle.take()).await),
                (None, None) => Some(worker.ask(wish, idle.take()).await),
                (None, Some(after)) => self.ask_for(after, wish, idle.take()).await,
            };
            ready = worker.elapsed();
            if let Some((outcome, connection)) = answer {
                idle = connection;
                ready += pause(closed, outcome, worker.draw());
            }
        }
    }

    /// Earlier requests that are still under way.
    fn unanswered(&self) -> usize {
        Rc::strong_count(&self.under_way) - 1
    }

    /// Asks, and waits for so long; an answer that comes later is read and counted.
    async fn ask_for(
        &self,
        after: Duration,
        wish: Wish,
        idle: Option<Connection>,
    ) -> Option<(Outcome, Option<Connection>)> {
        let (worker, under_way) = (Rc::clone(&self.worker), Rc::clone(&self.under_way));
        let request = async move {
            let _under_way = under_way;
            worker.ask(wish, idle).await
        };
        let mut answer = self.tasks.spawn_local(request);
        let late = self.worker.assignment().origin + wish.due + after;
        let answer = timeout_at(late, &mut answer).await.ok()?;
        Some(answer.expect("a request is cut off with the whole run only, and does not panic"))
    }
}

/// How long a user waits after `outcome`; `draw` is from `0.0..1.0`.
fn pause(closed: &ClosedLoop, outcome: Outcome, draw: f64) -> Duration {
    let ClosedLoop { think, after_reject, retry_after, spread, .. } = *closed;
    match (outcome, retry_after) {
        (Outcome::Completed, _) => spread.vary(think, draw),
        // Not a moment earlier than the service asks for.
        (Outcome::Rejected { retry_after: Some(asked) }, RetryAfter::Honour) => {
            spread.lengthen(asked, draw)
        }
        (Outcome::Rejected { .. }, _)
        | (Outcome::Failed(ErrorKind::Status(_) | ErrorKind::Unusable(_)), _) => {
            spread.vary(after_reject, draw)
        }
        (Outcome::Failed(_), _) => {
            let shortest = spread.lengthen(PAUSE_AFTER_FAILURE_MIN, draw);
            spread.vary(after_reject, draw).max(shortest)
        }
    }
}
