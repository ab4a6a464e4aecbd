//! Static rate limit: a fixed admission rate, as most services have, and a baseline for the other
//! laws.
//!
//! **Intuition.** The operator knows, or believes, what the service can do, and
//! lets so many events a second pass, whatever the service does with them.
//!
//! **Why it is not enough.** The right number is the capacity, and that changes
//! with every deployment, with the mix of requests and with the neighbours on the
//! machine: a rate too high does not protect, a rate too low rejects at idle.
//!
//! **Mechanism.** A [`TokenBucket`] for all events, or one for each class, as
//! the SEDA stages have under their controller [Welsh03 §3.2]. A rejection says
//! when the next token will be there; clients that come back then come one by one.

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, ClassId, Classes, Decision, PerSecond, Reading, Reason,
    Rejection, Timestamp,
};

use crate::TokenBucket;
use crate::constants::constants;

constants! {
    /// Of [`RateLimit`].
    pub(crate) struct RateLimitConstants {
        /// events a second
        rate_per_second: PerSecond = 1000.0 in 0.001..=1e9,
        /// events at once
        burst_count: u32 = 100.0 in 1.0..=1e6,
    }
}

/// So many a second, and so many at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowance {
    /// Events a second, in the long run.
    pub rate: PerSecond,
    /// Events at once, after a pause.
    pub burst: u32,
}

/// Admits at a fixed rate.
#[derive(Clone, Debug)]
pub struct RateLimit {
    /// One for each class, or a single one for all.
    buckets: Box<[TokenBucket]>,
}

/// Why a [`RateLimit`] cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidRateLimit {
    /// Nothing could ever pass; to close a stage, close it.
    #[error("an allowance of {rate} with bursts of {burst} lets nothing pass")]
    Nothing {
        /// The rate that was given.
        rate: PerSecond,
        /// The burst that was given.
        burst: u32,
    },
    /// As many allowances as classes are needed.
    #[error("{allowances} allowances do not fit {classes} classes")]
    Count {
        /// How many allowances were given.
        allowances: usize,
        /// How many classes there are.
        classes: usize,
    },
}

impl RateLimit {
    /// One allowance that all events share.
    ///
    /// # Errors
    /// [`InvalidRateLimit::Nothing`] if it lets nothing pass.
    pub fn total(allowance: Allowance) -> Result<Self, InvalidRateLimit> {
        Ok(Self { buckets: Box::new([allowance.bucket()?]) })
    }

    /// An allowance for each class, in the order of `classes`.
    ///
    /// # Errors
    /// [`InvalidRateLimit`] if one lets nothing pass, or their number is wrong.
    pub fn per_class(
        classes: &Classes,
        allowances: &[Allowance],
    ) -> Result<Self, InvalidRateLimit> {
        if allowances.len() != classes.len() {
            return Err(InvalidRateLimit::Count {
                allowances: allowances.len(),
                classes: classes.len(),
            });
        }
        let buckets: Result<_, _> = allowances.iter().map(Allowance::bucket).collect();
        Ok(Self { buckets: buckets? })
    }

    fn bucket_of(&self, class: ClassId) -> usize {
        if class.index() < self.buckets.len() { class.index() } else { 0 }
    }
}

impl Allowance {
    fn bucket(&self) -> Result<TokenBucket, InvalidRateLimit> {
        if self.burst == 0 || self.rate == PerSecond::ZERO {
            return Err(InvalidRateLimit::Nothing { rate: self.rate, burst: self.burst });
        }
        Ok(TokenBucket::new(self.rate, f64::from(self.burst)))
    }
}

impl AdmissionLaw for RateLimit {
    fn name(&self) -> &'static str {
        "rate-limit"
    }

    fn on_arrival(&mut self, now: Timestamp, arrival: &Arrival, _: &Backlog<'_>) -> Decision {
        let bucket = self.bucket_of(arrival.class);
        match self.buckets[bucket].take(now) {
            Ok(()) => Decision::Admit,
            Err(wait) => Decision::Reject(Rejection::new(Reason::RateExceeded).retry_after(wait)),
        }
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        let per_class = self.buckets.len() > 1;
        for (index, bucket) in self.buckets.iter().enumerate() {
            let class = per_class.then(|| ClassId::new(index));
            visit(Reading { name: "rate_per_second", class, value: bucket.rate().get() });
            visit(Reading { name: "tokens_count", class, value: bucket.tokens() });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tamarisk_control::{Class, Concurrency, Priority, Target};

    use super::*;

    fn allowance(rate: f64, burst: u32) -> Allowance {
        Allowance { rate: PerSecond::new(rate).unwrap(), burst }
    }

    fn decide(law: &mut RateLimit, class: usize, millis: u64) -> Decision {
        let backlog = Backlog {
            queued: &[0, 0],
            running: &[0, 0],
            queued_total: 0,
            running_total: 0,
            workers: Concurrency::ONE,
        };
        let arrival = Arrival { class: ClassId::new(class), deadline: None, flow: 0, kind: 0 };
        law.on_arrival(Timestamp::from_nanos(millis * 1_000_000), &arrival, &backlog)
    }

    fn two_classes() -> Classes {
        let class = |name: &str| Class {
            name: name.into(),
            target: Target::p90(Duration::from_secs(1)).unwrap(),
            priority: Priority(0),
        };
        Classes::new(vec![class("gold"), class("tin")]).unwrap()
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let mut law = RateLimit::total(allowance(10.0, 3)).unwrap();
        let admitted = |law: &mut RateLimit, at| decide(law, 0, at) == Decision::Admit;
        assert_eq!((0..9).filter(|_| admitted(&mut law, 0)).count(), 3);
        assert_eq!((1..=1000).filter(|&at| admitted(&mut law, at)).count(), 10);
    }

    #[test]
    fn a_rejection_says_when_the_next_token_comes() {
        let mut law = RateLimit::total(allowance(10.0, 1)).unwrap();
        decide(&mut law, 0, 0);
        let Decision::Reject(rejection) = decide(&mut law, 0, 40) else { panic!("admitted") };
        assert_eq!(rejection.retry_after, Some(Duration::from_millis(60)));
        assert_eq!(decide(&mut law, 0, 101), Decision::Admit);
    }

    #[test]
    fn classes_do_not_use_each_others_allowance() {
        let allowances = [allowance(1.0, 1), allowance(1.0, 1)];
        let mut law = RateLimit::per_class(&two_classes(), &allowances).unwrap();
        assert_eq!(decide(&mut law, 0, 0), Decision::Admit);
        assert!(matches!(decide(&mut law, 0, 0), Decision::Reject(_)));
        assert_eq!(decide(&mut law, 1, 0), Decision::Admit);
    }

    #[test]
    fn an_allowance_of_nothing_is_rejected() {
        assert!(RateLimit::total(allowance(0.0, 1)).is_err());
        assert!(RateLimit::total(allowance(1.0, 0)).is_err());
    }

    #[test]
    fn too_few_allowances_are_rejected() {
        let error = RateLimit::per_class(&two_classes(), &[allowance(1.0, 1)]).unwrap_err();
        assert_eq!(error.to_string(), "1 allowances do not fit 2 classes");
    }
}
