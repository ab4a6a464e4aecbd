//! A service behind one route alone, with a stage of its own.

use std::ops::Range;

use tamarisk_control::Target;
use tamarisk_proxy::classify::{PathPrefix, Route};
use tamarisk_settings::table::Key;
use tamarisk_settings::{Fault, Mistakes, Section, target};

use super::classes::ClassDefinition;
use super::laws::LAWS;
use super::routes::{ROUTED, RouteDefinition, classes_named, join};
use super::upstreams::{SERVICE, Upstream};
use super::values;
use crate::UpstreamOptions;

/// What may be said of such a service, besides where it is.
pub static PROXIED_KEYS: [&[Key]; 3] = [&SERVICE, &ROUTED, &LAWS];

/// Where a service and its route stand in a file, and what is known of them already.
pub struct Proxied<'a> {
    /// The stage's name.
    pub name: String,
    /// The paths that the route takes.
    pub path: String,
    /// The key whose value is the service's URL.
    pub url: &'a str,
    /// Where the route begins.
    pub span: Range<usize>,
    /// The classes of the file; the key `classes` picks some of them.
    pub classes: &'a [ClassDefinition],
    /// What is promised where neither the route nor a class says.
    pub target: Option<Target>,
}

impl Proxied<'_> {
    /// The service that `section` speaks of, and the route to it as to the first of all upstreams.
    ///
    /// # Errors
    /// A [`Fault`] at what cannot be.
    pub fn read(self, section: &Section<'_>) -> Result<(UpstreamOptions, Route), Fault> {
        let Self { name, path, url, span, classes, target } = self;
        let route_name = name.as_str().into();
        let mut mistakes = Mistakes::default();
        let upstream = Upstream::read(name, span.clone(), section, url, &[section]);
        let upstream = mistakes.note(upstream);
        let streams = mistakes.note(section.read("streams", values::yes));
        let own_target = mistakes.note(target::of(section));
        let names: Vec<_> = classes.iter().map(|class| &*class.name).collect();
        let tried = mistakes.note(section.read("classes", |value| classes_named(value, &names)));
        let (upstream, definition) = mistakes.done(|| {
            let route = Route {
                name: route_name,
                path: PathPrefix::new(&path),
                streams: streams?.unwrap_or_default(),
                ..Route::everything(0)
            };
            let (name, target, classes) = (String::new(), own_target?, tried?);
            Some((upstream?, RouteDefinition { name, span, route, target, classes }))
        })?;
        let mut upstreams = [upstream];
        let route = join(definition, &mut upstreams, classes, target)?;
        let [upstream] = upstreams;
        let (upstream, classes) = upstream.finish()?;
        Ok((upstream, route.with(&classes)))
    }
}
