//! Compares a stage's response times with its target.

use std::time::Duration;

use tamarisk_control::Ratio;
use tamarisk_stage::{ClassObservation, StageObservation};

/// The target of one class, and the response time that it is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Promise {
    pub(crate) percentile: Ratio,
    pub(crate) target: Duration,
    /// The response time at that percentile in the last seconds, if there were any.
    pub(crate) seen: Option<Duration>,
}

impl Promise {
    /// That of the class which is the farthest beyond its target, or the closest to it.
    pub(crate) fn of(stage: &StageObservation) -> Option<Self> {
        let promises = stage.classes.iter().map(Self::of_class);
        promises.max_by(|one, other| one.strain().total_cmp(&other.strain()))
    }

    fn of_class(class: &ClassObservation) -> Self {
        let ClassObservation { percentile, target, response_at_percentile, .. } = *class;
        Self { percentile, target, seen: response_at_percentile }
    }

    /// The response time as a multiple of its target.
    pub(crate) fn strain(&self) -> f64 {
        let seen = self.seen.unwrap_or_default().as_secs_f64();
        seen / self.target.as_secs_f64().max(1e-9)
    }
}

#[cfg(test)]
mod tests {
    use tamarisk_stage::StageBuilder;

    use super::*;

    #[tokio::test]
    async fn of_several_classes_the_worst_is_shown() {
        let mut stage = StageBuilder::new("app").gate().unwrap().observe();
        let class = |target: u64, seen: Option<u64>| {
            let mut class = stage.classes[0].clone();
            class.target = Duration::from_millis(target);
            class.response_at_percentile = seen.map(Duration::from_millis);
            class
        };
        let classes = [class(100, Some(90)), class(1000, Some(950)), class(10, None)];
        stage.classes = classes.to_vec();
        let promise = Promise::of(&stage).unwrap();
        assert_eq!(promise.target, Duration::from_millis(1000));
        assert_eq!(promise.strain(), 0.95);
    }
}
