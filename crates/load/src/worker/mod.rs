//! One thread of the generator: its clock, its accounts, and how it asks: as users do, or as a
//! stream of requests.

mod closed_loop;
mod open_loop;
mod timer;

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::runtime::LocalOptions;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::answer::Answer;
use crate::connection::{Buffers, Connection, ExchangeError};
use crate::outcome::{ErrorKind, Outcome};
use crate::plan::Plan;
use crate::recorder::{IntervalTally, PhaseTally, Recorder};
use crate::tally::Ended;
use crate::workload::Workload;

/// What a thread is told when it starts.
#[derive(Clone)]
pub(crate) struct Assignment {
    pub(crate) plan: Arc<Plan>,
    pub(crate) addresses: Arc<[SocketAddr]>,
    /// The start of the run, the same for all threads.
    pub(crate) origin: Instant,
    /// Which of the plan's threads this is, from zero.
    pub(crate) number: usize,
    /// Connections that this thread may hold.
    pub(crate) connections_max: usize,
}

/// What a thread tells while it runs, and at its end.
pub(crate) enum Message {
    Intervals(Vec<IntervalTally>),
    Finished(io::Result<Vec<PhaseTally>>),
}

/// One thread of the generator. Everything that belongs to it stays on it, so
/// nothing here is shared or locked.
pub(crate) struct Worker {
    assignment: Assignment,
    recorder: RefCell<Recorder>,
    random: RefCell<StdRng>,
    buffers: Buffers,
}

/// Runs the share of the plan that `assignment` describes, until it is done or
/// `stop` is cancelled. Blocks the calling thread.
pub(crate) fn run(
    assignment: Assignment,
    stop: &CancellationToken,
    messages: &UnboundedSender<Message>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default());
    let result = runtime.and_then(|runtime| {
        let worker = Rc::new(Worker::new(assignment));
        runtime.block_on(worker.run(stop, messages))
    });
    // A receiver that is gone wants no result.
    let _ = messages.send(Message::Finished(result));
}

impl Worker {
    fn new(assignment: Assignment) -> Self {
        let seed = assignment.plan.seed().wrapping_add(assignment.number as u64);
        Self {
            recorder: RefCell::new(Recorder::new(Arc::clone(&assignment.plan))),
            random: RefCell::new(StdRng::seed_from_u64(seed)),
            buffers: Buffers::default(),
            assignment,
        }
    }

    pub(crate) fn assignment(&self) -> &Assignment {
        &self.assignment
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.assignment.plan
    }

    /// A random number from `0.0..1.0`.
    pub(crate) fn draw(&self) -> f64 {
        self.random.borrow_mut().random()
    }

    /// The time since the start of the run.
    pub(crate) fn elapsed(&self) -> Duration {
        self.assignment.origin.elapsed()
    }

    /// Waits until `at`, to the millisecond; not at all if that has passed.
    pub(crate) async fn sleep_until(&self, at: Duration) {
        let deadline = self.assignment.origin + at;
        // Tokio's timers round up, even an instant that is past.
        if deadline > Instant::now() {
            sleep_until(deadline).await;
        }
    }

    /// Asks once, over `idle` if that connection still stands, and else over a
    /// new one. The latency runs from `due`; `lag` is the generator's own delay.
    pub(crate) async fn ask(
        &self,
        user: Option<usize>,
        due: Duration,
        lag: Duration,
        idle: Option<Connection>,
    ) -> (Outcome, Option<Connection>) {
        self.recorder.borrow_mut().on_start(user, due, self.elapsed(), lag);
        let mut sent = None;
        let deadline = self.assignment.origin + due + self.plan().settings().timeout;
        let answer = timeout_at(deadline, self.exchange(due, idle, &mut sent)).await;
        let (outcome, bytes, connection) = match answer {
            Ok(Ok((answer, connection))) => (answer.outcome, answer.bytes, connection),
            Ok(Err(kind)) => (Outcome::Failed(kind), 0, None),
            Err(_) => (Outcome::Failed(ErrorKind::TimedOut), 0, None),
        };
        let ended = Ended { user, due, sent, at: self.elapsed(), outcome, bytes };
        self.recorder.borrow_mut().on_end(&ended);
        (outcome, connection)
    }

    /// Accounts for a request that was due and will never be sent.
    pub(crate) fn give_up(&self, due: Duration) {
        let at = self.elapsed();
        let outcome = Outcome::Failed(ErrorKind::NotSent);
        let mut recorder = self.recorder.borrow_mut();
        recorder.on_start(None, due, at, at.saturating_sub(due));
        recorder.on_end(&Ended { user: None, due, sent: None, at, outcome, bytes: 0 });
    }

    async fn exchange(
        &self,
        due: Duration,
        idle: Option<Connection>,
        sent: &mut Option<Duration>,
    ) -> Result<(Answer, Option<Connection>), ErrorKind> {
        let form = self.plan().form();
        let path = self.plan().path(&mut *self.random.borrow_mut());
        if let Some(connection) = idle {
            *sent = Some(self.elapsed());
            match connection.exchange(form, path, &self.buffers).await {
                Err(ExchangeError::Stale) => {}
                Err(ExchangeError::Failed(kind)) => return Err(kind),
                Ok(answer) => return Ok(answer),
            }
        }
        *sent = None;
        let began = self.elapsed();
        let requests = self.plan().settings().requests_per_connection;
        let connection = Connection::open(&self.assignment.addresses, requests).await?;
        let connected = self.elapsed();
        self.recorder.borrow_mut().on_connected(due, connected, connected - began);
        *sent = Some(connected);
        connection.exchange(form, path, &self.buffers).await.map_err(|error| match error {
            ExchangeError::Stale => ErrorKind::ConnectionClosed,
            ExchangeError::Failed(kind) => kind,
        })
    }

    async fn run(
        self: Rc<Self>,
        stop: &CancellationToken,
        messages: &UnboundedSender<Message>,
    ) -> io::Result<Vec<PhaseTally>> {
        let end = self.plan().workload().schedule().duration();
        let deadline = self.assignment.origin + end + self.plan().settings().drain;
        let load = async {
            let (load, ()) = tokio::join!(Rc::clone(&self).load(), self.sleep_until(end));
            load
        };
        let ended = tokio::select! {
            () = stop.cancelled() => Ok(()),
            () = self.report_intervals(messages) => Ok(()),
            ended = timeout_at(deadline, load) => ended.unwrap_or(Ok(())),
        };
        let (intervals, phases) = self.recorder.borrow_mut().finish(self.elapsed());
        let _ = messages.send(Message::Intervals(intervals));
        ended.map(|()| phases)
    }

    /// Runs this thread's share of the users or of the stream, to its end.
    async fn load(self: Rc<Self>) -> io::Result<()> {
        let tasks = TaskTracker::new();
        match self.plan().workload() {
            Workload::Closed(closed) => closed_loop::start(&self, closed, &tasks),
            Workload::Open(open) => open_loop::run(&self, open, &tasks).await?,
        }
        tasks.close();
        tasks.wait().await;
        Ok(())
    }

    /// Sends each interval once it is over, for as long as it is polled.
    async fn report_intervals(&self, messages: &UnboundedSender<Message>) {
        let interval = self.plan().settings().interval;
        let mut next = interval;
        loop {
            self.sleep_until(next).await;
            let now = self.elapsed();
            let finished = self.recorder.borrow_mut().take_finished(now);
            // A receiver that is gone has also cancelled the run.
            let _ = messages.send(Message::Intervals(finished));
            while next <= now {
                next += interval;
            }
        }
    }
}
