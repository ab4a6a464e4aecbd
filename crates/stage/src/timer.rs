//! Timers: events sent after a delay.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::sink::{Envelope, SendError, TrySink};

/// A bounded number of timers; clones share it.
#[derive(Clone, Debug)]
pub struct Timers {
    places: Arc<Semaphore>,
}

/// A running timer. Awaiting it returns whether the event was admitted. Dropping it leaves it
/// running; a rejection then shows in the accounts of the stage only.
#[derive(Debug)]
#[must_use = "await it to learn of a rejection, cancel it, or drop it on purpose"]
pub struct Timer<E>(JoinHandle<Result<(), SendError<E>>>);

/// All timers are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all timers are in use: set fewer, or allow more with `Timers::new`")]
pub struct NoTimer<E>(
    /// The event, back with its sender.
    pub E,
);

/// Why the event of a timer did not enter its stage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimerError<E> {
    /// The stage rejected it when the timer fired.
    #[error(transparent)]
    Rejected(SendError<E>),
    /// It was cancelled, or its runtime ended.
    #[error("the timer was cancelled")]
    Cancelled,
}

impl Timers {
    /// At most `most` timers at once, each of a few hundred bytes.
    pub fn new(most: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))) }
    }

    /// Sends `event` to `sink` once `delay` has passed.
    ///
    /// # Errors
    /// [`NoTimer`] with the event, if too many are set.
    pub fn send_after<E: Send + 'static>(
        &self,
        delay: Duration,
        sink: &TrySink<E>,
        event: impl Into<Envelope<E>>,
    ) -> Result<Timer<E>, NoTimer<E>> {
        let envelope = event.into();
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return Err(NoTimer(envelope.into_event()));
        };
        let sink = sink.clone();
        Ok(Timer(tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            drop(place);
            sink.try_send(envelope)
        })))
    }
}

impl<E> Timer<E> {
    /// Cancels the timer; `false` if its event has been sent already.
    pub async fn cancel(self) -> bool {
        self.0.abort();
        self.0.await.is_err()
    }
}

impl<E> Future for Timer<E> {
    type Output = Result<(), TimerError<E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|ended| match ended {
            Ok(sent) => sent.map_err(TimerError::Rejected),
            Err(_) => Err(TimerError::Cancelled),
        })
    }
}
