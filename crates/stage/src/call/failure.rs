//! What a handler failed of, for its caller.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// The error that a handler returned: its text, and the error itself, which
/// [`downcast_ref`](Self::downcast_ref) shows. Clones share it.
///
/// Two are equal if they read the same.
#[derive(Clone)]
pub struct Failure {
    text: Arc<str>,
    /// None if only its text is known.
    error: Option<Arc<dyn Error + Send + Sync>>,
    is_expected: bool,
}

impl Failure {
    /// `error`, which reads as `text`.
    pub(super) fn new(text: &str, error: Arc<dyn Error + Send + Sync>, is_expected: bool) -> Self {
        Self { text: text.into(), error: Some(error), is_expected }
    }

    /// The error as the handler returned it, if it is an `E`.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        let error: &(dyn Error + 'static) = &**self.error.as_ref()?;
        error.downcast_ref()
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether its stage [expects](crate::StageBuilder::expects) such an error as an answer.
    pub(super) fn is_expected(&self) -> bool {
        self.is_expected
    }

    /// The same without the error itself.
    pub(super) fn as_text(&self) -> Self {
        Self { error: None, ..self.clone() }
    }
}

impl<T: Into<String>> From<T> for Failure {
    fn from(text: T) -> Self {
        Self { text: text.into().into(), error: None, is_expected: false }
    }
}

impl PartialEq for Failure {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}
