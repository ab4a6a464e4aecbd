//! Signals: what happens to a service as a whole, broadcast to its stages.

use std::fmt;
use std::sync::Arc;

use parking_lot::{Mutex, ReentrantMutex};
use tamarisk_control::Ratio;
use tokio::sync::broadcast;

use crate::panics::contained;
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
#[derive(Clone)]
pub struct Signals {
    channel: broadcast::Sender<Signal>,
    deliveries: Arc<Mutex<Vec<Arc<Delivery>>>>,
}

/// Sends a signal to a stage; `false` if the stage is gone. Whoever makes an event of one signal may
/// send another.
type Delivery = ReentrantMutex<dyn Fn(Signal) -> bool + Send>;

impl Signals {
    /// A channel without receivers.
    pub fn new() -> Self {
        Self { channel: broadcast::Sender::new(BACKLOG), deliveries: Arc::default() }
    }

    /// Sends a signal to all receivers. It is in the queues of the stages to which signals are
    /// [delivered](Self::deliver) when this returns.
    pub fn send(&self, signal: Signal) {
        // An error means that there are no receivers.
        let _ = self.channel.send(signal);
        // Without the lock of the list, which users' code may ask for.
        let deliveries = self.deliveries.lock().clone();
        let is_over = |delivery: &&Arc<Delivery>| {
            contained(|| (delivery.lock())(signal)).is_ok_and(|delivered| !delivered)
        };
        let over: Vec<_> = deliveries.iter().filter(is_over).collect();
        if !over.is_empty() {
            let is_over = |known: &Arc<Delivery>| over.iter().any(|it| Arc::ptr_eq(it, known));
            self.deliveries.lock().retain(|known| !is_over(known));
        }
    }

    /// A receiver of all later signals.
    pub fn subscribe(&self) -> broadcast::Receiver<Signal> {
        self.channel.subscribe()
    }

    /// Sends every signal from now on to a stage, as an event that `make` makes
    /// of it, for as long as the stage lives. Who sends the signal calls `make`. The stage counts
    /// those that it rejects.
    pub fn deliver<E: Send + 'static>(
        &self,
        sink: TrySink<E>,
        make: impl Fn(Signal) -> Envelope<E> + Send + 'static,
    ) {
        let sink = sink.weak();
        let delivery = move |signal: Signal| match sink().filter(|sink| !sink.is_closed()) {
            Some(sink) => {
                sink.send_lossy(make(signal));
                true
            }
            None => false,
        };
        self.deliveries.lock().push(Arc::new(ReentrantMutex::new(delivery)));
    }
}

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signals").field("channel", &self.channel).finish_non_exhaustive()
    }
}

impl Default for Signals {
    fn default() -> Self {
        Self::new()
    }
}
