//! A request while it runs.

use std::time::{SystemTime, UNIX_EPOCH};

use tamarisk::Context;

use super::problem::Problem;
use crate::store::{Folder, FolderId, Session, Store, StoreError, UserId};
use crate::web::digest::DigestPage;

/// A request of somebody who is logged in, and what it runs with.
pub(super) struct RunningRequest<'a> {
    pub(super) store: &'a mut Store,
    /// The event of the stage: it says when to end, and how well to serve.
    pub(super) cx: &'a Context,
    pub(super) session: &'a Session,
    pub(super) page_size: u32,
    pub(super) digest: &'a DigestPage,
    pub(super) now_seconds: i64,
}

impl RunningRequest<'_> {
    pub(super) fn user(&self) -> UserId {
        self.session.account.id
    }

    /// All folders of the user.
    pub(super) fn folders(&mut self) -> Result<Vec<Folder>, StoreError> {
        self.store.folders(self.cx, self.session.account.id)
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
