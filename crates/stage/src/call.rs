//! Events that want an answer, and get exactly one.
//!
//! A [`Request`] carries a [`Reply`] through however many stages. Whatever becomes
//! of it, the caller hears: the answer, or which of the ways to have none it was.
//! A reply that is dropped unanswered tells the caller why, as far as the stage
//! that drops it knows.

use std::cell::Cell;

use tamarisk_control::Rejection;
use tokio::sync::oneshot;

/// An event of type `Q` whose sender waits for an `R`.
#[derive(Debug)]
pub struct Request<Q, R> {
    /// What is asked.
    pub body: Q,
    /// Where the answer goes.
    pub reply: Reply<R>,
}

/// The way back to a caller. To drop it unanswered is an answer too:
/// [`CallError::Unanswered`], and the event that did so counts as failed.
#[derive(Debug)]
pub struct Reply<R> {
    caller: Option<oneshot::Sender<Result<R, CallError>>>,
}

/// Why a call has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Refused at admission of the first stage; the rejection may say when to retry.
    #[error("rejected: {}", .0.reason)]
    Rejected(Rejection),
    /// Taken out of a queue: too late to be of use.
    #[error("dropped from the queue: too late to be of use")]
    Dropped,
    /// Ended while it ran: overdue, or cut by a drain.
    #[error("terminated before it was done")]
    Terminated,
    /// The handler let go of the reply without using it, as an error does.
    #[error("the handler gave no answer")]
    Unanswered,
    /// The handler panicked.
    #[error("the handler panicked")]
    Panicked,
    /// The stage was destroyed with the request in its queue.
    #[error("the stage was closed")]
    Closed,
}

impl<R> Reply<R> {
    pub(crate) fn new() -> (Self, oneshot::Receiver<Result<R, CallError>>) {
        let (sender, receiver) = oneshot::channel();
        (Self { caller: Some(sender) }, receiver)
    }

    /// Answers the caller; gives the answer back if the caller has left.
    ///
    /// # Errors
    /// The answer, when nobody waits for it.
    pub fn send(mut self, answer: R) -> Result<(), R> {
        let Some(caller) = self.caller.take() else { return Err(answer) };
        caller.send(Ok(answer)).map_err(|unsent| match unsent {
            Ok(answer) => answer,
            Err(_) => unreachable!("an answer was sent, not an error"),
        })
    }

    /// Whether nobody waits for the answer any more.
    pub fn is_abandoned(&self) -> bool {
        self.caller.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    /// Returns when nobody waits for the answer any more.
    pub async fn abandoned(&mut self) {
        if let Some(caller) = &mut self.caller {
            caller.closed().await;
        }
    }
}

impl<R> Drop for Reply<R> {
    fn drop(&mut self) {
        let Some(caller) = self.caller.take() else { return };
        let error = if let Some(cause) = CAUSE.get() {
            cause
        } else if std::thread::panicking() {
            CallError::Panicked
        } else {
            let_go()
        };
        // The caller may have left; then there is nobody to tell.
        let _ = caller.send(Err(error));
    }
}

thread_local! {
    /// Why events are being destroyed on this thread at the moment, if they are.
    static CAUSE: Cell<Option<CallError>> = const { Cell::new(None) };
    /// What the handler that runs on this thread did, if one does.
    static WATCH: Cell<Option<Watch>> = const { Cell::new(None) };
}

#[derive(Clone, Copy, Default)]
struct Watch {
    /// It let go of a reply without using it.
    unanswered: bool,
    /// It was told at a checkpoint that its event is to end.
    terminated: bool,
}

/// Runs `destroy`; replies that it drops tell their callers `cause`.
pub(crate) fn with_cause(cause: CallError, destroy: impl FnOnce()) {
    struct Restore(Option<CallError>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CAUSE.set(self.0);
        }
    }
    let _restore = Restore(CAUSE.replace(Some(cause)));
    destroy();
}

/// Runs a handler; tells whether it let go of a reply since
/// [`take_unanswered`] was last called.
pub(crate) fn watched<R>(handler: impl FnOnce() -> R) -> (R, bool) {
    struct Restore(Option<Watch>);
    impl Drop for Restore {
        fn drop(&mut self) {
            WATCH.set(self.0);
        }
    }
    let _restore = Restore(WATCH.replace(Some(Watch::default())));
    let result = handler();
    (result, take_unanswered())
}

/// Whether the handler that runs let go of a reply since the last call; what it
/// does from now on concerns another event.
pub(crate) fn take_unanswered() -> bool {
    let watch = WATCH.get();
    WATCH.set(watch.map(|_| Watch::default()));
    watch.is_some_and(|watch| watch.unanswered)
}

/// The handler that runs was told that its event is to end: replies that it lets
/// go of now tell their callers so.
pub(crate) fn note_terminated() {
    WATCH.set(WATCH.get().map(|watch| Watch { terminated: true, ..watch }));
}

/// A reply is let go of without a cause that is known from elsewhere.
fn let_go() -> CallError {
    let watch = WATCH.get();
    WATCH.set(watch.map(|watch| Watch { unanswered: true, ..watch }));
    if watch.is_some_and(|watch| watch.terminated) {
        CallError::Terminated
    } else {
        CallError::Unanswered
    }
}
