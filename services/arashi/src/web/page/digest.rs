//! The digest: what its page in PyTeC is given, and what is around it.

use maud::{Markup, PreEscaped};
use serde_json::{Value, json};

use super::layout::{Frame, Looked};
use super::text::author;
use crate::store::{Folder, Listing, Session, Summary};
use crate::web::place::{DAYS_MAX, DigestPlace};
use crate::web::shortening::Shortening;

/// What the digest shows.
pub(crate) struct DigestView<'a> {
    pub(crate) session: &'a Session,
    pub(crate) folders: &'a [Folder],
    pub(crate) listing: &'a Listing,
    pub(crate) shortening: Option<&'a Shortening>,
}

/// What the page in PyTeC has as `req.values`: data, which it escapes where it shows it.
pub(crate) fn digest_values(view: &DigestView<'_>, place: &DigestPlace) -> Value {
    let snippets = view.shortening.is_none_or(Shortening::shows_snippets);
    let message = |message: &Summary| {
        json!({
            "id": message.id.0,
            "author": author(&message.from),
            "subject": message.subject,
            "date": message.date_seconds,
            "first_line": message.snippet.as_deref().filter(|_| snippets),
        })
    };
    let folder = |folder: &Folder| json!({ "id": folder.id.0, "name": folder.name });
    json!({
        "text": place.text,
        "folder": place.folder.map(|folder| folder.0),
        "folders": view.folders.iter().map(folder).collect::<Vec<_>>(),
        "days": place.days,
        "days_max": DAYS_MAX,
        "total": view.listing.total,
        "messages": view.listing.messages.iter().map(message).collect::<Vec<_>>(),
    })
}

/// The page around `content`, which is HTML that the page in PyTeC has written.
pub(crate) fn digest_page(view: &DigestView<'_>, place: &DigestPlace, content: &str) -> Markup {
    let folder = view.folders.iter().find(|folder| Some(folder.id) == place.folder);
    let frame = Frame {
        shortening: view.shortening,
        looked: Looked {
            text: &place.text,
            folder: folder.map(|folder| (folder.id, &*folder.name)),
            is_in_folder: place.folder.is_some(),
        },
        ..Frame::of(view.session, "digest", "Digest")
    };
    frame.around(&PreEscaped(content.to_owned()))
}
