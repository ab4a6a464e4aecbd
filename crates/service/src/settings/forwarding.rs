//! Turns the tables of upstreams, classes and routes into consistent options.

use tamarisk_proxy::classify::Routes;
use tamarisk_settings::table::{Form, Key, key};
use tamarisk_settings::{Fault, Mistakes, Section, all, target};

use super::classes::{CLASSES, classes};
use super::routes::{ROUTE, each_class_matches, each_has_a_route, join, only_route, routes};
use super::upstreams::{STAGE, UPSTREAM, Upstream, stages, upstreams};
use crate::UpstreamOptions;

/// The services behind, and which request goes where.
#[rustfmt::skip]
pub static FORWARDING_KEYS: [Key; 5] = [
    key("p90", Form::Target, "response-time target of requests whose route and class state none").otherwise("required unless all of them state one"),
    key("upstreams", Form::Named(&UPSTREAM), "services behind the proxy").required(),
    key("stage", Form::Named(&STAGE), "more about upstreams: their laws"),
    CLASSES,
    key("routes", Form::List(&Form::Table(&ROUTE)), "which request goes where").otherwise("all go to the only upstream"),
];

/// The services behind and the routes to them, as `file` says by [`FORWARDING_KEYS`]; its own
/// target is for what states none.
///
/// # Errors
/// A [`Fault`] at what cannot be.
pub fn forwarding(file: &Section<'_>) -> Result<(Routes, Vec<UpstreamOptions>), Fault> {
    let mut mistakes = Mistakes::default();
    let target = mistakes.note(target::of(file));
    let classes = mistakes.note(file.read("classes", classes));
    let stages = mistakes.note(file.read("stage", stages)).flatten().unwrap_or_default();
    let read = |value| upstreams(value, &stages);
    let upstreams = file.require("upstreams", "{ app = { url = \"http://…\" } }", read);
    let upstreams = mistakes.note(upstreams);
    // By name, so that routes are read even where something is wrong with what they name.
    let names = [file.names("upstreams"), file.names("classes")];
    let routes = mistakes.note(file.read("routes", |value| routes(value, &names)));
    let parts = || Some((target?, classes?.unwrap_or_default(), upstreams?, routes?));
    let (target, classes, mut upstreams, routes) = mistakes.done(parts)?;

    let routes = match routes {
        Some(routes) => routes,
        None => vec![only_route(&upstreams)?],
    };
    all([each_has_a_route(&routes, &classes), each_class_matches(&routes, &classes)])?;
    let joined =
        all(routes.into_iter().map(|route| join(route, &mut upstreams, &classes, target)))?;
    let upstreams = all(upstreams.into_iter().map(Upstream::finish))?;
    let (upstreams, classes): (Vec<_>, Vec<_>) = upstreams.into_iter().unzip();
    let routes = joined.into_iter().map(|route| {
        let upstream = route.upstream();
        route.with(&classes[upstream])
    });
    Ok((Routes::new(routes.collect()), upstreams))
}
