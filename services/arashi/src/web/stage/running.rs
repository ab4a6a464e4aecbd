//! A request while it runs.

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tamarisk::{Context, Shield};

use super::problem::Problem;
use super::turns::Turn;
use crate::store::{Folder, FolderId, IsEnded, Session, Store, StoreError, UserId, Work};
use crate::web::digest::DigestPage;

/// Transactions of this service take milliseconds: who has waited for longer has waited for another
/// program, or for a change such as other requests do not make.
const UNUSUAL_WAIT: Duration = Duration::from_millis(100);

/// A request of somebody who is logged in, and what it runs with.
pub(super) struct RunningRequest<'a> {
    pub(super) store: &'a mut Store,
    pub(super) work: &'a RequestWork<'a>,
    pub(super) session: &'a Session,
    pub(super) page_size: u32,
    pub(super) digest: &'a DigestPage,
    pub(super) now_seconds: i64,
}

/// What calls of the store work for.
pub(super) struct RequestWork<'a> {
    /// The event of the stage: it says when to end, and how well to serve.
    pub(super) cx: &'a Context,
    /// Its turn at the processors, if it has one.
    pub(super) turn: Option<Turn<'a>>,
    /// Since when it has waited for another transaction, if it has.
    pub(super) waits_since: Cell<Option<Instant>>,
}

impl RequestWork<'_> {
    /// Whether it has waited for another transaction for so long that its time says nothing of the
    /// next.
    pub(super) fn has_waited_unusually(&self) -> bool {
        self.waits_since.get().is_some_and(|since| since.elapsed() > UNUSUAL_WAIT)
    }
}

impl Work for RequestWork<'_> {
    fn is_ended(&self) -> IsEnded {
        self.cx.is_ended()
    }

    fn time_left(&self) -> Option<Duration> {
        self.cx.time_left()
    }

    fn shield(&self) -> Option<Shield> {
        Work::shield(self.cx)
    }

    /// The turn is over for good: one writes at a time, so that those which wrote after a wait and
    /// run without a turn are few.
    fn note_wait(&self) {
        self.waits_since.set(self.waits_since.get().or_else(|| Some(Instant::now())));
        if let Some(turn) = &self.turn {
            turn.end();
        }
    }
}

impl RunningRequest<'_> {
    pub(super) fn user(&self) -> UserId {
        self.session.account.id
    }

    /// All folders of the user.
    pub(super) fn folders(&mut self) -> Result<Vec<Folder>, StoreError> {
        self.store.folders(self.work, self.session.account.id)
    }
}

/// The folder of this number, if it is among the user's.
pub(super) fn folder(folders: &[Folder], id: FolderId) -> Result<&Folder, Problem> {
    let found = folders.iter().find(|folder| folder.id == id);
    found.ok_or(Problem::Store(StoreError::NotFound))
}

/// Seconds since 1970.
pub(super) fn now_seconds() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX)
}
