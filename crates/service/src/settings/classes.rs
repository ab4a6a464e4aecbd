//! Configuration of request classes, `[classes.NAME]`.

use std::ops::Range;
use std::sync::Arc;

use tamarisk_control::{Priority, Target, Weight};
use tamarisk_proxy::classify::Condition;
use tamarisk_settings::table::{Form, Key, Table, key};
use tamarisk_settings::target;
use tamarisk_settings::{Fault, Mistakes, Section, Value, all};

use super::values;

/// The priority of classes that state none: there is room before and behind.
pub(super) const MIDDLE: Priority = Priority(1);

/// The class of requests that no other one takes.
pub(super) const DEFAULT: &str = "default";

/// The table of a class; a class named `default` takes what no other one does.
pub(super) static CLASS: Table = Table {
    heading: "[classes.NAME]",
    summary: "A class of requests. The first class that matches a request applies. `[classes.default]`, which has no `any`, is for all other requests.",
    groups: &[&[
        key("any", Form::List(&Form::Table(&CONDITION)), "conditions: a request that meets one of them is of this class")
            .otherwise("required, except in `[classes.default]`"),
        key("priority", Form::Whole(0, 255), "lower numbers are served first").default("1"),
        key("weight", Form::Whole(1, 100), "share of capacity among the classes of the same priority under overload; without any weight, they are treated alike")
            .otherwise("1 if another class of its priority has a weight"),
        key("p90", Form::Target, "its response-time target").otherwise("the file's"),
    ]],
};

static CONDITION: Table = Table {
    heading: "condition",
    summary: "One of `header`, `cookie`, `path` and `address`.",
    groups: &[&[
        key("header", Form::Text("name of a header"), "the request has this header"),
        key("cookie", Form::Text("name of a cookie"), "the request has this cookie"),
        key("value", Form::Text("text"), "value of the header or cookie").otherwise("any"),
        key("path", Form::Text("path"), "the request's path is this one, or below it"),
        key("address", Form::Text("address or network"), "the client's address is in this network"),
    ]],
};

/// Which classes there are.
pub const CLASSES: Key = key("classes", Form::Named(&CLASS), "kinds of requests");

/// A kind of requests, before it is known to which upstreams they go.
#[derive(Clone, Debug)]
pub struct ClassDefinition {
    pub(super) name: String,
    pub(super) span: Range<usize>,
    pub(super) any: Arc<[Condition]>,
    pub(super) priority: Priority,
    pub(super) weight: Option<Weight>,
    pub(super) target: Option<Target>,
}

impl ClassDefinition {
    /// The names of those of the classes `before` it that match all its requests; `None` if they
    /// leave it some.
    pub(super) fn takers<'d>(&self, before: &[&'d Self]) -> Option<Vec<&'d str>> {
        let taker = |condition| {
            let takes = |class: &&&Self| class.any.iter().any(|other| implies(condition, other));
            before.iter().find(takes).map(|class| &*class.name)
        };
        let mut takers: Vec<_> = self.any.iter().map(taker).collect::<Option<_>>()?;
        takers.dedup();
        Some(takers)
    }
}

/// Whether every request that meets `condition` meets `other`.
fn implies(condition: &Condition, other: &Condition) -> bool {
    use Condition::{Address, Cookie, Header, Path};
    match (condition, other) {
        (Path(path), Path(other)) => other.covers(path),
        (_, Path(other)) => other.depth() == 0,
        (Address(network), Address(other)) => other.contains(network),
        (Header { name, .. }, Header { name: other, value: None }) => name == other,
        (Cookie { name, .. }, Cookie { name: other, value: None }) => name == other,
        _ => condition == other,
    }
}

/// The classes of `file`, as far as they are noted to be without mistakes; if one has some, the names of all, so
/// that what names them is read meanwhile.
pub fn classes_noted(file: &Section<'_>, mistakes: &mut Mistakes<Fault>) -> Vec<ClassDefinition> {
    let by_name = |name: &str| ClassDefinition {
        name: name.to_owned(),
        span: 0..0,
        any: [].into(),
        priority: MIDDLE,
        weight: None,
        target: None,
    };
    match mistakes.note(file.read("classes", classes)) {
        Some(classes) => classes.unwrap_or_default(),
        None => file.names("classes").into_iter().map(by_name).collect(),
    }
}

/// The tables `[classes.…]`.
///
/// # Errors
/// A [`Fault`] at what cannot be.
pub(super) fn classes(value: &Value<'_>) -> Result<Vec<ClassDefinition>, Fault> {
    all(Section::tables(value)?.into_iter().map(|(key, value)| {
        let (section, mut mistakes) = Section::collecting(value, &CLASS)?;
        let name = mistakes.note(values::key_name(key));
        let any = mistakes.note(section.read("any", |value| values::list(value, condition)));
        let priority = mistakes.note(section.read("priority", values::priority));
        let weight = mistakes.note(section.read("weight", values::weight));
        let target = mistakes.note(target::of(&section));
        let definition = mistakes.done(|| {
            Some(ClassDefinition {
                name: name?,
                span: key.span(),
                any: any?.unwrap_or_default().into(),
                priority: priority?.unwrap_or(MIDDLE),
                weight: weight?,
                target: target?,
            })
        })?;
        let any = &definition.any;
        if any.is_empty() != (definition.name == DEFAULT) {
            let (message, expected) = if any.is_empty() {
                ("this class matches no request", "needs `any = [{ header = \"…\" }]`")
            } else {
                (
                    "class `default` cannot have `any`: it takes requests of no other class",
                    "remove `any`",
                )
            };
            return Err(Fault::new(key.span(), message, expected));
        }
        Ok(definition)
    }))
}

fn condition(value: &Value<'_>) -> Result<Condition, Fault> {
    let section = Section::new(value, &CONDITION)?;
    let kinds: Vec<_> = ["header", "cookie", "path", "address"]
        .into_iter()
        .filter(|key| section.value(key).is_some())
        .collect();
    let &[kind] = kinds.as_slice() else {
        let message = format!("a condition tests one thing, and this one has {}", kinds.len());
        return Err(Fault::new(
            value.span(),
            message,
            "expected one of: header, cookie, path, address",
        ));
    };
    if let (Some(extra), "path" | "address") = (section.value("value"), kind) {
        let message = format!("`{kind}` cannot have a `value`");
        return Err(Fault::new(extra.span(), message, "remove it, or use `header` or `cookie`"));
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
