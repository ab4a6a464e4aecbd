//! A request while it runs.

use std::cell::Cell;
use std::time::Duration;

use tamarisk::{Context, Shield};

use super::problem::Problem;
use crate::store::{Folder, FolderId, IsEnded, Session, Store, StoreError, UserId, Work};
use crate::web::digest::DigestPage;

/// Who has waited for other programs for longer than this has taken a time that says nothing of the
/// next request.
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
    /// How long it has waited for other programs.
    pub(super) waited: Cell<Duration>,
}

impl RequestWork<'_> {
    pub(super) fn has_waited_unusually(&self) -> bool {
        self.waited.get() > UNUSUAL_WAIT
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

    fn note_waited(&self, waited: Duration) {
        self.waited.set(self.waited.get() + waited);
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
