//! Changes of messages and folders, each of which leads back to the page that it came from.

use super::problem::Problem;
use super::running::RunningRequest;
use crate::store::{FolderId, MessageId, StoreError};
use crate::web::answer::{Answer, see_other};
use crate::web::local_path::LocalPath;
use crate::web::notice::Notice;

pub(super) fn delete(
    running: &mut RunningRequest<'_>,
    messages: &[MessageId],
    for_good: bool,
    back: Option<LocalPath>,
) -> Result<Answer, Problem> {
    some(messages)?;
    let (work, user) = (running.work, running.user());
    let notice = if for_good {
        Notice::Deleted(found(running.store.delete_from_trash(work, user, messages)?)?)
    } else {
        Notice::Trashed(found(running.store.move_to_trash(work, user, messages)?)?)
    };
    Ok(after(back, notice))
}

pub(super) fn refile(
    running: &mut RunningRequest<'_>,
    messages: &[MessageId],
    to: FolderId,
    back: Option<LocalPath>,
) -> Result<Answer, Problem> {
    some(messages)?;
    let count = running.store.refile(running.work, running.user(), messages, to)?;
    found(count).map(|count| after(back, Notice::Moved(count)))
}

pub(super) fn create_folder(
    running: &mut RunningRequest<'_>,
    name: &str,
) -> Result<Answer, Problem> {
    running.store.create_folder(running.work, running.user(), name)?;
    Ok(after(None, Notice::FolderCreated))
}

pub(super) fn delete_folder(
    running: &mut RunningRequest<'_>,
    folder: FolderId,
) -> Result<Answer, Problem> {
    running.store.delete_folder(running.work, running.user(), folder)?;
    Ok(after(None, Notice::FolderDeleted))
}

/// The page from which the change came, with a word about it.
pub(super) fn after(back: Option<LocalPath>, notice: Notice) -> Answer {
    let back = back.or_else(|| LocalPath::new("/folders"));
    let path = back.map(|back| back.without("done").with("done", &notice.code()));
    see_other(path.as_ref().map_or("/folders", LocalPath::as_str))
}

fn some(messages: &[MessageId]) -> Result<(), Problem> {
    if messages.is_empty() { Err(Problem::NothingSelected) } else { Ok(()) }
}

/// How many messages were changed, unless there are none of these numbers.
fn found(count: u64) -> Result<u64, Problem> {
    if count == 0 { Err(Problem::Store(StoreError::NotFound)) } else { Ok(count) }
}
