//! What becomes of the requests of a route.

use std::ops::Range;

use tamarisk_control::Target;
use tamarisk_service::settings::{self, ClassDefinition, PROXIED_KEYS, Proxied};
use tamarisk_settings::target::{self, is_percentile};
use tamarisk_settings::values::{list, name};
use tamarisk_settings::{Fault, Section};

use super::values::{self, FileContext};
use crate::site::options::{Action, FolderOptions, ProxyOptions};
use crate::site::route::Redirect;

/// The three kinds of routes, and what may be said of each.
pub(super) const FOLDER: &[&str] = &["index", "listing", "hidden", "cache_control"];
const REDIRECT: &[&str] = &["status"];
const KINDS: [&str; 3] = ["root", "proxy", "redirect"];

/// What is known of a route besides what it says itself.
pub(super) struct Known<'a> {
    pub(super) place: FileContext<'a>,
    /// The host, which says what its routes do not.
    pub(super) host: &'a Section<'a>,
    /// The route's, if it does not state another one.
    pub(super) name: String,
    pub(super) path: String,
    pub(super) span: Range<usize>,
    pub(super) classes: &'a [ClassDefinition],
    pub(super) target: Target,
}

/// All keys that a route may have, of whatever kind.
pub(super) fn keys() -> Vec<&'static str> {
    [&["path", "name"], &KINDS[..], FOLDER, REDIRECT, &PROXIED_KEYS[..], &["p90"]].concat()
}

impl Known<'_> {
    /// What `route` says, and the name that it has.
    pub(super) fn read(self, route: &Section<'_>) -> Result<(String, Action), Fault> {
        let stated: Vec<_> = KINDS.into_iter().filter(|kind| route.value(kind).is_some()).collect();
        let &[kind] = stated.as_slice() else {
            let message = match stated.is_empty() {
                true => "this route leads nowhere".to_owned(),
                false => format!("this route has {} at once", stated.join(" and ")),
            };
            let expected =
                "needs one of `root = \"…\"`, `proxy = \"http://…\"`, `redirect = \"…\"`";
            return Err(Fault::new(self.span, message, expected));
        };
        fits(route, kind)?;
        let own_name = route.read("name", name)?.unwrap_or_else(|| self.name.clone());
        let action = match kind {
            "root" => Action::Folder(self.folder(route)?),
            "proxy" => Action::Proxy(Box::new(self.proxy(route, own_name.clone())?)),
            _ => Action::Redirect(Redirect {
                to: route.require(kind, "\"/new/\"", values::redirect_target)?,
                status: route
                    .read("status", values::redirect_status)?
                    .unwrap_or(http::StatusCode::FOUND),
            }),
        };
        Ok((own_name, action))
    }

    /// The folder of a route, or of the host itself.
    pub(super) fn folder(&self, route: &Section<'_>) -> Result<FolderOptions, Fault> {
        let root = route.require("root", "\"public\"", |value| self.place.root(value))?;
        let mut folder = FolderOptions::new(root);
        let inherited = |key| route.value(key).or_else(|| self.host.value(key));
        if let Some(value) = inherited("index") {
            folder.index = list(value, values::file_name)?;
        }
        if let Some(value) = inherited("listing") {
            folder.listing = values::listing(value)?;
        }
        if let Some(value) = inherited("hidden") {
            folder.hidden = values::hidden(value)?;
        }
        folder.cache_control =
            inherited("cache_control").map(settings::header_value).transpose()?;
        folder.target = match target::of(route)? {
            Some(target) => Some(target),
            None => target::of(self.host)?,
        };
        Ok(folder)
    }

    fn proxy(self, route: &Section<'_>, name: String) -> Result<ProxyOptions, Fault> {
        let target = target::of(self.host)?.unwrap_or(self.target);
        let proxied = Proxied {
            name,
            path: self.path,
            url: "proxy",
            span: self.span,
            classes: self.classes,
            target: Some(target),
        };
        let (upstream, route) = proxied.read(route)?;
        Ok(ProxyOptions { upstream, route })
    }
}

/// Whether all that `route` says can be said of its kind.
fn fits(route: &Section<'_>, kind: &str) -> Result<(), Fault> {
    for (key, _) in route.entries() {
        let key_name: &str = key.get_ref();
        let of = |keys: &[&str]| keys.contains(&key_name);
        let (fits, only) = match kind {
            "root" => (of(FOLDER) || is_percentile(key_name), "with `proxy` or `redirect`"),
            "proxy" => (of(&PROXIED_KEYS) || is_percentile(key_name), "with `root` or `redirect`"),
            _ => (of(REDIRECT), "with `root` or `proxy`"),
        };
        if !fits && !of(&["path", "name", kind]) {
            let message = format!("{key_name:?} says nothing about a route with {kind:?}");
            return Err(Fault::new(key.span(), message, format!("expected only {only}")));
        }
    }
    Ok(())
}
