//! What a request asks for, read from its path, its query and its form.

use http::Method;

use super::fields::{Fields, Malformed};
use super::kind::RequestKind;
use super::local_path::LocalPath;
use super::notice::Notice;
use super::page::{ComposeForm, PasswordForm};
use super::place::{DAYS, DAYS_MAX, DigestPlace, ListPlace, MessagePlace, SearchPlace};
use crate::store::{FolderId, MessageId, Order, SortBy};

/// The longest name of an account that is looked up, in bytes: longer ones do not exist.
const NAME_BYTES_MAX: usize = 200;
/// The longest password that is hashed, in bytes.
const PASSWORD_BYTES_MAX: usize = 1024;
/// The longest text that is searched for, in bytes: two hundred characters.
const SEARCH_BYTES_MAX: usize = 800;
/// The longest name of a folder that is looked at, in bytes: a hundred characters.
const FOLDER_NAME_BYTES_MAX: usize = 400;
/// The longest line of recipients, in bytes.
const RECIPIENTS_BYTES_MAX: usize = 4_000;
/// The longest subject that is looked at, in bytes: five hundred characters, as the form takes.
const SUBJECT_BYTES_MAX: usize = 2_000;
/// The longest text that can be written here, in bytes.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// What a request asks for.
#[derive(Debug)]
pub(crate) enum Action {
    LogIn {
        name: String,
        password: String,
        next: Option<LocalPath>,
    },
    LogOut,
    /// The form to choose another password.
    Password,
    SetPassword(PasswordForm),
    Folders {
        notice: Option<Notice>,
    },
    List {
        place: ListPlace,
        notice: Option<Notice>,
    },
    Message(MessagePlace),
    Attachment {
        id: MessageId,
        part: usize,
    },
    /// To Trash, or out of it for good.
    Delete {
        messages: Vec<MessageId>,
        for_good: bool,
        back: Option<LocalPath>,
    },
    Refile {
        messages: Vec<MessageId>,
        to: FolderId,
        back: Option<LocalPath>,
    },
    Search {
        place: SearchPlace,
        notice: Option<Notice>,
    },
    Digest(DigestPlace),
    CreateFolder {
        name: String,
    },
    DeleteFolder {
        folder: FolderId,
    },
    Compose {
        reply: Option<MessageId>,
    },
    Send(ComposeForm),
}

impl Action {
    /// The action at a path; none where there is no page.
    pub(crate) fn read(
        method: &Method,
        path: &str,
        fields: &Fields,
    ) -> Result<Option<Self>, Malformed> {
        let action = if *method == Method::POST {
            Self::posted(path, fields)?
        } else {
            Self::shown(path, fields)?
        };
        Ok(action)
    }

    fn shown(path: &str, fields: &Fields) -> Result<Option<Self>, Malformed> {
        let notice = fields.text("done").and_then(Notice::of);
        Ok(Some(match path {
            "/folders" => Self::Folders { notice },
            "/list" => {
                let folder = FolderId(fields.needed("folder")?);
                let (first, order) = (first(fields)?, order(fields)?);
                Self::List { place: ListPlace { folder, first, order }, notice }
            }
            "/message" => {
                let id = MessageId(fields.needed("id")?);
                Self::Message(MessagePlace { id, source: fields.has("source"), back: back(fields) })
            }
            "/attachment" => Self::Attachment {
                id: MessageId(fields.needed("id")?),
                part: fields.needed("part")?,
            },
            "/search" => {
                let (text, folder) = looked_for(fields)?;
                let (first, order) = (first(fields)?, order(fields)?);
                let since_seconds = since(fields)?;
                let place = SearchPlace { text, folder, first, order, since_seconds };
                Self::Search { place, notice }
            }
            "/digest" => {
                let (text, folder) = looked_for(fields)?;
                Self::Digest(DigestPlace { text, folder, days: days(fields)? })
            }
            "/password" => Self::Password,
            "/compose" => Self::Compose { reply: fields.number("reply")?.map(MessageId) },
            _ => return Ok(None),
        }))
    }

    fn posted(path: &str, fields: &Fields) -> Result<Option<Self>, Malformed> {
        let line =
            |name, bytes_max| Ok(fields.line(name, bytes_max)?.unwrap_or_default().to_owned());
        let messages = || {
            let messages = fields.numbers("message")?;
            Ok(messages.into_iter().map(MessageId).collect())
        };
        Ok(Some(match path {
            "/login" => Self::LogIn {
                name: line("name", NAME_BYTES_MAX)?,
                password: line("password", PASSWORD_BYTES_MAX)?,
                next: fields.text("next").and_then(LocalPath::new),
            },
            "/logout" => Self::LogOut,
            "/password" => Self::SetPassword(PasswordForm {
                current: line("current", PASSWORD_BYTES_MAX)?,
                new: line("new", PASSWORD_BYTES_MAX)?,
                again: line("again", PASSWORD_BYTES_MAX)?,
            }),
            "/delete" => {
                let for_good = fields.has("for_good");
                Self::Delete { messages: messages()?, for_good, back: back(fields) }
            }
            "/refile" => {
                let to = FolderId(fields.needed("to")?);
                Self::Refile { messages: messages()?, to, back: back(fields) }
            }
            "/create-folder" => Self::CreateFolder { name: line("name", FOLDER_NAME_BYTES_MAX)? },
            "/delete-folder" => Self::DeleteFolder { folder: FolderId(fields.needed("folder")?) },
            "/compose" => Self::Send(ComposeForm {
                to: line("to", RECIPIENTS_BYTES_MAX)?,
                subject: line("subject", SUBJECT_BYTES_MAX)?,
                text: line("text", TEXT_BYTES_MAX)?,
                reply: fields.number("reply")?.map(MessageId),
            }),
            _ => return Ok(None),
        }))
    }

    pub(crate) fn kind(&self) -> RequestKind {
        match self {
            // What hashes passwords is one stage.
            Self::LogIn { .. } | Self::SetPassword(_) => RequestKind::LogIn,
            Self::LogOut => RequestKind::LogOut,
            Self::Folders { .. } | Self::Password => RequestKind::Folders,
            Self::List { .. } => RequestKind::List,
            Self::Message(_) | Self::Attachment { .. } => RequestKind::Message,
            Self::Delete { .. } => RequestKind::Delete,
            Self::Refile { .. } => RequestKind::Refile,
            Self::Search { .. } => RequestKind::Search,
            Self::Digest(_) => RequestKind::Digest,
            Self::CreateFolder { .. } => RequestKind::CreateFolder,
            Self::DeleteFolder { .. } => RequestKind::DeleteFolder,
            Self::Compose { .. } | Self::Send(_) => RequestKind::Compose,
        }
    }

    /// What is done, as the beginning of a sentence.
    pub(crate) fn title(&self) -> &'static str {
        match self {
            Self::SetPassword(_) => "Changing passwords",
            other => other.kind().title(),
        }
    }

    /// Whether it changes something, and so needs to come from a form of ours.
    pub(crate) fn is_change(&self) -> bool {
        match self {
            Self::LogIn { .. }
            | Self::LogOut
            | Self::SetPassword(_)
            | Self::Delete { .. }
            | Self::Refile { .. }
            | Self::CreateFolder { .. }
            | Self::DeleteFolder { .. }
            | Self::Send(_) => true,
            Self::Password
            | Self::Folders { .. }
            | Self::List { .. }
            | Self::Message(_)
            | Self::Attachment { .. }
            | Self::Search { .. }
            | Self::Digest(_)
            | Self::Compose { .. } => false,
        }
    }
}

/// The text and the folder of a search, or of a digest.
fn looked_for(fields: &Fields) -> Result<(String, Option<FolderId>), Malformed> {
    let text = fields.line("q", SEARCH_BYTES_MAX)?.unwrap_or_default().to_owned();
    Ok((text, fields.number("folder")?.map(FolderId)))
}

/// The page to return to.
fn back(fields: &Fields) -> Option<LocalPath> {
    fields.text("back").and_then(LocalPath::new)
}

fn days(fields: &Fields) -> Result<u32, Malformed> {
    let days = fields.number("days")?.unwrap_or(DAYS);
    if (1..=DAYS_MAX).contains(&days) {
        return Ok(days);
    }
    Err(Malformed(format!("A digest is of 1 to {DAYS_MAX} days, not of {days}.")))
}

fn first(fields: &Fields) -> Result<u64, Malformed> {
    Ok(fields.number("first")?.unwrap_or(0))
}

/// From when on messages are searched, in seconds since 1970, as an earlier page has decided.
fn since(fields: &Fields) -> Result<Option<i64>, Malformed> {
    let since = fields.number("since")?;
    if since.is_none_or(|since| (0..=i64::from(u32::MAX)).contains(&since)) {
        return Ok(since);
    }
    Err(Malformed(format!("The field “since” must be between 0 and {}.", u32::MAX)))
}

fn order(fields: &Fields) -> Result<Order, Malformed> {
    let by = match fields.text("sort") {
        None | Some("" | "date") => SortBy::Date,
        Some("author") => SortBy::Author,
        Some("subject") => SortBy::Subject,
        Some(_) => {
            return Err(Malformed("Lists are sorted by “date”, “author” or “subject”.".into()));
        }
    };
    Ok(Order { by, reversed: fields.has("reversed") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &Method, path: &str, fields: &str) -> Result<Option<Action>, Malformed> {
        Action::read(method, path, &Fields::parse(fields.as_bytes()).unwrap())
    }

    #[test]
    fn what_changes_something_is_never_read_from_a_get() {
        for path in ["/login", "/logout", "/delete", "/refile", "/create-folder", "/delete-folder"]
        {
            let fields = "message=1&to=1&folder=1&name=a&password=b";
            assert!(read(&Method::GET, path, fields).unwrap().is_none(), "{path}");
            let posted = read(&Method::POST, path, fields).unwrap().unwrap();
            assert!(posted.is_change(), "{path}");
        }
        for path in ["/folders", "/list", "/message", "/attachment", "/search", "/digest"] {
            let fields = "folder=1&id=1&part=0&q=a";
            assert!(read(&Method::POST, path, fields).unwrap().is_none(), "{path}");
            assert!(!read(&Method::GET, path, fields).unwrap().unwrap().is_change(), "{path}");
        }
    }

    #[test]
    fn a_digest_is_of_a_week_unless_stated() {
        for (fields, expected) in [
            ("", "/digest?q=&days=7"),
            ("q=a%26&days=", "/digest?q=a%26&days=7"),
            ("folder=3&days=365", "/digest?q=&folder=3&days=365"),
        ] {
            let Ok(Some(Action::Digest(place))) = read(&Method::GET, "/digest", fields) else {
                panic!("a digest: {fields}")
            };
            assert_eq!(place.href(), expected);
        }
        for fields in ["days=0", "days=366", "days=-1", "days=x", "folder=x"] {
            assert!(read(&Method::GET, "/digest", fields).is_err(), "{fields}");
        }
    }

    #[test]
    fn a_search_starts_at_a_time_that_is_bounded() {
        let Ok(Some(Action::Search { place, .. })) =
            read(&Method::GET, "/search", "q=a&first=20&since=1000")
        else {
            panic!("a search")
        };
        assert_eq!(place.since_seconds, Some(1_000));
        for fields in ["q=a&since=-1", "q=a&since=4294967296", "q=a&since=x"] {
            assert!(read(&Method::GET, "/search", fields).is_err(), "{fields}");
        }
    }

    #[test]
    fn a_list_is_sorted_as_its_address_says() {
        let Ok(Some(Action::List { place, .. })) =
            read(&Method::GET, "/list", "folder=7&first=20&sort=author&reversed=1")
        else {
            panic!("a list")
        };
        assert_eq!(place.href(), "/list?folder=7&first=20&sort=author&reversed=1");
        for fields in ["", "folder=x", "folder=1&first=-1", "folder=1&sort=size"] {
            assert!(read(&Method::GET, "/list", fields).is_err(), "{fields}");
        }
    }
}
