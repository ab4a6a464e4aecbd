//! `[[host]]`: names, routes and error pages.

use std::collections::BTreeMap;
use std::ops::Range;

use http::StatusCode;
use tamarisk_control::Target;
use tamarisk_proxy::classify::PathPrefix;
use tamarisk_service::settings::{self, ClassDefinition};
use tamarisk_settings::table::{Form, Table, key};
use tamarisk_settings::values::list;
use tamarisk_settings::{Fault, Mistakes, Section, Value, all};

use super::action::{FOLDER, Known, ROUTE};
use super::values::{self, FileContext};
use crate::disk::path::SitePath;
use crate::site::host::HostName;
use crate::site::options::{Action, HostOptions, RouteOptions};
use crate::site::route::Redirect;

pub(super) static HOST: Table = Table {
    heading: "[[host]]",
    summary: "A virtual host. A request is assigned by its `Host` or `:authority`, without the port; an exact name goes before a pattern. A request for no host is answered with 421, unless one host has no names.",
    groups: &[
        &[
            key(
                "names",
                Form::List(&Form::Text("host name, or `*.` and a domain")),
                "its names; `*.` stands for one label, as in certificates",
            )
            .otherwise("all names that no other host has"),
            key(
                "root",
                Form::Text("path"),
                "folder of its files, relative to this file: its route `/`",
            )
            .otherwise("only its routes are served"),
        ],
        &FOLDER,
        &[
            key(
                "errors",
                Form::Map("status from 400 to 599", &Form::Text("path")),
                "error pages in the root, instead of the built-in ones; responses of proxied services are forwarded unchanged",
            ),
            key("route", Form::List(&Form::Table(&ROUTE)), "what else is served"),
            key("p90", Form::Target, "response-time target of its files and proxied routes")
                .otherwise("the file's"),
        ],
    ],
};

/// What a file says for all hosts.
#[derive(Clone, Copy)]
pub(super) struct Common<'a> {
    pub(super) place: FileContext<'a>,
    pub(super) classes: &'a [ClassDefinition],
    pub(super) target: Target,
}

/// All hosts. No two have the same name.
pub(super) fn hosts(value: &Value<'_>, common: Common<'_>) -> Result<Vec<HostOptions>, Fault> {
    let mut taken: Vec<Option<HostName>> = Vec::new();
    let hosts = list(value, |value| {
        let (section, mut mistakes) = Section::collecting(value, &HOST)?;
        let host = mistakes.note(host(&section, common));
        mistakes.done(|| Some((host?, section)))
    })?;
    let mut all = Vec::new();
    for (host, section) in hosts {
        let names = host.names.iter().cloned().map(Some);
        let names: Vec<_> = if host.names.is_empty() { vec![None] } else { names.collect() };
        for name in names {
            if taken.contains(&name) {
                let span = section.span_of("names");
                let (message, expected) = match &name {
                    Some(name) => (
                        format!("another host already has the name {:?}", written(name)),
                        "other names",
                    ),
                    None => ("another host already has no names".to_owned(), "`names = [\"…\"]`"),
                };
                return Err(Fault::new(span, message, format!("expected {expected}")));
            }
            taken.push(name);
        }
        all.push(host);
    }
    if all.is_empty() {
        return Err(Fault::new(value.span(), "`host` is empty", "add a [[host]]"));
    }
    Ok(all)
}

fn host(section: &Section<'_>, common: Common<'_>) -> Result<HostOptions, Fault> {
    let mut mistakes = Mistakes::default();
    let names = mistakes.note(section.read("names", names)).flatten().unwrap_or_default();
    let label = names.first().map_or_else(|| "default".to_owned(), written);
    let known = |path: &str, span| Known {
        place: common.place,
        host: section,
        name: format!("{label}{path}"),
        path: path.to_owned(),
        span,
        classes: common.classes,
        target: common.target,
    };
    let mut routes: Vec<RouteOptions> = Vec::new();
    let mut spans = Vec::new();
    if section.value("root").is_some() {
        let known = known("/", section.span());
        if let Some(folder) = mistakes.note(known.folder(section)) {
            let action = Action::Folder(folder);
            routes.push(RouteOptions { name: known.name, path: known.path, action });
            spans.push(section.span());
        }
    }
    let stated = mistakes.note(section.read("route", |value| list(value, Ok)));
    for value in stated.flatten().unwrap_or_default() {
        let read = || {
            let (route, mut mistakes) = Section::collecting(value, &ROUTE)?;
            let path = route.require("path", "\"/docs\"", settings::path)?;
            is_another(&routes, &route, &path)?;
            let read = mistakes.note(known(&path, route.span()).read(&route));
            mistakes.done(|| {
                let (name, action) = read?;
                Some((RouteOptions { name, path, action }, route.span_of("redirect")))
            })
        };
        if let Some((route, span)) = mistakes.note(read()) {
            routes.push(route);
            spans.push(span);
        }
    }
    let routes = mistakes.done(|| Some(routes))?;
    if routes.is_empty() {
        let expected = "needs `root = \"public\"` or [[host.route]]";
        return Err(Fault::new(section.span(), "this host has no `root` and no routes", expected));
    }
    let mut mistakes = Mistakes::default();
    let away = routes.iter().zip(spans).map(|(route, at)| leads_away(route, &routes, at));
    mistakes.note(all(away));
    let errors = section.read("errors", |value| errors(value, &routes, common.place));
    let errors = mistakes.note(errors);
    mistakes.done(|| Some(HostOptions { names, routes, errors: errors?.unwrap_or_default() }))
}

fn names(value: &Value<'_>) -> Result<Vec<HostName>, Fault> {
    let names = list(value, values::host_name)?;
    if names.is_empty() {
        let expected =
            "add a name; or remove `names`, and the host gets the requests of no other host";
        return Err(Fault::new(value.span(), "`names` is empty", expected));
    }
    Ok(names)
}

/// That none of the `routes` has this `path` already, which `route` states.
fn is_another(routes: &[RouteOptions], route: &Section<'_>, path: &str) -> Result<(), Fault> {
    let prefix = PathPrefix::new(path);
    let Some(other) = routes.iter().find(|other| PathPrefix::new(&other.path) == prefix) else {
        return Ok(());
    };
    let message = format!("another route of this host has the path {:?}", other.path);
    let fault = Fault::new(route.span_of("path"), message, "choose another path");
    let is_root = prefix.depth() == 0;
    Err(if is_root { fault.help("the `root` of a host is its route \"/\"") } else { fault })
}

/// That a redirect does not send clients to where they come from.
fn leads_away(
    route: &RouteOptions,
    routes: &[RouteOptions],
    at: Range<usize>,
) -> Result<(), Fault> {
    let Action::Redirect(Redirect { to, .. }) = &route.action else { return Ok(()) };
    let path = to.split(['?', '#']).next().unwrap_or_default();
    let takes = |route: &&RouteOptions| PathPrefix::new(&route.path).rest(path).is_some();
    let taker =
        routes.iter().filter(takes).max_by_key(|route| PathPrefix::new(&route.path).depth());
    if to.starts_with('/') && taker.is_some_and(|taker| taker.path == route.path) {
        let message = format!("the redirect of {:?} points to itself", route.path);
        return Err(Fault::new(at, message, "choose a path of another route"));
    }
    Ok(())
}

/// Pages in the host's own root.
fn errors(
    value: &Value<'_>,
    routes: &[RouteOptions],
    place: FileContext<'_>,
) -> Result<BTreeMap<StatusCode, SitePath>, Fault> {
    let own = routes.iter().find_map(|route| match &route.action {
        Action::Folder(folder) if PathPrefix::new(&route.path).depth() == 0 => Some(folder),
        _ => None,
    });
    let Some(own) = own else {
        let message = "`errors` needs a folder that holds the pages";
        return Err(Fault::new(value.span(), message, "needs `root = \"…\"` in this host"));
    };
    let pages = settings::statuses(value)?.into_iter();
    let pages = all(pages.map(|(status, value)| Ok((status, place.page(value, &own.root)?))));
    Ok(pages?.into_iter().collect())
}

fn written(name: &HostName) -> String {
    match name {
        HostName::Exactly(name) => name.clone(),
        HostName::Below(domain) => format!("*.{domain}"),
    }
}
