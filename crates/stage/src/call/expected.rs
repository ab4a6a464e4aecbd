//! Which errors of its handler a stage expects as answers, and how its callers and books share them.

use std::error::Error;
use std::sync::Arc;

use super::error::{BoxError, CallError};
use super::failure::Failure;
use crate::panics::{contained, shown};
use crate::termination::Terminated;

/// Which errors of its handler a stage expects as answers.
#[derive(Clone, Default)]
pub(crate) struct ExpectedErrors(Option<Arc<IsExpected>>);

type IsExpected = dyn Fn(&BoxError) -> bool + Send + Sync;

impl ExpectedErrors {
    /// Those of type `E` too for which this holds.
    pub(crate) fn and<E: Error + 'static>(
        self,
        is_expected: impl Fn(&E) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(move |error| {
            error.downcast_ref().is_some_and(&is_expected) || self.contain(error)
        })))
    }

    pub(crate) fn contain(&self, error: &BoxError) -> bool {
        self.0.as_ref().is_some_and(|is_expected| is_expected(error))
    }
}

/// Makes an error that a handler returned one that its callers and the books can share.
/// `is_expected` says which errors are answers.
pub(crate) fn share(error: BoxError, is_expected: impl FnOnce(&BoxError) -> bool) -> BoxError {
    if error.is::<CallError>() || error.is::<Terminated>() {
        return error;
    }
    let text = shown(&error);
    let is_expected = contained(|| is_expected(&error)).unwrap_or(false);
    CallError::Failed(Failure::new(&text, error.into(), is_expected)).into()
}
