//! Turns the tables of upstreams, classes and routes into consistent options.

use tamarisk_proxy::classify::Routes;
use tamarisk_settings::table::{Form, Key, key};
use tamarisk_settings::{Fault, Section, target};

use super::classes::{CLASSES, classes};
use super::routes::{ROUTE, each_class_matches, join, only_route, routes};
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
    let target = target::of(file)?;
    let classes = file.read("classes", classes)?.unwrap_or_default();
    let stages = file.read("stage", stages)?.unwrap_or_default();
    let read = |value| upstreams(value, &stages);
    let mut upstreams = file.require("upstreams", "{ app = { url = \"http://…\" } }", read)?;
    let routes = match file.read("routes", |value| routes(value, &upstreams, &classes))? {
        Some(routes) => routes,
        None => vec![only_route(&upstreams)?],
    };
    each_class_matches(&routes, &classes)?;
    let joined = routes.into_iter().map(|route| join(route, &mut upstreams, &classes, target));
    let joined = joined.collect::<Result<Vec<_>, _>>()?;
    let upstreams = upstreams.into_iter().map(Upstream::finish).collect::<Result<Vec<_>, _>>()?;
    let (upstreams, classes): (Vec<_>, Vec<_>) = upstreams.into_iter().unzip();
    let routes = joined.into_iter().map(|route| {
        let upstream = route.upstream();
        route.with(&classes[upstream])
    });
    Ok((Routes::new(routes.collect()), upstreams))
}
