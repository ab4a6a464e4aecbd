//! Whether request bodies are buffered.

/// Whether a request's body is read before the request is let in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestBuffering {
    /// It is: a short one into memory, a long one into a temporary file.
    #[default]
    MemoryAndFile,
    /// It is passed on as it comes.
    Off,
}
