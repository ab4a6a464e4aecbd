//! Executes a plan: starts the threads, gathers what they tell, and reports.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::descriptors::{self, TooFewDescriptors};
use crate::plan::Plan;
use crate::recorder::{IntervalTally, PhaseTally};
use crate::report::{Interval, Report};
use crate::worker::{self, Assignment, Message};
use crate::workload::Workload;

/// Connections of an open loop that sets no limit of its own. Little's law: ten
/// thousand are in use at 1000 requests a second that all take ten seconds.
const CONNECTIONS_DEFAULT: u64 = 10_000;

/// Time for the threads to start before the first request is due.
const START_UP: Duration = Duration::from_millis(20);

/// Why a run could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It was stopped while the host's name was being looked up.
    #[error("stopped before the load began")]
    Stopped,
    /// The host's name has no address.
    #[error("cannot resolve the host `{host}`")]
    Resolve {
        /// The host.
        host: String,
        /// What the resolver says.
        source: io::Error,
    },
    /// There would be more connections than descriptors.
    #[error(transparent)]
    Descriptors(#[from] TooFewDescriptors),
    /// A thread of the generator could not start or set its timer, or a user on it panicked.
    #[error("a thread of the load generator failed")]
    Thread(#[source] io::Error),
}

/// Executes `plan` and reports. Calls `on_interval` after each interval of the
/// time series, and ends early, with a report of what there was, when `stop`
/// completes; a dropped future stops the run as well. A look-up of the host's name that is
/// stopped goes on in the background of the runtime.
///
/// The load comes from threads of its own, whatever runtime this is called on.
///
/// # Errors
/// [`RunError`] if the run cannot start, is stopped before it does, or a thread fails, as when a
/// user panics. That requests fail is not an error but a result.
pub async fn run(
    plan: Plan,
    stop: impl Future<Output = ()>,
    mut on_interval: impl FnMut(&Interval),
) -> Result<Report, RunError> {
    let plan = Arc::new(plan);
    tokio::pin!(stop);
    let addresses = tokio::select! {
        biased;
        () = &mut stop => return Err(RunError::Stopped),
        addresses = resolve(&plan) => addresses?,
    };
    let connections_max = connections_max(&plan)?;
    let threads = plan.settings().threads;

    let cancel = CancellationToken::new();
    let _cancel_when_dropped = cancel.clone().drop_guard();
    // The plan bounds the number of intervals, and with it the queue's length.
    let (sender, mut messages) = mpsc::unbounded_channel();
    let origin = Instant::now() + START_UP;
    for number in 0..threads {
        let assignment = Assignment {
            plan: Arc::clone(&plan),
            addresses: Arc::clone(&addresses),
            origin,
            number,
            connections_max: connections_max / threads
                + usize::from(number < connections_max % threads),
        };
        let (cancel, sender) = (cancel.clone(), sender.clone());
        std::thread::Builder::new()
            .name(format!("load-{number}"))
            .spawn(move || worker::run(assignment, &cancel, &sender))
            .map_err(RunError::Thread)?;
    }
    drop(sender);

    let mut series = Series::new(Arc::clone(&plan));
    let mut phases: Vec<PhaseTally> = vec![];
    let mut finished = 0;
    let mut interrupted_at = None;
    while finished < threads {
        let message = tokio::select! {
            () = &mut stop, if interrupted_at.is_none() => {
                interrupted_at = Some(origin.elapsed());
                cancel.cancel();
                continue;
            }
            message = messages.recv() => message,
        };
        match message {
            Some(Message::Intervals(theirs)) => {
                theirs.iter().for_each(|interval| series.add(interval, &mut on_interval));
            }
            Some(Message::Finished(result)) => {
                let theirs = result.map_err(RunError::Thread)?;
                phases.resize(theirs.len().max(phases.len()), PhaseTally::default());
                phases.iter_mut().zip(&theirs).for_each(|(mine, theirs)| mine.add(theirs));
                finished += 1;
            }
            None => {
                let panicked = io::Error::other("a thread panicked");
                return Err(RunError::Thread(panicked));
            }
        }
    }
    let duration = plan.workload().schedule().duration();
    let interrupted_at = interrupted_at.filter(|at| *at < duration);
    let lasted = interrupted_at.unwrap_or(duration);
    let rows = series.finish(&mut on_interval);
    Ok(Report::new(&plan, &phases, rows, lasted, interrupted_at.is_some()))
}

async fn resolve(plan: &Plan) -> Result<Arc<[SocketAddr]>, RunError> {
    let url = &plan.urls()[0];
    let error = |source| RunError::Resolve { host: url.host().to_owned(), source };
    let found: Vec<_> =
        tokio::net::lookup_host((url.host(), url.port())).await.map_err(error)?.collect();
    if found.is_empty() {
        return Err(error(io::Error::new(io::ErrorKind::NotFound, "the name has no address")));
    }
    Ok(found.into())
}

fn connections_max(plan: &Plan) -> Result<usize, TooFewDescriptors> {
    let allowed = descriptors::connections_allowed();
    let wanted = match plan.workload() {
        Workload::Closed(closed) => {
            let each = closed.requests_per_user(plan.settings().timeout);
            closed.users_max() as u64 * u64::from(each)
        }
        Workload::Open(open) => open.connections_max.map_or_else(
            // Each thread needs one at least.
            || allowed.min(CONNECTIONS_DEFAULT).max(plan.settings().threads as u64),
            |connections| connections as u64,
        ),
    };
    descriptors::check(wanted, allowed)?;
    Ok(wanted as usize)
}

/// Puts the intervals of the threads together, in order.
struct Series {
    plan: Arc<Plan>,
    /// Intervals that some threads have still to report, with how many have.
    pending: BTreeMap<u32, (IntervalTally, usize)>,
    rows: Vec<Interval>,
}

impl Series {
    fn new(plan: Arc<Plan>) -> Self {
        Self { plan, pending: BTreeMap::new(), rows: vec![] }
    }

    fn add(&mut self, theirs: &IntervalTally, on_interval: &mut impl FnMut(&Interval)) {
        let (sum, reported) = self.pending.entry(theirs.index).or_default();
        sum.add(theirs);
        *reported += 1;
        while let Some(first) = self.pending.first_entry() {
            if first.get().1 < self.plan.settings().threads {
                break;
            }
            let (interval, _) = first.remove();
            self.push(&interval, on_interval);
        }
    }

    /// The whole series. Threads that were done early had nothing to add.
    fn finish(mut self, on_interval: &mut impl FnMut(&Interval)) -> Vec<Interval> {
        for (_, (interval, _)) in std::mem::take(&mut self.pending) {
            self.push(&interval, on_interval);
        }
        self.rows
    }

    fn push(&mut self, interval: &IntervalTally, on_interval: &mut impl FnMut(&Interval)) {
        let row = Interval::new(&self.plan, interval);
        on_interval(&row);
        self.rows.push(row);
    }
}
