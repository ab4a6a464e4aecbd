//! Lists of messages: of a folder, and of what a search has found.

use maud::{Markup, html};

use super::layout::{Frame, Looked, clip, csrf_field, delete_button, targets};
use super::text::{author, counted, long_date, short_date, size};
use crate::store::{Folder, FolderId, FolderKind, Listing, Session, SortBy, Summary};
use crate::web::notice::Notice;
use crate::web::place::{DigestPlace, ListPlace, MessagePlace, Place, SearchPlace};
use crate::web::shortening::Shortening;

/// What a page with a list of messages shows.
pub(crate) struct MessageTable<'a> {
    pub(crate) session: &'a Session,
    pub(crate) folders: &'a [Folder],
    pub(crate) listing: &'a Listing,
    /// How many messages a page has.
    pub(crate) count: u32,
    pub(crate) shortening: Option<&'a Shortening>,
    pub(crate) notice: Option<Notice>,
    pub(crate) now_seconds: i64,
}

/// The messages of a folder.
pub(crate) fn list_page(table: &MessageTable<'_>, place: &ListPlace, folder: &Folder) -> Markup {
    let frame = Frame {
        shortening: table.shortening,
        looked: Looked { folder: Some((folder.id, &folder.name)), ..Looked::default() },
        ..Frame::of(table.session, "list", &folder.name)
    };
    frame.around(&html! {
        (notice(table.notice))
        div.head {
            h1 { (folder.name) }
            span.count { (counted(folder.messages, "message")) ", " (folder.unread) " unread" }
        }
        (table.sheet(&Place::List(place.clone()), "This folder is empty."))
    })
}

/// What a search has found.
pub(crate) fn search_page(table: &MessageTable<'_>, place: &SearchPlace) -> Markup {
    let searched = place.folder.and_then(|id| folder_named(table.folders, id));
    let title = format!("Search for “{}”", place.text);
    let frame = Frame {
        shortening: table.shortening,
        looked: Looked {
            text: &place.text,
            folder: place.folder.zip(searched),
            is_in_folder: place.folder.is_some(),
        },
        ..Frame::of(table.session, "search", &title)
    };
    frame.around(&html! {
        (notice(table.notice))
        div.head {
            h1 { (title) }
            span.count {
                (counted(table.listing.total, "message"))
                @match searched { Some(name) => { " in " (name) } None => { " in all folders" } }
            }
            a href=(DigestPlace::of(place).href()) data-go="digest" { "Digest of the last week" }
        }
        (table.sheet(&Place::Search(place.clone()), "No message has this text in its headers."))
    })
}

fn notice(notice: Option<Notice>) -> Markup {
    html! { @if let Some(notice) = notice { p.note.good role="status" { (notice) } } }
}

fn folder_named(folders: &[Folder], id: FolderId) -> Option<&str> {
    folders.iter().find(|folder| folder.id == id).map(|folder| folder.name.as_str())
}

impl MessageTable<'_> {
    fn sheet(&self, place: &Place, empty: &str) -> Markup {
        html! {
            div.sheet {
                @if self.listing.messages.is_empty() {
                    p.empty { (empty) }
                } @else {
                    form data-go="delete" action="/delete" method="post" {
                        (csrf_field(self.session))
                        input type="hidden" name="back" value=(place.href());
                        table.messages {
                            thead { (self.heads(place)) }
                            tbody {
                                @for message in &self.listing.messages { (self.row(message, place)) }
                            }
                        }
                        (self.tools(place))
                    }
                }
            }
            (self.pages(place))
        }
    }

    fn heads(&self, place: &Place) -> Markup {
        html! { tr {
            th.tick scope="col" { span.hidden { "Selected" } }
            th.from-head scope="col" aria-sort=[sorted(place, SortBy::Author)] {
                @if self.is_sent(place) { span.head-text { "To" } } @else { (head(place, SortBy::Author, "From")) }
            }
            th scope="col" aria-sort=[sorted(place, SortBy::Subject)] {
                (head(place, SortBy::Subject, "Subject"))
            }
            th.size-head scope="col" { "Size" }
            th.date-head scope="col" aria-sort=[sorted(place, SortBy::Date)] {
                (head(place, SortBy::Date, "Date"))
            }
        } }
    }

    /// The folder whose messages are listed.
    fn folder_of(&self, place: &Place) -> Option<&Folder> {
        let Place::List(list) = place else { return None };
        self.folders.iter().find(|folder| folder.id == list.folder)
    }

    fn is_sent(&self, place: &Place) -> bool {
        self.folder_of(place).is_some_and(|folder| folder.kind == FolderKind::Sent)
    }

    /// Whom a message is from, or to if its reader has sent it: what is shown, and in full.
    fn correspondent<'m>(&self, message: &'m Summary, place: &Place) -> (String, &'m str) {
        let folder = self.folders.iter().find(|folder| folder.id == message.folder);
        let is_sent = folder.is_some_and(|folder| folder.kind == FolderKind::Sent);
        if !is_sent {
            return (author(&message.from).to_owned(), &message.from);
        }
        let to = if self.is_sent(place) { "" } else { "To: " };
        match &*message.recipients {
            "" => (format!("{to}(unknown)"), ""),
            recipients => (format!("{to}{recipients}"), recipients),
        }
    }

    fn message_place(&self, message: &Summary, place: &Place) -> MessagePlace {
        MessagePlace { id: message.id, source: false, back: place.back() }
    }

    fn row(&self, message: &Summary, place: &Place) -> Markup {
        let subject = if message.subject.is_empty() { "(no subject)" } else { &message.subject };
        let found_in = match place {
            Place::Search(search) if search.folder.is_none() => {
                folder_named(self.folders, message.folder)
            }
            _ => None,
        };
        let (correspondent, in_full) = self.correspondent(message, place);
        html! {
            tr.unread[message.is_unread] {
                td.tick {
                    input type="checkbox" name="message" value=(message.id.0)
                        aria-label={ "Select " (subject) };
                }
                td.from title=(in_full) { span.from { (correspondent) } }
                td.subject {
                    a href=(self.message_place(message, place).href()) data-go="message" {
                        (subject)
                        @if message.is_unread { span.hidden { " (unread)" } }
                        @if message.has_attachments {
                            span.clip title="Has attachments" {
                                (clip()) span.hidden { " (has attachments)" }
                            }
                        }
                    }
                    @if message.snippet.is_some() || found_in.is_some() {
                        span.snippet {
                            @if let Some(name) = found_in { "In " (name) ". " }
                            (message.snippet.as_deref().unwrap_or_default())
                        }
                    }
                }
                td.size { (size(message.size_bytes)) }
                td.date title=(long_date(message.date_seconds)) {
                    (short_date(message.date_seconds, self.now_seconds))
                }
            }
        }
    }

    fn tools(&self, place: &Place) -> Markup {
        let here = self.folder_of(place);
        let from_trash = here.is_some_and(|folder| folder.kind == FolderKind::Trash);
        html! {
            div.tools {
                (delete_button(from_trash))
                label.hidden for="to" { "Move the selected messages to" }
                select #to name="to" {
                    @for folder in targets(self.folders, here.map(|folder| folder.id)) {
                        option value=(folder.id.0) { (folder.name) }
                    }
                }
                button type="submit" data-go="refile" formaction="/refile" { "Move" }
                span.count { "the selected messages" }
            }
        }
    }

    fn pages(&self, place: &Place) -> Markup {
        let (first, total) = (place.first(), self.listing.total);
        let shown = self.listing.messages.len() as u64;
        let before = first.saturating_sub(u64::from(self.count));
        let after = first + shown;
        html! {
            @if first > 0 || after < total {
                nav.pages aria-label="Pages" {
                    @if first > 0 {
                        a.button href=(place.at(before).href()) data-go="previous" rel="prev" {
                            "← Previous"
                        }
                    }
                    span.gap { @if shown > 0 { (first + 1) "–" (after) " of " (total) } }
                    @if after < total && shown > 0 {
                        a.button href=(place.at(after).href()) data-go="next" rel="next" { "Next →" }
                    }
                }
            }
        }
    }
}

/// A head of a column: a click sorts by it, another one the other way round.
fn head(place: &Place, by: SortBy, name: &str) -> Markup {
    let order = place.order();
    let is_current = order.by == by;
    html! {
        a href=(place.sorted(by).href()) aria-current=[is_current.then_some("true")] {
            (name)
            @if is_current { @if rises(place) { " ↑" } @else { " ↓" } }
        }
    }
}

fn sorted(place: &Place, by: SortBy) -> Option<&'static str> {
    let direction = if rises(place) { "ascending" } else { "descending" };
    (place.order().by == by).then_some(direction)
}

/// Dates fall unless they are reversed, names rise.
fn rises(place: &Place) -> bool {
    let order = place.order();
    (order.by == SortBy::Date) == order.reversed
}
