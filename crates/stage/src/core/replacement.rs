//! A stage's description is replaced by another stage's, while its queue and its accounts go on.

use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;

use tamarisk_control::{Classes, Concurrency};
use tamarisk_laws::catalogue::Laws;
use tamarisk_laws::{PredictGateTrim, Ruling};

use super::{Core, Item};
use crate::builder::BuildError;
use crate::observe::Phase;

/// Why a stage cannot be replaced by another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplaceError {
    /// It has been declared, but does not run yet.
    #[error("it has not been started: start the graph, or attach another handler to it")]
    NotStarted,
    /// It drains or is closed.
    #[error("it is being removed: wait until it is, then add the new one")]
    Leaving,
    /// The names or priorities of the classes differ, by which its events and accounts are kept.
    #[error("the new stage has other classes: give it the same, or remove the old one and add it")]
    OtherClasses,
    /// Its queue is ordered otherwise, or partitioned.
    #[error(
        "the new stage has another queue order: give it the same, or remove the old one and add it"
    )]
    OtherOrder,
    /// Times of one clock mean nothing to laws that read another.
    #[error(
        "the new stage reads another clock: give it the same, or remove the old one and add it"
    )]
    OtherClock,
    /// Events have been sent to the new stage itself.
    #[error("the new stage has been sent to: make one that nobody sends to")]
    InUse,
    /// The workers of the new stage cannot start.
    #[error(transparent)]
    NoThread(BuildError),
}

/// What replaces its like in another stage.
struct Description {
    runs: &'static str,
    ruling: Ruling,
    chosen: Laws,
    bounds: RangeInclusive<u32>,
    worker_count: Concurrency,
    promised: Classes,
}

impl<T: Item> Core<T> {
    /// Whether this stage can go on as `new` describes.
    pub(crate) fn check_replaceable(&self, new: &Self) -> Result<(), ReplaceError> {
        let class = |classes: &Classes| {
            let each = classes.iter().map(|(_, class)| (class.name.clone(), class.priority));
            each.collect::<Vec<_>>()
        };
        if class(&self.classes) != class(&new.classes) {
            return Err(ReplaceError::OtherClasses);
        }
        if !self.clock.is_like(&new.clock) {
            return Err(ReplaceError::OtherClock);
        }
        let order = {
            let state = new.lock();
            if state.ledger.total().offered > 0 || state.ledger.queued() > 0 {
                return Err(ReplaceError::InUse);
            }
            state.queue.order_shape()
        };
        let state = self.lock();
        if state.phase != Phase::Open {
            return Err(ReplaceError::Leaving);
        }
        if state.queue.order_shape() != order {
            return Err(ReplaceError::OtherOrder);
        }
        Ok(())
    }

    /// Goes on with the laws, targets and bounds of `new`, which has to be closed then. The laws
    /// start as `new` had them, without estimates of what is inside.
    pub(crate) fn follow(&self, new: &Self) {
        let Description { runs, ruling, chosen, bounds, worker_count, promised } =
            new.give_description();
        self.settings.follow(&new.settings);
        let now = self.clock.now();
        let mut state = self.lock();
        self.capacity.store(new.capacity(), Ordering::Relaxed);
        state.running_changes(now);
        let before = std::mem::replace(&mut state.ruling, ruling);
        state.runs = runs;
        state.chosen = chosen;
        state.bounds = bounds;
        state.worker_count = worker_count;
        state.promised = promised;
        state.follow_law();
        self.dispatch(state, now, 0);
        drop(before);
    }

    fn give_description(&self) -> Description {
        let stand_in = Ruling::by(Box::new(PredictGateTrim::new(&self.classes)));
        let mut state = self.lock();
        Description {
            runs: state.runs,
            ruling: std::mem::replace(&mut state.ruling, stand_in),
            chosen: std::mem::take(&mut state.chosen),
            bounds: state.bounds.clone(),
            worker_count: state.worker_count,
            promised: state.promised.clone(),
        }
    }
}
