//! What a page says of the change that led to it.

use maud::{Markup, Render, html};

/// What was changed. It is in the address of the page after it, as a word and a number, so that
/// an address made elsewhere can claim nothing but one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// So many messages were moved to Trash.
    Trashed(u64),
    /// So many messages were deleted for good.
    Deleted(u64),
    /// So many messages were moved.
    Moved(u64),
    FolderCreated,
    FolderDeleted,
    Sent,
    PasswordChanged,
}

impl Notice {
    /// As an address has it.
    pub(crate) fn code(self) -> String {
        match self {
            Self::Trashed(count) => format!("trashed-{count}"),
            Self::Deleted(count) => format!("deleted-{count}"),
            Self::Moved(count) => format!("moved-{count}"),
            Self::FolderCreated => "folder-created".into(),
            Self::FolderDeleted => "folder-deleted".into(),
            Self::Sent => "sent".into(),
            Self::PasswordChanged => "password-changed".into(),
        }
    }

    /// Of what [`code`](Self::code) has made.
    pub(crate) fn of(code: &str) -> Option<Self> {
        Some(match code {
            "folder-created" => Self::FolderCreated,
            "folder-deleted" => Self::FolderDeleted,
            "sent" => Self::Sent,
            "password-changed" => Self::PasswordChanged,
            _ => match code.split_once('-')? {
                ("trashed", count) => Self::Trashed(count.parse().ok()?),
                ("deleted", count) => Self::Deleted(count.parse().ok()?),
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
                Self::Trashed(count) => { (messages(count)) " moved to Trash." }
                Self::Deleted(count) => { (messages(count)) " deleted for good." }
                Self::Moved(count) => { (messages(count)) " moved." }
                Self::FolderCreated => { "The folder is created." }
                Self::FolderDeleted => { "The folder is deleted. Its messages are in Trash." }
                Self::PasswordChanged => {
                    "The password is changed. You are logged out everywhere else."
                }
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
            Notice::Trashed(3),
            Notice::Deleted(3),
            Notice::Moved(1),
            Notice::FolderCreated,
            Notice::FolderDeleted,
            Notice::Sent,
            Notice::PasswordChanged,
        ] {
            assert_eq!(Notice::of(&notice.code()), Some(notice));
        }
        for code in ["", "deleted", "deleted-x", "deleted--1", "<b>", "sent-1"] {
            assert_eq!(Notice::of(code), None, "{code}");
        }
    }
}
