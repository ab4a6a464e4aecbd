//! What every stage of a service may want to hear of.

use tamarisk_control::Ratio;
use tokio::sync::broadcast;

use crate::sink::Envelope;
use crate::sink::TrySink;

/// A listener that falls this far behind misses the oldest signals, and is told
/// how many; signals are rare, so that takes a listener that does not listen.
const BACKLOG: usize = 64;

/// Something that happened to the service as a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Signal {
    /// All stages have been started.
    Started,
    /// The service is going down: nothing new is admitted from here on.
    Draining,
    /// Memory is getting, or is no longer, scarce.
    Memory(Pressure),
    /// The processors are getting, or are no longer, overcommitted.
    Cpu(Pressure),
}

/// How scarce a resource is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pressure {
    /// Of memory, the share of the limit in use; of CPU, the share of time in
    /// which something that could run had to wait.
    pub share: Ratio,
    /// Whether that is too much.
    pub level: Level,
}

/// Whether pressure calls for doing less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// It does not.
    Normal,
    /// It does.
    High,
}

/// Where signals are sent and heard; clones share it.
#[derive(Clone, Debug)]
pub struct Signals(broadcast::Sender<Signal>);

impl Signals {
    /// Nobody listens yet.
    pub fn new() -> Self {
        Self(broadcast::Sender::new(BACKLOG))
    }

    /// Tells everyone who listens.
    pub fn send(&self, signal: Signal) {
        // Nobody listening is nobody to tell.
        let _ = self.0.send(signal);
    }

    /// Hears all signals from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Signal> {
        self.0.subscribe()
    }

    /// Sends every signal from now on to a stage, as an event that `make` makes
    /// of it, for as long as the stage lives. A refusal is the stage's to account for.
    pub fn deliver<E: Send + 'static>(
        &self,
        sink: TrySink<E>,
        make: impl Fn(Signal) -> Envelope<E> + Send + 'static,
    ) {
        let mut signals = self.subscribe();
        tokio::spawn(async move {
            loop {
                match signals.recv().await {
                    Ok(_) if sink.is_closed() => return,
                    Ok(signal) => drop(sink.send_lossy(make(signal))),
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return,
                }
            }
        });
    }
}

impl Default for Signals {
    fn default() -> Self {
        Self::new()
    }
}
