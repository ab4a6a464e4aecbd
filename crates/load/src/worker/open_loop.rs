//! Open loop: sends requests by schedule, whatever the service does.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::iter::{Peekable, Skip, StepBy};
use std::rc::Rc;
use std::time::Duration;

use tokio_util::task::TaskTracker;

use super::timer::Timer;
use super::{Wish, Worker};
use crate::arrivals::Arrivals;
use crate::connection::Connection;
use crate::workload::OpenLoop;

/// One thread's share of the arrivals: every n-th of n threads, so that the
/// stream as a whole is the same however many threads there are.
pub(crate) struct Stream<'s> {
    /// Those that have not been taken up.
    arrivals: Peekable<StepBy<Skip<Arrivals<'s>>>>,
    /// When those were due that have been taken up, but whose tasks have not begun.
    waiting: Rc<RefCell<VecDeque<Duration>>>,
}

impl<'s> Stream<'s> {
    pub(crate) fn new(worker: &Worker, open: &'s OpenLoop) -> Self {
        let (number, threads) = (worker.assignment().number, worker.plan().settings().threads);
        let arrivals = Arrivals::new(&open.rate, open.spacing, worker.plan().seed());
        let arrivals = arrivals.skip(number).step_by(threads).peekable();
        Self { arrivals, waiting: Rc::default() }
    }

    /// Sends the requests when they are due. Returns when the last is on its way, or when it is
    /// too late for the rest.
    pub(crate) async fn send(
        &mut self,
        worker: &Rc<Worker>,
        tasks: &TaskTracker,
    ) -> io::Result<()> {
        let pool = Rc::new(Pool::new(worker.assignment().connections_max));
        // Sent even later, a request could not be answered before the run ends.
        let end = worker.plan().workload().schedule().duration();
        let too_late = end + worker.plan().settings().drain / 2;
        let mut timer = Timer::new()?;
        worker.sleep_until(Duration::ZERO).await;
        // Taken up only after the wait, which the end of the run may cut off.
        while let Some(&due) = self.arrivals.peek() {
            let now = worker.elapsed();
            if now < due {
                timer.sleep(due - now).await?;
            } else {
                // Behind the schedule; the answers must be read all the same.
                tokio::task::yield_now().await;
            }
            if worker.elapsed() >= too_late {
                return Ok(());
            }
            self.arrivals.next();
            let Some(slot) = pool.take() else {
                worker.give_up(due);
                continue;
            };
            self.waiting.borrow_mut().push_back(due);
            let (worker, pool) = (Rc::clone(worker), Rc::clone(&pool));
            let waiting = Rc::clone(&self.waiting);
            tasks.spawn_local(async move {
                let due = waiting.borrow_mut().pop_front();
                let due = due.expect("as many wait as there are tasks that have not begun");
                let lag = worker.elapsed().saturating_sub(due);
                let (_, connection) = worker.ask(Wish { user: None, due, lag }, slot).await;
                pool.give_back(connection);
            });
        }
        Ok(())
    }

    /// The run is over: counts as not sent what was due by now and has not begun.
    pub(crate) fn give_up(mut self, worker: &Worker) {
        let now = worker.elapsed();
        self.waiting.borrow_mut().drain(..).for_each(|due| worker.give_up(due));
        while let Some(due) = self.arrivals.next_if(|due| *due < now) {
            worker.give_up(due);
        }
    }
}

/// The connections of one thread, of which the last used is used first: those
/// that a calm stream does not need fall idle, and the server may close them.
struct Pool {
    idle: RefCell<Vec<Connection>>,
    /// Connections open or being opened, idle ones included.
    open: Cell<usize>,
    open_max: usize,
}

impl Pool {
    fn new(open_max: usize) -> Self {
        Self { idle: RefCell::default(), open: Cell::new(0), open_max }
    }

    /// The right to use one connection: an idle one, or `Some(None)` to open
    /// another. `None` if all are in use.
    fn take(&self) -> Option<Option<Connection>> {
        while let Some(connection) = self.idle.borrow_mut().pop() {
            if !connection.is_closed() {
                return Some(Some(connection));
            }
            self.open.set(self.open.get() - 1);
        }
        (self.open.get() < self.open_max).then(|| {
            self.open.set(self.open.get() + 1);
            None
        })
    }

    /// Returns the right, and the connection if it can be used again.
    fn give_back(&self, connection: Option<Connection>) {
        match connection {
            Some(connection) => self.idle.borrow_mut().push(connection),
            None => self.open.set(self.open.get() - 1),
        }
    }
}
