//! Kinds of requests, each of which is a stage.

use std::time::Duration;

/// A kind of request. Each is a stage of its own, so that what is cheap is answered while what
/// is expensive is rejected [Welsh02 §6.3].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// To log in: hashing the password is work for a processor.
    LogIn,
    /// To log out.
    LogOut,
    /// To list the folders.
    Folders,
    /// To list messages of a folder.
    List,
    /// To show a message, or to download an attachment of it.
    Message,
    /// To delete messages.
    Delete,
    /// To move messages to another folder.
    Refile,
    /// To search the headers of messages.
    Search,
    /// To digest messages.
    Digest,
    /// To create a folder.
    CreateFolder,
    /// To delete a folder.
    DeleteFolder,
    /// To write a message, and to send it.
    Compose,
}

impl RequestKind {
    /// All kinds.
    pub const ALL: [Self; 12] = [
        Self::LogIn,
        Self::LogOut,
        Self::Folders,
        Self::List,
        Self::Message,
        Self::Delete,
        Self::Refile,
        Self::Search,
        Self::Digest,
        Self::CreateFolder,
        Self::DeleteFolder,
        Self::Compose,
    ];

    /// The name of its stage.
    pub fn name(self) -> &'static str {
        match self {
            Self::LogIn => "log-in",
            Self::LogOut => "log-out",
            Self::Folders => "folders",
            Self::List => "list",
            Self::Message => "message",
            Self::Delete => "delete",
            Self::Refile => "refile",
            Self::Search => "search",
            Self::Digest => "digest",
            Self::CreateFolder => "create-folder",
            Self::DeleteFolder => "delete-folder",
            Self::Compose => "compose",
        }
    }

    /// The kind of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// As a page about it names it, at the beginning of a sentence.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::LogIn => "Logging in",
            Self::LogOut => "Logging out",
            Self::Folders => "The list of folders",
            Self::List => "The list of messages",
            Self::Message => "The message",
            Self::Delete => "Deleting",
            Self::Refile => "Moving",
            Self::Search => "The search",
            Self::Digest => "The digest",
            Self::CreateFolder => "Creating a folder",
            Self::DeleteFolder => "Deleting a folder",
            Self::Compose => "Writing",
        }
    }

    /// The target of its stage, unless another one is stated: what people take for immediate
    /// (a quarter of a second) for what they do all the time, a second for what is known to be
    /// work.
    pub(crate) fn default_target(self) -> Duration {
        use RequestKind::{Compose, DeleteFolder, Digest, LogIn, Search};
        match self {
            LogIn | Search | Digest | DeleteFolder | Compose => Duration::from_secs(1),
            _ => Duration::from_millis(250),
        }
    }
}
