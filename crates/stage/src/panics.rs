//! Panics of the user's code end where they began.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a panic said.
#[derive(Debug)]
pub(crate) struct Panic(String);

/// Runs code of the user's; whatever it may have left torn must not be used again
/// if it panics.
#[inline]
pub(crate) fn contained<R>(user: impl FnOnce() -> R) -> Result<R, Panic> {
    catch_unwind(AssertUnwindSafe(user)).map_err(Panic::new)
}

impl Panic {
    fn new(carried: Box<dyn Any + Send>) -> Self {
        let text = match carried.downcast::<String>().map_err(|other| other.downcast::<&str>()) {
            Ok(text) => *text,
            Err(Ok(text)) => (*text).to_owned(),
            Err(Err(other)) => {
                // It may be anything, and its destructor may panic in its turn.
                std::mem::forget(other);
                "(no message)".to_owned()
            }
        };
        Self(text)
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panicked: {}", self.0)
    }
}

/// What an error says; if that panics, what the panic says.
pub(crate) fn shown(error: &impl fmt::Display) -> String {
    contained(|| error.to_string()).unwrap_or_else(|panic| panic.to_string())
}
