//! Requests whose clients have left while the upstream works on them.
//!
//! Most upstreams go on with what nobody waits for any more. So the place is free when the
//! upstream is, and not when the client is gone. The upstream is not told: many close the
//! connection at once and do the work all the same, so that nobody could tell any more how
//! much they have to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::HeaderMap;
use tamarisk_stage::GatePermit;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::answer_head::AnswerHead;
use super::line::{Line, LineError};
use super::upstream::Reach;

/// How many there may be in a process. Each has a connection, a place and a small task.
const ABANDONED_MAX: usize = 4096;

/// The longest that an upstream is waited for. It is the usual time for an answer.
pub(super) const TIME_MAX: Duration = Duration::from_secs(60);

/// How many there are; clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Count(Arc<AtomicUsize>);

/// One that is counted, until this is dropped.
#[derive(Debug)]
pub(super) struct Abandoned(Count);

impl Count {
    /// One more, unless there are too many.
    pub(super) fn add(&self) -> Option<Abandoned> {
        let counted = Abandoned(self.clone());
        (self.0.fetch_add(1, Ordering::Relaxed) < ABANDONED_MAX).then_some(counted)
    }
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        let Self(Count(count)) = self;
        count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A request that the upstream works on, and the place that it takes. If it is dropped before
/// there is an answer, a task waits for the upstream.
pub(super) struct Work<'a> {
    parts: Option<(Box<Line>, GatePermit)>,
    reach: &'a Reach,
}

impl<'a> Work<'a> {
    /// The request that has begun on `line`.
    pub(super) fn new(line: Box<Line>, permit: GatePermit, reach: &'a Reach) -> Self {
        Self { parts: Some((line, permit)), reach }
    }

    /// The head of the answer; see [`Line::answer`].
    pub(super) async fn answer(
        &mut self,
        time: Duration,
        spare: &mut HeaderMap,
    ) -> Result<AnswerHead, LineError> {
        let (line, permit) = self.parts();
        line.answer(time, spare, permit).await
    }

    /// Whether nothing has come of an answer.
    pub(super) fn is_silent(&mut self) -> bool {
        self.parts().0.is_silent()
    }

    /// Begins the same on another connection.
    pub(super) fn begin_again(&mut self, line: Box<Line>) {
        let (current, _) = self.parts();
        let stale = std::mem::replace(current, line);
        current.begin_again(*stale);
    }

    /// There is an answer, or a reason why there is none.
    pub(super) fn done(mut self) -> (Box<Line>, GatePermit) {
        self.parts.take().expect("only this takes them")
    }

    fn parts(&mut self) -> &mut (Box<Line>, GatePermit) {
        self.parts.as_mut().expect("only `done` takes them")
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        let Some((mut line, permit)) = self.parts.take() else { return };
        // What has not been sent in full is not being worked on.
        if !line.has_sent_all() {
            return;
        }
        let (Ok(runtime), Some(counted)) = (Handle::try_current(), self.reach.abandoned.add())
        else {
            return;
        };
        let time = self.reach.upstream.time_for_nobody();
        runtime.spawn(async move {
            let _ = timeout(time, line.outlast()).await;
            drop((line, permit, counted));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_bounded_and_counted_back() {
        let count = Count::default();
        let all: Vec<_> = (0..ABANDONED_MAX).map(|_| count.add().expect("there is room")).collect();
        assert!(count.add().is_none() && count.add().is_none());
        drop(all);
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
    }
}
