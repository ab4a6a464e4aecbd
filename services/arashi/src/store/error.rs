//! Why a call of the store has no answer.

/// Why a call of the store has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The database cannot be reached or does not answer, and nothing has been changed: try again
    /// later.
    #[error("database unavailable: {0}")]
    Unavailable(String),
    /// The connection was lost while the change was being committed: look whether it was made before
    /// you make it again.
    #[error("it is not known whether the change was made: {0}")]
    Unknown(String),
    /// The request was terminated; nothing has been changed.
    #[error("request terminated")]
    Terminated,
    /// There is no such folder or message, or it is another user's.
    #[error("not found")]
    NotFound,
    /// The call asks for what is not allowed; its text is meant for the user.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The database reports an error: a defect, or a database that this program cannot use.
    #[error("database error: {0}")]
    Failed(String),
}

/// What is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// The name of an account has other characters, or too many.
    #[error("user name must be 1 to 64 letters, digits, dots, hyphens or underscores")]
    AccountName,
    /// There is an account of this name.
    #[error("user name is taken")]
    AccountNameTaken,
    /// The password is too short or too long.
    #[error("password must be 8 to 1024 bytes")]
    Password,
    /// The name of a folder is empty, too long, or has control characters.
    #[error("folder name must be 1 to 100 printable characters")]
    FolderName,
    /// The user has a folder of this name.
    #[error("folder name is taken")]
    FolderNameTaken,
    /// The user has as many folders as one may have.
    #[error("a user may have at most 200 folders")]
    TooManyFolders,
    /// Inbox, Sent and Trash stay.
    #[error("this folder cannot be deleted")]
    FixedFolder,
    /// More messages at once than one call takes.
    #[error("at most 1000 messages at once")]
    TooManyMessages,
    /// More messages asked for than a page has.
    #[error("at most 200 messages a page")]
    TooLongPage,
    /// The text to search for is too long.
    #[error("text to search for must be at most 800 bytes")]
    SearchText,
    /// The message is too large.
    #[error("message must be at most 15 MiB")]
    MessageSize,
}
