//! The kinds of requests.

use tamarisk_control::{Priority, Target, Weight};
use tamarisk_proxy::classify::Condition;
use tamarisk_settings::target::{self, is_percentile};
use tamarisk_settings::{Fault, Section, Value};

use super::values;

/// The priority of classes that state none: there is room before and behind.
pub(super) const MIDDLE: Priority = Priority(1);

/// The class of requests that no other one takes.
pub(super) const DEFAULT: &str = "default";

const CLASS: &[&str] = &["any", "priority", "weight", "p90"];
const CONDITION: &[&str] = &["header", "cookie", "value", "path", "address"];

/// A kind of requests, before it is known to which upstreams they go.
#[derive(Clone, Debug)]
pub struct ClassDefinition {
    pub(super) name: String,
    pub(super) any: Vec<Condition>,
    pub(super) priority: Priority,
    pub(super) weight: Option<Weight>,
    pub(super) target: Option<Target>,
}

/// The tables `[classes.…]`.
///
/// # Errors
/// A [`Fault`] at what cannot be.
pub fn classes(value: &Value<'_>) -> Result<Vec<ClassDefinition>, Fault> {
    let classes = Section::tables(value)?.into_iter().map(|(key, value)| {
        let section = Section::new(value, CLASS, is_percentile)?;
        let name = values::key_name(key)?;
        let any = section.read("any", |value| values::list(value, condition))?.unwrap_or_default();
        if any.is_empty() != (name == DEFAULT) {
            let (message, expected) = if any.is_empty() {
                ("a class that no request can be of", "needs `any = [{ header = \"…\" }]`")
            } else {
                ("the default class takes what no other one does", "expected no `any`")
            };
            return Err(Fault::new(key.span(), message, expected));
        }
        Ok(ClassDefinition {
            name,
            any,
            priority: section.read("priority", values::priority)?.unwrap_or(MIDDLE),
            weight: section.read("weight", values::weight)?,
            target: target::of(&section)?,
        })
    });
    classes.collect()
}

fn condition(value: &Value<'_>) -> Result<Condition, Fault> {
    let section = Section::new(value, CONDITION, |_| false)?;
    let kinds: Vec<_> = ["header", "cookie", "path", "address"]
        .into_iter()
        .filter(|key| section.value(key).is_some())
        .collect();
    let &[kind] = kinds.as_slice() else {
        let message = format!("{} things to look at in one condition", kinds.len());
        return Err(Fault::new(
            value.span(),
            message,
            "expected one of: header, cookie, path, address",
        ));
    };
    if let (Some(extra), "path" | "address") = (section.value("value"), kind) {
        let message = format!("a {kind} has no value besides");
        return Err(Fault::new(extra.span(), message, "expected only with header or cookie"));
    }
    Ok(match kind {
        "header" => Condition::Header {
            name: section.require(kind, "\"x-plan\"", values::header_name)?,
            value: section.read("value", values::header_value)?,
        },
        "cookie" => Condition::Cookie {
            name: section.require(kind, "\"plan\"", values::name)?,
            value: section.read("value", |value| values::text(value).map(str::to_owned))?,
        },
        "path" => Condition::Path(section.require(kind, "\"/shop\"", values::path_prefix)?),
        _ => Condition::Address(section.require(kind, "\"10.0.0.0/8\"", values::network)?),
    })
}
