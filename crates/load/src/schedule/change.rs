//! One change of level, and how it is written.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tamarisk_control::{InvalidDuration, parse_duration};

/// One change of the level of a [`Schedule`](super::Schedule). All three
/// are written like on the command line: `step 20@10s`, `spike 1000@10s..40s`,
/// `ramp 200@10s..40s`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// From `at` on, the level is `to`.
    Step {
        /// The new level.
        to: f64,
        /// When, since the start of the run.
        at: Duration,
    },
    /// Between `from` and `until` the level is `to`; afterwards what it was before.
    Spike {
        /// The level during the spike.
        to: f64,
        /// Its start.
        from: Duration,
        /// Its end.
        until: Duration,
    },
    /// Between `from` and `until` the level moves along a line, and ends at `to`.
    Ramp {
        /// The level that is reached, and kept.
        to: f64,
        /// When the level begins to move.
        from: Duration,
        /// When it has arrived.
        until: Duration,
    },
}

/// Why a text is not a [`Change`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidChange {
    /// The first word is none of the three.
    #[error("`{0}` is not a change: write `step`, `spike` or `ramp` first")]
    Kind(String),
    /// The `@` between level and time is missing.
    #[error("`{0}` has no time: write LEVEL@TIME, for example `{1}`")]
    Time(String, &'static str),
    /// The text before `@` is not a number.
    #[error("`{0}` is not a level: write a number, for example `{1}`")]
    Level(String, &'static str),
    /// A spike or ramp has no `..` between start and end.
    #[error("`{0}` is not an interval: write START..END, for example `{1}`")]
    Interval(String, &'static str),
    /// A spike or ramp ends before it starts.
    #[error("`{0}` must end after it starts")]
    Backwards(String),
    /// A time is not a duration.
    #[error(transparent)]
    Duration(#[from] InvalidDuration),
}

const STEP_EXAMPLE: &str = "20@10s";
const INTERVAL_EXAMPLE: &str = "1000@10s..40s";

impl Change {
    /// A step from `LEVEL@TIME`.
    ///
    /// # Errors
    /// [`InvalidChange`] says which part was not understood.
    pub fn step(text: &str) -> Result<Self, InvalidChange> {
        let (to, at) = level_and_time(text, STEP_EXAMPLE)?;
        Ok(Self::Step { to, at: parse_duration(at)? })
    }

    /// A spike from `LEVEL@START..END`.
    ///
    /// # Errors
    /// [`InvalidChange`] says which part was not understood.
    pub fn spike(text: &str) -> Result<Self, InvalidChange> {
        let (to, from, until) = level_and_interval(text)?;
        Ok(Self::Spike { to, from, until })
    }

    /// A ramp from `LEVEL@START..END`.
    ///
    /// # Errors
    /// [`InvalidChange`] says which part was not understood.
    pub fn ramp(text: &str) -> Result<Self, InvalidChange> {
        let (to, from, until) = level_and_interval(text)?;
        Ok(Self::Ramp { to, from, until })
    }

    /// The level it leads to.
    pub fn level(&self) -> f64 {
        match *self {
            Self::Step { to, .. } | Self::Spike { to, .. } | Self::Ramp { to, .. } => to,
        }
    }

    /// When it begins.
    pub fn start(&self) -> Duration {
        match *self {
            Self::Step { at, .. } => at,
            Self::Spike { from, .. } | Self::Ramp { from, .. } => from,
        }
    }

    /// When it is over; for a step, when it begins.
    pub fn end(&self) -> Duration {
        match *self {
            Self::Step { at, .. } => at,
            Self::Spike { until, .. } | Self::Ramp { until, .. } => until,
        }
    }
}

impl FromStr for Change {
    type Err = InvalidChange;

    fn from_str(text: &str) -> Result<Self, InvalidChange> {
        let (kind, rest) = text.trim().split_once(' ').unwrap_or((text, ""));
        match kind {
            "step" => Self::step(rest),
            "spike" => Self::spike(rest),
            "ramp" => Self::ramp(rest),
            _ => Err(InvalidChange::Kind(kind.to_owned())),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step { to, at } => write!(f, "step {to}@{at:?}"),
            Self::Spike { to, from, until } => write!(f, "spike {to}@{from:?}..{until:?}"),
            Self::Ramp { to, from, until } => write!(f, "ramp {to}@{from:?}..{until:?}"),
        }
    }
}

fn level_and_time<'a>(
    text: &'a str,
    example: &'static str,
) -> Result<(f64, &'a str), InvalidChange> {
    let (level, time) = text
        .trim()
        .split_once('@')
        .ok_or_else(|| InvalidChange::Time(text.trim().to_owned(), example))?;
    let level =
        level.trim().parse().map_err(|_| InvalidChange::Level(level.trim().to_owned(), example))?;
    Ok((level, time))
}

fn level_and_interval(text: &str) -> Result<(f64, Duration, Duration), InvalidChange> {
    let (level, interval) = level_and_time(text, INTERVAL_EXAMPLE)?;
    let (from, until) = interval
        .split_once("..")
        .ok_or_else(|| InvalidChange::Interval(interval.to_owned(), INTERVAL_EXAMPLE))?;
    let (from, until) = (parse_duration(from)?, parse_duration(until)?);
    if until <= from {
        return Err(InvalidChange::Backwards(text.trim().to_owned()));
    }
    Ok((level, from, until))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_read_as_they_are_shown() {
        for text in ["step 20@10s", "spike 1000@10s..40s", "ramp 2.5@500ms..1.5s"] {
            let change: Change = text.parse().unwrap();
            assert_eq!(change.to_string(), text);
        }
    }

    #[test]
    fn the_part_that_is_wrong_is_named() {
        fn check(text: &str, expected: &str) {
            assert_eq!(text.parse::<Change>().unwrap_err().to_string(), expected);
        }
        check("jump 3@1s", "`jump` is not a change: write `step`, `spike` or `ramp` first");
        check("step 3", "`3` has no time: write LEVEL@TIME, for example `20@10s`");
        check(
            "spike many@1s..2s",
            "`many` is not a level: write a number, for example `1000@10s..40s`",
        );
        check(
            "spike 3@1s",
            "`1s` is not an interval: write START..END, for example `1000@10s..40s`",
        );
        check("ramp 3@2s..2s", "`3@2s..2s` must end after it starts");
        check(
            "step 3@2",
            "`2` needs a unit: one of ns, us, ms, s, m, h; write for example `200ms` or `1.5s`",
        );
    }
}
