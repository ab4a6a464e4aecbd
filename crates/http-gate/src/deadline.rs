//! Deadline timer, cheap to start and rarely expiring.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Deadline timer, cheap to start and rarely expiring.
///
/// Moving the end further away costs the clock's reading and nothing else: the
/// runtime's timer stays where it is, and is moved only if it fires too early.
#[derive(Debug, Default)]
pub struct Deadline {
    end: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
    woken: Option<Waker>,
}

impl Deadline {
    /// Ends this long from now, whatever was before.
    pub fn start(&mut self, time: Duration) {
        let now = Instant::now();
        // A time beyond what the clock can tell is as good as none.
        self.end = now.checked_add(time);
        if let (Some(end), Some(sleep)) = (self.end, &mut self.sleep)
            && end < sleep.deadline()
        {
            sleep.as_mut().reset(end);
        }
    }

    /// Whether it was started, and not stopped since.
    pub fn is_started(&self) -> bool {
        self.end.is_some()
    }

    /// Does not end.
    pub fn stop(&mut self) {
        self.end = None;
    }

    /// What is left of it, if it was started and not stopped.
    pub fn left(&self) -> Option<Duration> {
        Some(self.end?.saturating_duration_since(Instant::now()))
    }

    /// Ready when it has ended; never if it was not started.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(end) = self.end else { return Poll::Pending };
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(end)));
        let known = self.woken.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if known && !sleep.is_elapsed() {
            return Poll::Pending;
        }
        self.woken = Some(cx.waker().clone());
        while sleep.as_mut().poll(cx).is_ready() {
            if Instant::now() >= end {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(end);
        }
        Poll::Pending
    }

    /// What comes of `work`, if it is done before the end.
    pub async fn limit<W: Future>(&mut self, work: W) -> Option<W::Output> {
        let mut work = pin!(work);
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => self.poll(cx).map(|()| None),
        })
        .await
    }

    /// Starts now, unless it was started before, and asks whether it has ended.
    pub fn poll_over(&mut self, time: Duration, cx: &mut Context<'_>) -> Poll<()> {
        if self.end.is_none() {
            self.start(time);
        }
        self.poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    async fn takes(deadline: &mut Deadline) -> Duration {
        let start = Instant::now();
        poll_fn(|cx| deadline.poll(cx)).await;
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_when_it_should_however_it_was_moved() {
        let mut deadline = Deadline::default();
        deadline.start(10 * SECOND);
        assert_eq!(takes(&mut deadline).await, 10 * SECOND);
        deadline.start(20 * SECOND);
        assert!(poll_fn(|cx| Poll::Ready(deadline.poll(cx))).await.is_pending());
        tokio::time::advance(5 * SECOND).await;
        deadline.start(20 * SECOND);
        assert_eq!(takes(&mut deadline).await, 20 * SECOND);
        deadline.start(20 * SECOND);
        assert!(poll_fn(|cx| Poll::Ready(deadline.poll(cx))).await.is_pending());
        deadline.start(SECOND);
        assert_eq!(takes(&mut deadline).await, SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn stopped_or_never_started_it_does_not_end() {
        let mut deadline = Deadline::default();
        deadline.start(SECOND);
        deadline.stop();
        assert!(tokio::time::timeout(60 * SECOND, takes(&mut deadline)).await.is_err());
        deadline.start(Duration::MAX);
        assert!(tokio::time::timeout(60 * SECOND, takes(&mut deadline)).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_polls_last_is_woken() {
        let mut deadline = Deadline::default();
        deadline.start(SECOND);
        assert!(deadline.poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(takes(&mut deadline).await, SECOND);
    }
}
