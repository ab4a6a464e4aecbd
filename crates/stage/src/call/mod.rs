//! Events that want an answer, and get exactly one.
//!
//! A [`Request`] carries a [`Reply`] through however many stages. Whatever becomes
//! of it, the caller hears: the answer, or which of the ways to have none it was.
//! A reply that is dropped unanswered tells the caller why, as far as the stage
//! that drops it knows.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use tamarisk_control::Rejection;
use tokio::sync::oneshot;

use crate::handler::BoxError;
use crate::panics::contained;
use crate::termination::Terminated;

/// An event of type `Q` whose sender waits for an `R`.
#[derive(Debug)]
pub struct Request<Q, R> {
    /// What is asked.
    pub body: Q,
    /// Where the answer goes.
    pub reply: Reply<R>,
}

/// The way back to a caller. To drop it unanswered is an answer too: the error that the
/// handler returns, or else [`CallError::Unanswered`]; and the event that did so counts as
/// failed.
#[derive(Debug)]
pub struct Reply<R> {
    caller: Option<oneshot::Sender<Result<R, Unanswered>>>,
    /// The stage that the request was passed on to; none while it is where its caller sent it.
    stage: Option<Arc<str>>,
}

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Not admitted by the stage that was called; the rejection may say when to retry.
    #[error("rejected: {}", .0.reason)]
    Rejected(Rejection),
    /// Taken out of a queue: too late to be of use.
    #[error("dropped from the queue: too late to be of use")]
    Dropped,
    /// Ended while it ran: overdue, or cut by a drain.
    #[error("terminated before it was done")]
    Terminated,
    /// The handler returned this error.
    #[error("the handler failed: {0}")]
    Failed(String),
    /// The handler let go of the reply without using it.
    #[error("the handler gave no answer")]
    Unanswered,
    /// The handler panicked.
    #[error("the handler panicked")]
    Panicked,
    /// The stage was destroyed with the request in its queue.
    #[error("the stage was closed")]
    Closed,
    /// It happened in a stage that the called one passed the request on to, or called itself.
    #[error("stage {stage:?}: {cause}")]
    Further {
        /// The name of that stage.
        stage: Arc<str>,
        /// What happened there; never itself further on.
        cause: Box<Self>,
    },
}

impl CallError {
    /// The error without the stage that it happened in.
    pub fn cause(&self) -> &Self {
        match self {
            Self::Further { cause, .. } => cause,
            own => own,
        }
    }

    /// The stage that it happened in, if that is another one than was called.
    pub fn stage(&self) -> Option<&str> {
        match self {
            Self::Further { stage, .. } => Some(stage),
            _ => None,
        }
    }

    /// The rejection, if it was one, in whatever stage: its reason and when to retry.
    pub fn rejection(&self) -> Option<&Rejection> {
        match self.cause() {
            Self::Rejected(rejection) => Some(rejection),
            _ => None,
        }
    }

    /// The same error, seen by whoever called the stage before `stage`.
    pub(crate) fn further(self, stage: &Arc<str>) -> Self {
        match self {
            Self::Further { .. } => self,
            own => Self::Further { stage: Arc::clone(stage), cause: Box::new(own) },
        }
    }

    /// What the caller hears of a handler that returned `error`.
    pub(crate) fn returned(error: &BoxError) -> Self {
        if let Some(of_a_call) = error.downcast_ref::<Self>() {
            return of_a_call.clone();
        }
        if error.is::<Terminated>() {
            return Self::Terminated;
        }
        let text = contained(|| error.to_string());
        Self::Failed(text.unwrap_or_else(|panic| panic.to_string()))
    }
}

/// Why events are destroyed without their handler having ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cause {
    Rejected(Rejection),
    Dropped,
    Terminated,
    Unanswered,
    Panicked,
    Closed,
}

impl From<Cause> for CallError {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Rejected(rejection) => Self::Rejected(rejection),
            Cause::Dropped => Self::Dropped,
            Cause::Terminated => Self::Terminated,
            Cause::Unanswered => Self::Unanswered,
            Cause::Panicked => Self::Panicked,
            Cause::Closed => Self::Closed,
        }
    }
}

impl<R> Reply<R> {
    pub(crate) fn new() -> (Self, Answer<R>) {
        let (sender, receiver) = oneshot::channel();
        (Self { caller: Some(sender), stage: None }, Answer(receiver))
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

    /// The same reply, in the hands of another stage.
    pub(crate) fn passed_on(mut self, stage: &Arc<str>) -> Self {
        self.stage = Some(Arc::clone(stage));
        self
    }

    /// Tells the caller why there is no answer.
    pub(crate) fn fail(mut self, error: CallError) {
        self.end(|| Verdict::Known(error));
    }

    fn end(&mut self, verdict: impl FnOnce() -> Verdict) {
        let Some(caller) = self.caller.take() else { return };
        // The caller may have left; then there is nobody to tell.
        let _ = caller.send(Err(Unanswered { stage: self.stage.take(), verdict: verdict() }));
    }
}

impl<R> Drop for Reply<R> {
    fn drop(&mut self) {
        self.end(verdict);
    }
}

/// Where the answer to a request will be.
pub(crate) struct Answer<R>(oneshot::Receiver<Result<R, Unanswered>>);

/// What a reply that has no answer sends instead.
#[derive(Debug)]
struct Unanswered {
    stage: Option<Arc<str>>,
    verdict: Verdict,
}

#[derive(Debug)]
enum Verdict {
    Known(CallError),
    /// Known when the handler has returned.
    Awaited(oneshot::Receiver<CallError>),
}

impl<R> Answer<R> {
    pub(crate) async fn get(self) -> Result<R, CallError> {
        let Unanswered { stage, verdict } = match self.0.await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(unanswered)) => unanswered,
            Err(_) => return Err(CallError::Closed),
        };
        let error = match verdict {
            Verdict::Known(error) => error,
            Verdict::Awaited(verdict) => verdict.await.unwrap_or(CallError::Unanswered),
        };
        Err(match stage {
            Some(stage) => error.further(&stage),
            None => error,
        })
    }
}

/// Why a reply is dropped that was not used.
fn verdict() -> Verdict {
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
