//! The constants of the law, checked once.

use std::time::Duration;

use tamarisk_control::{Classes, PerSecond, Ratio};

use super::PredictGateTrim;
use super::clients::Clients;
use super::level::Levels;
use super::reserve::Reserve;
use super::service_model::ServiceModel;
use super::stall::Stall;
use super::useful_workers::UsefulWorkers;
use crate::promise::Promise;

/// ε. Far below what a user can tell, and above what a tick of the clock or one
/// short service makes of an almost idle stage.
const NEGLIGIBLE_WAIT: Ratio = Ratio::saturating(0.02);

/// σ. Deviation: CoDel's 5 ms of 100 ms are a twentieth [RFC8289 §4]. A
/// stage at 80 % load with heavy-tailed work has queues of a tenth of the target
/// for longer than an interval, without any harm; a fifth is rare enough.
const STANDING_WAIT: Ratio = Ratio::saturating(0.2);

/// κ. Five events are few enough to be believed soon and enough to outweigh one
/// odd sample.
const SHRINKAGE: u32 = 5;

/// An event in two seconds is no load for any stage that has a target of seconds,
/// and makes the 30 samples of a known class in a minute.
const RESERVE_RATE: PerSecond = PerSecond::from_millis(500);

/// Sets the constants of [`PredictGateTrim`]; each has a default.
#[derive(Clone, Debug)]
#[must_use]
pub struct PredictGateTrimBuilder<'a> {
    classes: &'a Classes,
    negligible_wait: Ratio,
    standing_wait: Ratio,
    shrinkage: u32,
    prior_service: Option<Duration>,
    reserve_rate: PerSecond,
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
        Self {
            classes,
            negligible_wait: NEGLIGIBLE_WAIT,
            standing_wait: STANDING_WAIT,
            shrinkage: SHRINKAGE,
            prior_service: None,
            reserve_rate: RESERVE_RATE,
        }
    }

    /// ε: a wait of at most this share of the target counts as none. Default 0.02.
    pub fn negligible_wait(mut self, share: Ratio) -> Self {
        self.negligible_wait = share;
        self
    }

    /// σ: a wait that stays above this share of the target is a standing queue.
    /// Default 0.2.
    pub fn standing_wait(mut self, share: Ratio) -> Self {
        self.standing_wait = share;
        self
    }

    /// κ: how many samples of its own it takes until a class is judged half by
    /// itself and half by the stage. Default 5.
    pub fn shrinkage(mut self, samples: u32) -> Self {
        self.shrinkage = samples;
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
        self.reserve_rate = rate;
        self
    }

    /// The law, if the constants go together.
    ///
    /// # Errors
    /// [`InvalidPredictGateTrim`] says which do not.
    pub fn build(self) -> Result<PredictGateTrim, InvalidPredictGateTrim> {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        if self.negligible_wait >= self.standing_wait {
            return Err(InvalidPredictGateTrim::Waits {
                negligible: self.negligible_wait,
                standing: self.standing_wait,
            });
        }
        if self.shrinkage == 0 {
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
            service: ServiceModel::new(self.classes, prior, f64::from(self.shrinkage)),
            levels: Levels::new(self.classes, self.standing_wait.get()),
            reserve: Reserve::new(self.classes, self.reserve_rate),
            clients: Clients::new(self.classes.longest()),
            negligible_wait: self.negligible_wait.get(),
            service_scale: 1.0,
            useful: UsefulWorkers::new(self.classes.len(), self.classes.strictest().as_secs_f64()),
            stall: Stall::new(self.classes.len()),
        }
    }
}
