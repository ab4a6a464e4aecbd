//! The parts of `/status` that a scenario is made from.

use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub(super) struct Status {
    pub(super) stages: Vec<Stage>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Stage {
    pub(super) name: String,
    /// Where its handler runs: `gate` if elsewhere.
    pub(super) runs: String,
    pub(super) workers: u32,
    pub(super) queue_capacity: u64,
    pub(super) profile: Profile,
    pub(super) classes: Vec<Class>,
    pub(super) law: ReportedLaw,
}

#[derive(Debug, Deserialize)]
pub(super) struct Profile {
    pub(super) window_seconds: f64,
    pub(super) crowded_ratio: f64,
    pub(super) in_progress_count: Option<f64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Class {
    pub(super) name: String,
    pub(super) target: Target,
    pub(super) arrivals_per_second: f64,
    pub(super) profile: Option<ServiceProfile>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Target {
    pub(super) percentile_ratio: f64,
    pub(super) seconds: f64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ServiceProfile {
    pub(super) mean_seconds: f64,
    pub(super) variation_squared: f64,
    pub(super) buckets: Vec<Bucket>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Bucket {
    pub(super) count: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct ReportedLaw {
    pub(super) name: String,
}

impl Stage {
    /// Whether anything is known of its service.
    pub(super) fn has_served(&self) -> bool {
        let profiles = self.classes.iter().filter_map(|class| class.profile.as_ref());
        ServiceProfile::together(profiles).is_some()
    }
}

impl ServiceProfile {
    pub(super) fn count(&self) -> f64 {
        self.buckets.iter().map(|bucket| bucket.count).sum::<u64>() as f64
    }

    /// The times of several classes together.
    pub(super) fn together<'a>(all: impl Iterator<Item = &'a Self> + Clone) -> Option<Self> {
        let count: f64 = all.clone().map(Self::count).sum();
        if count == 0.0 {
            return None;
        }
        let moment = |of: fn(&Self) -> f64| {
            all.clone().map(|service| of(service) * service.count()).sum::<f64>() / count
        };
        let mean = moment(|service| service.mean_seconds);
        let square = moment(|s| s.mean_seconds.powi(2) * (1.0 + s.variation_squared));
        Some(Self {
            mean_seconds: mean,
            variation_squared: square / (mean * mean) - 1.0,
            buckets: all.flat_map(|service| service.buckets.clone()).collect(),
        })
    }
}
