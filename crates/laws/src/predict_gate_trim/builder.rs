//! The builder of the default law: its constants, validated.

use std::time::Duration;

use tamarisk_control::{Classes, PerSecond, Ratio};

use super::PredictGateTrim;
use super::level::Levels;
use super::reserve::Reserve;
use super::service_model::ServiceModel;
use super::stall::Stall;
use super::useful_workers::UsefulWorkers;
use crate::constants::constants;
use crate::promise::Promise;
use crate::sharing::clients::Clients;

constants! {
    /// Of [`PredictGateTrim`].
    pub(crate) struct PredictGateTrimConstants {
        // ε. Far below what a user can tell, and above what a tick of the clock or one short
        // service makes of an almost idle stage.
        /// a wait that counts as none, of the target
        negligible_wait_ratio: Ratio = 0.02 in 0.0..=0.5,
        // σ. Deviation: CoDel's 5 ms of 100 ms are a twentieth [RFC8289 §4]. A stage at 80 %
        // load with heavy-tailed work has queues of a tenth of the target for longer than an
        // interval, without any harm; a fifth is rare enough.
        /// a wait that counts as a standing queue
        standing_wait_ratio: Ratio = 0.2 in 0.02..=1.0,
        // κ. Five events are few enough to be believed soon and enough to outweigh one odd
        // sample.
        /// samples that a parent's estimate is worth
        shrinkage_count: u32 = 5.0 in 1.0..=100.0,
        // An event in two seconds is no load for any stage that has a target of seconds, and
        // makes the 30 samples of a known class in a minute.
        /// of classes that are unknown or too slow
        reserve_rate_per_second: PerSecond = 0.5 in 0.0..=100.0,
    }
}

/// Sets the constants of [`PredictGateTrim`]; each has a default.
#[derive(Clone, Debug)]
#[must_use]
pub struct PredictGateTrimBuilder<'a> {
    classes: &'a Classes,
    constants: PredictGateTrimConstants,
    prior_service: Option<Duration>,
}

/// Why the constants of [`PredictGateTrim`] do not go together.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidPredictGateTrim {
    /// Waits that are neglected would also count as a standing queue.
    #[error("a negligible wait of {negligible} is not below a standing wait of {standing}")]
    Waits {
        /// The share of the target that counts as no wait.
        negligible: Ratio,
        /// The share of the target that counts as a standing queue.
        standing: Ratio,
    },
    /// With κ = 0 a class without samples has no estimate at all.
    #[error("a shrinkage of zero samples leaves a new class without an estimate")]
    Shrinkage,
    /// Longer than any target can be.
    #[error("a prior service time of {0:?} is longer than 24h")]
    PriorService(Duration),
}

impl<'a> PredictGateTrimBuilder<'a> {
    pub(super) fn new(classes: &'a Classes) -> Self {
        Self { classes, constants: PredictGateTrimConstants::default(), prior_service: None }
    }

    pub(crate) fn constants(mut self, constants: PredictGateTrimConstants) -> Self {
        self.constants = constants;
        self
    }

    /// ε: a wait of at most this share of the target counts as none. Default 0.02.
    pub fn negligible_wait(mut self, share: Ratio) -> Self {
        self.constants.negligible_wait_ratio = share;
        self
    }

    /// σ: a wait that stays above this share of the target is a standing queue.
    /// Default 0.2.
    pub fn standing_wait(mut self, share: Ratio) -> Self {
        self.constants.standing_wait_ratio = share;
        self
    }

    /// κ: how many samples of its own it takes until a class is judged half by
    /// itself and half by the stage. Default 5.
    pub fn shrinkage(mut self, samples: u32) -> Self {
        self.constants.shrinkage_count = samples;
        self
    }

    /// The service time assumed before the first sample. Default: a thousandth of
    /// the least target, so that a cold stage lets in rather too many than too few;
    /// those that prove late are dropped at the head of the queue.
    pub fn prior_service(mut self, service: Duration) -> Self {
        self.prior_service = Some(service);
        self
    }

    /// How many events of a class that is unknown or cannot meet its target are
    /// let in all the same. Default 0.5 a second.
    pub fn reserve_rate(mut self, rate: PerSecond) -> Self {
        self.constants.reserve_rate_per_second = rate;
        self
    }

    /// The law, if the constants go together.
    ///
    /// # Errors
    /// [`InvalidPredictGateTrim`] says which do not.
    pub fn build(self) -> Result<PredictGateTrim, InvalidPredictGateTrim> {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        if self.constants.negligible_wait_ratio >= self.constants.standing_wait_ratio {
            return Err(InvalidPredictGateTrim::Waits {
                negligible: self.constants.negligible_wait_ratio,
                standing: self.constants.standing_wait_ratio,
            });
        }
        if self.constants.shrinkage_count == 0 {
            return Err(InvalidPredictGateTrim::Shrinkage);
        }
        match self.prior_service {
            Some(prior) if prior > DAY => Err(InvalidPredictGateTrim::PriorService(prior)),
            _ => Ok(self.law()),
        }
    }

    /// The law with constants that are known to go together.
    pub(super) fn law(self) -> PredictGateTrim {
        let prior = self.prior_service.unwrap_or_else(|| self.classes.strictest() / 1000);
        PredictGateTrim {
            promises: self.classes.targets().map(Promise::of).collect(),
            service: ServiceModel::new(
                self.classes,
                prior,
                f64::from(self.constants.shrinkage_count),
            ),
            levels: Levels::new(self.classes, self.constants.standing_wait_ratio.get()),
            reserve: Reserve::new(self.classes, self.constants.reserve_rate_per_second),
            clients: Clients::new(self.classes.longest(), self.classes.strictest()),
            negligible_wait: self.constants.negligible_wait_ratio.get(),
            service_scale: 1.0,
            useful: UsefulWorkers::new(self.classes.len(), self.classes.strictest().as_secs_f64()),
            stall: Stall::new(self.classes.len()),
        }
    }
}
