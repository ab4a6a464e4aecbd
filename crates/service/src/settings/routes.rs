//! Configuration of routes, `[[routes]]`.

use std::ops::Range;
use std::sync::Arc;

use http::Method;
use tamarisk_control::{ClassId, Target};
use tamarisk_proxy::classify::{ClassRule, Route};
use tamarisk_settings::table::{Form, Key, Table, key};
use tamarisk_settings::target;
use tamarisk_settings::{Fault, Section, Value, all};

use super::classes::{ClassDefinition, DEFAULT, MIDDLE};
use super::pairs::Pair;
use super::upstreams::{REQUEST_BUFFERING, Upstream};
use super::values;

pub(super) static ROUTE: Table = Table {
    heading: "[[routes]]",
    summary: "Which requests go where. Of all routes that fit, the one with the most exact host takes a request; of those, the one with the longest path; of those, one with `methods`. A route without `host` also takes requests for the host of another route, if no route with this host has their path. Each pair of a route and a class has a class of its own in the stage, as long as at most 64 pairs use an upstream; otherwise routes share the classes of this file, and if that is not enough, all pairs with the same target, priority and weight share one.",
    groups: &[
        &[
            key("name", Form::Text("name"), "what it is called in metrics and on the status page")
                .required(),
            key("path", Form::Text("path"), "path of its requests, and all below it")
                .default("\"/\""),
            key("host", Form::Text("host name, or `*.` and a domain"), "host of its requests; `*.` stands for any number of labels: `*.example.org` takes `a.b.example.org` too")
                .otherwise("any"),
            key("methods", Form::List(&Form::Text("method")), "methods of its requests")
                .otherwise("any"),
            key("request_buffering", REQUEST_BUFFERING, "whether a request body is read completely before the request is sent")
                .otherwise("that of its upstream"),
            key("upstream", Form::Text("name of an upstream"), "where its requests go")
                .otherwise("the only upstream; required if there are several"),
        ],
        &ROUTED,
    ],
};

/// What may be said of any route to a service.
#[rustfmt::skip]
pub(super) static ROUTED: [Key; 3] = [
    key("classes", Form::List(&Form::Text("name of a class")), "classes that its requests may be of").otherwise("all"),
    key("streams", Form::Bool, "treats its responses as streams: each keeps its place in the stage until it ends, except while it sends nothing for 10 s after its last data, and the target applies to its first data. Responses of the types `text/event-stream` and `application/grpc` always are streams").default("false"),
    key("p90", Form::Target, "response-time target of all its requests").otherwise("that of the class, else (in `serve`) the host's, else the file's"),
];

/// A route, before its classes are those of its upstream.
pub(super) struct RouteDefinition {
    /// Empty for the only one: its classes need no prefix.
    pub(super) name: String,
    pub(super) span: Range<usize>,
    pub(super) route: Route,
    pub(super) target: Option<Target>,
    pub(super) classes: Option<Vec<usize>>,
}

impl RouteDefinition {
    /// Its classes of all `classes`, by position, in the order in which they are tried.
    fn tried(&self, classes: &[ClassDefinition]) -> Vec<usize> {
        let all = || (0..classes.len()).collect();
        self.classes.clone().unwrap_or_else(all)
    }
}

/// The routes, each to one of the upstreams of these names and with some of the classes of these.
pub(super) fn routes(
    value: &Value<'_>,
    [upstreams, classes]: &[Vec<&str>; 2],
) -> Result<Vec<RouteDefinition>, Fault> {
    let routes = values::list(value, |value| route(value, upstreams, classes))?;
    if routes.is_empty() {
        let message = "`routes` is empty";
        return Err(Fault::new(value.span(), message, "add a route, or remove `routes`"));
    }
    let matches = |(index, route): (usize, &RouteDefinition)| {
        if let Some(taker) = takes_all(&routes[..index], &route.route) {
            let message = format!("route `{}` never matches", route.name);
            let label = format!("`{}` matches the same requests first", taker.name);
            return Err(Fault::new(route.span.clone(), message, label)
                .help("the route with the most exact host wins; of those, the one with the longest path; of those, one with `methods`"));
        }
        Ok(())
    };
    all(routes.iter().enumerate().map(matches))?;
    Ok(routes)
}

/// That each of the `classes` is one of some route.
pub(super) fn each_has_a_route(
    routes: &[RouteDefinition],
    classes: &[ClassDefinition],
) -> Result<(), Fault> {
    let is_left_out = |(index, class): &(usize, &ClassDefinition)| {
        let has = |route: &RouteDefinition| {
            route.classes.as_ref().is_none_or(|classes| classes.contains(index))
        };
        class.name != DEFAULT && !routes.iter().any(has)
    };
    let left_out = classes.iter().enumerate().filter(is_left_out);
    all(left_out.map(|(_, class)| {
        let message = format!("no route has the class {:?}", class.name);
        let expected = "add it to the `classes` of a route, or remove it";
        Err::<(), _>(Fault::new(class.span.clone(), message, expected))
    }))
    .map(drop)
}

/// That each of the `classes` matches requests on one of the routes that have it.
pub(super) fn each_class_matches(
    routes: &[RouteDefinition],
    classes: &[ClassDefinition],
) -> Result<(), Fault> {
    let named = classes.iter().enumerate().filter(|(_, class)| class.name != DEFAULT);
    let matches = |(index, class): (usize, &ClassDefinition)| {
        let takers_on = |route: &RouteDefinition| {
            let tried = route.tried(classes);
            let place = tried.iter().position(|tried| *tried == index)?;
            let before: Vec<_> = tried[..place].iter().map(|before| &classes[*before]).collect();
            Some(class.takers(&before))
        };
        let takers: Option<Vec<_>> = routes.iter().filter_map(takers_on).collect();
        if let Some([takers, ..]) = takers.as_deref() {
            let message = format!("class `{}` never matches", class.name);
            let label = format!("all its requests are of an earlier class: {}", takers.join(", "));
            let help =
                "the first class that matches a request applies: move this one up, or remove it";
            return Err(Fault::new(class.span.clone(), message, label).help(help));
        }
        Ok(())
    };
    all(named.map(matches)).map(drop)
}

/// The last of these that is for the same requests as `route`, if they leave it none.
fn takes_all<'d>(before: &'d [RouteDefinition], route: &Route) -> Option<&'d RouteDefinition> {
    let is_same = |other: &&RouteDefinition| {
        let other = &other.route;
        other.host == route.host
            && other.path == route.path
            && other.methods.is_empty() == route.methods.is_empty()
    };
    let same = before.iter().filter(is_same);
    let is_taken = |method| same.clone().any(|other| other.route.methods.contains(method));
    route.methods.iter().all(is_taken).then(|| same.clone().next_back())?
}

fn route(
    value: &Value<'_>,
    upstreams: &[&str],
    classes: &[&str],
) -> Result<RouteDefinition, Fault> {
    let (section, mut mistakes) = Section::collecting(value, &ROUTE)?;
    let upstream = mistakes.note(match section.value("upstream") {
        Some(value) => values::one_of(value, "upstream", upstreams),
        // Without any, that is the mistake.
        None if upstreams.len() <= 1 => Ok(0),
        None => {
            let message = "this route names no upstream, and there are several";
            Err(Fault::new(section.span(), message, "needs `upstream = \"…\"`"))
        }
    });
    let name = mistakes.note(section.require("name", "\"api\"", values::name));
    let host = mistakes.note(section.read("host", values::host_pattern));
    let path = mistakes.note(section.read("path", values::path_prefix));
    let methods = mistakes.note(section.read("methods", methods));
    let streams = mistakes.note(section.read("streams", values::yes));
    let buffering = section.read("request_buffering", values::request_buffering);
    let buffering = mistakes.note(buffering);
    let target = mistakes.note(target::of(&section));
    let classes = mistakes.note(section.read("classes", |value| classes_named(value, classes)));
    mistakes.done(|| {
        let name: String = name?;
        Some(RouteDefinition {
            span: section.span(),
            route: Route {
                name: name.as_str().into(),
                host: host?,
                path: path?.unwrap_or_default(),
                methods: methods?.unwrap_or_default(),
                upstream: upstream?,
                classes: Vec::new(),
                otherwise: ClassId::DEFAULT,
                streams: streams?.unwrap_or_default(),
                request_buffering: buffering?,
            },
            name,
            target: target?,
            classes: classes?,
        })
    })
}

fn methods(value: &Value<'_>) -> Result<Vec<Method>, Fault> {
    let methods = values::list(value, values::method)?;
    if methods.is_empty() {
        let message = "`methods` is empty";
        return Err(Fault::new(value.span(), message, "name a method, or remove `methods`"));
    }
    // The proxy answers them with 501.
    if methods.iter().all(|method| matches!(*method, Method::CONNECT | Method::TRACE)) {
        let message = "`CONNECT` and `TRACE` are not forwarded";
        return Err(Fault::new(value.span(), message, "name another method, or remove the route"));
    }
    Ok(methods)
}

pub(super) fn only_route(upstreams: &[Upstream]) -> Result<RouteDefinition, Fault> {
    let [upstream] = upstreams else {
        let message = "several upstreams, but no routes to choose between them";
        let expected = "keep one upstream, or add [[routes]]";
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

/// A route whose upstream knows of its pairs with classes, before these are classes of its stage.
pub(super) struct JoinedRoute {
    route: Route,
    /// Where its pairs stand among those of the upstream: that for the rest of its requests, then
    /// those of its classes.
    pairs: Range<usize>,
}

impl JoinedRoute {
    /// Which upstream it leads to, by its position.
    pub(super) fn upstream(&self) -> usize {
        self.route.upstream
    }

    /// The route, where the pairs of its upstream are these classes.
    pub(super) fn with(self, classes: &[ClassId]) -> Route {
        let Self { mut route, pairs } = self;
        let of_route = std::iter::once(&mut route.otherwise)
            .chain(route.classes.iter_mut().map(|rule| &mut rule.class));
        of_route.zip(&classes[pairs]).for_each(|(class, id)| *class = *id);
        route
    }
}

/// Tells the route's upstream of each class that the route has.
pub(super) fn join(
    definition: RouteDefinition,
    upstreams: &mut [Upstream],
    classes: &[ClassDefinition],
    file_target: Option<Target>,
) -> Result<JoinedRoute, Fault> {
    let tried = definition.tried(classes);
    let RouteDefinition { name, span, mut route, target, .. } = definition;
    let pairs = &mut upstreams[route.upstream].pairs;
    let first = pairs.len();
    let mut add = |class: Option<&ClassDefinition>| {
        let own = class.and_then(|class| class.target);
        let target = target.or(own).or(file_target).ok_or_else(|| {
            let what = class.map_or("requests", |class| &class.name);
            Fault::new(
                span.clone(),
                format!("no response-time target for {what}"),
                "this file sets none",
            )
            .help("add for example `p90 = \"200ms\"` at the top of the file")
        })?;
        let class_name = class.map(|class| &*class.name);
        pairs.push(Pair {
            name: gate_name(&name, class_name),
            class: class_name.unwrap_or(DEFAULT).to_owned(),
            target,
            priority: class.map_or(MIDDLE, |class| class.priority),
            weight: class.and_then(|class| class.weight),
        });
        Ok(())
    };
    add(classes.iter().find(|class| class.name == DEFAULT))?;
    for class in tried.into_iter().map(|index| &classes[index]) {
        if class.name != DEFAULT {
            add(Some(class))?;
            let any = Arc::clone(&class.any);
            route.classes.push(ClassRule { any, class: ClassId::DEFAULT });
        }
    }
    Ok(JoinedRoute { route, pairs: first..pairs.len() })
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

/// The places of the classes that a route names among all, which have these `names`.
pub(super) fn classes_named(value: &Value<'_>, names: &[&str]) -> Result<Vec<usize>, Fault> {
    values::list(value, |value| values::one_of(value, "class", names))
}
