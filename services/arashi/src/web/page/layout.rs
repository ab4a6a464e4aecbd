//! What all pages share: head, search box, navigation, footer.

use maud::{DOCTYPE, Markup, html};

use crate::store::{AccountClass, Folder, FolderId, FolderKind, Session};
use crate::web::shortening::Shortening;

/// The style sheet of all pages.
pub(crate) const STYLE: &str = include_str!("style.css");

/// What is around the content of a page.
pub(crate) struct Frame<'a> {
    pub(crate) title: &'a str,
    /// What programs know the page by.
    pub(crate) page: &'static str,
    /// Who is logged in; none on pages for everybody.
    pub(crate) session: Option<&'a Session>,
    /// The class of the account, for the footer; where a request did not get as far as its session,
    /// it may be known still.
    pub(crate) class: Option<AccountClass>,
    /// What was left out because the service is busy.
    pub(crate) shortening: Option<&'a Shortening>,
    /// In how many seconds the page loads itself again.
    pub(crate) reload_seconds: Option<u64>,
    pub(crate) looked: Looked<'a>,
}

/// What the search box of a page holds.
#[derive(Clone, Copy, Default)]
pub(crate) struct Looked<'a> {
    pub(crate) text: &'a str,
    /// The folder of the page.
    pub(crate) folder: Option<(FolderId, &'a str)>,
    /// Whether that folder alone is searched; by default it is all of them.
    pub(crate) is_in_folder: bool,
}

impl<'a> Frame<'a> {
    pub(crate) fn new(page: &'static str, title: &'a str) -> Self {
        Self {
            title,
            page,
            session: None,
            class: None,
            shortening: None,
            reload_seconds: None,
            looked: Looked::default(),
        }
    }

    pub(crate) fn of(session: &'a Session, page: &'static str, title: &'a str) -> Self {
        let class = Some(session.account.class);
        Self { session: Some(session), class, ..Self::new(page, title) }
    }

    /// The whole page around `content`.
    pub(crate) fn around(&self, content: &Markup) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="robots" content="noindex";
                    @if let Some(seconds) = self.reload_seconds {
                        meta http-equiv="refresh" content=(seconds);
                    }
                    title { (self.title) " · Arashi" }
                    link rel="stylesheet" href="/style.css";
                    link rel="icon" href="data:,";
                }
                body data-page=(self.page) {
                    a.skip href="#content" { "Skip to content" }
                    @if let Some(session) = self.session { (self.header(session)) }
                    main #content tabindex="-1" {
                        @if let Some(shortening) = self.shortening {
                            p.note.warning role="status" {
                                "Shortened because the service is busy: " (shortening) "."
                            }
                        }
                        (content)
                    }
                    (self.footer())
                }
            }
        }
    }

    fn header(&self, session: &Session) -> Markup {
        let Looked { text, folder, is_in_folder } = self.looked;
        html! {
            header {
                div.bar {
                    a.brand href="/folders" data-go="folders" { (mark()) "Arashi" }
                    form.search data-go="search" action="/search" method="get" role="search" {
                        label.hidden for="q" { "Search the headers of mail" }
                        input #q type="search" name="q" value=(text) maxlength="200"
                            placeholder="Search mail" required;
                        @if let Some((id, name)) = folder {
                            label.hidden for="where" { "Where to search" }
                            select #where name="folder" {
                                option value="" selected[!is_in_folder] { "All folders" }
                                option value=(id.0) selected[is_in_folder] { "In " (name) }
                            }
                        }
                        button type="submit" { "Search" }
                    }
                    nav aria-label="Main" {
                        a.button.plain href="/folders" { "Folders" }
                        a.button.plain href="/digest" data-go="digest" { "Digest" }
                        a.button.plain href="/compose" data-go="compose" { "Compose" }
                        form data-go="log-out" action="/logout" method="post" {
                            (csrf_field(session))
                            button.plain type="submit" { "Log out" }
                        }
                    }
                }
            }
        }
    }

    fn footer(&self) -> Markup {
        html! {
            footer data-quality=[self.shortening.map(Shortening::quality)] {
                div.bar {
                    @if let Some(Session { account, .. }) = self.session {
                        span { "Logged in as " strong { (account.name) } }
                    } @else {
                        span { "Arashi webmail" }
                    }
                    @match self.class {
                        Some(AccountClass::Gold) => {
                            span.class.gold title="Served first while the service is busy" { "gold" }
                        }
                        Some(AccountClass::Bronze) => {
                            span.class title="Served after gold while the service is busy" { "bronze" }
                        }
                        None => {}
                    }
                    @if self.session.is_some() {
                        a href="/password" { "Change your password" }
                    }
                }
            }
        }
    }
}

/// The field that shows that a form is one of ours.
pub(super) fn csrf_field(session: &Session) -> Markup {
    html! { input type="hidden" name="csrf" value=(session.csrf); }
}

/// Deletes messages in Trash for good, and moves others there: the form says which, so that it does
/// the same if it is sent again.
pub(super) fn delete_button(from_trash: bool) -> Markup {
    html! {
        @if from_trash { input type="hidden" name="for_good" value="1"; }
        button.bad-button type="submit" {
            @if from_trash { "Delete for good" } @else { "Delete" }
        }
    }
}

/// Where messages can be moved to: the user's own folders first, then the fixed ones.
pub(super) fn targets(folders: &[Folder], here: Option<FolderId>) -> impl Iterator<Item = &Folder> {
    let (own, fixed): (Vec<_>, Vec<_>) = folders
        .iter()
        .filter(|folder| Some(folder.id) != here)
        .partition(|folder| folder.kind == FolderKind::Other);
    own.into_iter().chain(fixed)
}

/// The sign beside the name: a gust of wind.
pub(super) fn mark() -> Markup {
    html! {
        svg width="26" height="26" viewBox="0 0 26 26" fill="none" stroke="currentColor"
            stroke-width="2.4" stroke-linecap="round" aria-hidden="true" {
            path d="M3 9h12.5a3.5 3.5 0 1 0-3.4-4.4" {}
            path d="M3 13.5h17a3 3 0 1 1-2.8 4.1" {}
            path d="M3 18h9.5a2.7 2.7 0 1 1-2.5 3.7" {}
        }
    }
}

/// The sign of a message with attachments: a paper clip, which not every font has.
pub(super) fn clip() -> Markup {
    html! {
        svg width="14" height="14" viewBox="0 0 16 16" fill="none" stroke="currentColor"
            stroke-width="1.6" stroke-linecap="round" aria-hidden="true" {
            path d="M13 7.5 7.8 12.7a3 3 0 0 1-4.3-4.3l5.6-5.6a2 2 0 0 1 2.9 2.9l-5.5 5.4a1 1 0 0 1-1.4-1.4l4.7-4.7" {}
        }
    }
}
