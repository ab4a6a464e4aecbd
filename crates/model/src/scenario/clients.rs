//! The clients of a scenario file: arrivals, patience, retries.

use std::ops::Range;
use std::time::Duration;

use tamarisk_settings::table::{Form, Table, key};
use tamarisk_settings::{Fault, Section, Value, values};

use super::distributions::{TIME, distribution};
use super::files::Files;
use super::places::ClientPlace;
use super::stages::whole;
use crate::sim::{Client, Distribution, Heed, Load, Profile, Retry};

pub(super) static CLIENT: Table = Table {
    heading: "[clients.NAME]",
    summary: "Who comes, and when: one of `open`, `closed`, `sessions` and `trace`.",
    groups: &[&[
        key("enter", Form::Text("name of a stage"), "the stage by which they enter")
            .otherwise("the only stage; required if there are several"),
        key("open", RATE, "they come at this rate, whether others are answered or not"),
        key(
            "closed",
            Form::Whole(1, 1_000_000_000),
            "so many, each of whom waits for the answer, thinks and comes again",
        ),
        key(
            "sessions",
            RATE,
            "sessions begin at this rate; each of them is closed, and ends at some time",
        ),
        key("trace", Form::Text("path"), "they come as recorded by `tamarisk protect --record`"),
        key("gaps", TIME, "shape of the times between arrivals, of `open` and `sessions`")
            .otherwise("Poisson arrivals"),
        key("changes", Form::List(&Form::Table(&CHANGE)), "how their rate or number changes")
            .default("[]"),
        key("stay", Form::Number(0.0, 1.0), "how likely a session goes on after an answer")
            .otherwise("required with `sessions`"),
        key("think", TIME, "time from an answer to the next request")
            .otherwise("required with `closed` and `sessions`"),
        key(
            "mix",
            Form::Map("class or kind", &Form::Number(0.0, 1.0)),
            "shares of classes and kinds among the requests",
        )
        .otherwise("all of the first class"),
        key("flows", Form::Whole(1, 1_000_000_000), "flows that the requests belong to")
            .otherwise("1, or those of the trace"),
        key(
            "calls",
            Form::Whole(1, 1000),
            "requests that come at once, and are of use only together: a page of so many calls; for `open` clients",
        )
        .default("1"),
        key("greedy", Form::Number(0.0, 1.0), "share of the first flow").otherwise("as the others"),
        key(
            "patience",
            Form::Time,
            "after this time a request is not started any more; laws know of it",
        )
        .otherwise("unlimited"),
        key("leaves", TIME, "when the client leaves, of which nobody knows before")
            .otherwise("never"),
        key(
            "resend",
            Form::Time,
            "partly open: a user of `closed` who has had no answer after this time sends another request; the first one goes on",
        )
        .otherwise("never"),
        key("retry", Form::Table(&RETRY), "whether rejected requests are sent again")
            .otherwise("never"),
    ]],
};
const RATE: Form = Form::Text("rate such as `\"100/s\"`, `\"30/min\"` or `\"5/h\"`");

static CHANGE: Table = Table {
    heading: "changes",
    summary: "One of `step`, `ramp` and `spike`, each of which says which rate or number is reached.",
    groups: &[&[
        key("step", LEVEL, "level from `at` on"),
        key("ramp", LEVEL, "level that is reached evenly, between `from` and `until`; rates alone"),
        key("spike", LEVEL, "level between `from` and `until`, and the one before again after"),
        key("at", Form::Time, "when a step comes").otherwise("required with `step`"),
        key("from", Form::Time, "when it begins").otherwise("required with `ramp` and `spike`"),
        key("until", Form::Time, "when it ends").otherwise("required with `ramp` and `spike`"),
    ]],
};
const LEVEL: Form = Form::Either(&[RATE, Form::Whole(1, 1_000_000_000)]);

static RETRY: Table = Table {
    heading: "retry",
    summary: "How rejected requests are sent again.",
    groups: &[&[
        key(
            "attempts",
            Form::Whole(1, 1_000_000_000),
            "how often a rejected request is sent again at most",
        )
        .required(),
        key("pause", TIME, "time before it is sent again for the first time").required(),
        key(
            "growth",
            Form::Number(1.0, f64::INFINITY),
            "by which factor each pause is longer than the last",
        )
        .default("1"),
        key("most", Form::Time, "longest pause of its own").default("\"60s\""),
        key("heed", Form::Bool, "whether clients wait at least as long as `Retry-After` says")
            .default("false"),
    ]],
};

/// What a mix may name.
#[derive(Clone, Copy)]
pub(super) struct Names<'a> {
    pub(super) classes: &'a [&'a str],
    pub(super) kinds: &'a [&'a str],
}

pub(super) fn client(
    name: String,
    key: Range<usize>,
    value: &Value<'_>,
    stages: &[&str],
    names: Names<'_>,
    files: Files<'_>,
) -> Result<(Client, ClientPlace), Fault> {
    let section = Section::new(value, &CLIENT)?;
    let span = |names: &[&str]| {
        let value = names.iter().find_map(|name| section.value(name));
        value.map_or_else(|| key.clone(), |value| value.span())
    };
    let place = ClientPlace {
        name: name.clone(),
        key: key.clone(),
        load: span(&["open", "closed", "sessions", "trace"]),
        changes: span(&["changes", "open", "closed", "sessions"]),
        mix: span(&["mix"]),
        greedy: span(&["greedy"]),
        leaves: span(&["leaves"]),
        calls: span(&["calls"]),
        resend: span(&["resend"]),
    };
    let (load, flows) = load(&section, names.classes, files)?;
    let mut client = Client::new(name, entry(&section, stages)?, load);
    client.mix = section.read("mix", |value| mix(value, names))?.unwrap_or_default();
    client.flows = section.read("flows", whole)?.unwrap_or(flows);
    client.greedy = section.read("greedy", values::ratio)?;
    client.calls = section.read("calls", whole)?.unwrap_or(1);
    client.leaves = section.read("leaves", |value| distribution(value, files))?;
    client.resend = section.read("resend", values::duration)?;
    client.patience = section.read("patience", values::duration)?;
    client.retry = section.read("retry", |value| retry(value, files))?.unwrap_or_else(Retry::never);
    Ok((client, place))
}

fn entry(section: &Section<'_>, stages: &[&str]) -> Result<String, Fault> {
    let index = match (section.value("enter"), stages) {
        (Some(value), _) => values::one_of(value, "stage", stages)?,
        (None, [_]) => 0,
        (None, _) => {
            let message = "it is not clear by which stage these clients enter";
            return Err(Fault::new(section.span(), message, "needs `enter = \"…\"`"));
        }
    };
    Ok(stages[index].to_owned())
}

/// And how many flows there are, if nobody says.
fn load(section: &Section<'_>, classes: &[&str], files: Files<'_>) -> Result<(Load, u32), Fault> {
    let kinds = ["open", "closed", "sessions", "trace"];
    let said: Vec<_> = kinds.into_iter().filter(|kind| section.value(kind).is_some()).collect();
    let &[kind] = said.as_slice() else {
        let message = format!("{} kinds of load where one is needed", said.len());
        let expected = "needs one of `open = \"100/s\"`, `closed = 3`, `sessions = \"10/s\"` and `trace = \"FILE\"`";
        return Err(Fault::new(section.span(), message, expected));
    };
    let time = |value: &Value<'_>| distribution(value, files);
    let think = || section.require("think", "{ exponential = \"20ms\" }", time);
    let gaps = || {
        let poisson = Distribution::Exponential(Duration::from_secs(1));
        Ok::<_, Fault>(section.read("gaps", time)?.unwrap_or(poisson))
    };
    let mut flows = 1;
    let (load, others) = match kind {
        "open" => {
            (Load::Open { rate: rates(section, kind)?, gaps: gaps()? }, &["stay", "think"][..])
        }
        "sessions" => (
            Load::Sessions {
                rate: rates(section, kind)?,
                gaps: gaps()?,
                stay: section.require("stay", "0.8", values::ratio)?,
                think: think()?,
            },
            &[][..],
        ),
        "trace" => {
            let recorded = |value: &Value<'_>| files.recorded(value, classes);
            let (load, of_the_trace) = section.require(kind, "\"live.trace\"", recorded)?;
            flows = of_the_trace;
            (load, &["gaps", "changes", "stay", "think", "mix", "flows", "greedy"][..])
        }
        _ => (Load::Closed { users: users(section)?, think: think()? }, &["gaps", "stay"][..]),
    };
    if let Some((key, value)) = others.iter().find_map(|key| Some((key, section.value(key)?))) {
        let message = format!("{kind} clients have no {key}");
        return Err(Fault::new(value.span(), message, "expected nothing of the kind"));
    }
    Ok((load, flows))
}

/// `"100/s"`, `"30/min"` or `"5/h"`.
fn rate(value: &Value<'_>) -> Result<f64, Fault> {
    values::parsed(value, "a rate such as \"100/s\" or \"30/min\"", |text| {
        let (count, per) = text.split_once('/')?;
        let seconds = match per.trim() {
            "s" => 1.0,
            "min" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        let count: f64 = count.trim().parse().ok()?;
        (count.is_finite() && count >= 0.0).then_some(count / seconds)
    })
}

/// How a level changes.
enum Change {
    Step(Duration),
    Ramp(Duration, Duration),
    Spike(Duration, Duration),
}

/// The changes of a load, each with the level that it leads to, as `read` reads it.
fn changes<T>(
    section: &Section<'_>,
    read: fn(&Value<'_>) -> Result<T, Fault>,
) -> Result<Vec<(Change, T)>, Fault> {
    let list = section.read("changes", |value| values::list(value, |value| change(value, read)));
    Ok(list?.unwrap_or_default())
}

fn change<T>(
    value: &Value<'_>,
    read: fn(&Value<'_>) -> Result<T, Fault>,
) -> Result<(Change, T), Fault> {
    let section = Section::new(value, &CHANGE)?;
    let time = |key| section.require(key, "\"10s\"", values::instant);
    let level = |key| section.require(key, "…", read);
    let said = |key| section.value(key).is_some();
    match (said("step"), said("ramp"), said("spike")) {
        (true, false, false) => Ok((Change::Step(time("at")?), level("step")?)),
        (false, true, false) => Ok((Change::Ramp(time("from")?, time("until")?), level("ramp")?)),
        (false, false, true) => Ok((Change::Spike(time("from")?, time("until")?), level("spike")?)),
        _ => {
            let message = "it is not clear how the load changes";
            Err(Fault::new(section.span(), message, "needs one of `step`, `ramp` and `spike`"))
        }
    }
}

fn rates(section: &Section<'_>, key: &str) -> Result<Profile, Fault> {
    let start = section.require(key, "\"100/s\"", rate)?;
    let changes = changes(section, rate)?;
    Ok(changes.into_iter().fold(Profile::constant(start), |profile, (change, to)| match change {
        Change::Step(at) => profile.step(at, to),
        Change::Ramp(from, until) => profile.ramp(from, until, to),
        Change::Spike(from, until) => profile.spike(from, until, to),
    }))
}

fn users(section: &Section<'_>) -> Result<Vec<(Duration, u32)>, Fault> {
    let mut count = section.require("closed", "3", whole)?;
    let mut users = vec![(Duration::ZERO, count)];
    for (change, to) in changes(section, whole)? {
        if let Change::Step(Duration::ZERO) | Change::Spike(Duration::ZERO, _) = change {
            users.clear();
        }
        match change {
            Change::Step(at) => {
                users.push((at, to));
                count = to;
            }
            Change::Spike(from, until) => users.extend([(from, to), (until, count)]),
            Change::Ramp(..) => {
                let span = section.value("changes").map_or_else(|| section.span(), |v| v.span());
                let message = "users come and go in steps";
                return Err(Fault::new(span, message, "expected no `ramp` of users"));
            }
        }
    }
    Ok(users)
}

fn mix(value: &Value<'_>, names: Names<'_>) -> Result<Vec<(String, f64)>, Fault> {
    let shares = Section::tables(value)?.into_iter().map(|(key, value)| {
        let class: &str = key.get_ref();
        if !names.classes.contains(&class) && !names.kinds.contains(&class) {
            let all: Vec<_> = names.classes.iter().chain(names.kinds).copied().collect();
            let what = if names.kinds.is_empty() { "class" } else { "class or kind" };
            return Err(values::not_one_of(key.span(), what, class, &all));
        }
        Ok((class.to_owned(), values::ratio(value)?.get()))
    });
    shares.collect()
}

fn retry(value: &Value<'_>, files: Files<'_>) -> Result<Retry, Fault> {
    let section = Section::new(value, &RETRY)?;
    let attempts = section.require("attempts", "3", whole)?;
    let time = |value: &Value<'_>| distribution(value, files);
    let pause = section.require("pause", "{ exponential = \"1s\" }", time)?;
    let growth = section.read("growth", |value| values::float(value, "a number of 1 or more"))?;
    let mut retry = Retry::backoff(attempts, pause, growth.unwrap_or(1.0));
    if let Some(most) = section.read("most", values::duration)? {
        retry.pause_max = most;
    }
    if section.read("heed", values::yes)?.unwrap_or(false) {
        retry.heed = Heed::RetryAfter;
    }
    Ok(retry)
}
