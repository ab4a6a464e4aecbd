//! A request that an upstream works on, and the place that it takes.

use std::time::Duration;

use http::HeaderMap;
use tamarisk_stage::GatePermit;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::connection::UpstreamConnection;
use super::exchange_error::ExchangeError;
use crate::abandoned::Count;
use crate::answer::head::AnswerHead;

/// A request that the upstream works on, and the place that it takes. If it is dropped before
/// there is an answer, a task waits for the upstream.
pub(crate) struct Exchange<'a> {
    parts: Option<(Box<UpstreamConnection>, GatePermit)>,
    abandoned: &'a Count,
    time_for_nobody: Duration,
}

impl<'a> Exchange<'a> {
    /// The request that has begun on `connection`. Without a client it goes on for
    /// `time_for_nobody`, if there are not too many of `abandoned`.
    pub(crate) fn new(
        connection: Box<UpstreamConnection>,
        permit: GatePermit,
        abandoned: &'a Count,
        time_for_nobody: Duration,
    ) -> Self {
        Self { parts: Some((connection, permit)), abandoned, time_for_nobody }
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
        let (Ok(runtime), Some(counted)) = (Handle::try_current(), self.abandoned.add()) else {
            return;
        };
        let time = self.time_for_nobody;
        runtime.spawn(async move {
            let _ = timeout(time, connection.outlast()).await;
            drop((connection, permit, counted));
        });
    }
}
