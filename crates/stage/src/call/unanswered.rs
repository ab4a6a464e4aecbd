//! The errors that callers of dropped replies get: known where the reply is dropped, or once
//! the handler has returned.

use std::cell::{Cell, RefCell};

use tokio::sync::oneshot;

use super::error::{BoxError, CallError, Cause};
use crate::panics::contained;

/// Why a call has no answer, as far as it is known.
#[derive(Debug)]
pub(super) enum AnswerError {
    Known(CallError),
    /// Known when the handler has returned.
    Pending(oneshot::Receiver<CallError>),
}

/// The error for the caller of a reply that is being dropped unused.
pub(super) fn error_of_dropped_reply() -> AnswerError {
    if let Some(cause) = CAUSE.get() {
        return AnswerError::Known(cause.into());
    }
    if let Some(error) = RETURNED.with_borrow(Option::clone) {
        return AnswerError::Known(error);
    }
    if std::thread::panicking() {
        return AnswerError::Known(CallError::Panicked);
    }
    let Some(watch) = WATCH.get() else { return AnswerError::Known(CallError::Unanswered) };
    WATCH.set(Some(HandlerWatch { unanswered: true, ..watch }));
    if watch.terminated {
        return AnswerError::Known(CallError::Terminated);
    }
    let (sender, receiver) = oneshot::channel();
    DROPPED.with_borrow_mut(|dropped| dropped.push(sender));
    AnswerError::Pending(receiver)
}

thread_local! {
    /// Why events are being destroyed on this thread at the moment, if they are.
    static CAUSE: Cell<Option<Cause>> = const { Cell::new(None) };
    /// The error that is being destroyed on this thread at the moment, if one is.
    static RETURNED: RefCell<Option<CallError>> = const { RefCell::new(None) };
    /// Callers whose replies the handler on this thread has dropped. They get the error when
    /// it waits, takes the next event or returns.
    static DROPPED: RefCell<Vec<oneshot::Sender<CallError>>> = const { RefCell::new(Vec::new()) };
    /// What the handler on this thread has done, if one runs.
    static WATCH: Cell<Option<HandlerWatch>> = const { Cell::new(None) };
}

#[derive(Clone, Copy, Default)]
struct HandlerWatch {
    /// It dropped a reply unused.
    unanswered: bool,
    /// A checkpoint returned that its event is terminated.
    terminated: bool,
}

/// Runs `destroy`; callers of replies that it drops get `cause`.
pub(crate) fn with_cause(cause: Cause, destroy: impl FnOnce()) {
    struct RestoreCause(Option<Cause>);
    impl Drop for RestoreCause {
        fn drop(&mut self) {
            CAUSE.set(self.0);
        }
    }
    let _restore = RestoreCause(CAUSE.replace(Some(cause)));
    destroy();
}

/// Destroys the error that a handler returned; callers of replies in it get that error.
pub(crate) fn destroy_returned(error: BoxError) {
    destroy_with(CallError::returned(&error), error);
}

/// Destroys this; callers of replies in it get `error`.
pub(crate) fn destroy_with<T>(error: CallError, destroyed: T) {
    struct RestoreReturned(Option<CallError>);
    impl Drop for RestoreReturned {
        fn drop(&mut self) {
            RETURNED.set(self.0.take());
        }
    }
    // The error itself may hold what is destroyed, which goes with its last clone.
    let told = error.as_text();
    drop(error);
    let _restore = RestoreReturned(RETURNED.replace(Some(told)));
    // Destructors are the user's code.
    let _ = contained(|| drop(destroyed));
}

/// Runs a handler; returns the callers whose replies it has dropped since
/// [`take_unanswered`] was last called, and whether there were any.
pub(crate) fn watch_replies<R>(handler: impl FnOnce() -> R) -> (R, DroppedReplies) {
    struct RestoreWatch(Option<HandlerWatch>);
    impl Drop for RestoreWatch {
        fn drop(&mut self) {
            WATCH.set(self.0);
        }
    }
    let _restore = RestoreWatch(WATCH.replace(Some(HandlerWatch::default())));
    let result = handler();
    (result, take_dropped())
}

/// Callers whose replies a handler has dropped.
#[must_use = "callers wait for the error"]
pub(crate) struct DroppedReplies {
    pub(crate) any: bool,
    callers: Vec<oneshot::Sender<CallError>>,
}

impl DroppedReplies {
    /// Sends them the error. Without this they get [`CallError::Unanswered`].
    pub(crate) fn fail(self, error: impl FnOnce() -> CallError) {
        if self.callers.is_empty() {
            return;
        }
        let error = error();
        for caller in self.callers {
            // An error means that the caller has left.
            let _ = caller.send(error.clone());
        }
    }
}

fn take_dropped() -> DroppedReplies {
    let watch = WATCH.get();
    if !watch.is_some_and(|watch| watch.unanswered) {
        return DroppedReplies { any: false, callers: Vec::new() };
    }
    WATCH.set(watch.map(|watch| HandlerWatch { unanswered: false, ..watch }));
    DroppedReplies { any: true, callers: DROPPED.take() }
}

/// Whether the handler has dropped a reply since the last call; what it does from now on
/// belongs to another event.
pub(crate) fn take_unanswered() -> bool {
    let dropped = take_dropped();
    WATCH.set(WATCH.get().map(|_| HandlerWatch::default()));
    let any = dropped.any;
    dropped.fail(|| CallError::Unanswered);
    any
}

/// The handler learned that its event is terminated: callers of replies that it drops from
/// now on get that.
pub(crate) fn note_terminated() {
    WATCH.set(WATCH.get().map(|watch| HandlerWatch { terminated: true, ..watch }));
}
