//! A digest of mail: what is found in the database, shown by a page in PyTeC.

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
        CallError::Failed(cause) => Problem::Digest(cause),
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
        found.messages.extend(part.messages);
        found.total = part.total;
        if is_last {
            break;
        }
    }
    Ok(found)
}
