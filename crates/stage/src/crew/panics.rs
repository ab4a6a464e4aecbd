//! Panics of the user's code end where they began.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a panic carries.
pub(crate) type Panic = Box<dyn Any + Send>;

/// Runs code of the user's; whatever it may have left torn must not be used again
/// if it panics.
pub(crate) fn contained<R>(user: impl FnOnce() -> R) -> Result<R, Panic> {
    catch_unwind(AssertUnwindSafe(user))
}

/// What is said of an event that panicked.
pub(super) fn message(panic: &Panic) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", text.unwrap_or("(no message)"))
}
