//! What stages are, and what they share.

use std::ops::Range;
use std::time::Duration;

use tamarisk_settings::{Fault, Section, Value, values};

use tamarisk_control::{Classes, Ratio};
use tamarisk_laws::catalogue::Laws;

use super::distributions;
use super::files::Files;
use super::laws::{UNLIMITED, laws};
use super::places::StagePlace;
use crate::sim::{Discipline, KindAt, Profile, Resource, Route, Speed, Stage, Step};

const STAGE: &[&str] = &[
    "workers",
    "queue",
    "discipline",
    "service",
    "cores",
    "knee",
    "penalty",
    "slow",
    "to",
    "classes",
    "admission",
    "dropping",
    "batching",
    "batch_cost",
    "quality",
    "degradable",
    "termination",
    "clean_up",
    "kinds",
    "lost",
    "outages",
    "answer_time",
    "pauses",
];
const OF_CLASS: &[&str] = &["service", "to"];
const OF_KIND: &[&str] = &["service", "worker", "first_data", "lost"];
const SPAN: &[&str] = &["from", "until"];
const PENALTY: &[&str] = &["threads", "free", "loss"];
/// The keys of a speed; the first that is there stands for it.
const SPEED: [&str; 3] = ["cores", "knee", "penalty"];
const SLOW: &[&str] = &["from", "until", "times"];
const RESOURCE: &[&str] = &["cores", "connections"];
const DISCIPLINES: [(&str, Discipline); 4] = [
    ("fifo", Discipline::Fifo),
    ("priority", Discipline::Priority),
    ("adaptive-lifo", Discipline::AdaptiveLifo),
    ("earliest-due", Discipline::EarliestDue),
];

/// The names that a stage may use.
pub(super) struct Known<'a> {
    pub(super) classes: Vec<&'a str>,
    pub(super) kinds: Vec<&'a str>,
    pub(super) resources: Vec<&'a str>,
    pub(super) stages: Vec<&'a str>,
    /// What classes are promised.
    pub(super) promised: &'a Classes,
    pub(super) files: Files<'a>,
}

/// A stage, its laws, and where its parts stand.
pub(super) struct Read {
    pub(super) stage: Stage,
    pub(super) laws: Laws,
    pub(super) place: StagePlace,
}

pub(super) fn resource(name: String, value: &Value<'_>) -> Result<Resource, Fault> {
    let section = Section::new(value, RESOURCE, |_| false)?;
    let cores = section.read("cores", positive)?;
    let connections = section.read("connections", whole)?;
    match (cores, connections) {
        (Some(cores), None) => Ok(Resource::cores(name, cores)),
        (None, Some(connections)) => Ok(Resource::pool(name, connections)),
        (Some(_), Some(_)) | (None, None) => {
            let message = format!("it is not clear how {name:?} is shared");
            let expected = "needs either `cores = 4` or `connections = 20`";
            Err(Fault::new(section.span(), message, expected))
        }
    }
}

pub(super) fn stage(
    name: String,
    key: Range<usize>,
    value: &Value<'_>,
    known: &Known<'_>,
) -> Result<Read, Fault> {
    let section = Section::new(value, STAGE, |_| false)?;
    let span = |name| section.value(name).map_or_else(|| key.clone(), |value| value.span());
    let mut place = StagePlace {
        name: name.clone(),
        key: key.clone(),
        workers: span("workers"),
        service: span("service"),
        speed: span(
            SPEED.iter().copied().find(|key| section.value(key).is_some()).unwrap_or("cores"),
        ),
        slow: span("slow"),
        batch_cost: span("batch_cost"),
        clean_up: span("clean_up"),
        outages: span("outages"),
        pauses: span("pauses"),
        kinds: span("kinds"),
        routes: vec![(None, span("to"))],
    };
    let steps = |value| steps(value, known);
    let routes = |value| routes(value, &known.stages);
    let laws = laws(&section, known.promised)?;
    let mut stage = Stage {
        name,
        workers: workers(&section, &laws, known.promised)?,
        capacity: Stage::CAPACITY,
        discipline: section.read("discipline", discipline)?.unwrap_or_default(),
        speed: speed(&section)?,
        stretch: section.read("slow", slow)?.unwrap_or_else(|| Profile::constant(1.0)),
        service: section.require("service", "{ exponential = \"20ms\" }", steps)?,
        service_of: Vec::new(),
        routes: section.read("to", routes)?.unwrap_or_default(),
        routes_of: Vec::new(),
        batch_cost: section.read("batch_cost", values::duration)?.unwrap_or_default(),
        degradable: section.read("degradable", values::ratio)?.unwrap_or(Ratio::ONE),
        clean_up: section.read("clean_up", values::duration)?.unwrap_or_default(),
        kinds: Vec::new(),
        lost: section.read("lost", values::ratio)?.unwrap_or(Ratio::ZERO),
        outages: section.read("outages", spans)?.unwrap_or_default(),
        answer_time: section.read("answer_time", values::duration)?.unwrap_or(Stage::ANSWER_TIME),
        pauses: section.read("pauses", spans)?.unwrap_or_default(),
    };
    if let Some(queue) = section.read("queue", whole)? {
        stage.capacity = queue;
    }
    for (key, value) in section.read("classes", Section::tables)?.unwrap_or_default() {
        let class = key.get_ref();
        if !known.classes.contains(&&**class) {
            return Err(values::not_one_of(key.span(), "class", class, &known.classes));
        }
        let class = class.to_string();
        let section = Section::new(value, OF_CLASS, |_| false)?;
        if let Some(own) = section.read("service", steps)? {
            stage.service_of.push((class.clone(), own));
        }
        if let Some(own) = section.read("to", routes)? {
            let span = section.value("to").map_or_else(|| key.span(), |value| value.span());
            place.routes.push((Some(class.clone()), span));
            stage.routes_of.push((class, own));
        }
    }
    for (key, value) in section.read("kinds", Section::tables)?.unwrap_or_default() {
        let kind: &str = key.get_ref();
        if !known.kinds.contains(&kind) {
            return Err(values::not_one_of(key.span(), "kind", kind, &known.kinds));
        }
        let section = Section::new(value, OF_KIND, |_| false)?;
        stage.kinds.push(KindAt {
            kind: kind.to_owned(),
            service: section.read("service", steps)?,
            needs_worker: section.read("worker", values::yes)?.unwrap_or(true),
            first_data: section
                .read("first_data", |value| distributions::distribution(value, known.files))?,
            lost: section.read("lost", values::ratio)?,
        });
    }
    Ok(Read { stage, laws, place })
}

/// As many as are stated, or as their law begins with.
fn workers(section: &Section<'_>, laws: &Laws, classes: &Classes) -> Result<u32, Fault> {
    match laws.workers.as_ref().map(|law| law.make(classes)) {
        Some(Ok(law)) => Ok(law.range().start().get()),
        _ => section.require("workers", "8", |value| match value.get_ref().as_str() {
            Some(UNLIMITED) => Ok(Stage::UNLIMITED),
            _ => whole(value),
        }),
    }
}

/// A whole number from 1 to a billion.
pub(super) fn whole(value: &Value<'_>) -> Result<u32, Fault> {
    Ok(values::count(value)?.get() as u32)
}

fn positive(value: &Value<'_>) -> Result<f64, Fault> {
    let expected = "a number above 0";
    let number = values::float(value, expected)?;
    if number > 0.0 {
        return Ok(number);
    }
    let message = format!("{number} cannot be used here");
    Err(Fault::new(value.span(), message, format!("expected {expected}")))
}

fn discipline(value: &Value<'_>) -> Result<Discipline, Fault> {
    let names = DISCIPLINES.map(|(name, _)| name);
    Ok(DISCIPLINES[values::one_of(value, "discipline", &names)?].1)
}

fn speed(section: &Section<'_>) -> Result<Speed, Fault> {
    let cores = section.read("cores", positive)?;
    let (knee, penalty) = (section.read("knee", positive)?, section.read("penalty", penalty)?);
    match (cores, knee, penalty) {
        (None, None, None) => Ok(Speed::Full),
        (Some(cores), None, None) => Ok(Speed::Cores(cores)),
        (Some(cores), Some(knee), None) => Ok(Speed::Contended { cores, knee }),
        (Some(parallelism), None, Some(Penalty { threads, free, loss })) => {
            Ok(Speed::Threads { parallelism, threads, free, loss })
        }
        (_, Some(_), Some(_)) => {
            let message = "a knee and a penalty are two models of one thing";
            Err(Fault::new(section.span(), message, "needs one of `knee` and `penalty`"))
        }
        (None, ..) => {
            let message = "nothing tells what the workers contend for";
            Err(Fault::new(section.span(), message, "needs `cores = 4` besides"))
        }
    }
}

/// What threads cost that exist, whether they run or not [Welsh02 eq. 4.10].
struct Penalty {
    threads: u32,
    free: u32,
    loss: f64,
}

fn penalty(value: &Value<'_>) -> Result<Penalty, Fault> {
    let section = Section::new(value, PENALTY, |_| false)?;
    Ok(Penalty {
        threads: section.require("threads", "20", whole)?,
        free: section.require("free", "15", whole)?,
        loss: section.require("loss", "0.2", positive)?,
    })
}

fn slow(value: &Value<'_>) -> Result<Profile, Fault> {
    let spans = values::list(value, |value| {
        let section = Section::new(value, SLOW, |_| false)?;
        let from = section.require("from", "\"20s\"", values::duration)?;
        let until = section.require("until", "\"30s\"", values::duration)?;
        Ok((from, until, section.require("times", "5", positive)?))
    })?;
    let profile = Profile::constant(1.0);
    Ok(spans
        .into_iter()
        .fold(profile, |profile, (from, until, times)| profile.spike(from, until, times)))
}

fn spans(value: &Value<'_>) -> Result<Vec<(Duration, Duration)>, Fault> {
    values::list(value, |value| {
        let section = Section::new(value, SPAN, |_| false)?;
        let time = |key| section.require(key, "\"20s\"", values::duration);
        Ok((time("from")?, time("until")?))
    })
}

fn steps(value: &Value<'_>, known: &Known<'_>) -> Result<Vec<Step>, Fault> {
    match value.get_ref().is_array() {
        true => values::list(value, |value| step(value, known)),
        false => Ok(vec![step(value, known)?]),
    }
}

fn step(value: &Value<'_>, known: &Known<'_>) -> Result<Step, Fault> {
    if value.get_ref().is_str() {
        return Ok(Step::own(distributions::distribution(value, known.files)?));
    }
    let section = distributions::section(value, &["on"])?;
    let resources = &known.resources;
    let on = section.read("on", |value| values::one_of(value, "resource", resources))?;
    let work = distributions::of(&section, known.files)?;
    Ok(Step { on: on.map(|index| resources[index].to_owned()), work })
}

fn routes(value: &Value<'_>, stages: &[&str]) -> Result<Vec<Route>, Fault> {
    let routes = Section::tables(value)?.into_iter().map(|(key, value)| {
        let to: &str = key.get_ref();
        if !stages.contains(&to) {
            return Err(values::not_one_of(key.span(), "stage", to, stages));
        }
        Ok(Route { to: to.to_owned(), probability: values::ratio(value)?.get() })
    });
    routes.collect()
}
