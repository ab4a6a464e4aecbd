//! The Arashi webmail under the papers' overload control: [Welsh02 figs 52, 55, 58, 59], which are
//! [Welsh03 figs 7, 10, 14, 15], and the tables [Welsh03 figs 9 and 11].

#![allow(dead_code, reason = "shared by a test and an example")]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tamarisk_catalogue::ByName;
use tamarisk_catalogue::papers::ResponseTime;
use tamarisk_control::{
    Activity, AdmissionLaw, BatchSize, Classes, Concurrency, Ratio, Target, Timestamp,
};
use tamarisk_laws::{Knobs, Laws};
use tamarisk_model::scenario::File;
use tamarisk_model::sim::{Governor, Load};
use tamarisk_plot::Unit;

use super::chart::{Chart, Curve, Curves};
use super::course::{Course, Part, read, run, run_open, run_with, with_laws};

/// The types of requests, in the scenario's order; the stage `http` is before them.
pub(crate) const TYPES: [&str; 7] =
    ["login", "folders", "messages", "show", "delete", "refile", "search"];

/// What the paper printed of one type: p90 in seconds without and with control, of 16 and of 1024 users
/// [Welsh03 fig. 9], in the order of [`TYPES`].
pub(crate) const BY_TYPE: [[f64; 4]; 7] = [
    [0.83, 0.59, 0.86, 3.84],
    [1.73, 0.57, 365.0, 5.75],
    [2.37, 0.58, 116.0, 9.28],
    [0.70, 0.30, 30.1, 3.87],
    [1.00, 0.28, 11.3, 6.85],
    [1.00, 0.47, 10.6, 6.07],
    [8.17, 9.92, 19.6, 18.1],
];

/// p90 in seconds and rejected in percent, under a controller for each stage and under one for all,
/// 128 users [Welsh03 fig. 11].
pub(crate) const BY_CONTROLLER: [[f64; 4]; 7] = [
    [2.07, 44.3, 1.00, 18.8],
    [8.11, 59.6, 3.97, 59.6],
    [8.04, 47.1, 6.20, 53.7],
    [3.90, 23.1, 2.04, 49.1],
    [4.86, 11.3, 3.26, 51.4],
    [4.60, 10.4, 2.12, 54.7],
    [22.2, 0.0, 18.9, 53.3],
];

/// That of the files, in seconds.
pub(crate) const TARGET: f64 = 10.0;
/// Measured from and until, in seconds [Welsh02 §7.3.2].
const MEASURED: (f64, f64) = (20.0, 920.0);
const SPIKE: (f64, f64) = (70.0, 150.0);

/// The file with these numbers of users, each from so many seconds on.
fn of_users(file: &str, numbers: &[(f64, u32)]) -> File {
    let mut file = read(file);
    if let Load::Closed { users, .. } = &mut file.scenario.clients[0].load {
        *users = numbers.iter().map(|&(at, n)| (Duration::from_secs_f64(at), n)).collect();
    }
    file
}

/// From 3 users to a thousand and back, under a target of a second [Welsh02 §7.3.3].
fn spike() -> File {
    let (from, until) = SPIKE;
    let mut file = of_users("arashi", &[(0.0, 3), (from, 1000), (until, 3)]);
    let target = Target::p90(Duration::from_secs(1)).expect("a second can be promised");
    file.scenario.classes = Classes::single(target);
    (file.scenario.warm_up, file.scenario.duration) = (Duration::ZERO, Duration::from_secs(220));
    file
}

/// Each type's p90 in seconds without and with control, of 16 and of 1024 users, as [`BY_TYPE`].
pub(crate) fn by_type(seed: u64) -> [[f64; 4]; 7] {
    let (from, until) = MEASURED;
    let columns = [16, 1024].map(|users| {
        let file = of_users("arashi", &[(0.0, users)]);
        [run_open(&file, seed), run(&file, seed)].map(|course| course.between(from, until))
    });
    std::array::from_fn(|index| {
        let p90 = |part: &Part| part.at(index as u32 + 1).p90().unwrap_or(f64::NAN);
        let [few, many] = &columns;
        [p90(&few[0]), p90(&few[1]), p90(&many[0]), p90(&many[1])]
    })
}

/// What became of some requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fate {
    /// Of those answered, in seconds.
    pub(crate) p90: f64,
    /// Answered within the target, in percent of all.
    pub(crate) in_time: f64,
    /// In percent of all.
    pub(crate) rejected: f64,
}

impl Fate {
    fn of(part: &Part) -> Self {
        let lost = part.lost();
        Self {
            p90: part.p90().unwrap_or(f64::NAN),
            in_time: 100.0 * (1.0 - lost) * part.within(TARGET),
            rejected: 100.0 * lost,
        }
    }
}

/// 128 users, with a controller for each stage, and with one for all.
pub(crate) struct ByController {
    /// By type, in the order of [`TYPES`].
    pub(crate) types: [[Fate; 2]; 7],
    pub(crate) all: [Fate; 2],
}

/// The experiment of [`BY_CONTROLLER`] with this law for the controllers.
pub(crate) fn by_controller(seed: u64, law: &str) -> ByController {
    let (from, until) = MEASURED;
    let of = |file| run(&ruled_by(of_users(file, &[(0.0, 128)]), law), seed).between(from, until);
    let (stages, one) = (of("arashi"), of("arashi-one-stage"));
    let types = std::array::from_fn(|index| {
        [stages.at(index as u32 + 1), one.kind(index as u64 + 1)].map(|part| Fate::of(&part))
    });
    ByController { types, all: [&stages, &one].map(Fate::of) }
}

/// The file with this law where it has one.
fn ruled_by(mut file: File, law: &str) -> File {
    for (_, laws) in &mut file.laws {
        *laws = Laws::new().admission(law, &[]).expect("the law is in the catalogue");
    }
    file
}

/// The numbers of users of [Welsh02 fig. 53].
pub(crate) const USERS: [u32; 6] = [16, 64, 128, 256, 512, 1024];

/// The response time of all requests, and what is rejected, by the number of users: without control, under
/// a controller for each stage, and under the default law there [Welsh02 fig. 53; Welsh03 fig. 8].
pub(crate) fn by_users() -> Chart {
    let (from, until) = MEASURED;
    let parts = |law: Option<&str>| {
        let part = |users| {
            let file = of_users("arashi", &[(0.0, users)]);
            let course = match law {
                Some(law) => run(&ruled_by(file, law), 1),
                None => run_open(&file, 1),
            };
            course.between(from, until)
        };
        USERS.map(|users| (f64::from(users), part(users)))
    };
    let curves = [None, Some("response-time"), Some("predict-gate-trim")];
    let curves = curves.map(|law| (law.unwrap_or("without control"), parts(law)));
    let of = |value: fn(&Part) -> Option<f64>| {
        let curve = curves.iter().map(|(name, parts)| {
            let points = parts.iter().map(|(users, part)| (*users, value(part)));
            Curve::new(*name, points.collect())
        });
        curve.collect::<Vec<_>>()
    };
    Chart {
        name: "welsh02-53",
        title: "Arashi by the number of users",
        x: "users",
        from: 16.0,
        to: 1024.0,
        panels: vec![
            Curves::new("90th percentile of the response time", Unit::Seconds, of(Part::p90))
                .log()
                .level(TARGET, "target"),
            Curves::new(
                "Rejected, in percent",
                Unit::Count,
                of(|part| Some(100.0 * part.lost())).split_off(1),
            ),
        ],
    }
}

/// A massive load spike with and without control [Welsh02 fig. 55; Welsh03 fig. 10].
pub(crate) fn massive_spike() -> Chart {
    let file = spike();
    let (open, ruled) = (run_open(&file, 1), run(&file, 1));
    let p90 = |name: &str, course: &Course| Curve::new(name, course.over_time(5.0, Part::p90));
    let rejected = ruled.over_time(5.0, |part| Some(100.0 * part.lost()));
    Chart {
        name: "welsh02-55",
        title: "Arashi under a spike from 3 to 1000 users, from 70 to 150 s",
        x: "seconds",
        from: 0.0,
        to: 220.0,
        panels: vec![
            Curves::new(
                "90th percentile of the response time",
                Unit::Seconds,
                vec![p90("without control", &open), p90("with control", &ruled)],
            )
            .log()
            .level(1.0, "target"),
            Curves::new(
                "Rejected, in percent",
                Unit::Count,
                vec![Curve::new("with control", rejected)],
            ),
        ],
    }
}

/// The controller of one stage during the spike [Welsh02 fig. 52; Welsh03 fig. 7].
pub(crate) fn controller() -> Chart {
    let file = spike();
    let readings = Arc::default();
    run_with(&file, 1, |run| {
        let run = file.laws.iter().fold(run, |run, (stage, laws)| with_laws(run, stage, laws));
        let knobs = knobs(file.scenario.stages[2].workers);
        let law = Box::new(ResponseTime::new(&file.scenario.classes));
        let recorded = Recorded { law, knobs, readings: Arc::clone(&readings) };
        run.governor(TYPES[1], Box::new(recorded), knobs).expect("there is such a stage")
    });
    let readings = readings.lock().unwrap_or_else(PoisonError::into_inner);
    let curve = |name: &str, of: fn(&Ruled) -> f64| {
        let points = readings.iter().map(|ruled| (ruled.at, Some(of(ruled))));
        vec![Curve::new(name, points.collect())]
    };
    Chart {
        name: "welsh02-52",
        title: "The controller of the stage `folders` during the spike",
        x: "seconds",
        from: 0.0,
        to: 220.0,
        panels: vec![
            Curves::new(
                "Smoothed 90th percentile of the response time",
                Unit::Seconds,
                curve("measured", |ruled| ruled.percentile),
            )
            .level(1.0, "target"),
            Curves::new("Admission rate a second", Unit::Count, curve("rate", |ruled| ruled.rate))
                .log(),
        ],
    }
}

/// What the law of a stage showed at a tick.
struct Ruled {
    at: f64,
    rate: f64,
    percentile: f64,
}

/// Writes down what the law shows, a second at a time.
struct Recorded {
    law: Box<dyn AdmissionLaw>,
    knobs: Knobs,
    readings: Arc<Mutex<Vec<Ruled>>>,
}

impl Governor for Recorded {
    fn admission(&self) -> &dyn AdmissionLaw {
        &*self.law
    }

    fn admission_mut(&mut self) -> &mut dyn AdmissionLaw {
        &mut *self.law
    }

    fn on_tick(&mut self, now: Timestamp, _: &Activity<'_>) -> Knobs {
        let mut ruled = Ruled { at: now.as_nanos() as f64 / 1e9, rate: 0.0, percentile: 0.0 };
        self.law.readings(&mut |reading| match reading.name {
            "rate_per_second" => ruled.rate = reading.value,
            "response_smoothed_seconds" => ruled.percentile = reading.value,
            _ => {}
        });
        self.readings.lock().unwrap_or_else(PoisonError::into_inner).push(ruled);
        self.knobs
    }
}

fn knobs(workers: u32) -> Knobs {
    Knobs { workers: Concurrency::new(workers), batch: BatchSize::ONE, quality: Ratio::ONE }
}

/// When the users of the high class are there, in seconds.
pub(crate) const HIGH: (f64, f64) = (100.0, 200.0);

/// Two classes of 128 users, told apart [Welsh02 fig. 59] or not [fig. 58].
pub(crate) fn two_classes(told_apart: bool, seed: u64) -> Course {
    let mut file = read("arashi-classes");
    if !told_apart {
        // To the law all are of one class; the course knows them by their kinds.
        let all = file.scenario.classes.iter().next().map(|(_, class)| class.clone());
        let all = all.expect("there are two classes");
        for name in ["of-high", "of-low"] {
            file.scenario = file.scenario.kind(name, all.name.clone());
        }
        for (client, kind) in file.scenario.clients.iter_mut().zip(["of-low", "of-high"]) {
            client.mix = vec![(kind.to_owned(), 1.0)];
        }
    }
    run(&file, seed)
}

/// The high and the low ones of a part.
pub(crate) fn high_and_low(part: &Part, told_apart: bool) -> [Part; 2] {
    match told_apart {
        true => [part.class(0), part.class(1)],
        false => [part.kind(1), part.kind(2)],
    }
}

/// Response times and rejections of both classes over time.
pub(crate) fn classes(told_apart: bool) -> Chart {
    let course = two_classes(told_apart, 1);
    let curves = |of: fn(&Part) -> Option<f64>| {
        let named = ["high", "low"].into_iter().enumerate();
        let curve = |(index, name): (usize, &str)| {
            let points = course.over_time(5.0, |part| of(&high_and_low(part, told_apart)[index]));
            Curve::new(name, points)
        };
        named.map(curve).collect::<Vec<_>>()
    };
    let (name, title) = match told_apart {
        false => ("welsh02-58", "Two classes of 128 users, not told apart"),
        true => ("welsh02-59", "Two classes of 128 users, the high one first"),
    };
    Chart {
        name,
        title,
        x: "seconds",
        from: 0.0,
        to: 300.0,
        panels: vec![
            Curves::new("90th percentile of the response time", Unit::Seconds, curves(Part::p90))
                .level(TARGET, "target"),
            Curves::new(
                "Rejected, in percent",
                Unit::Count,
                curves(|part| (!part.attempts.is_empty()).then(|| 100.0 * part.lost())),
            ),
        ],
    }
}
