//! The constants of the law, checked once.

use tamarisk_control::{Classes, Concurrency};

use super::WorkLimit;

/// Enough for a cold start before a service that is not overloaded, and few enough that a
/// single worker gets through them within some responses.
const LIMIT_INITIAL: u32 = 16;

/// More than any one upstream is likely to hold open, and less than the ports there are to
/// reach it from.
const LIMIT_MAX: u32 = 32_768;

/// Sets the constants of [`WorkLimit`]; each has a default.
#[derive(Clone, Debug)]
#[must_use]
pub struct WorkLimitBuilder<'a> {
    classes: &'a Classes,
    limit_initial: Concurrency,
    limit_max: Concurrency,
}

/// Why the constants of [`WorkLimit`] do not go together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWorkLimit {
    /// The law would begin beyond its own bound.
    #[error("initial limit ({initial}) exceeds maximum limit ({max})")]
    Limits {
        /// The limit while nothing is known.
        initial: Concurrency,
        /// The greatest limit.
        max: Concurrency,
    },
}

impl<'a> WorkLimitBuilder<'a> {
    pub(super) fn new(classes: &'a Classes) -> Self {
        Self {
            classes,
            limit_initial: Concurrency::new(LIMIT_INITIAL),
            limit_max: Concurrency::new(LIMIT_MAX),
        }
    }

    /// How many may be in flight while nothing is known of the upstream. Default 16.
    pub fn limit_initial(mut self, limit: Concurrency) -> Self {
        self.limit_initial = limit;
        self
    }

    /// How many may be in flight at most, whatever is known. Default 32 768.
    pub fn limit_max(mut self, limit: Concurrency) -> Self {
        self.limit_max = limit;
        self
    }

    /// The law, if the constants go together.
    ///
    /// # Errors
    /// [`InvalidWorkLimit`] says which do not.
    pub fn build(self) -> Result<WorkLimit, InvalidWorkLimit> {
        let (initial, max) = (self.limit_initial, self.limit_max);
        if initial > max {
            return Err(InvalidWorkLimit::Limits { initial, max });
        }
        Ok(self.law())
    }

    /// The law with constants that are known to go together.
    pub(super) fn law(self) -> WorkLimit {
        let [initial, max] = [self.limit_initial, self.limit_max].map(|it| f64::from(it.get()));
        WorkLimit::with_limits(self.classes, initial, max)
    }
}
