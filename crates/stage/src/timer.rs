//! Events at a time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::sink::Envelope;
use crate::sink::{SendError, TrySink};

/// Sets timers, up to a number; clones share it.
#[derive(Clone, Debug)]
pub struct Timers {
    places: Arc<Semaphore>,
}

/// A timer that was set. Awaiting it tells how the event was received; dropping
/// it leaves it running, and a refusal is then the stage's alone to account for.
#[derive(Debug)]
#[must_use = "await it to hear of a refusal, cancel it, or drop it on purpose"]
pub struct Timer<E>(JoinHandle<Result<(), SendError<E>>>);

/// All timers are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no timer is free: set fewer, or make room for more")]
pub struct NoTimer<E>(
    /// The event, back with its sender.
    pub E,
);

/// Why an event did not come to its stage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimerError<E> {
    /// The stage refused it when its time had come.
    #[error(transparent)]
    Refused(SendError<E>),
    /// It was cancelled, or its runtime ended.
    #[error("the timer was cancelled")]
    Cancelled,
}

impl Timers {
    /// As many timers at once as `most`, each of a few hundred bytes.
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
    /// Makes sure that the event is not sent any more; `false` if it has been.
    pub async fn cancel(self) -> bool {
        self.0.abort();
        self.0.await.is_err()
    }
}

impl<E> Future for Timer<E> {
    type Output = Result<(), TimerError<E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|ended| match ended {
            Ok(sent) => sent.map_err(TimerError::Refused),
            Err(_) => Err(TimerError::Cancelled),
        })
    }
}
