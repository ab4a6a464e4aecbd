//! Panics of this process, as lines of the log and as a count.
//!
//! A panic ends the connection or the event that it came of, and nothing else: without this, nothing
//! would be seen of it but a line of the standard library's.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

static COUNT: AtomicU64 = AtomicU64::new(0);
static LATEST: LazyLock<Mutex<Option<Instant>>> = LazyLock::new(Mutex::default);

thread_local! {
    static IS_EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// From now on panics are counted and logged, and not printed by the standard library.
pub fn log() {
    set_hook(Box::new(|panic| {
        // When the thread ends, nothing is expected any more.
        if !IS_EXPECTED.try_with(Cell::get).unwrap_or_default() {
            count_and_log(panic);
        }
    }));
}

/// How many there were since [`log`].
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// How long ago the last one was.
pub(crate) fn since_latest() -> Option<Duration> {
    LATEST.lock().unwrap_or_else(PoisonError::into_inner).map(|latest| latest.elapsed())
}

/// Calls what says by a panic that it has failed; `None` if it has.
pub fn caught<T>(call: impl FnOnce() -> T) -> Option<T> {
    let before = IS_EXPECTED.replace(true);
    let called = catch_unwind(AssertUnwindSafe(call));
    IS_EXPECTED.set(before);
    called.ok()
}

fn count_and_log(panic: &PanicHookInfo<'_>) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    *LATEST.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    let thread = thread::current();
    let thread = thread.name().unwrap_or("unnamed");
    let message = panic.payload_as_str().unwrap_or("(no message)");
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let backtrace = Backtrace::capture();
    let backtrace = match backtrace.status() {
        BacktraceStatus::Captured => format!("\n{backtrace}"),
        _ => String::new(),
    };
    tracing::error!(
        "Thread {thread:?} panicked at {place}: {message}. The request or connection that it worked on has \
         ended.{backtrace}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expected_panic_is_a_failure_and_no_other_counts() {
        log();
        assert_eq!(caught(|| 1), Some(1));
        assert_eq!(caught(|| -> u32 { panic!("as it was asked to") }), None);
        assert_eq!((count(), since_latest()), (0, None));
        assert!(thread::spawn(|| panic!("as it was asked to")).join().is_err());
        assert_eq!(count(), 1);
        assert!(since_latest().is_some());
        // Other tests are to say why they fail.
        drop(std::panic::take_hook());
    }
}
