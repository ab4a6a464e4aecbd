//! The constants of the law, checked once.

use tamarisk_control::{Classes, Concurrency};

use super::OpaqueUpstream;
use super::knee::{Bounds, Knee};
use crate::PredictGateTrim;

/// Generous for a cold start, and yet, of an upstream with one worker of 20 ms,
/// not more than it can answer within the better part of a second.
const LIMIT_INITIAL: u32 = 32;

/// More than any one upstream is likely to hold open, and less than the ports
/// there are to reach it from.
const LIMIT_MAX: u32 = 32_768;

/// Sets the constants of [`OpaqueUpstream`]; each has a default.
#[derive(Clone, Debug)]
#[must_use]
pub struct OpaqueUpstreamBuilder<'a> {
    classes: &'a Classes,
    limit_initial: Concurrency,
    limit_max: Concurrency,
}

/// Why the constants of [`OpaqueUpstream`] do not go together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOpaqueUpstream {
    /// The law would begin beyond its own bound.
    #[error("an initial limit of {initial} in flight exceeds the greatest, {max}")]
    Limits {
        /// The limit while nothing is known.
        initial: Concurrency,
        /// The greatest limit.
        max: Concurrency,
    },
}

impl<'a> OpaqueUpstreamBuilder<'a> {
    pub(super) fn new(classes: &'a Classes) -> Self {
        Self {
            classes,
            limit_initial: Concurrency::new(LIMIT_INITIAL),
            limit_max: Concurrency::new(LIMIT_MAX),
        }
    }

    /// How many may be in flight while nothing is known of the upstream. Default 32.
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
    /// [`InvalidOpaqueUpstream`] says which do not.
    pub fn build(self) -> Result<OpaqueUpstream, InvalidOpaqueUpstream> {
        if self.limit_initial > self.limit_max {
            return Err(InvalidOpaqueUpstream::Limits {
                initial: self.limit_initial,
                max: self.limit_max,
            });
        }
        Ok(self.law())
    }

    /// The law with constants that are known to go together.
    pub(super) fn law(self) -> OpaqueUpstream {
        let targets = self.classes.iter().map(|(_, class)| class.target.response_time());
        let bounds = Bounds {
            target: targets.min().unwrap_or_default().as_secs_f64(),
            initial: f64::from(self.limit_initial.get()),
            max: f64::from(self.limit_max.get()),
        };
        OpaqueUpstream {
            judge: PredictGateTrim::new(self.classes),
            knee: Knee::new(bounds),
            limit: self.limit_initial.get(),
            turned_away: false,
        }
    }
}
