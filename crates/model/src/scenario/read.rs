//! Reads a scenario from the tables of its file.

use tamarisk_control::{Class, ClassId, Classes, Priority, Target, Weight};
use tamarisk_laws::Laws;
use tamarisk_settings::table::{Form, LawKind, Table, key};
use tamarisk_settings::target;
use tamarisk_settings::{Document, Fault, Section, Value, values};

use super::clients::{CLIENT, Names};
use super::files::Files;
use super::places::Places;
use super::stages::{Known, RESOURCE, STAGE};
use super::{clients, stages};
use crate::sim::{Kind, Scenario, Simulation};

/// The file of a scenario.
pub static FILE: Table = Table {
    heading: "scenario.toml",
    summary: "A scenario, for `tamarisk sim` and `tamarisk model`.",
    groups: &[&[
        key("duration", Form::Time, "how long is measured, after `warm_up`").required(),
        key("warm_up", Form::Time, "how long runs before it is measured").otherwise("no time"),
        key("batches", Form::Whole(1, 1_000_000_000), "parts of a run, for confidence intervals")
            .default("20"),
        key(
            "p90",
            Form::Target,
            "response-time target of classes that state none, the whole way through",
        )
        .otherwise("required unless all classes state one"),
        key("classes", Form::Named(&CLASS), "classes of requests")
            .otherwise("one class, `default`"),
        key(
            "kinds",
            Form::Named(&KIND),
            "what laws tell apart besides: requests of a kind take about as long",
        ),
        key("resources", Form::Named(&RESOURCE), "what stages share"),
        LawKind::Global.key(),
        key("stages", Form::Named(&STAGE), "stages").required(),
        key("clients", Form::Named(&CLIENT), "who comes").required(),
    ]],
};
static KIND: Table = Table {
    heading: "[kinds.NAME]",
    summary: "A kind of requests within a class.",
    groups: &[&[
        key("class", Form::Text("name of a class"), "its class").otherwise("the first class")
    ]],
};
static CLASS: Table = Table {
    heading: "[classes.NAME]",
    summary: "A class of requests.",
    groups: &[&[
        key("priority", Form::Whole(0, 255), "lower ones go first").default("1"),
        key(
            "weight",
            Form::Whole(1, 100),
            "its part among the classes of its priority when not all can be served",
        )
        .otherwise("1 if another class of its priority has a weight"),
        key("p90", Form::Target, "its response-time target").otherwise("the file's"),
    ]],
};

/// The priority of classes that state none: there is room before and behind.
const MIDDLE: Priority = Priority(1);

type AllLaws = Vec<(String, Laws)>;

pub(super) fn file(
    document: &Document<'_>,
    files: Files<'_>,
) -> Result<(Scenario, AllLaws, Places), Fault> {
    let file = Section::of(document, &FILE)?;
    let duration = file.require("duration", "\"60s\"", values::duration)?;
    let mut scenario = Scenario::new(classes(&file)?, duration);
    scenario.warm_up = file.read("warm_up", values::instant)?.unwrap_or_default();
    if let Some(batches) = file.read("batches", stages::whole)? {
        scenario.batches = batches;
    }
    for (key, value) in file.read("resources", Section::tables)?.unwrap_or_default() {
        scenario.resources.push(stages::resource(values::key_name(key)?, value)?);
    }

    let span = |key| file.value(key).map_or(0..0, |value| value.span());
    let mut places = Places::new(span("duration"), span("batches"));
    if let Some(value) = file.value("global") {
        scenario.global = Some(tamarisk_settings::laws::global(value)?);
        places.global = value.span();
    }
    if let Some(value) = file.value("kinds") {
        scenario.kinds = kinds(value, &scenario.classes)?;
        places.kinds = value.span();
    }
    let mut laws = Vec::new();
    let tables = file.require("stages", "{ web = { workers = 8, … } }", Section::tables)?;
    let named = tables.iter().map(|(key, _)| values::key_name(key));
    let names: Vec<String> = named.collect::<Result<_, _>>()?;
    let promised = scenario.classes.clone();
    let classes: Vec<_> = promised.iter().map(|(_, class)| &*class.name).collect();
    let stage_names: Vec<_> = names.iter().map(|name| &**name).collect();
    let resources = scenario.resources.iter().map(|resource| resource.name.clone());
    let resources: Vec<_> = resources.collect();
    let resources: Vec<_> = resources.iter().map(|name: &String| &**name).collect();
    let kinds = scenario.kinds.clone();
    let kinds: Vec<_> = kinds.iter().map(|kind| &*kind.name).collect();
    let known = Known {
        kinds: kinds.clone(),
        classes: classes.clone(),
        resources,
        stages: stage_names.clone(),
        promised: &promised,
        files,
    };
    for ((key, value), name) in tables.iter().zip(&names) {
        let read = stages::stage(name.clone(), key.span(), value, &known)?;
        if read.laws != Laws::default() {
            laws.push((name.clone(), read.laws));
        }
        scenario.stages.push(read.stage);
        places.stages.push(read.place);
    }
    let tables = file.require("clients", "{ crowd = { open = \"100/s\" } }", Section::tables)?;
    let names = Names { classes: &classes, kinds: &kinds };
    for (key, value) in tables {
        let name = values::key_name(key)?;
        let (client, place) = clients::client(name, key.span(), value, &stage_names, names, files)?;
        scenario.clients.push(client);
        places.clients.push(place);
    }
    Simulation::new(&scenario).map_err(|error| places.fault(&error))?;
    Ok((scenario, laws, places))
}

fn kinds(value: &Value<'_>, classes: &Classes) -> Result<Vec<Kind>, Fault> {
    let names: Vec<_> = classes.iter().map(|(_, class)| &*class.name).collect();
    let kinds = Section::tables(value)?.into_iter().map(|(key, value)| {
        let section = Section::new(value, &KIND)?;
        let class = section.read("class", |value| values::one_of(value, "class", &names))?;
        Ok(Kind {
            name: values::key_name(key)?,
            class: names[class.unwrap_or(ClassId::DEFAULT.index())].to_owned(),
        })
    });
    kinds.collect()
}

fn classes(file: &Section<'_>) -> Result<Classes, Fault> {
    let target = target::of(file)?;
    let missing = |what: &str| {
        let message = format!("no response-time target for {what}");
        Fault::new(file.span(), message, "nothing is promised here")
            .help("add for example `p90 = \"200ms\"` at the top of the file")
    };
    let Some(value) = file.value("classes") else {
        return Ok(Classes::single(target.ok_or_else(|| missing("requests"))?));
    };
    let class = |name: String, value: &Value<'_>| -> Result<(Class, Option<Weight>), Fault> {
        let section = Section::new(value, &CLASS)?;
        let own: Option<Target> = target::of(&section)?;
        let class = Class {
            target: own.or(target).ok_or_else(|| missing(&name))?,
            name,
            priority: section.read("priority", values::priority)?.unwrap_or(MIDDLE),
        };
        Ok((class, section.read("weight", values::weight)?))
    };
    let tables = Section::tables(value)?.into_iter();
    let all = tables.map(|(key, value)| class(values::key_name(key)?, value));
    let (all, weights): (Vec<_>, Vec<_>) = all.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
    let classes = Classes::new(all).map_err(|error| {
        Fault::new(value.span(), error.to_string(), "expected some, and not too many")
    })?;
    let weights = weights.into_iter().enumerate();
    let weights = weights.filter_map(|(index, weight)| Some((ClassId::new(index), weight?)));
    Ok(weights.fold(classes, |classes, (id, weight)| classes.weighted(id, weight)))
}
