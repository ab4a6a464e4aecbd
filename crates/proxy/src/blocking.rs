//! Work that blocks, on the runtime's threads for it.

use std::fmt;
use std::io;

use tamarisk_observe::panics;
use tokio::task::{JoinHandle, spawn_blocking};

/// The system gives no thread: the process, or the container, has as many as it may.
#[derive(Debug)]
struct NoThread;

impl fmt::Display for NoThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the system gives no thread")
    }
}

impl std::error::Error for NoThread {}

/// Has a thread do `work`.
///
/// # Errors
/// One for which [`is_no_thread`] holds: there is no thread, and none can be made. tokio, which would
/// panic then, does the work as soon as there is one; its result is not awaited.
pub(crate) fn spawn<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    panics::caught(|| spawn_blocking(work)).ok_or_else(|| io::Error::other(NoThread))
}

/// Whether an error is that there is no thread.
pub(crate) fn is_no_thread(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|error| error.is::<NoThread>())
}
