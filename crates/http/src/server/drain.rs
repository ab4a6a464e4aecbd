use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

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

    /// Starts the drain: what is not finished `within` this time is cut off.
    pub fn drain(&self, within: Duration) {
        self.0.send_replace(Some(Instant::now() + within));
    }
}

impl Drain {
    /// Whether it has started.
    pub fn has_started(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Waits for the drain to start; when it ends. A trigger that is gone
    /// drains at once: nobody is left who could.
    pub async fn started(&mut self) -> Instant {
        let end = self.0.wait_for(Option::is_some).await.ok().and_then(|end| *end);
        end.unwrap_or_else(Instant::now)
    }
}
