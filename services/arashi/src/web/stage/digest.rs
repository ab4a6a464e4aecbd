//! A digest of mail: what is found in the database, shown by a page in PyTeC.

use std::collections::HashSet;

use tamarisk::CallError;

use super::problem::Problem;
use super::running::{RunningRequest, folder};
use crate::store::{Listing, Order, StoreError};
use crate::web::answer::{Answer, page};
use crate::web::page::{DigestView, digest_page, digest_values};
use crate::web::place::DigestPlace;
use crate::web::shortening::Shortening;

/// The most messages that are digested, the latest ones: as many as fit a page that is read.
const MESSAGES_MAX: u32 = 500;
/// How many the store lists at once.
const LISTED_MAX: u32 = 200;

const DAY_SECONDS: i64 = 24 * 3600;

pub(super) fn digest(
    running: &mut RunningRequest<'_>,
    place: &DigestPlace,
) -> Result<Answer, Problem> {
    let folders = running.folders()?;
    if let Some(id) = place.folder {
        folder(&folders, id)?;
    }
    let shortening = Shortening::of_digest(running.work.cx.quality(), MESSAGES_MAX);
    let count = shortening.as_ref().map_or(MESSAGES_MAX, Shortening::messages);
    let listing = found(running, place, count)?;
    let view = DigestView {
        session: running.session,
        folders: &folders,
        listing: &listing,
        shortening: shortening.as_ref(),
    };
    let answer = running.digest.render(running.work.cx, digest_values(&view, place));
    let answer = answer.map_err(|error| match error {
        CallError::Failed(cause) => Problem::Digest(cause.to_string()),
        other => Problem::Unanswered(other),
    })?;
    let content = String::from_utf8_lossy(&answer.body);
    Ok(page(answer.status, digest_page(&view, place, &content)))
}

/// The latest `count` messages of the days, and how many there are.
fn found(
    running: &mut RunningRequest<'_>,
    place: &DigestPlace,
    count: u32,
) -> Result<Listing, StoreError> {
    let DigestPlace { text, folder, days } = place;
    let since = Some(running.now_seconds.saturating_sub(DAY_SECONDS * i64::from(*days)));
    let (work, user, order) = (running.work, running.user(), Order::default());
    let mut found = Listing::default();
    for first in (0..count).step_by(LISTED_MAX as usize) {
        let (start, most) = (u64::from(first), LISTED_MAX.min(count - first));
        let part = running.store.search(work, user, *folder, text, since, order, start, most)?;
        let is_last = part.messages.len() < most as usize;
        append(&mut found, part);
        if is_last {
            break;
        }
    }
    Ok(found)
}

/// Adds the next part of a list. It begins with messages of the part before if others were delivered
/// meanwhile; they are left out.
fn append(found: &mut Listing, part: Listing) {
    let known: HashSet<_> = found.messages.iter().map(|message| message.id).collect();
    let new = part.messages.into_iter().filter(|message| !known.contains(&message.id));
    found.messages.extend(new);
    found.total = part.total;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{FolderId, MessageId, Summary};

    fn listing(ids: &[i64], total: u64) -> Listing {
        let message = |id: &i64| Summary {
            id: MessageId(*id),
            folder: FolderId(1),
            from: String::new(),
            recipients: String::new(),
            subject: String::new(),
            date_seconds: *id,
            size_bytes: 0,
            is_unread: false,
            has_attachments: false,
            snippet: None,
        };
        Listing { messages: ids.iter().map(message).collect(), total }
    }

    #[test]
    fn a_message_is_digested_once_if_another_is_delivered_between_two_parts() {
        let mut found = Listing::default();
        append(&mut found, listing(&[9, 8, 7], 6));
        append(&mut found, listing(&[7, 6, 5], 7));
        assert_eq!(found, listing(&[9, 8, 7, 6, 5], 7));
    }
}
