//! The stages and resources of a scenario file.

use std::ops::Range;
use std::time::Duration;

use tamarisk_control::{Classes, MeasuredFrom, Ratio};
use tamarisk_laws::Laws;
use tamarisk_settings::table::{Form, LawKind, Table, key};
use tamarisk_settings::{Fault, Section, Value, laws::COORDINATION, values};

use super::distributions::{self, KINDS, PARAMETERS, TIME};
use super::files::Files;
use super::laws::{UNLIMITED, laws};
use super::places::StagePlace;
use crate::sim::{Discipline, KindAt, Profile, Resource, Route, Speed, Stage, Step};

pub(super) static STAGE: Table = Table {
    heading: "[stages.NAME]",
    summary: "A stage: a queue, workers, and the laws that govern them.",
    groups: &[&[
        key("workers", WORKERS, "how many workers it has, or the law that says so").required(),
        key("queue", Form::Whole(1, 1_000_000_000), "places in its queue").default("1000000"),
        key("discipline", Form::OneOf(&DISCIPLINE_NAMES), "which queued event is next")
            .default("\"fifo\""),
        key("service", STEPS, "time that a worker takes for an event, perhaps in several steps")
            .required(),
        key("cores", POSITIVE, "cores that its workers share in equal parts")
            .otherwise("a core for each worker"),
        key("knee", POSITIVE, "number of workers beyond which they contend for `cores`")
            .otherwise("no contention"),
        key("penalty", Form::Table(&PENALTY), "what threads cost that exist, with `cores`")
            .otherwise("nothing"),
        key("slow", Form::List(&Form::Table(&SLOW)), "when its service takes longer")
            .otherwise("never"),
        key("to", ROUTES, "how likely events go on to other stages; the rest leaves")
            .otherwise("all leave"),
        key("classes", Form::Named(&OF_CLASS), "what is different for a class")
            .otherwise("nothing"),
        key("kinds", Form::Named(&OF_KIND), "what is different for a kind").otherwise("nothing"),
        key(
            "lost",
            Form::Number(0.0, 1.0),
            "share of events of which no reply comes; they use no worker",
        )
        .default("0"),
        key("answer_time", Form::Time, "time after which an event without a reply has failed")
            .default("\"60s\""),
        key("outages", Form::List(&Form::Table(&SPAN)), "when everything that is sent is lost")
            .default("[]"),
        key(
            "pauses",
            Form::List(&Form::Table(&SPAN)),
            "when all its work stands still; it goes on after",
        )
        .default("[]"),
        LawKind::Admission.key(),
        LawKind::Dropping.key(),
        LawKind::Batching.key(),
        key("batch_cost", Form::Time, "time that each batch takes besides its events")
            .otherwise("no time"),
        key(
            "batch_cost_covers",
            Form::Whole(1, 1_000_000_000),
            "events for which a batch pays this once; more pay it again",
        )
        .otherwise("all events of the batch"),
        LawKind::Quality.key(),
        key("degradable", Form::Number(0.0, 1.0), "share of the work that falls with quality")
            .default("1"),
        LawKind::Termination.key(),
        key("clean_up", Form::Time, "time that a worker takes after its event was ended")
            .otherwise("no time"),
        COORDINATION,
        key(
            "measured_from",
            Form::OneOf(&MEASURED_FROM),
            "where the response times begin that its laws are told",
        )
        .default("\"stage\""),
    ]],
};
const WORKERS: Form = Form::Either(&[
    Form::Whole(1, 1_000_000_000),
    Form::OneOf(&[UNLIMITED]),
    Form::Law(LawKind::Workers),
]);
const MEASURED_FROM: [&str; 2] = [MeasuredFrom::ALL[0].name(), MeasuredFrom::ALL[1].name()];
const POSITIVE: Form = Form::Number(0.0, f64::INFINITY);
const STEPS: Form = Form::Either(&[Form::Time, Form::Table(&STEP), Form::List(&STEP_FORM)]);
static STEP_FORM: Form = Form::Either(&[Form::Time, Form::Table(&STEP)]);
const ROUTES: Form = Form::Map("name of a stage", &Form::Number(0.0, 1.0));

static STEP: Table = Table {
    heading: "step",
    summary: "A part of a service: a distribution, and what it is done on.",
    groups: &[
        KINDS,
        PARAMETERS,
        &[key("on", Form::Text("name of a resource"), "resource that it needs")
            .otherwise("the worker alone")],
    ],
};
static OF_CLASS: Table = Table {
    heading: "[stages.NAME.classes.NAME]",
    summary: "What is different for a class.",
    groups: &[&[
        key("service", STEPS, "its service").otherwise("the stage's"),
        key("to", ROUTES, "where it goes").otherwise("as the stage says"),
    ]],
};
static OF_KIND: Table = Table {
    heading: "[stages.NAME.kinds.NAME]",
    summary: "What is different for a kind.",
    groups: &[&[
        key("service", STEPS, "its service").otherwise("its class's"),
        key("worker", Form::Bool, "whether it uses a worker").default("true"),
        key("first_data", TIME, "time from its worker to its first data, which ends its response time; it keeps the worker for all its service, of which the first of several steps is its first eight pieces of data after that").otherwise("its answer comes as a whole"),
        key("lost", Form::Number(0.0, 1.0), "share of which no reply comes").otherwise("the stage's"),
    ]],
};
static SPAN: Table = Table {
    heading: "span",
    summary: "A time of the run.",
    groups: &[&[
        key("from", Form::Time, "when it begins").required(),
        key("until", Form::Time, "when it ends").required(),
    ]],
};
static PENALTY: Table = Table {
    heading: "penalty",
    summary: "Threads beyond those that are free cost workers.",
    groups: &[&[
        key("threads", Form::Whole(1, 1_000_000_000), "threads that exist").required(),
        key("free", Form::Whole(1, 1_000_000_000), "threads that cost nothing").required(),
        key("loss", POSITIVE, "workers that each further thread costs").required(),
    ]],
};
static SLOW: Table = Table {
    heading: "slow",
    summary: "When service takes longer.",
    groups: &[&[
        key("from", Form::Time, "when it begins").required(),
        key("until", Form::Time, "when it ends").required(),
        key("times", POSITIVE, "how many times as long").required(),
    ]],
};
pub(super) static RESOURCE: Table = Table {
    heading: "[resources.NAME]",
    summary: "What stages share: either `cores` or `connections`.",
    groups: &[&[
        key("cores", POSITIVE, "cores, shared in equal parts by all that use them"),
        key(
            "connections",
            Form::Whole(1, 1_000_000_000),
            "connections, each used by one at a time",
        ),
    ]],
};
/// The keys of a speed; the first that is there stands for it.
const SPEED: [&str; 3] = ["cores", "knee", "penalty"];
const DISCIPLINE_NAMES: [&str; 4] = ["fifo", "priority", "adaptive-lifo", "earliest-due"];
const DISCIPLINES: [Discipline; 4] =
    [Discipline::Fifo, Discipline::Priority, Discipline::AdaptiveLifo, Discipline::EarliestDue];

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
    let section = Section::new(value, &RESOURCE)?;
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
    let section = Section::new(value, &STAGE)?;
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
        batching: span("batching"),
        batch_cost: span("batch_cost"),
        quality: span("quality"),
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
        batch_cost: section.read("batch_cost", values::instant)?.unwrap_or_default(),
        batch_cost_covers: section.read("batch_cost_covers", whole)?.unwrap_or(u32::MAX),
        measured_from: section.read("measured_from", measured_from)?.unwrap_or_default(),
        degradable: section.read("degradable", values::ratio)?.unwrap_or(Ratio::ONE),
        clean_up: section.read("clean_up", values::instant)?.unwrap_or_default(),
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
        let section = Section::new(value, &OF_CLASS)?;
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
        let section = Section::new(value, &OF_KIND)?;
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

fn measured_from(value: &Value<'_>) -> Result<MeasuredFrom, Fault> {
    Ok(MeasuredFrom::ALL[values::one_of(value, "start of response times", &MEASURED_FROM)?])
}

fn discipline(value: &Value<'_>) -> Result<Discipline, Fault> {
    Ok(DISCIPLINES[values::one_of(value, "discipline", &DISCIPLINE_NAMES)?])
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
    let section = Section::new(value, &PENALTY)?;
    Ok(Penalty {
        threads: section.require("threads", "20", whole)?,
        free: section.require("free", "15", whole)?,
        loss: section.require("loss", "0.2", positive)?,
    })
}

fn slow(value: &Value<'_>) -> Result<Profile, Fault> {
    let spans = values::list(value, |value| {
        let section = Section::new(value, &SLOW)?;
        let from = section.require("from", "\"20s\"", values::instant)?;
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
        let section = Section::new(value, &SPAN)?;
        let time = |key| section.require(key, "\"20s\"", values::instant);
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
    let section = Section::new(value, &STEP)?;
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
