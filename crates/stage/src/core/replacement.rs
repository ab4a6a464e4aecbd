//! A stage's description is replaced by another stage's, while its queue and its accounts go on.

use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;

use tamarisk_control::{Classes, Concurrency, MeasuredFrom};
use tamarisk_laws::{Laws, PredictGateTrim, Ruling};

use super::{Core, Item, Resources};
use crate::build_error::BuildError;
use crate::call::ExpectedErrors;
use crate::observe::Phase;

/// Why a stage cannot be replaced by another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplaceError {
    /// It has been declared, but does not run yet.
    #[error("it has not been started: start the graph, or attach another handler to it")]
    NotStarted,
    /// It drains.
    #[error("it is being removed: wait until it is, then add the new one")]
    Leaving,
    /// It has been closed, but is still in the graph.
    #[error("it is closed: remove it, then add the new one")]
    Closed,
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
    /// Resources are bounded otherwise.
    #[error(
        "the new stage has other bounds on resources: give it the same, or remove the old one and \
         add it"
    )]
    OtherResources,
    /// Events have been sent to the new stage itself, it has been closed, or it is the old one.
    #[error("the new stage is in use or closed: make one that nobody sends to")]
    InUse,
    /// The workers of the new stage cannot start.
    #[error(transparent)]
    NoThread(BuildError),
}

/// What replaces its like in another stage.
struct Description {
    runs: &'static str,
    ruling: Ruling,
    measured_from: MeasuredFrom,
    chosen: Laws,
    bounds: RangeInclusive<u32>,
    worker_count: Concurrency,
    promised: Classes,
    expected: ExpectedErrors,
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
        let bounds = |core: &Self| core.resources.as_ref().map(Resources::bounds);
        if bounds(self) != bounds(new) {
            return Err(ReplaceError::OtherResources);
        }
        let order = {
            let state = new.lock();
            if state.phase != Phase::Open
                || state.ledger.total().offered > 0
                || state.ledger.queued() > 0
            {
                return Err(ReplaceError::InUse);
            }
            state.queue.order_shape()
        };
        let state = self.lock();
        match state.phase {
            Phase::Open => {}
            Phase::Draining => return Err(ReplaceError::Leaving),
            Phase::Closed => return Err(ReplaceError::Closed),
        }
        if state.queue.order_shape() != order {
            return Err(ReplaceError::OtherOrder);
        }
        Ok(())
    }

    /// Goes on with the laws, targets and bounds of `new`, which has to be closed then. The laws
    /// start as `new` had them, without estimates of what is inside. Returns those that there were.
    pub(crate) fn follow(&self, new: &Self) -> Ruling {
        let Description {
            runs,
            ruling,
            measured_from,
            chosen,
            bounds,
            worker_count,
            promised,
            expected,
        } = new.give_description();
        let now = self.clock.now();
        let mut state = self.lock();
        self.settings.follow(&new.settings);
        self.capacity.store(new.capacity(), Ordering::Relaxed);
        state.running_changes(now);
        let before = std::mem::replace(&mut state.ruling, ruling);
        state.generation += 1;
        state.runs = runs;
        state.measured_from = measured_from;
        state.chosen = chosen;
        state.bounds = bounds;
        state.worker_count = worker_count;
        state.promised = promised;
        let expected = std::mem::replace(&mut state.expected, expected);
        state.follow_law();
        self.dispatch(state, now, 0);
        drop(expected);
        before
    }

    fn give_description(&self) -> Description {
        let stand_in = Ruling::by(Box::new(PredictGateTrim::new(&self.classes)));
        let mut state = self.lock();
        Description {
            runs: state.runs,
            ruling: std::mem::replace(&mut state.ruling, stand_in),
            measured_from: state.measured_from,
            chosen: std::mem::take(&mut state.chosen),
            bounds: state.bounds.clone(),
            worker_count: state.worker_count,
            promised: state.promised.clone(),
            expected: state.expected.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::StageBuilder;
    use crate::core::Payload;

    fn core(name: &str) -> Core<Payload<u32>> {
        let builder = StageBuilder::new(name).workers(1);
        let queue = builder.queue();
        let (config, _) = builder.into_config().unwrap();
        Core::new(config, queue)
    }

    #[test]
    fn what_the_laws_before_wanted_is_told_from_what_the_new_ones_want() {
        let (old, new) = (core("old"), core("new"));
        let wanted = old.tick(None);
        assert_eq!(wanted.generation, old.generation());
        old.follow(&new);
        assert_ne!(wanted.generation, old.generation());
        assert_eq!(old.tick(None).generation, old.generation());
    }
}
