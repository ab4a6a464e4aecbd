//! Write progress of an HTTP/2 stream.
//!
//! It gives each stream a window, and need give none to a single one of them while it takes the
//! others; hyper then holds that answer for as long as the connection lasts. So each stream is
//! watched while it runs, and ended when its client takes nothing of it for too long.

use std::cell::Cell;

tokio::task_local! {
    /// Of the stream that is being polled: hyper lets nothing else through to the body within.
    pub(crate) static WRITE_PROGRESS: Cell<WriteProgress>;
}

/// What has become of an answer's bytes.
#[derive(Clone, Copy)]
pub(crate) struct WriteProgress {
    /// Taken since the stream was last looked at.
    pub(crate) taken: usize,
    /// There for the client.
    pub(crate) untaken: usize,
}

impl WriteProgress {
    /// The client has taken all that was there, and now there are so many bytes.
    pub(crate) fn next(bytes: usize) {
        // Only hyper polls a body, on a stream that we run.
        let _ = WRITE_PROGRESS.try_with(|progress| {
            let Self { taken, untaken } = progress.get();
            progress.set(Self { taken: taken + untaken, untaken: bytes });
        });
    }
}
