//! The builder of the work limit: its constants, validated.

use tamarisk_control::{Classes, Concurrency};

use super::WorkLimit;
use crate::constants::constants;
use crate::limit_range::{InvalidLimitRange, LimitRange};

constants! {
    /// Of [`WorkLimit`].
    pub(crate) struct WorkLimitConstants {
        // Enough for a cold start before a service that is not overloaded, and few enough
        // that a single worker gets through them within some responses.
        /// in flight while nothing is known
        limit_initial_count: Concurrency = 16.0 in 1.0..=32_768.0,
        // More than any one upstream is likely to hold open, and less than the ports
        // there are to reach it from.
        /// in flight at most
        limit_max_count: Concurrency = 32_768.0 in 1.0..=1e6,
    }
}

/// Sets the constants of [`WorkLimit`]; each has a default.
#[derive(Clone, Debug)]
#[must_use]
pub struct WorkLimitBuilder<'a> {
    classes: &'a Classes,
    constants: WorkLimitConstants,
}

impl<'a> WorkLimitBuilder<'a> {
    pub(super) fn new(classes: &'a Classes) -> Self {
        Self { classes, constants: WorkLimitConstants::default() }
    }

    pub(crate) fn constants(mut self, constants: WorkLimitConstants) -> Self {
        self.constants = constants;
        self
    }

    /// How many may be in flight while nothing is known of the upstream. Default 16.
    pub fn limit_initial(mut self, limit: Concurrency) -> Self {
        self.constants.limit_initial_count = limit;
        self
    }

    /// How many may be in flight at most, whatever is known. Default 32 768.
    pub fn limit_max(mut self, limit: Concurrency) -> Self {
        self.constants.limit_max_count = limit;
        self
    }

    /// The law, if the constants go together.
    ///
    /// # Errors
    /// [`InvalidLimitRange`] if it would begin beyond its greatest limit.
    pub fn build(self) -> Result<WorkLimit, InvalidLimitRange> {
        let WorkLimitConstants { limit_initial_count, limit_max_count } = self.constants;
        LimitRange::new(Concurrency::ONE, limit_initial_count, limit_max_count)?;
        Ok(self.law())
    }

    /// The law with constants that are known to go together.
    pub(super) fn law(self) -> WorkLimit {
        let [initial, max] = [self.constants.limit_initial_count, self.constants.limit_max_count]
            .map(|it| f64::from(it.get()));
        WorkLimit::with_limits(self.classes, initial, max)
    }
}
