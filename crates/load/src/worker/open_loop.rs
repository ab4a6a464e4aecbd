//! Open loop: sends requests by schedule, whatever the service does.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio_util::task::TaskTracker;

use super::timer::Timer;
use super::{Wish, Worker};
use crate::arrivals::Arrivals;
use crate::connection::Connection;
use crate::workload::OpenLoop;

/// Sends this thread's share of the arrivals: every n-th of n threads, so that
/// the stream as a whole is the same however many threads there are. Returns
/// when the last is on its way.
pub(crate) async fn run(
    worker: &Rc<Worker>,
    open: &OpenLoop,
    tasks: &TaskTracker,
) -> io::Result<()> {
    let (number, threads) = (worker.assignment().number, worker.plan().settings().threads);
    let pool = Rc::new(Pool::new(worker.assignment().connections_max));
    // Sent even later, a request could not be answered before the run ends.
    let too_late = open.rate.duration() + worker.plan().settings().drain / 2;
    let mut timer = Timer::new()?;
    worker.sleep_until(Duration::ZERO).await;
    let arrivals = Arrivals::new(&open.rate, open.spacing, worker.plan().seed());
    for due in arrivals.skip(number).step_by(threads) {
        let now = worker.elapsed();
        if now < due {
            timer.sleep(due - now).await?;
        } else {
            // Behind the schedule; the answers must be read all the same.
            tokio::task::yield_now().await;
        }
        if worker.elapsed() >= too_late {
            worker.give_up(due);
            continue;
        }
        let Some(slot) = pool.take() else {
            worker.give_up(due);
            continue;
        };
        let (worker, pool) = (Rc::clone(worker), Rc::clone(&pool));
        tasks.spawn_local(async move {
            let lag = worker.elapsed().saturating_sub(due);
            let (_, connection) = worker.ask(Wish { user: None, due, lag }, slot).await;
            pool.give_back(connection);
        });
    }
    Ok(())
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
