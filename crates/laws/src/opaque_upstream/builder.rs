//! The builder of the opaque-upstream law: its constants, validated.

use tamarisk_control::{Classes, Concurrency};

use super::OpaqueUpstream;
use super::knee::{Bounds, Knee};
use crate::PredictGateTrim;
use crate::constants::constants;
use crate::practice::{InvalidLimitRange, LimitRange};

constants! {
    /// Of [`OpaqueUpstream`].
    pub(crate) struct OpaqueUpstreamConstants {
        // Generous for a cold start, and yet, of an upstream with one worker of 20 ms,
        // not more than it can answer within the better part of a second.
        /// in flight while nothing is known
        limit_initial_count: Concurrency = 32.0 in 1.0..=32_768.0,
        // More than any one upstream is likely to hold open, and less than the ports
        // there are to reach it from.
        /// in flight at most
        limit_max_count: Concurrency = 32_768.0 in 1.0..=1e6,
    }
}

/// Sets the constants of [`OpaqueUpstream`]; each has a default.
#[derive(Clone, Debug)]
#[must_use]
pub struct OpaqueUpstreamBuilder<'a> {
    classes: &'a Classes,
    constants: OpaqueUpstreamConstants,
}

impl<'a> OpaqueUpstreamBuilder<'a> {
    pub(super) fn new(classes: &'a Classes) -> Self {
        Self { classes, constants: OpaqueUpstreamConstants::default() }
    }

    pub(crate) fn constants(mut self, constants: OpaqueUpstreamConstants) -> Self {
        self.constants = constants;
        self
    }

    /// How many may be in flight while nothing is known of the upstream. Default 32.
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
    pub fn build(self) -> Result<OpaqueUpstream, InvalidLimitRange> {
        let OpaqueUpstreamConstants { limit_initial_count, limit_max_count } = self.constants;
        LimitRange::new(Concurrency::ONE, limit_initial_count, limit_max_count)?;
        Ok(self.law())
    }

    /// The law with constants that are known to go together.
    pub(super) fn law(self) -> OpaqueUpstream {
        let targets = self.classes.iter().map(|(_, class)| class.target.response_time());
        let bounds = Bounds {
            target: targets.min().unwrap_or_default().as_secs_f64(),
            initial: f64::from(self.constants.limit_initial_count.get()),
            max: f64::from(self.constants.limit_max_count.get()),
        };
        OpaqueUpstream {
            judge: PredictGateTrim::new(self.classes).keep_no_room(),
            knee: Knee::new(bounds),
            limit: self.constants.limit_initial_count.get(),
            turned_away: false,
        }
    }
}
