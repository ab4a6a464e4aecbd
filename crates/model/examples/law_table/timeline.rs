//! The runs of a situation: its load from the first instant on, and after a calm of ten minutes.

use std::ops::Range;
use std::time::Duration;

use tamarisk_model::sim::{Load, Profile, Scenario};

/// What of a file is the overload; what stands at its beginning is the calm before.
#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    /// The load never changes; the calm has so many times as much.
    Constant { calm: f64 },
    /// The load that the file comes to.
    Step,
    /// A part of the file, repeated to the end.
    Part(Range<Duration>),
}

/// How a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Beginning {
    /// With the overload.
    Cold,
    /// With a calm.
    Calm,
}

impl Beginning {
    pub(crate) const ALL: [Self; 2] = [Self::Cold, Self::Calm];

    /// What is measured of such a run, one after the other.
    pub(crate) const fn periods(self) -> &'static [Period] {
        match self {
            Self::Cold => &[Period::Cold],
            Self::Calm => &[Period::AfterCalm, Period::Steady],
        }
    }
}

/// What is measured of an overload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Period {
    /// The first minute, which is that of the run too.
    Cold,
    /// The first minute, after a calm.
    AfterCalm,
    /// The time after that minute.
    Steady,
}

impl Period {
    pub(crate) const ALL: [Self; 3] = [Self::Cold, Self::AfterCalm, Self::Steady];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cold => "from cold",
            Self::AfterCalm => "after a calm",
            Self::Steady => "steady",
        }
    }
}

const CALM: Duration = Duration::from_secs(600);
/// The first minute; of a pattern that is longer the first time.
const FIRST: Duration = Duration::from_secs(60);
const STEADY: Duration = Duration::from_secs(1200);
/// By then a file has come to its load.
const STEPPED: Duration = Duration::from_secs(30);

/// A run, and what is measured of it: a window for each period.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    pub(crate) scenario: Scenario,
    pub(crate) windows: Vec<Range<Duration>>,
}

impl Timeline {
    pub(crate) fn new(mut scenario: Scenario, pattern: &Pattern, beginning: Beginning) -> Self {
        if let Pattern::Constant { calm } = *pattern {
            scenario.clients.iter_mut().for_each(|client| begin_with(&mut client.load, calm));
        }
        let part = match pattern {
            Pattern::Part(part) => part.clone(),
            Pattern::Constant { .. } | Pattern::Step => STEPPED..STEPPED + FIRST,
        };
        let first = part.end - part.start;
        let (from, windows, end) = match beginning {
            Beginning::Cold => (Duration::ZERO, vec![Duration::ZERO..first], first),
            Beginning::Calm => {
                let (then, end) = (CALM + first, CALM + first + STEADY);
                (CALM, vec![CALM..then, then..end], end)
            }
        };
        let times = ((end - from).as_secs() / first.as_secs()) as u32;
        for client in &mut scenario.clients {
            match &mut client.load {
                Load::Open { rate, .. } | Load::Sessions { rate, .. } => {
                    *rate = rate.repeated(part.clone(), from, times);
                }
                Load::Closed { users, .. } => *users = repeated(users, &part, from, times),
                Load::Trace(_) => {}
            }
        }
        for stage in &mut scenario.stages {
            stage.stretch = stage.stretch.repeated(part.clone(), from, times);
        }
        (scenario.warm_up, scenario.duration) = (Duration::ZERO, end);
        Self { scenario, windows }
    }
}

/// Before its load there is `calm` times as much.
fn begin_with(load: &mut Load, calm: f64) {
    if let Load::Open { rate, .. } = load {
        let level = rate.value(Duration::ZERO);
        *rate = Profile::constant(calm * level).step(STEPPED, level);
    }
}

/// [`Profile::repeated`] of a number of users.
fn repeated(
    users: &[(Duration, u32)],
    part: &Range<Duration>,
    from: Duration,
    times: u32,
) -> Vec<(Duration, u32)> {
    let at = |at: Duration| {
        let since = users.iter().rev().find(|(since, _)| *since <= at);
        since.map_or(0, |&(_, count)| count)
    };
    let mut repeated = Vec::new();
    if !from.is_zero() {
        repeated.push((Duration::ZERO, at(Duration::ZERO)));
    }
    for round in 0..times {
        let start = from + round * (part.end - part.start);
        repeated.push((start, at(part.start)));
        let within = users.iter().filter(|(at, _)| part.start < *at && *at < part.end);
        repeated.extend(within.map(|&(at, count)| (start + (at - part.start), count)));
    }
    repeated
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::situation::SITUATIONS;

    const S: Duration = Duration::from_secs(1);

    fn timeline(file: &str, beginning: Beginning) -> Timeline {
        let situation = SITUATIONS.iter().find(|situation| situation.file == file).unwrap();
        Timeline::new(situation.load().unwrap().0, &situation.pattern, beginning)
    }

    fn rate(timeline: &Timeline, client: usize, seconds: u32) -> f64 {
        let Load::Open { rate, .. } = &timeline.scenario.clients[client].load else {
            panic!("an open load");
        };
        rate.value(seconds * S)
    }

    #[test]
    fn from_cold_the_overload_is_there_at_once() {
        for (file, load) in [("ten-fold", 4000.0), ("bimodal", 810.0)] {
            let cold = timeline(file, Beginning::Cold);
            assert_eq!([0, 59].map(|at| rate(&cold, 0, at)), [load; 2], "{file}");
            assert_eq!(cold.windows, [Duration::ZERO..60 * S]);
        }
        assert_eq!(rate(&timeline("ramp", Beginning::Cold), 0, 50), 1200.0);
        let slow = timeline("slow-dependency", Beginning::Cold);
        assert_eq!(
            [0, 29, 30, 59].map(|at| slow.scenario.stages[0].stretch.value(at * S)),
            [5.0, 5.0, 1.0, 1.0]
        );
    }

    #[test]
    fn a_calm_of_ten_minutes_comes_before_a_minute_and_twenty_of_overload() {
        for (file, calm, load) in [("ten-fold", 120.0, 4000.0), ("bimodal", 120.0, 810.0)] {
            let run = timeline(file, Beginning::Calm);
            let rates = [0, 599, 600, 660, 1859].map(|at| rate(&run, 0, at));
            assert_eq!(rates, [calm, calm, load, load, load], "{file}");
            assert_eq!(run.windows, [600 * S..660 * S, 660 * S..1860 * S]);
            assert_eq!(run.scenario.duration, 1860 * S);
        }
        let shop = timeline("one-bottleneck", Beginning::Calm);
        assert_eq!(
            [(0, 599), (0, 600), (1, 600)].map(|(client, at)| rate(&shop, client, at)),
            [100.0, 4000.0, 100.0]
        );
    }

    #[test]
    fn a_load_that_changes_comes_again_and_again() {
        let ramp = timeline("ramp", Beginning::Calm);
        for round in [0, 1, 10] {
            let rates = [0, 50, 100].map(|at| rate(&ramp, 0, 600 + 120 * round + at));
            assert_eq!(rates, [120.0, 1200.0, 120.0], "{round}");
        }
        assert_eq!(ramp.windows, [600 * S..720 * S, 720 * S..1920 * S]);
        let Load::Closed { users, .. } =
            &timeline("spike", Beginning::Calm).scenario.clients[0].load
        else {
            panic!("a closed load");
        };
        assert_eq!(
            users[..4],
            [(Duration::ZERO, 3), (600 * S, 1000), (630 * S, 3), (660 * S, 1000)]
        );
        assert_eq!(users.len(), 1 + 2 * 21);
    }
}
