//! The laws of a stage, by name.

use std::ops::Range;
use std::time::Duration;

use tamarisk_control::catalogue::{
    ADMISSION, BATCHING, DROPPING, Entry, Knob, Laws, Named, QUALITY, TERMINATION, WORKERS,
};
use tamarisk_control::{Classes, Target};
use tamarisk_settings::values::{float, not_one_of, number, one_of, text};
use tamarisk_settings::{Fault, Section, Value, wrong_type};
use toml::de::DeValue;

/// What laws can be chosen for.
pub(super) const KEYS: [&str; 6] =
    ["admission", "dropping", "workers", "batching", "quality", "termination"];

/// The law of an upstream for which none is chosen.
const DEFAULT: &str = "opaque-upstream";

/// The laws that the sections about the stage `name` choose together.
pub(super) fn read(name: &str, sections: &[&Section<'_>]) -> Result<Laws, Fault> {
    let value = |key: &str| {
        let mut stated = sections.iter().filter_map(|section| section.value(key));
        match (stated.next(), stated.next()) {
            (_, Some(again)) => {
                let message = format!("{key} of {name:?} is stated twice");
                let expected = format!("expected in [upstreams.{name}] or in [stage.{name}]");
                Err(Fault::new(again.span(), message, expected))
            }
            (first, None) => Ok(first),
        }
    };
    let (admission, dropping) = (value("admission")?, value("dropping")?);
    let laws = Laws {
        admission: admission.map(|value| law(value, "admission", ADMISSION)).transpose()?,
        dropping: dropping.map(dropper).transpose()?,
        workers: value("workers")?.map(workers).transpose()?,
        batching: value("batching")?.map(|value| law(value, "batching", BATCHING)).transpose()?,
        quality: value("quality")?.map(|value| law(value, "quality", QUALITY)).transpose()?,
        termination: value("termination")?
            .map(|value| law(value, "termination", TERMINATION))
            .transpose()?,
    };
    if let Some(value) = value("batching")? {
        let message = "requests to an upstream cannot be batched";
        let expected = "expected no batching: each request is sent by itself";
        return Err(Fault::new(value.span(), message, expected));
    }
    if let (Some(at), Some(dropper)) = (dropping, &laws.dropping)
        && laws.admission.as_ref().is_some_and(|law| law.name() == dropper.name())
    {
        let message = format!("{} is the admission law already", dropper.name());
        return Err(Fault::new(at.span(), message, "expected another law, or none"));
    }
    in_flight(&laws, admission.map(Value::span), value("workers")?.map(Value::span))?;
    Ok(laws)
}

/// Either the admission law says how many requests are in flight, or a workers law does.
fn in_flight(
    laws: &Laws,
    admission: Option<Range<usize>>,
    workers: Option<Range<usize>>,
) -> Result<(), Fault> {
    let name = laws.admission.as_ref().map_or(DEFAULT, Named::name);
    let limits = match &laws.admission {
        None => true,
        Some(law) => law.make(&any_classes()).is_ok_and(|law| law.concurrency().is_some()),
    };
    match (limits, admission, workers) {
        (true, _, Some(at)) => {
            let message = format!("{name} itself decides how many requests are in flight");
            let fault = Fault::new(at, message, "expected no workers law besides");
            Err(fault.help("choose another admission law, such as \"predict-gate-trim\""))
        }
        (false, Some(at), None) => {
            let message = format!("{name} does not decide how many requests are in flight");
            let fault = Fault::new(at, message, "needs a workers law besides");
            Err(fault.help("add for example `workers = 32`"))
        }
        _ => Ok(()),
    }
}

/// `workers = 32` says what `{ law = "fixed", workers_count = 32 }` does.
fn workers(value: &Value<'_>) -> Result<Named<dyn tamarisk_control::WorkersLaw>, Fault> {
    let DeValue::Integer(_) = value.get_ref() else {
        return law(value, "workers", WORKERS);
    };
    let expected = "a number of workers from 1 to 32768, or a law";
    let count = number(value, expected, u64::MAX)?;
    let mut fixed = WORKERS[0].named();
    fixed.set("workers_count", count as f64).map_err(|error| {
        Fault::new(value.span(), error.to_string(), format!("expected {expected}"))
    })?;
    Ok(fixed)
}

fn dropper(value: &Value<'_>) -> Result<Named<dyn tamarisk_control::AdmissionLaw>, Fault> {
    let named = law(value, "dropping", ADMISSION)?;
    if DROPPING.contains(&named.name()) {
        return Ok(named);
    }
    Err(not_one_of(value.span(), "dropping law", named.name(), DROPPING))
}

/// A law by its name alone, or by a table that has its name and some of its constants.
fn law<L: ?Sized>(
    value: &Value<'_>,
    kind: &str,
    entries: &'static [Entry<L>],
) -> Result<Named<L>, Fault> {
    let names: Vec<_> = entries.iter().map(|entry| entry.name).collect();
    let choose = |name: &Value<'_>| one_of(name, &format!("{kind} law"), &names);
    let table = match value.get_ref() {
        DeValue::String(_) => return Ok(entries[choose(value)?].named()),
        DeValue::Table(table) => table,
        _ => return Err(wrong_type(value, "the name of a law, or a table with `law = \"…\"`")),
    };
    let Some(name) = table.get("law") else {
        let expected = format!("needs `law = {:?}`", names[0]);
        return Err(Fault::new(value.span(), format!("this {kind} law has no name"), expected));
    };
    text(name)?;
    let entry = &entries[choose(name)?];
    let mut known = vec!["law"];
    known.extend(entry.knobs.iter().map(|knob| knob.name));
    let section = Section::new(value, &known, |_| false)?;
    let mut named = entry.named();
    for Knob { name, least, greatest, .. } in entry.knobs {
        let Some(value) = section.value(name) else { continue };
        let expected = format!("a number from {least} to {greatest}");
        let number = float(value, &expected)?;
        named.set(name, number).map_err(|error| {
            Fault::new(value.span(), error.to_string(), format!("expected {expected}"))
        })?;
    }
    named.make(&any_classes()).map_err(|error| {
        Fault::new(value.span(), error.to_string(), "expected constants that go together")
    })?;
    Ok(named)
}

/// Whether constants go together does not depend on what is promised.
fn any_classes() -> Classes {
    Classes::single(Target::p90(Duration::from_secs(1)).expect("a second is a target"))
}
