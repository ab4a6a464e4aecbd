//! Lists of messages, as far as the quality of the stage goes.

use http::StatusCode;

use super::change::after;
use super::problem::Problem;
use super::running::{RunningRequest, folder};
use crate::store::Listing;
use crate::web::answer::{Answer, page, see_other};
use crate::web::local_path::LocalPath;
use crate::web::notice::Notice;
use crate::web::page::{MessageTable, list_page, search_page};
use crate::web::place::{ListPlace, Place, SearchPlace};
use crate::web::shortening::{Shortening, horizon_seconds};

pub(super) fn list(
    running: &mut RunningRequest<'_>,
    place: &ListPlace,
    notice: Option<Notice>,
) -> Result<Answer, Problem> {
    let folders = running.folders()?;
    let folder = folder(&folders, place.folder)?;
    let shortening = Shortening::of_list(running.work.cx.quality(), running.page_size);
    let count = shortening.as_ref().map_or(running.page_size, Shortening::messages);
    let snippets = shortening.as_ref().is_none_or(Shortening::shows_snippets);
    let (work, user) = (running.work, running.user());
    let listing =
        running.store.list(work, user, folder.id, place.order, place.first, count, snippets)?;
    if place.first > 0 && listing.messages.is_empty() {
        return Ok(last_page(running, &Place::List(place.clone()), &listing, notice));
    }
    let table = MessageTable {
        session: running.session,
        folders: &folders,
        listing: &listing,
        count,
        shortening: shortening.as_ref(),
        notice,
        now_seconds: running.now_seconds,
    };
    Ok(page(StatusCode::OK, list_page(&table, place, folder)))
}

pub(super) fn search(
    running: &mut RunningRequest<'_>,
    place: &SearchPlace,
    notice: Option<Notice>,
) -> Result<Answer, Problem> {
    let folders = running.folders()?;
    if let Some(id) = place.folder {
        folder(&folders, id)?;
    }
    let (quality, now) = (running.work.cx.quality(), running.now_seconds);
    let since_seconds = if place.first == 0 {
        horizon_seconds(quality).map(|age| now.saturating_sub(age))
    } else {
        place.since_seconds
    };
    let place = &SearchPlace { since_seconds, ..place.clone() };
    let age = since_seconds.map(|since| now.saturating_sub(since));
    let shortening = Shortening::of_search(quality, running.page_size, age);
    let count = shortening.as_ref().map_or(running.page_size, Shortening::messages);
    let SearchPlace { text, folder, first, order, .. } = place;
    let (work, user) = (running.work, running.user());
    // Everything has nothing in it; a list shows it sooner.
    let listing = if text.trim().is_empty() {
        Listing::default()
    } else {
        running.store.search(work, user, *folder, text, since_seconds, *order, *first, count)?
    };
    if *first > 0 && listing.messages.is_empty() {
        return Ok(last_page(running, &Place::Search(place.clone()), &listing, notice));
    }
    let table = MessageTable {
        session: running.session,
        folders: &folders,
        listing: &listing,
        count,
        shortening: shortening.as_ref(),
        notice,
        now_seconds: now,
    };
    Ok(page(StatusCode::OK, search_page(&table, place)))
}

/// Leads to the last page of a list that has become shorter.
fn last_page(
    running: &RunningRequest<'_>,
    place: &Place,
    listing: &Listing,
    notice: Option<Notice>,
) -> Answer {
    let path = place.last_page(listing.total, running.page_size).href();
    match notice {
        Some(notice) => after(LocalPath::new(&path), notice),
        None => see_other(&path),
    }
}
