//! The objective of tuning: what is maximised.

use std::fmt;
use std::str::FromStr;

use crate::sim::Report;

/// Something that a run is judged by; never negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Measure {
    /// Requests of all classes answered within their targets, a second.
    Goodput,
    /// The share of seconds in which the target's percentile was broken, on average over
    /// the classes.
    OverTarget,
    /// The share of requests that a stage rejected although a place was free.
    FalseRejects,
}

impl Measure {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Goodput, Self::OverTarget, Self::FalseRejects];

    /// As the command line has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Goodput => "goodput",
            Self::OverTarget => "over-target",
            Self::FalseRejects => "false-rejects",
        }
    }

    /// What it is of a run.
    pub fn of(self, report: &Report) -> f64 {
        let classes = &report.classes;
        match self {
            Self::Goodput => classes.iter().map(|class| class.goodput()).sum(),
            Self::OverTarget => {
                let seconds = report.measured.as_secs_f64() * classes.len() as f64;
                classes.iter().map(|class| class.seconds_over as f64).sum::<f64>() / seconds
            }
            Self::FalseRejects => {
                let of_stages = report.stages.iter().flat_map(|stage| &stage.classes);
                let rejected: u64 = of_stages.map(|class| class.rejected_idle).sum();
                let offered: u64 = classes.iter().map(|class| class.counts.offered).sum();
                rejected as f64 / (offered as f64).max(1.0)
            }
        }
    }
}

/// A weighted sum of measures that is to be as great as can be, or as small.
///
/// # Examples
/// ```
/// use tamarisk_model::tune::Objective;
///
/// let objective: Objective = "goodput - 100*over-target".parse()?;
/// assert_eq!(objective.to_string(), "goodput - 100*over-target");
/// # Ok::<(), tamarisk_model::tune::InvalidObjective>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Objective {
    terms: Vec<(f64, Measure)>,
    goal: Goal,
}

/// In which direction a sum is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Goal {
    /// As great as can be.
    Greatest,
    /// As small as can be.
    Least,
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Greatest => "greatest",
            Self::Least => "least",
        })
    }
}

/// Why an objective makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no term of an objective; write for example `goodput - 100*over-target`, of goodput, \
     over-target and false-rejects"
)]
pub struct InvalidObjective(String);

impl Objective {
    /// The measures and their weights, in their order.
    pub fn terms(&self) -> &[(f64, Measure)] {
        &self.terms
    }

    /// Which way it is to go; a sum that was read is to be great.
    pub const fn goal(&self) -> Goal {
        self.goal
    }

    /// The same sum, to be as small as can be.
    #[must_use]
    pub fn least(self) -> Self {
        Self { goal: Goal::Least, ..self }
    }

    /// The sum of a run.
    pub fn of(&self, report: &Report) -> f64 {
        self.terms.iter().map(|(weight, measure)| weight * measure.of(report)).sum()
    }

    /// What a run is worth, the more the better.
    pub fn worth(&self, report: &Report) -> f64 {
        match self.goal {
            Goal::Greatest => self.of(report),
            Goal::Least => -self.of(report),
        }
    }
}

impl FromStr for Objective {
    type Err = InvalidObjective;

    fn from_str(text: &str) -> Result<Self, InvalidObjective> {
        // A sign stands between spaces: names have hyphens.
        let mut terms = Vec::new();
        let mut sign = 1.0;
        for word in text.split_whitespace() {
            match word {
                "+" | "-" if terms.len() % 2 == 1 => {
                    sign = if word == "-" { -1.0 } else { 1.0 };
                    terms.push(None);
                }
                term if terms.len().is_multiple_of(2) => terms.push(Some((sign, term))),
                other => return Err(InvalidObjective(other.to_owned())),
            }
        }
        if terms.len().is_multiple_of(2) {
            return Err(InvalidObjective(text.to_owned()));
        }
        let terms = terms.into_iter().flatten().map(|(sign, text)| {
            let wrong = || InvalidObjective(text.to_owned());
            let (weight, name) = match text.split_once('*') {
                Some((weight, name)) => (weight.parse().map_err(|_| wrong())?, name),
                None => (1.0, text),
            };
            let measure = Measure::ALL.into_iter().find(|measure| measure.name() == name);
            let weight = Some(sign * weight).filter(|w: &f64| w.is_finite() && *w != 0.0);
            Ok((weight.ok_or_else(wrong)?, measure.ok_or_else(wrong)?))
        });
        Ok(Self { terms: terms.collect::<Result<_, _>>()?, goal: Goal::Greatest })
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (weight, measure)) in self.terms.iter().enumerate() {
            let sign = match (index, *weight < 0.0) {
                (0, false) => "",
                (0, true) => "-",
                (_, false) => " + ",
                (_, true) => " - ",
            };
            f.write_str(sign)?;
            if weight.abs() != 1.0 {
                write!(f, "{}*", weight.abs())?;
            }
            f.write_str(measure.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weighted_sum_is_read_and_shown() {
        for text in ["goodput", "2*goodput", "goodput - 100*over-target + 5*false-rejects"] {
            assert_eq!(text.parse::<Objective>().unwrap().to_string(), text);
        }
        let least = "over-target".parse::<Objective>().unwrap().least();
        assert_eq!((least.terms(), least.goal()), (&[(1.0, Measure::OverTarget)][..], Goal::Least));
    }

    #[test]
    fn what_is_no_sum_is_rejected() {
        for text in
            ["", "speed", "goodput -", "goodput goodput", "x*goodput", "NaN*goodput", "0*goodput"]
        {
            assert!(text.parse::<Objective>().is_err(), "{text}");
        }
    }
}
