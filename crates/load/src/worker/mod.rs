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

use self::open_loop::Stream;
use crate::answer::Purpose;
use crate::connection::{Buffers, Connection, Exchange, ExchangeError, Exchanged};
use crate::outcome::{ErrorKind, Outcome};
use crate::plan::Plan;
use crate::population::EmulatedUser;
use crate::recorder::{IntervalTally, PhaseTally, Recorder};
use crate::request::RequestForm;
use crate::tally::{Ended, Started};
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

/// Somebody is to ask.
#[derive(Clone, Copy)]
pub(crate) struct Wish {
    /// Which user, in a closed loop.
    pub(crate) user: Option<usize>,
    /// From when on the latency runs.
    pub(crate) due: Duration,
    /// The generator's own delay.
    pub(crate) lag: Duration,
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

/// What a thread chooses by. Neighbouring seeds must not give the threads neighbouring choices, and
/// the arrivals have the seed itself: what is asked for does not depend on when.
fn choices(seed: u64, number: usize) -> StdRng {
    let of_run: u64 = StdRng::seed_from_u64(seed).random();
    StdRng::seed_from_u64(of_run ^ number as u64)
}

impl Worker {
    fn new(assignment: Assignment) -> Self {
        let random = choices(assignment.plan.seed(), assignment.number);
        Self {
            recorder: RefCell::new(Recorder::new(Arc::clone(&assignment.plan))),
            random: RefCell::new(random),
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

    /// Asks once for one of the plan's URLs, over `idle` if that connection still stands, and
    /// else over a new one.
    pub(crate) async fn ask(
        &self,
        wish: Wish,
        idle: Option<Connection>,
    ) -> (Outcome, Option<Connection>) {
        let path = self.plan().path(&mut *self.random.borrow_mut());
        let exchange = Exchange { form: self.plan().form(), path, purpose: Purpose::Count };
        let mut sent = None;
        self.on_start(wish, None);
        let answer = self.answer(wish.due, exchange, idle, &mut sent).await;
        let (outcome, bytes, connection) = match answer {
            Ok(Exchanged { answer, connection, .. }) => (answer.outcome, answer.bytes, connection),
            Err(kind) => (Outcome::Failed(kind), 0, None),
        };
        let (user, due, at) = (wish.user, wish.due, self.elapsed());
        self.on_end(&Ended { user, group: None, due, sent, at, outcome, bytes });
        (outcome, connection)
    }

    /// Asks once for what `user` wants, who then reads the answer.
    pub(crate) async fn ask_as(
        &self,
        user: &mut dyn EmulatedUser,
        wish: Wish,
        idle: Option<Connection>,
    ) -> (Outcome, Option<Connection>) {
        let request = user.next_request();
        let (url, path) = (&self.plan().urls()[0], &request.path);
        let form = RequestForm::new(url, request.method, &request.headers, request.body);
        let exchange = Exchange { form: &form, path, purpose: Purpose::Keep };
        let group = Some(self.plan().groups().index(user.class(), request.request_type));
        let mut sent = None;
        self.on_start(wish, group);
        let answer = self.answer(wish.due, exchange, idle, &mut sent).await;
        // Reading takes time of the user, not of the service.
        let at = self.elapsed();
        let (outcome, bytes, connection) = match answer {
            Ok(Exchanged { answer, kept, connection }) => {
                let read = match answer.outcome {
                    Outcome::Rejected { .. } => Ok(()),
                    _ => kept.as_ref().map_or(Ok(()), |kept| user.read(kept)),
                };
                let unusable = |reason| Outcome::Failed(ErrorKind::Unusable(reason));
                (read.map_or_else(unusable, |()| answer.outcome), answer.bytes, connection)
            }
            Err(kind) => (Outcome::Failed(kind), 0, None),
        };
        if outcome != Outcome::Completed {
            user.begin_again();
        }
        let (user, due) = (wish.user, wish.due);
        self.on_end(&Ended { user, group, due, sent, at, outcome, bytes });
        (outcome, connection)
    }

    /// Accounts for a request that was due and will never be sent.
    pub(crate) fn give_up(&self, due: Duration) {
        let at = self.elapsed();
        let outcome = Outcome::Failed(ErrorKind::NotSent);
        self.on_start(Wish { user: None, due, lag: at.saturating_sub(due) }, None);
        self.on_end(&Ended { user: None, group: None, due, sent: None, at, outcome, bytes: 0 });
    }

    fn on_start(&self, wish: Wish, group: Option<usize>) {
        let Wish { user, due, lag } = wish;
        let started = Started { user, group, due, at: self.elapsed(), lag };
        self.recorder.borrow_mut().on_start(&started);
    }

    fn on_end(&self, ended: &Ended) {
        self.recorder.borrow_mut().on_end(ended);
    }

    /// The answer to a request that was due at `due`, within the plan's timeout.
    async fn answer(
        &self,
        due: Duration,
        exchange: Exchange<'_>,
        idle: Option<Connection>,
        sent: &mut Option<Duration>,
    ) -> Result<Exchanged, ErrorKind> {
        let deadline = self.assignment.origin + due + self.plan().settings().timeout;
        let answer = timeout_at(deadline, self.exchange(due, exchange, idle, sent)).await;
        answer.unwrap_or(Err(ErrorKind::TimedOut))
    }

    async fn exchange(
        &self,
        due: Duration,
        exchange: Exchange<'_>,
        idle: Option<Connection>,
        sent: &mut Option<Duration>,
    ) -> Result<Exchanged, ErrorKind> {
        if let Some(connection) = idle {
            *sent = Some(self.elapsed());
            match connection.exchange(exchange, &self.buffers).await {
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
        connection.exchange(exchange, &self.buffers).await.map_err(|error| match error {
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
        let mut stream = match self.plan().workload() {
            Workload::Open(open) => Some(Stream::new(&self, open)),
            Workload::Closed(_) => None,
        };
        let load = async {
            let until_the_end = async {
                self.sleep_until(end).await;
                Ok::<_, io::Error>(())
            };
            let load = Rc::clone(&self).load(stream.as_mut());
            tokio::try_join!(load, until_the_end).map(|((), ())| ())
        };
        let ended = tokio::select! {
            () = stop.cancelled() => Ok(()),
            () = self.report_intervals(messages) => Ok(()),
            ended = timeout_at(deadline, load) => ended.unwrap_or(Ok(())),
        };
        if let Some(stream) = stream {
            stream.give_up(&self);
        }
        let (intervals, phases) = self.recorder.borrow_mut().finish(self.elapsed());
        let _ = messages.send(Message::Intervals(intervals));
        ended.map(|()| phases)
    }

    /// Runs this thread's share of the users or of the stream, to its end.
    async fn load(self: Rc<Self>, stream: Option<&mut Stream<'_>>) -> io::Result<()> {
        let tasks = TaskTracker::new();
        if let Workload::Closed(closed) = self.plan().workload() {
            closed_loop::run(&self, closed, &tasks).await?;
        }
        if let Some(stream) = stream {
            stream.send(&self, &tasks).await?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals::Arrivals;
    use crate::{Schedule, Spacing};

    #[test]
    fn what_is_asked_for_does_not_depend_on_when() {
        let minute = Duration::from_secs(60);
        let schedule = Schedule::new(100.0, vec![], Some(minute)).unwrap();
        let due: Vec<_> = Arrivals::new(&schedule, Spacing::Poisson, 5).collect();
        let mut random = choices(5, 0);
        // Arrivals after a gap shorter than the mean, and draws below the median.
        let (short, low): (Vec<_>, Vec<_>) = due
            .windows(2)
            .map(|pair| {
                (pair[1] - pair[0] < Duration::from_millis(10), random.random::<f64>() < 0.5)
            })
            .unzip();
        let both = short.iter().zip(&low).filter(|(short, low)| **short && **low).count() as f64;
        let count = |list: &[bool]| list.iter().filter(|it| **it).count() as f64;
        let expected = count(&short) * count(&low) / short.len() as f64;
        assert!((both / expected - 1.0).abs() < 0.05, "{both} of {expected}");
        assert_ne!(choices(5, 0).random::<u64>(), choices(5, 1).random::<u64>());
        assert_ne!(choices(5, 1).random::<u64>(), choices(6, 0).random::<u64>());
    }
}
