//! The page of a message.

use maud::{Markup, PreEscaped, html};

use super::layout::{Frame, Looked, csrf_field, delete_button, targets};
use super::text::{long_date, size};
use crate::mail::{Mail, linkify};
use crate::store::{Folder, FolderKind, Session, StoredMessage};
use crate::web::local_path::LocalPath;
use crate::web::place::{ListPlace, MessagePlace};

/// What the page of a message shows.
pub(crate) struct MessagePage<'a> {
    pub(crate) session: &'a Session,
    pub(crate) folders: &'a [Folder],
    pub(crate) message: &'a StoredMessage,
    pub(crate) mail: &'a Mail,
    /// The message as it came, instead of what it says.
    pub(crate) source: Option<&'a str>,
    /// The list that it was opened from, if that is another than the first page of its folder.
    pub(crate) back: Option<&'a LocalPath>,
}

/// The message, and what can be done with it.
pub(crate) fn message_page(page: &MessagePage<'_>) -> Markup {
    let MessagePage { session, folders, message, mail, source, back } = *page;
    let folder = folders.iter().find(|folder| folder.id == message.summary.folder);
    let subject = match (&*mail.subject, &*message.summary.subject) {
        ("", "") => "(no subject)",
        ("", stored) => stored,
        (parsed, _) => parsed,
    };
    let frame = Frame {
        looked: Looked {
            folder: folder.map(|folder| (folder.id, &*folder.name)),
            ..Looked::default()
        },
        ..Frame::of(session, "message", subject)
    };
    frame.around(&html! {
        div.head {
            @if let Some(search) = back.filter(|back| back.is_of("/search")) {
                a href=(search.as_str()) { "← Search" }
            }
            @if let Some(folder) = folder {
                a href=(list_href(folder, back)) data-go="folder" { "← " (folder.name) }
            }
            (source_link(message, source.is_some(), back))
        }
        article.sheet {
            div.padded {
                h1 { (subject) }
                (fields(message, mail))
            }
            (tools(page, folder))
            @if let Some(source) = source {
                div.letter { pre.source { (source) } }
            } @else {
                (content(message, mail))
            }
        }
    })
}

/// The list of the message's folder.
fn list_href(folder: &Folder, back: Option<&LocalPath>) -> String {
    let start = ListPlace::start_of(folder.id).href();
    match back {
        // The message may have been moved since.
        Some(back) if back.as_str().starts_with(&format!("{start}&")) => back.as_str().to_owned(),
        _ => start,
    }
}

fn source_link(message: &StoredMessage, is_source: bool, back: Option<&LocalPath>) -> Markup {
    let place = MessagePlace { id: message.summary.id, source: !is_source, back: back.cloned() };
    html! {
        a href=(place.href()) { @if is_source { "Show the message" } @else { "Show the source" } }
    }
}

fn fields(message: &StoredMessage, mail: &Mail) -> Markup {
    let from = if mail.from.is_empty() { &message.summary.from } else { &mail.from };
    let date = mail.date_seconds.unwrap_or(message.summary.date_seconds);
    html! {
        dl.fields {
            dt { "From" } dd { (from) }
            @if !mail.to.is_empty() { dt { "To" } dd { (mail.to) } }
            @if !mail.cc.is_empty() { dt { "Cc" } dd { (mail.cc) } }
            dt { "Date" } dd { (long_date(date)) }
        }
    }
}

fn tools(page: &MessagePage<'_>, folder: Option<&Folder>) -> Markup {
    let MessagePage { session, folders, message, back, .. } = *page;
    let id = message.summary.id.0;
    let opened_from = back.map(|back| back.as_str().to_owned());
    let back = opened_from.or_else(|| Some(ListPlace::start_of(folder?.id).href()));
    let from_trash = folder.is_some_and(|folder| folder.kind == FolderKind::Trash);
    html! {
        div.tools {
            a.button href={ "/compose?reply=" (id) } data-go="reply" { "Reply" }
            form data-go="delete" action="/delete" method="post" {
                (csrf_field(session))
                input type="hidden" name="message" value=(id);
                @if let Some(back) = &back { input type="hidden" name="back" value=(back); }
                (delete_button(from_trash))
            }
            form data-go="refile" action="/refile" method="post" {
                (csrf_field(session))
                input type="hidden" name="message" value=(id);
                @if let Some(back) = &back { input type="hidden" name="back" value=(back); }
                label.hidden for="to" { "Move to" }
                select #to name="to" {
                    @for other in targets(folders, Some(message.summary.folder)) {
                        option value=(other.id.0) { (other.name) }
                    }
                }
                button type="submit" { "Move" }
            }
        }
    }
}

fn content(message: &StoredMessage, mail: &Mail) -> Markup {
    html! {
        @if !mail.defects.is_empty() {
            div.letter { div.note.warning {
                p { "This message is damaged:" }
                ul { @for defect in &mail.defects { li { (defect) } } }
            } }
        }
        @if let Some(body) = &mail.html {
            div.letter {
                @if mail.blocked_images > 0 {
                    p.note.warning {
                        "Remote images blocked: " (mail.blocked_images)
                        ". They would tell the sender that you have read this."
                    }
                }
                (html_frame(body))
            }
        } @else if let Some(text) = &mail.text {
            div.letter { div.text { (PreEscaped(linkify(text))) } }
        } @else {
            div.letter { p.hint { "This message has no text." } }
        }
        @if !mail.attachments.is_empty() {
            section.letter {
                h2 { "Attachments" }
                ul.attachments {
                    @for (part, attachment) in mail.attachments.iter().enumerate() {
                        li {
                            a.button href={
                                "/attachment?id=" (message.summary.id.0) "&part=" (part)
                            } download=(attachment.name) {
                                (attachment.name) " " small { (size(attachment.size_bytes)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// HTML of a stranger. It is sanitised, and the frame is sandboxed in case that something was
/// overlooked: no script, no form, nothing outside of the frame. It has our origin for the sake
/// of attached images, which need the session's cookie.
fn html_frame(body: &str) -> Markup {
    let document = html! {
        (maud::DOCTYPE)
        meta charset="utf-8";
        base target="_blank";
        link rel="stylesheet" href="/style.css";
        body.mail { (PreEscaped(body)) }
    };
    html! {
        iframe title="The message" srcdoc=(document.into_string()) referrerpolicy="no-referrer"
            sandbox="allow-same-origin allow-popups allow-popups-to-escape-sandbox" {}
    }
}
