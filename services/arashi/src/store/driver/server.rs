//! What connections to database servers have in common: futures run in the caller's thread, within
//! bounds of time, and a statement that is cancelled.
//!
//! A cancellation races with the end of its statement, and may hit the next. So a connection is used
//! again only when the cancellation has been carried out, the statement has ended, and an empty
//! statement has come back after both; if not, the connection is closed.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::join;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, timeout};

use crate::store::connection::{Ending, Fault};

/// How often a statement that runs is asked about.
const CHECK: Duration = Duration::from_millis(10);
/// What the server is told to end statements after, in case nobody else does.
pub(super) const STATEMENT_SECONDS: u64 = 30;
/// Connecting may take this long.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// After this the server is taken for dead: it has not even ended the statement itself.
const STATEMENT_LIMIT: Duration = Duration::from_secs(STATEMENT_SECONDS + 5);
/// A cancelled statement has this long to end.
const SETTLE_LIMIT: Duration = Duration::from_secs(1);

/// Runs the futures of one connection in the thread that calls it.
pub(super) struct Line(Option<Runtime>);

impl Line {
    pub(super) fn new() -> Result<Self, Fault> {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.map(|runtime| Self(Some(runtime))).map_err(|error| Fault::Lost(error.to_string()))
    }

    fn runtime(&self) -> &Runtime {
        self.0.as_ref().expect("there is a runtime until the line is dropped")
    }

    /// Runs `work` beside the statements.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime().spawn(work);
    }

    /// Connects, unless `ending` is due before.
    pub(super) fn connect<T>(
        &self,
        ending: &Ending,
        connect: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let left = ending.deadline.map(|deadline| deadline - std::time::Instant::now());
        let limit = left.map_or(CONNECT_LIMIT, |left| left.min(CONNECT_LIMIT));
        self.runtime().block_on(async {
            match watch(ending, limit, pin!(connect)).await {
                Watched::Finished(result) => result,
                Watched::Due => Err(Fault::Terminated),
                Watched::Late => {
                    ending.note_waited(limit);
                    Err(Fault::Lost(format!("no connection within {limit:?}")))
                }
            }
        })
    }

    /// Runs a statement that is not cancelled.
    pub(super) fn finish<T>(
        &self,
        statement: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let late = || Err(Fault::Lost(format!("no answer within {STATEMENT_LIMIT:?}")));
        let limited = async { timeout(STATEMENT_LIMIT, statement).await };
        self.runtime().block_on(limited).unwrap_or_else(|_| late())
    }

    /// Runs a statement; if `ending` becomes due, `cancel` has the server end it. `is_settled`
    /// tells whether both have ended: if not, the connection must not be used again.
    pub(super) fn run<T>(
        &self,
        ending: &Ending,
        is_settled: &mut bool,
        statement: impl Future<Output = Result<T, Fault>>,
        cancel: impl Future<Output = Result<(), Fault>>,
    ) -> Result<T, Fault> {
        *is_settled = false;
        self.runtime().block_on(async {
            let mut statement = pin!(statement);
            match watch(ending, STATEMENT_LIMIT, statement.as_mut()).await {
                Watched::Finished(result) => {
                    *is_settled = true;
                    result
                }
                Watched::Late => Err(Fault::Lost(format!("no answer within {STATEMENT_LIMIT:?}"))),
                Watched::Due => {
                    let both = timeout(SETTLE_LIMIT, join(statement, cancel)).await;
                    *is_settled = matches!(both, Ok((_, Ok(()))));
                    Err(Fault::Terminated)
                }
            }
        })
    }

    /// Whether the connection serves an empty statement after a cancellation. A cancellation that
    /// comes late hits the first of these and not the next call's.
    pub(super) fn serves(&self, probe: impl AsyncFnOnce() -> Result<(), Fault>) -> bool {
        let limited = async { timeout(SETTLE_LIMIT, probe()).await };
        matches!(self.runtime().block_on(limited), Ok(Ok(())))
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // A name that is still being resolved is not waited for.
            runtime.shutdown_background();
        }
    }
}

enum Watched<T> {
    Finished(T),
    /// The work is to end.
    Due,
    /// It has taken longer than its limit.
    Late,
}

async fn watch<T>(
    ending: &Ending<'_>,
    limit: Duration,
    mut future: std::pin::Pin<&mut impl Future<Output = T>>,
) -> Watched<T> {
    let start = Instant::now();
    loop {
        match timeout(CHECK, future.as_mut()).await {
            Ok(result) => return Watched::Finished(result),
            Err(_) if ending.is_due() => return Watched::Due,
            Err(_) if start.elapsed() >= limit => return Watched::Late,
            Err(_) => {}
        }
    }
}
