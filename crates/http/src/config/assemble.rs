//! From the tables of a file to options that hold together.

use std::num::NonZeroU32;
use std::ops::Range;

use tamarisk_control::catalogue::Laws;
use tamarisk_control::{CLASSES_MAX, Class, ClassId, Classes, Priority, Target, Weight};
use tamarisk_settings::target::{self, is_percentile};
use tamarisk_settings::values::not_one_of;
use tamarisk_settings::{Document, Fault, Section, Value};

use super::{laws, token, values};
use crate::classify::{ClassRule, Condition, Route, Routes};
use crate::guard::Limits;
use crate::protect::{Options, UpstreamOptions};
use crate::proxy::{HostHeader, Origin};
use crate::server::Server;

/// The priority of classes that state none: there is room before and behind.
const MIDDLE: Priority = Priority(1);

/// The class of requests that no other one takes.
const DEFAULT: &str = "default";

#[rustfmt::skip]
const FILE: &[&str] = &[
    "listen", "status", "status_token", "cores", "trusted_proxies", "p90", "limits", "upstreams",
    "stage", "classes", "routes",
];
const LIMITS: &[&str] = &[
    "request_line",
    "head",
    "body",
    "head_time",
    "stall_time",
    "rate_min",
    "idle_time",
    "connections",
];
#[rustfmt::skip]
const UPSTREAM: &[&str] = &[
    "url", "host", "connect_time", "answer_time",
    "admission", "dropping", "workers", "batching", "quality", "termination",
];
const CLASS: &[&str] = &["any", "priority", "weight", "p90"];
const CONDITION: &[&str] = &["header", "cookie", "value", "path", "address"];
const ROUTE: &[&str] = &["name", "path", "host", "methods", "upstream", "classes", "p90"];

/// An upstream, and the classes that its routes have brought so far.
struct Upstream {
    name: String,
    span: Range<usize>,
    origin: Origin,
    host_header: HostHeader,
    times: [Option<std::time::Duration>; 2],
    laws: Laws,
    classes: Vec<Class>,
    weights: Vec<(ClassId, Weight)>,
}

/// A kind of requests, before it is known to which upstreams they go.
struct ClassDefinition {
    name: String,
    any: Vec<Condition>,
    priority: Priority,
    weight: Option<Weight>,
    target: Option<Target>,
}

struct RouteDefinition {
    /// Empty for the only one: its classes need no prefix.
    name: String,
    span: Range<usize>,
    route: Route,
    target: Option<Target>,
    classes: Option<Vec<usize>>,
}

pub(super) fn options(document: &Document<'_>) -> Result<Options, Fault> {
    let file = Section::of(document.get_ref(), 0..0, FILE, is_percentile)?;
    let listen = file.require("listen", "\"127.0.0.1:8080\"", values::address)?;
    let target = target::of(&file)?;
    let classes = file.read("classes", classes)?.unwrap_or_default();
    let stages = file.read("stage", stages)?.unwrap_or_default();
    let read = |value| upstreams(value, &stages);
    let mut upstreams = file.require("upstreams", "{ app = { url = \"http://…\" } }", read)?;
    let routes = match file.read("routes", |value| routes(value, &upstreams, &classes))? {
        Some(routes) => routes,
        None => vec![only_route(&upstreams)?],
    };
    let routes = routes
        .into_iter()
        .map(|route| join(route, &mut upstreams, &classes, target))
        .collect::<Result<_, _>>()?;
    let upstreams = upstreams.into_iter().map(Upstream::finish).collect::<Result<_, _>>()?;

    let mut options = Options::new(listen, Routes::new(routes), upstreams);
    options.status = file.read("status", values::address)?;
    options.status_token = file.read("status_token", token::source)?;
    if let Some(cores) = file.read("cores", values::count)? {
        options.cores = cores;
    }
    let networks = |value| values::list(value, values::network);
    options.trusted = file.read("trusted_proxies", networks)?.unwrap_or_default();
    options.server = file.read("limits", limits)?.unwrap_or_default();
    Ok(options)
}

fn limits(value: &Value<'_>) -> Result<Server, Fault> {
    let section = Section::new(value, LIMITS, |_| false)?;
    let mut limits = Limits::default();
    if let Some(bytes) = section.read("request_line", values::size)? {
        limits = limits.request_line(bytes as usize);
    }
    if let Some(bytes) = section.read("head", values::size)? {
        limits = limits.head(bytes as usize);
    }
    limits = limits.body(section.read("body", values::size)?);
    if let Some(time) = section.read("head_time", values::duration)? {
        limits = limits.head_time(time);
    }
    if let Some(time) = section.read("stall_time", values::duration)? {
        limits = limits.stall_time(time);
    }
    if let Some(bytes) = section.read("rate_min", values::size)? {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        limits = limits.rate_min(NonZeroU32::new(bytes).unwrap_or(NonZeroU32::MIN));
    }
    let mut server = Server::default().limits(limits);
    if let Some(time) = section.read("idle_time", values::duration)? {
        server = server.idle_time(time);
    }
    if let Some(count) = section.read("connections", values::count)? {
        server = server.connections_max(count.get());
    }
    Ok(server)
}

/// A `[stage.…]`: its name, where that stands, and what it says.
type StageSection<'a> = (String, Range<usize>, Section<'a>);

fn stages<'a>(value: &'a Value<'a>) -> Result<Vec<StageSection<'a>>, Fault> {
    let stages = Section::tables(value)?.into_iter().map(|(key, value)| {
        let section = Section::new(value, &tamarisk_settings::laws::KEYS, |_| false)?;
        Ok((values::key_name(key)?, key.span(), section))
    });
    stages.collect()
}

fn upstreams(value: &Value<'_>, stages: &[StageSection<'_>]) -> Result<Vec<Upstream>, Fault> {
    let tables = Section::tables(value)?;
    let names: Vec<&str> = tables.iter().map(|(key, _)| &**key.get_ref()).collect();
    for (stage, span, _) in stages {
        if !names.contains(&&**stage) {
            return Err(not_one_of(span.clone(), "upstream", stage, &names));
        }
    }
    let upstreams = tables.into_iter().map(|(key, value)| {
        let section = Section::new(value, UPSTREAM, |_| false)?;
        let name = values::key_name(key)?;
        let about = stages.iter().filter(|(stage, ..)| *stage == name).map(|(.., stage)| stage);
        let sections: Vec<_> = std::iter::once(&section).chain(about).collect();
        Ok(Upstream {
            laws: laws::read(&name, &sections)?,
            name,
            span: key.span(),
            origin: section.require("url", "\"http://127.0.0.1:3000\"", values::origin)?,
            host_header: section.read("host", values::host_header)?.unwrap_or_default(),
            times: [
                section.read("connect_time", values::duration)?,
                section.read("answer_time", values::duration)?,
            ],
            classes: Vec::new(),
            weights: Vec::new(),
        })
    });
    let upstreams: Vec<_> = upstreams.collect::<Result<_, Fault>>()?;
    if upstreams.is_empty() {
        let message = "no service to protect";
        return Err(Fault::new(value.span(), message, "expected a table such as [upstreams.app]"));
    }
    Ok(upstreams)
}

impl Upstream {
    fn finish(self) -> Result<UpstreamOptions, Fault> {
        if self.classes.is_empty() {
            let message = format!("no route leads to the upstream {:?}", self.name);
            return Err(Fault::new(
                self.span,
                message,
                "expected a route to it, or not this upstream",
            ));
        }
        if self.classes.len() > CLASSES_MAX {
            let message = format!("{} kinds of requests go to {:?}", self.classes.len(), self.name);
            let expected = format!("expected at most {CLASSES_MAX} pairs of a route and a class");
            return Err(Fault::new(self.span, message, expected));
        }
        let classes = Classes::new(self.classes).map_err(|error| {
            Fault::new(
                self.span,
                error.to_string(),
                "expected routes and classes of different names",
            )
        })?;
        let classes = self.weights.into_iter().fold(classes, |all, (id, w)| all.weighted(id, w));
        let mut options = UpstreamOptions::new(self.name, self.origin, classes);
        options.host_header = self.host_header;
        let [connect_time, answer_time] = self.times;
        options.connect_time = connect_time.unwrap_or(options.connect_time);
        options.answer_time = answer_time.unwrap_or(options.answer_time);
        options.laws = self.laws;
        Ok(options)
    }
}

fn classes(value: &Value<'_>) -> Result<Vec<ClassDefinition>, Fault> {
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
        "path" => Condition::Path(section.require(kind, "\"/shop\"", values::path)?),
        _ => Condition::Address(section.require(kind, "\"10.0.0.0/8\"", values::network)?),
    })
}

fn routes(
    value: &Value<'_>,
    upstreams: &[Upstream],
    classes: &[ClassDefinition],
) -> Result<Vec<RouteDefinition>, Fault> {
    let routes = values::list(value, |value| route(value, upstreams, classes))?;
    if routes.is_empty() {
        let message = "no request can be served";
        return Err(Fault::new(
            value.span(),
            message,
            "expected at least one route, or no `routes`",
        ));
    }
    Ok(routes)
}

fn route(
    value: &Value<'_>,
    upstreams: &[Upstream],
    classes: &[ClassDefinition],
) -> Result<RouteDefinition, Fault> {
    let section = Section::new(value, ROUTE, is_percentile)?;
    let upstream = match section.value("upstream") {
        Some(value) => upstream_named(value, upstreams)?,
        None if upstreams.len() == 1 => 0,
        None => {
            let message = "it is not clear to which upstream this route leads";
            return Err(Fault::new(section.span(), message, "needs `upstream = \"…\"`"));
        }
    };
    let named = |value| values::list(value, |value| class_named(value, classes));
    Ok(RouteDefinition {
        name: section.require("name", "\"api\"", values::name)?,
        span: section.span(),
        route: Route {
            host: section.read("host", values::host_pattern)?,
            path: section.read("path", values::path)?.unwrap_or_else(|| "/".to_owned()),
            methods: section
                .read("methods", |value| values::list(value, values::method))?
                .unwrap_or_default(),
            upstream,
            classes: Vec::new(),
            otherwise: ClassId::DEFAULT,
        },
        target: target::of(&section)?,
        classes: section.read("classes", named)?,
    })
}

fn only_route(upstreams: &[Upstream]) -> Result<RouteDefinition, Fault> {
    let [upstream] = upstreams else {
        let message = "several upstreams, and no routes to tell which request goes to which";
        let expected = "expected a single upstream, or [[routes]]";
        return Err(Fault::new(upstreams[1].span.clone(), message, expected));
    };
    Ok(RouteDefinition {
        name: String::new(),
        span: upstream.span.clone(),
        route: Route::everything(0),
        target: None,
        classes: None,
    })
}

/// Makes each class of a route a class of the route's upstream.
fn join(
    definition: RouteDefinition,
    upstreams: &mut [Upstream],
    classes: &[ClassDefinition],
    file_target: Option<Target>,
) -> Result<Route, Fault> {
    let RouteDefinition { name, span, mut route, target, classes: chosen } = definition;
    let upstream = &mut upstreams[route.upstream];
    let mut add = |class: Option<&ClassDefinition>| {
        let own = class.and_then(|class| class.target);
        let target = target.or(own).or(file_target).ok_or_else(|| {
            let what = class.map_or("requests", |class| &class.name);
            Fault::new(
                span.clone(),
                format!("no response-time target for {what}"),
                "nothing is promised here",
            )
            .help("add for example `p90 = \"200ms\"` at the top of the file")
        })?;
        // More than fit are reported when the upstream is complete.
        let id = ClassId::new(upstream.classes.len().min(CLASSES_MAX - 1));
        upstream.classes.push(Class {
            name: gate_name(&name, class.map(|class| &*class.name)),
            target,
            priority: class.map_or(MIDDLE, |class| class.priority),
        });
        let weight = class.and_then(|class| class.weight);
        upstream.weights.extend(weight.map(|weight| (id, weight)));
        Ok(id)
    };
    let default = classes.iter().find(|class| class.name == DEFAULT);
    route.otherwise = add(default)?;
    let all = || (0..classes.len()).collect();
    for index in chosen.unwrap_or_else(all) {
        let class = &classes[index];
        if class.name != DEFAULT {
            route.classes.push(ClassRule { any: class.any.clone(), class: add(Some(class))? });
        }
    }
    Ok(route)
}

/// `route/class`; the route alone for its default class, and the class alone
/// where there is one route only.
fn gate_name(route: &str, class: Option<&str>) -> String {
    match (route, class.filter(|class| *class != DEFAULT)) {
        ("", class) => class.unwrap_or(DEFAULT).to_owned(),
        (route, None) => route.to_owned(),
        (route, Some(class)) => format!("{route}/{class}"),
    }
}

fn upstream_named(value: &Value<'_>, upstreams: &[Upstream]) -> Result<usize, Fault> {
    let names: Vec<_> = upstreams.iter().map(|upstream| &*upstream.name).collect();
    values::one_of(value, "upstream", &names)
}

fn class_named(value: &Value<'_>, classes: &[ClassDefinition]) -> Result<usize, Fault> {
    let names: Vec<_> = classes.iter().map(|class| &*class.name).collect();
    values::one_of(value, "class", &names)
}
