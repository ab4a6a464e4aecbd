//! What the callers of dropped replies are told: known where the reply is dropped, or once its
//! handler has returned.

use std::cell::{Cell, RefCell};

use tokio::sync::oneshot;

use super::error::{BoxError, CallError, Cause};
use crate::panics::contained;

#[derive(Debug)]
pub(super) enum Verdict {
    Known(CallError),
    /// Known when the handler has returned.
    Awaited(oneshot::Receiver<CallError>),
}

/// Why a reply is dropped that was not used.
pub(super) fn verdict() -> Verdict {
    if let Some(cause) = CAUSE.get() {
        return Verdict::Known(cause.into());
    }
    if let Some(error) = RETURNED.with_borrow(Option::clone) {
        return Verdict::Known(error);
    }
    if std::thread::panicking() {
        return Verdict::Known(CallError::Panicked);
    }
    let Some(watch) = WATCH.get() else { return Verdict::Known(CallError::Unanswered) };
    WATCH.set(Some(Watch { unanswered: true, ..watch }));
    if watch.terminated {
        return Verdict::Known(CallError::Terminated);
    }
    let (sender, receiver) = oneshot::channel();
    LET_GO.with_borrow_mut(|let_go| let_go.push(sender));
    Verdict::Awaited(receiver)
}

thread_local! {
    /// Why events are being destroyed on this thread at the moment, if they are.
    static CAUSE: Cell<Option<Cause>> = const { Cell::new(None) };
    /// The error that is being destroyed on this thread at the moment, if one is.
    static RETURNED: RefCell<Option<CallError>> = const { RefCell::new(None) };
    /// Callers whose replies the handler that runs on this thread has let go of; they are
    /// told why when it waits, takes the next event or returns.
    static LET_GO: RefCell<Vec<oneshot::Sender<CallError>>> = const { RefCell::new(Vec::new()) };
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

/// Destroys what a handler returned; replies in it tell their callers so.
pub(crate) fn destroy_returned(error: BoxError) {
    struct RestoreReturned(Option<CallError>);
    impl Drop for RestoreReturned {
        fn drop(&mut self) {
            RETURNED.set(self.0.take());
        }
    }
    let _restore = RestoreReturned(RETURNED.replace(Some(CallError::returned(&error))));
    // Destructors are the user's code.
    let _ = contained(|| drop(error));
}

/// Runs a handler; returns the callers whose replies it let go of since
/// [`take_unanswered`] was last called, and whether there were any.
pub(crate) fn watched<R>(handler: impl FnOnce() -> R) -> (R, LetGo) {
    struct RestoreWatch(Option<Watch>);
    impl Drop for RestoreWatch {
        fn drop(&mut self) {
            WATCH.set(self.0);
        }
    }
    let _restore = RestoreWatch(WATCH.replace(Some(Watch::default())));
    let result = handler();
    (result, take_let_go())
}

/// Callers whose replies a handler let go of.
#[must_use = "callers wait to be told why"]
pub(crate) struct LetGo {
    pub(crate) any: bool,
    callers: Vec<oneshot::Sender<CallError>>,
}

impl LetGo {
    /// They are told when this is dropped, at the latest.
    pub(crate) fn tell(self, error: impl FnOnce() -> CallError) {
        if self.callers.is_empty() {
            return;
        }
        let error = error();
        for caller in self.callers {
            // The caller may have left; then there is nobody to tell.
            let _ = caller.send(error.clone());
        }
    }
}

fn take_let_go() -> LetGo {
    let watch = WATCH.get();
    if !watch.is_some_and(|watch| watch.unanswered) {
        return LetGo { any: false, callers: Vec::new() };
    }
    WATCH.set(watch.map(|watch| Watch { unanswered: false, ..watch }));
    LetGo { any: true, callers: LET_GO.take() }
}

/// Whether the handler that runs let go of a reply since the last call; what it
/// does from now on concerns another event.
pub(crate) fn take_unanswered() -> bool {
    let let_go = take_let_go();
    WATCH.set(WATCH.get().map(|_| Watch::default()));
    let any = let_go.any;
    let_go.tell(|| CallError::Unanswered);
    any
}

/// The handler that runs was told that its event is to end: replies that it lets
/// go of now tell their callers so.
pub(crate) fn note_terminated() {
    WATCH.set(WATCH.get().map(|watch| Watch { terminated: true, ..watch }));
}
