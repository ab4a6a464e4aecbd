//! Signals: what happens to a service as a whole, broadcast to its stages.

use tamarisk_control::Ratio;
use tokio::sync::broadcast;

use crate::sink::{Envelope, TrySink};

/// A receiver that falls this far behind loses the oldest signals and learns how many.
/// Signals are rare: only a receiver that does not read falls so far behind.
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

/// A broadcast channel of signals; clones share it.
#[derive(Clone, Debug)]
pub struct Signals(broadcast::Sender<Signal>);

impl Signals {
    /// A channel without receivers.
    pub fn new() -> Self {
        Self(broadcast::Sender::new(BACKLOG))
    }

    /// Sends a signal to all receivers.
    pub fn send(&self, signal: Signal) {
        // An error means that there are no receivers.
        let _ = self.0.send(signal);
    }

    /// A receiver of all later signals.
    pub fn subscribe(&self) -> broadcast::Receiver<Signal> {
        self.0.subscribe()
    }

    /// Sends every signal from now on to a stage, as an event that `make` makes
    /// of it, for as long as the stage lives. The stage counts those that it rejects.
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
