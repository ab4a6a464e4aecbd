//! The page of all folders.

use maud::{Markup, html};

use super::layout::{Frame, csrf_field};
use super::text::counted;
use crate::store::{Folder, FolderKind, Session};
use crate::web::notice::Notice;
use crate::web::place::ListPlace;

/// All folders of a user, and the forms to make and delete them.
pub(crate) fn folders_page(
    session: &Session,
    folders: &[Folder],
    notice: Option<Notice>,
) -> Markup {
    let unread: u64 = folders.iter().map(|folder| folder.unread).sum();
    let own: Vec<_> = folders.iter().filter(|folder| folder.kind == FolderKind::Other).collect();
    Frame::of(session, "folders", "Folders").around(&html! {
        @if let Some(notice) = notice { p.note.good role="status" { (notice) } }
        div.head {
            h1 { "Folders" }
            span.count { (counted(unread, "unread message")) }
        }
        div.sheet {
            table.folders {
                thead { tr {
                    th scope="col" { "Folder" }
                    th.number scope="col" { "Unread" }
                    th.number scope="col" { "Messages" }
                } }
                tbody {
                    @for folder in folders {
                        tr.unread[folder.unread > 0] {
                            td { a href=(ListPlace::start_of(folder.id).href()) data-go="folder" {
                                (folder.name)
                            } }
                            td.number {
                                @if folder.unread > 0 { span.badge { (folder.unread) } }
                            }
                            td.number { (folder.messages) }
                        }
                    }
                }
            }
        }
        form.inline-form data-go="create-folder" action="/create-folder" method="post" {
            (csrf_field(session))
            div {
                label for="new-folder" { "New folder" }
                input #new-folder type="text" name="name" required maxlength="100";
            }
            button type="submit" { "Create" }
        }
        @if !own.is_empty() {
            form.inline-form data-go="delete-folder" action="/delete-folder" method="post" {
                (csrf_field(session))
                div {
                    label for="old-folder" { "Delete a folder" }
                    select #old-folder name="folder" required {
                        option value="" { "Choose …" }
                        @for folder in own { option value=(folder.id.0) { (folder.name) } }
                    }
                }
                button.bad-button type="submit" { "Delete" }
                p.hint { "Its messages go to Trash." }
            }
        }
    })
}
