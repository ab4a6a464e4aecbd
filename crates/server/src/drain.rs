//! Draining: finish what is begun within a time, take nothing new.

use std::pin::{Pin, pin};
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Tells all that serve to finish what they have and take nothing new.
#[derive(Debug)]
pub struct DrainTrigger(watch::Sender<Option<Instant>>);

/// The other end of a [`DrainTrigger`].
#[derive(Clone, Debug)]
pub struct Drain(watch::Receiver<Option<Instant>>);

impl DrainTrigger {
    /// A trigger and what it triggers.
    pub fn new() -> (Self, Drain) {
        let (sender, receiver) = watch::channel(None);
        (Self(sender), Drain(receiver))
    }

    /// Starts the drain: what is not finished `within` this time, of a year at
    /// most, is cut off.
    pub fn drain(&self, within: Duration) {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
        self.0.send_replace(Some(Instant::now() + within.min(YEAR)));
    }
}

/// How long a connection that asks for nothing is kept when a drain has started. Who
/// asks meanwhile is answered, and told in the answer that the connection closes: a
/// connection that is closed without such words may have a request on its way.
const KEPT_TIME: Duration = Duration::from_secs(2);

impl Drain {
    /// Whether it has started.
    pub fn has_started(&self) -> bool {
        self.0.has_changed().unwrap_or(true)
    }

    /// Waits for the drain to start; when it ends. A trigger that is gone
    /// drains at once: nobody is left who could.
    pub async fn started(&self) -> Instant {
        // On a copy, because this one must go on to tell that it has changed.
        let mut watched = self.0.clone();
        let end = watched.wait_for(Option::is_some).await.ok().and_then(|end| *end);
        end.unwrap_or_else(Instant::now)
    }

    /// Waits for its end, when what is not finished is cut off.
    pub(crate) async fn ended(&self) {
        sleep_until(self.started().await).await;
    }

    /// Runs `work` until it ends, or the drain starts: then, when the drain ends.
    ///
    /// While neither happens, this costs `work` next to nothing.
    pub(crate) async fn until<F: Future + ?Sized>(
        &self,
        mut work: Pin<&mut F>,
    ) -> Result<F::Output, Instant> {
        let mut started = pin!(self.started());
        let mut waiting: Option<Waker> = None;
        std::future::poll_fn(|cx| {
            if let Poll::Ready(output) = work.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            let waits = waiting.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
            if waits && !self.has_started() {
                return Poll::Pending;
            }
            waiting = Some(cx.waker().clone());
            started.as_mut().poll(cx).map(Err)
        })
        .await
    }

    /// The same, but runs `work` on for a while after the start: [`KEPT_TIME`], or half of
    /// the time that there is.
    pub(crate) async fn until_kept<F: Future + ?Sized>(
        &self,
        mut work: Pin<&mut F>,
    ) -> Result<F::Output, Instant> {
        let end = match self.until(work.as_mut()).await {
            Ok(output) => return Ok(output),
            Err(end) => end,
        };
        let now = Instant::now();
        let kept = now + KEPT_TIME.min((end - now) / 2);
        timeout_at(kept, work).await.map_err(|_| end)
    }
}
