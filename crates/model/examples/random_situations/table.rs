//! Scores by family: as a table, and as lines of JSON.

use std::fmt::Write as _;

use crate::families::Family;
use crate::play::{Played, Set};

/// The scores of one law in the situations of a family.
pub(crate) struct Summary {
    /// Each with the number of its situation, the worst first.
    sorted: Vec<(f64, u64)>,
}

impl Summary {
    /// Of the law at the place `law` of the set.
    pub(crate) fn new(played: &[Played], family: Family, law: usize) -> Self {
        let of_family = played.iter().filter(|it| it.family == family);
        let mut sorted: Vec<_> = of_family.map(|it| (it.scores[law], it.number)).collect();
        sorted.sort_by(|one, other| one.0.total_cmp(&other.0));
        assert!(!sorted.is_empty(), "no situation of {}", family.name());
        Self { sorted }
    }

    pub(crate) fn count(&self) -> usize {
        self.sorted.len()
    }

    pub(crate) fn mean(&self) -> f64 {
        self.sorted.iter().map(|(score, _)| score).sum::<f64>() / self.count() as f64
    }

    /// The score that this share of the situations does not exceed.
    pub(crate) fn percentile(&self, share: f64) -> f64 {
        let rank = (share * self.count() as f64).ceil() as usize;
        self.sorted[rank.clamp(1, self.count()) - 1].0
    }

    /// This many at most, the worst first.
    pub(crate) fn worst(&self, count: usize) -> &[(f64, u64)] {
        &self.sorted[..count.min(self.count())]
    }
}

/// Situations whose numbers stand in the table.
const WORST_SHOWN: usize = 3;

/// A line for each family and law.
pub(crate) fn table(set: &Set, played: &[Played]) -> String {
    let mut table = "| family | law | situations | mean | 5th percentile | 1st percentile | worst \
                     | numbers of the worst |\n\
                     | --- | --- | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for family in set.families.iter().copied() {
        for (place, law) in set.laws.iter().enumerate() {
            let summary = Summary::new(played, family, place);
            let worst = summary.worst(WORST_SHOWN);
            let numbers: Vec<_> = worst.iter().map(|(_, number)| number.to_string()).collect();
            let _ = writeln!(
                table,
                "| {} | {} | {} | {:.3} | {:.3} | {:.3} | {:.3} | {} |",
                family.name(),
                law.name,
                summary.count(),
                summary.mean(),
                summary.percentile(0.05),
                summary.percentile(0.01),
                worst[0].0,
                numbers.join(", ")
            );
        }
    }
    table
}

/// A line for each situation and law.
pub(crate) fn json(set: &Set, played: &[Played]) -> String {
    let mut lines = String::new();
    for Played { family, number, scores } in played {
        for (law, score) in set.laws.iter().zip(scores) {
            let (family, law) = (family.name(), law.name);
            let line = serde_json::json!({
                "family": family, "number": number, "law": law, "score": score
            });
            let _ = writeln!(lines, "{line}");
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scores of 0.00 to 0.99, not in their order, and one of another family.
    fn played() -> Vec<Played> {
        let of = |family, number: u64, score| Played { family, number, scores: vec![1.0, score] };
        let hundred =
            (0..100).map(|number| of(Family::Pause, number, (number * 7 % 100) as f64 / 100.0));
        hundred.chain([of(Family::Steady, 0, -1.0)]).collect()
    }

    #[test]
    fn a_summary_is_of_one_family_and_one_law() {
        let summary = Summary::new(&played(), Family::Pause, 1);
        assert_eq!(summary.count(), 100);
        assert!((summary.mean() - 0.495).abs() < 1e-9);
        assert_eq!((summary.percentile(0.05), summary.percentile(0.01)), (0.04, 0.0));
        // 43 · 7 = 301.
        assert_eq!(summary.worst(2), [(0.0, 0), (0.01, 43)]);
        assert_eq!(Summary::new(&played(), Family::Steady, 1).worst(2).len(), 1);
    }
}
