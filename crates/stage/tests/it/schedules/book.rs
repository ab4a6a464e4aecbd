//! What really became of each event, noted by the events themselves.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tamarisk_control::ClassId;
use tamarisk_stage::{Accounts, BoxError, CallError, Context, Outcome, Request, Terminated};
use tokio::time::{Duration, Instant, sleep};

/// How an event behaves in its handler, after so many milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    Answer(u64),
    AnswerShielded(u64),
    AnswerAndErr(u64),
    LetGo(u64),
    Err(u64),
    Resign(u64),
    Panic(u64),
    Forever,
}

/// All events of a schedule, by their number.
#[derive(Clone, Default)]
pub(super) struct Book(Arc<Mutex<Pages>>);

#[derive(Default)]
struct Pages {
    pages: Vec<Page>,
    /// Events in the order in which the stage took them, by key.
    taken: HashMap<u8, Vec<usize>>,
    begun: HashMap<u8, Vec<usize>>,
    rejected: HashMap<usize, u64>,
    keeps_order: bool,
    /// What no handler should have seen: it cannot fail the test by itself.
    wrongs: Vec<String>,
}

#[derive(Clone, Copy)]
struct Page {
    class: usize,
    key: u8,
    fate: Fate,
    state: State,
    is_taken: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Waiting,
    Running,
    Ended(Outcome),
    /// Without having run.
    Destroyed,
}

/// The body of an event.
pub(super) struct Work {
    pub(super) id: usize,
    book: Book,
}

/// An event in the hands of its handler.
struct Run {
    id: usize,
    book: Book,
    due: Option<Instant>,
}

impl Book {
    /// If `keeps_order`, events of one key are checked to run in order and one at a time.
    pub(super) fn new(keeps_order: bool) -> Self {
        let book = Self::default();
        book.0.lock().keeps_order = keeps_order;
        book
    }

    pub(super) fn write(&self, class: usize, key: u8, fate: Fate) -> Work {
        let mut pages = self.0.lock();
        pages.pages.push(Page { class, key, fate, state: State::Waiting, is_taken: false });
        Work { id: pages.pages.len() - 1, book: self.clone() }
    }

    /// The stage took the event.
    pub(super) fn took(&self, id: usize) {
        let mut pages = self.0.lock();
        let page = &mut pages.pages[id];
        assert!(!page.is_taken, "event {id} was taken twice");
        page.is_taken = true;
        let key = page.key;
        pages.taken.entry(key).or_default().push(id);
    }

    /// The stage rejected an event of this class.
    pub(super) fn rejected(&self, class: usize) {
        *self.0.lock().rejected.entry(class).or_default() += 1;
    }

    /// What the accounts of a class must be; what is inside is all in `queued`.
    pub(super) fn truth(&self, class: usize) -> Accounts {
        let pages = self.0.lock();
        let rejected = pages.rejected.get(&class).copied().unwrap_or(0);
        let mut truth = Accounts { offered: rejected, rejected, ..Accounts::default() };
        for page in pages.pages.iter().filter(|page| page.is_taken && page.class == class) {
            truth.offered += 1;
            match page.state {
                State::Waiting | State::Running => truth.queued += 1,
                State::Destroyed => truth.dropped += 1,
                State::Ended(Outcome::Completed) => truth.completed += 1,
                State::Ended(Outcome::Failed) => truth.failed += 1,
                State::Ended(Outcome::Terminated) => truth.terminated += 1,
                State::Ended(outcome) => panic!("no handler ends as {outcome:?}"),
            }
        }
        truth
    }

    pub(super) fn wrongs(&self) -> Vec<String> {
        self.0.lock().wrongs.clone()
    }

    /// How many handlers are at work.
    pub(super) fn running(&self) -> u64 {
        let pages = self.0.lock();
        pages.pages.iter().filter(|page| page.state == State::Running).count() as u64
    }

    /// Whether this is what the sender of the event must hear.
    pub(super) fn is_right(&self, id: usize, answer: &Result<usize, CallError>) -> bool {
        let page = &self.0.lock().pages[id];
        match (page.state, page.fate) {
            // Its sender got it back, and let go of it.
            (State::Destroyed, _) if !page.is_taken => *answer == Err(CallError::Unanswered),
            (State::Destroyed, _) => {
                matches!(answer, Err(CallError::Dropped | CallError::Closed))
            }
            (State::Ended(Outcome::Completed), _) => *answer == Ok(id),
            (State::Ended(Outcome::Failed), Fate::AnswerAndErr(_)) => *answer == Ok(id),
            (State::Ended(Outcome::Failed), Fate::Panic(_)) => *answer == Err(CallError::Panicked),
            (State::Ended(Outcome::Failed), Fate::Err(_)) => {
                matches!(answer, Err(CallError::Failed(_)))
            }
            (State::Ended(Outcome::Failed), _) => *answer == Err(CallError::Unanswered),
            (State::Ended(Outcome::Terminated), Fate::Resign(_)) => {
                matches!(answer, Err(CallError::Unanswered | CallError::Terminated))
            }
            (State::Ended(Outcome::Terminated), _) => *answer == Err(CallError::Terminated),
            (State::Waiting | State::Running | State::Ended(_), _) => false,
        }
    }
}

impl Pages {
    fn expect(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.wrongs.push(otherwise());
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let page = &mut self.book.0.lock().pages[self.id];
        if page.state == State::Waiting {
            page.state = State::Destroyed;
        }
    }
}

impl Run {
    fn begin(work: &Work, cx: &Context) -> Self {
        let (id, due) = (work.id, cx.time_left().map(|left| Instant::now() + left));
        let pages = &mut *work.book.0.lock();
        let Page { class, key, state, .. } = pages.pages[id];
        pages.expect(state == State::Waiting, || format!("event {id} ran twice"));
        pages.expect(cx.class() == ClassId::new(class), || format!("event {id} changed class"));
        let is_late = cx.time_left() == Some(Duration::ZERO);
        pages.expect(!is_late, || format!("event {id} began when it was overdue"));
        pages.pages[id].state = State::Running;

        let begun = pages.begun.entry(key).or_default();
        let before = begun.last().copied();
        begun.push(id);
        if pages.keeps_order {
            let is_done = before.is_none_or(|id| pages.pages[id].state != State::Running);
            pages.expect(is_done, || format!("event {id} ran beside another of key {key}"));
            let begun = pages.begun[&key].clone();
            let mut taken = pages.taken[&key].clone();
            taken.retain(|id| begun.contains(id));
            pages.expect(taken == begun, || format!("taken as {taken:?}, begun as {begun:?}"));
        }
        Self { id, book: work.book.clone(), due }
    }

    async fn wait(&self, millis: u64) {
        if millis > 0 {
            sleep(Duration::from_millis(millis)).await;
            // The timers of the runtime tick once a millisecond.
            let late = Instant::now() - Duration::from_millis(1);
            let is_late = self.due.is_some_and(|due| late > due);
            let outlived = || format!("event {} outlived its deadline", self.id);
            self.book.0.lock().expect(!is_late, outlived);
        }
    }

    fn end(&self, outcome: Outcome) {
        self.book.0.lock().pages[self.id].state = State::Ended(outcome);
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let page = &mut self.book.0.lock().pages[self.id];
        if page.state == State::Running {
            let panics = std::thread::panicking();
            page.state = State::Ended(if panics { Outcome::Failed } else { Outcome::Terminated });
        }
    }
}

/// Does with an event as its fate says.
pub(super) async fn obey(request: Request<Work, usize>, cx: Context) -> Result<(), BoxError> {
    let Request { body, reply } = request;
    let run = Run::begin(&body, &cx);
    let fate = body.book.0.lock().pages[body.id].fate;
    match fate {
        Fate::Answer(millis) => {
            run.wait(millis).await;
            let _ = reply.send(body.id);
            run.end(Outcome::Completed);
        }
        Fate::AnswerShielded(millis) => {
            let _shield = cx.shield();
            sleep(Duration::from_millis(millis)).await;
            let _ = reply.send(body.id);
            run.end(Outcome::Completed);
        }
        Fate::AnswerAndErr(millis) => {
            run.wait(millis).await;
            let _ = reply.send(body.id);
            run.end(Outcome::Failed);
            return Err("after the answer".into());
        }
        Fate::LetGo(millis) => {
            run.wait(millis).await;
            drop(reply);
            run.end(Outcome::Failed);
        }
        Fate::Err(millis) => {
            run.wait(millis).await;
            run.end(Outcome::Failed);
            return Err("as fated".into());
        }
        Fate::Resign(millis) => {
            run.wait(millis).await;
            run.end(Outcome::Terminated);
            return Err(Terminated.into());
        }
        Fate::Panic(millis) => {
            run.wait(millis).await;
            // As a panic, without a report of it.
            std::panic::resume_unwind(Box::new("as fated"));
        }
        Fate::Forever => std::future::pending().await,
    }
    Ok(())
}
