//! What all runs of a law in a situation came to, in one period: from the runs themselves, or as the
//! page has it.

use std::fmt;

use tamarisk_model::sim::Estimate;

use crate::cell::Numbers;
use crate::timeline::Period;

/// How many runs there were, and what they came to in each column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Known {
    pub(crate) seeds: usize,
    /// In the order of [`Column::ALL`].
    spreads: Vec<Spread>,
}

/// Of each period.
pub(crate) type OfPeriods = [Known; Period::ALL.len()];

/// A number of each run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    Goodput,
    Over,
    Needless,
    More,
}

impl Column {
    pub(crate) const ALL: [Self; 4] = [Self::Goodput, Self::Over, Self::Needless, Self::More];

    pub(crate) fn of(self, numbers: &Numbers) -> f64 {
        match self {
            Self::Goodput => numbers.goodput,
            Self::Over => numbers.over,
            Self::Needless => numbers.needless,
            Self::More => numbers.more,
        }
    }

    fn worst(self, values: &[f64]) -> f64 {
        let values = values.iter().copied();
        match self {
            Self::Goodput | Self::More => values.fold(f64::INFINITY, f64::min),
            Self::Over | Self::Needless => values.fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

impl Known {
    /// # Panics
    /// If there are fewer than two runs, which have no interval.
    pub(crate) fn of(runs: &[Numbers]) -> Self {
        let spread = |column: Column| {
            let values: Vec<f64> = runs.iter().map(|run| column.of(run)).collect();
            let estimate = Estimate::of(&values, 0.95).expect("there are several runs");
            let worst = column.worst(&values);
            Spread { mean: estimate.mean, half_width: estimate.half_width, worst }
        };
        Self { seeds: runs.len(), spreads: Column::ALL.map(spread).into() }
    }

    /// As the cells of a page have it, which may lack the last columns.
    pub(crate) fn read(seeds: &str, cells: &[&str]) -> Option<Self> {
        let spreads = cells.iter().map(|cell| Spread::read(cell)).collect::<Option<_>>()?;
        Some(Self { seeds: seeds.parse().ok()?, spreads })
    }

    pub(crate) fn spread(&self, column: Column) -> Spread {
        self.spreads[column as usize]
    }

    pub(crate) fn mean(&self, column: Column) -> f64 {
        self.spread(column).mean
    }
}

/// The mean, half of its 95 % interval, and the worst run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    mean: f64,
    half_width: f64,
    worst: f64,
}

impl Spread {
    fn read(cell: &str) -> Option<Self> {
        if cell == "0" {
            return Some(Self { mean: 0.0, half_width: 0.0, worst: 0.0 });
        }
        let (mean, rest) = cell.split_once(" ± ")?;
        let (half_width, worst) = rest.strip_suffix(')')?.split_once(" (")?;
        let number = |text: &str| text.parse().ok();
        Some(Self { mean: number(mean)?, half_width: number(half_width)?, worst: number(worst)? })
    }
}

/// As a cell of the page: a bare 0 if all are.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mean, half_width, worst } = self;
        if *mean == 0.0 && *worst == 0.0 {
            return f.write_str("0");
        }
        write!(f, "{mean:.3} ± {half_width:.3} ({worst:.3})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_mean_interval_and_worst_and_is_read_as_it_is_shown() {
        // s = 1, n = 3, t(0.975; 2) = 4.3027: the half width is 4.3027 ÷ √3.
        let runs = [1.0, 2.0, 3.0].map(|value| Numbers {
            goodput: value,
            over: value,
            needless: 0.0,
            more: 0.0,
        });
        let known = Known::of(&runs);
        let cells = Column::ALL.map(|column| known.spread(column).to_string());
        assert_eq!(cells, ["2.000 ± 2.484 (1.000)", "2.000 ± 2.484 (3.000)", "0", "0"]);
        let read = Known::read("3", &cells.each_ref().map(String::as_str)).unwrap();
        assert_eq!(read.seeds, 3);
        assert_eq!(Column::ALL.map(|column| read.spread(column).to_string()), cells);
        for unknown in ["–", "", "2.000", "2.000 ± 2.484", "x ± 0.1 (0.2)"] {
            assert_eq!(Known::read("3", &[unknown]), None, "{unknown}");
        }
    }
}
