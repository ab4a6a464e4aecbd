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

use crate::answer::head::AnswerHead;
use crate::upstream::UpstreamClient;
use crate::upstream::connection::{ExchangeError, UpstreamConnection};

/// How many there may be in a process. Each has a connection, a place and a small task.
const ABANDONED_MAX: usize = 4096;

/// The longest that an upstream is waited for. It is the usual time for an answer.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(60);

/// How many there are; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Count(Arc<AtomicUsize>);

/// One that is counted, until this is dropped.
#[derive(Debug)]
pub(crate) struct Abandoned(Count);

impl Count {
    /// One more, unless there are too many.
    pub(crate) fn add(&self) -> Option<Abandoned> {
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
pub(crate) struct Exchange<'a> {
    parts: Option<(Box<UpstreamConnection>, GatePermit)>,
    upstream_client: &'a UpstreamClient,
}

impl<'a> Exchange<'a> {
    /// The request that has begun on `connection`.
    pub(crate) fn new(
        connection: Box<UpstreamConnection>,
        permit: GatePermit,
        upstream_client: &'a UpstreamClient,
    ) -> Self {
        Self { parts: Some((connection, permit)), upstream_client }
    }

    /// The head of the answer; see [`UpstreamConnection::answer`].
    pub(crate) async fn answer(
        &mut self,
        time: Duration,
        spare: &mut HeaderMap,
    ) -> Result<AnswerHead, ExchangeError> {
        let (connection, permit) = self.parts();
        connection.answer(time, spare, permit).await
    }

    /// Whether nothing has come of an answer.
    pub(crate) fn is_silent(&mut self) -> bool {
        self.parts().0.is_silent()
    }

    /// Begins the same on another connection.
    pub(crate) fn begin_again(&mut self, connection: Box<UpstreamConnection>) {
        let (current, _) = self.parts();
        let stale = std::mem::replace(current, connection);
        current.begin_again(*stale);
    }

    /// There is an answer, or a reason why there is none.
    pub(crate) fn done(mut self) -> (Box<UpstreamConnection>, GatePermit) {
        self.parts.take().expect("only this takes them")
    }

    fn parts(&mut self) -> &mut (Box<UpstreamConnection>, GatePermit) {
        self.parts.as_mut().expect("only `done` takes them")
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        let Some((mut connection, permit)) = self.parts.take() else { return };
        // What has not been sent in full is not being worked on.
        if !connection.has_sent_all() {
            return;
        }
        let (Ok(runtime), Some(counted)) =
            (Handle::try_current(), self.upstream_client.abandoned.add())
        else {
            return;
        };
        let time = self.upstream_client.upstream.time_for_nobody();
        runtime.spawn(async move {
            let _ = timeout(time, connection.outlast()).await;
            drop((connection, permit, counted));
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
