//! Places in queues, reserved before their events exist: in one, or in all of several.

use tamarisk_control::{Reason, Rejection};

use super::{SendError, Sink, TrySink};
use crate::core::Payload;
use crate::entry::Entry;
use crate::queue::EventMetadata;

/// A place in a queue, reserved for one event: the *prepare* of a transaction.
/// [`send`](Self::send) commits; dropping it aborts, and nothing was offered.
#[must_use = "a reserved place is given back when the permit is dropped"]
pub struct Permit<E: Send + 'static> {
    pub(super) sink: TrySink<E>,
    pub(super) meta: EventMetadata,
    pub(super) used: bool,
}

impl<E: Send + 'static> Permit<E> {
    /// Puts the event into its reserved place.
    ///
    /// # Errors
    /// [`SendError`] with the reason [`Reason::Closed`] if the stage was destroyed
    /// in the meantime; there is no other reason, because the place is reserved.
    pub fn send(mut self, event: E) -> Result<(), SendError<E>> {
        let core = &self.sink.endpoint.core;
        let mut state = core.lock();
        if state.is_closed() {
            let rejection = Rejection::new(Reason::Closed);
            state.reject(&self.meta, &rejection);
            drop(state);
            self.sink.count(None, 0, 1);
            return Err(SendError { event, rejection });
        }
        state.ledger.commit(self.meta.class);
        core.push(&mut state, self.meta, Payload { event, caller: None });
        core.wake_worker(state);
        self.sink.count(None, 1, 0);
        self.used = true;
        Ok(())
    }
}

impl<E: Send + 'static> Drop for Permit<E> {
    fn drop(&mut self) {
        if !self.used {
            self.sink.endpoint.core.abort(&self.meta);
        }
    }
}

/// Sinks among which an enqueue is all or nothing.
pub trait Reserve {
    /// A permit for each.
    type Permits;

    /// Reserves a place in every sink, or in none.
    ///
    /// # Errors
    /// The first rejection; places reserved before it are released.
    fn reserve_all(self, entry: Entry) -> Result<Self::Permits, Rejection>;
}

impl<E: Send + 'static> Reserve for &TrySink<E> {
    type Permits = Permit<E>;

    fn reserve_all(self, entry: Entry) -> Result<Self::Permits, Rejection> {
        self.reserve(entry)
    }
}

impl<E: Send + 'static> Reserve for &Sink<E> {
    type Permits = Permit<E>;

    fn reserve_all(self, entry: Entry) -> Result<Self::Permits, Rejection> {
        self.reserve(entry)
    }
}

impl<E: Send + 'static> Reserve for &[Sink<E>] {
    type Permits = Vec<Permit<E>>;

    fn reserve_all(self, entry: Entry) -> Result<Self::Permits, Rejection> {
        self.iter().map(|sink| sink.reserve(entry)).collect()
    }
}

macro_rules! reserve_tuple {
    ($($sink:ident)+) => {
        impl<$($sink: Reserve),+> Reserve for ($($sink,)+) {
            type Permits = ($($sink::Permits,)+);

            #[allow(non_snake_case, reason = "one name serves as type and as binding")]
            fn reserve_all(self, entry: Entry) -> Result<Self::Permits, Rejection> {
                let ($($sink,)+) = self;
                Ok(($($sink.reserve_all(entry)?,)+))
            }
        }
    };
}

reserve_tuple!(A B);
reserve_tuple!(A B C);
reserve_tuple!(A B C D);
