//! The scores that the law before an upstream should have in each family.

use crate::families::Family;
use crate::table::Summary;

/// The lowest scores that are wanted, to two decimals.
pub(crate) struct Bar {
    pub(crate) mean: f64,
    pub(crate) fifth: f64,
    /// Of a thousand situations.
    pub(crate) worst: f64,
}

impl Bar {
    /// One pool: nearly what the rivals have, which know its workers. Kinds: more, since neither
    /// rival keeps places for short work. Parts: less, since a law has to find those that are
    /// overloaded. Light load: nothing is rejected.
    pub(crate) const fn of(family: Family) -> Self {
        let [mean, fifth, worst] = match family {
            Family::Steady | Family::Steps | Family::Pause => [0.97, 0.9, 0.6],
            Family::Crowd | Family::Cores => [0.97, 0.9, 0.6],
            Family::Slowdown => [0.96, 0.85, 0.6],
            Family::Kinds => [1.2, 0.95, 0.6],
            Family::Mixture => [0.96, 0.85, 0.5],
            Family::Light => [1.0, 1.0, 0.98],
            Family::Parts => [0.92, 0.75, 0.5],
            Family::PartsLight => [1.0, 0.99, 0.97],
        };
        Self { mean, fifth, worst }
    }

    /// The figures of `summary` that are below it, rounded to two decimals.
    pub(crate) fn missed(&self, summary: &Summary) -> Vec<&'static str> {
        let figures = [
            ("mean", summary.mean(), self.mean),
            ("5th percentile", summary.percentile(0.05), self.fifth),
            ("worst", summary.worst(1)[0].0, self.worst),
        ];
        let missed = figures.into_iter().filter(|(_, figure, bar)| *figure < bar - 0.005);
        missed.map(|(name, ..)| name).collect()
    }
}
