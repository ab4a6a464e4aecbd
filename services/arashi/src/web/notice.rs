//! What a page says of the change that led to it.

use maud::{Markup, Render, html};

use crate::store::Deleted;

/// What was changed. It is in the address of the page after it, as a word and numbers, so that
/// an address made elsewhere can claim nothing but one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    Deleted(Deleted),
    /// So many messages were moved.
    Moved(u64),
    FolderCreated,
    FolderDeleted,
    Sent,
}

impl Notice {
    /// As an address has it.
    pub(crate) fn code(self) -> String {
        match self {
            Self::Deleted(Deleted { to_trash, for_good }) => {
                format!("deleted-{to_trash}-{for_good}")
            }
            Self::Moved(count) => format!("moved-{count}"),
            Self::FolderCreated => "folder-created".into(),
            Self::FolderDeleted => "folder-deleted".into(),
            Self::Sent => "sent".into(),
        }
    }

    /// Of what [`code`](Self::code) has made.
    pub(crate) fn of(code: &str) -> Option<Self> {
        Some(match code {
            "folder-created" => Self::FolderCreated,
            "folder-deleted" => Self::FolderDeleted,
            "sent" => Self::Sent,
            _ => match code.split_once('-')? {
                ("deleted", counts) => {
                    let (to_trash, for_good) = counts.split_once('-')?;
                    let [to_trash, for_good] = [to_trash, for_good].map(str::parse);
                    Self::Deleted(Deleted { to_trash: to_trash.ok()?, for_good: for_good.ok()? })
                }
                ("moved", count) => Self::Moved(count.parse().ok()?),
                _ => return None,
            },
        })
    }
}

impl Render for Notice {
    fn render(&self) -> Markup {
        let messages = |count| format!("{count} message{}", if count == 1 { "" } else { "s" });
        html! {
            @match *self {
                Self::Deleted(Deleted { to_trash, for_good }) => {
                    @if to_trash > 0 { (messages(to_trash)) " moved to Trash. " }
                    @if for_good > 0 { (messages(for_good)) " deleted for good." }
                }
                Self::Moved(count) => { (messages(count)) " moved." }
                Self::FolderCreated => { "The folder is there." }
                Self::FolderDeleted => { "The folder is deleted. Its messages are in Trash." }
                Self::Sent => { "The message is sent. A copy is in Sent." }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_as_they_are_written() {
        for notice in [
            Notice::Deleted(Deleted { to_trash: 3, for_good: 0 }),
            Notice::Moved(1),
            Notice::FolderCreated,
            Notice::FolderDeleted,
            Notice::Sent,
        ] {
            assert_eq!(Notice::of(&notice.code()), Some(notice));
        }
        for code in ["", "deleted", "deleted-1", "deleted-x-1", "deleted-1--1", "<b>", "sent-1"] {
            assert_eq!(Notice::of(code), None, "{code}");
        }
    }
}
