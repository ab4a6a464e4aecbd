//! Configuration of a route's action: `root`, `proxy` or `redirect`.

use std::ops::Range;

use tamarisk_control::Target;
use tamarisk_service::settings::{self, ClassDefinition, PROXIED_KEYS, Proxied};
use tamarisk_settings::table::{Absent, Form, Key, Table, key};
use tamarisk_settings::target::{self, is_percentile};
use tamarisk_settings::values::{list, name};
use tamarisk_settings::{Fault, Mistakes, Section};

use super::values::{self, FileContext};
use crate::site::options::{Action, FolderOptions, ProxyOptions};
use crate::site::route::Redirect;

/// What may be said of a folder of files, and what holds without it.
#[rustfmt::skip]
const fn folder([index, listing, hidden, cache_control]: [Absent; 4]) -> [Key; 4] {
    [
        Key { absent: index, ..key("index", Form::List(&Form::Text("name of a file")), "index files: a request for a folder gets the first one that exists") },
        Key { absent: listing, ..key("listing", Form::Bool, "lists folders without an index") },
        Key { absent: hidden, ..key("hidden", Form::Bool, "serves files whose names begin with a dot") },
        Key { absent: cache_control, ..key("cache_control", Form::Text("value of a header"), "`Cache-Control` of its files") },
    ]
}

/// What a host says of folders.
pub(super) static FOLDER: [Key; 4] = folder([
    Absent::Value("[\"index.html\"]"),
    Absent::Value("false"),
    Absent::Value("false"),
    Absent::Means("none"),
]);
static FOLDER_OF_ROUTE: [Key; 4] = folder([Absent::Means("the host's"); 4]);
static REDIRECT: &[Key] =
    &[key("status", Form::Whole(301, 308), "301, 302, 307 or 308").default("302")];
/// The three kinds of routes.
#[rustfmt::skip]
static KINDS: &[Key] = &[
    key("root", Form::Text("path"), "folder of files, in which the rest of a request's path is looked for"),
    key("proxy", Form::Text("URL"), "service that requests are forwarded to, with the client's path unchanged"),
    key("redirect", Form::Text("path or URL"), "target of the redirect; if it ends with a slash, the rest of the path is appended"),
];

pub(super) static ROUTE: Table = Table {
    heading: "[[host.route]]",
    summary: "A route has one of `root`, `proxy` and `redirect`. `index`, `listing`, `hidden` and `cache_control` are for a `root`, and the host's by default; `status` is for a `redirect`, `p90` for a `root` or a `proxy`; the others are for a `proxy`. Of all routes that fit, the one with the longest path takes a request.",
    groups: &[
        &[
            key("path", Form::Text("path"), "path of its requests, and all below it").required(),
            key("name", Form::Text("name"), "what it is called in metrics and on the status page")
                .otherwise("name of the host, and the path"),
        ],
        KINDS,
        &FOLDER_OF_ROUTE,
        REDIRECT,
        PROXIED_KEYS[0],
        PROXIED_KEYS[1],
        PROXIED_KEYS[2],
    ],
};

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

impl Known<'_> {
    /// What `route` says, and the name that it has.
    pub(super) fn read(self, route: &Section<'_>) -> Result<(String, Action), Fault> {
        let kinds = KINDS.iter().map(|kind| kind.name);
        let stated: Vec<_> = kinds.filter(|kind| route.value(kind).is_some()).collect();
        let &[kind] = stated.as_slice() else {
            let message = match stated.is_empty() {
                true => "this route has no destination".to_owned(),
                false => format!("this route has {}, but may have only one", stated.join(" and ")),
            };
            let expected =
                "needs one of `root = \"…\"`, `proxy = \"http://…\"`, `redirect = \"…\"`";
            return Err(Fault::new(self.span, message, expected));
        };
        let mut mistakes = Mistakes::default();
        mistakes.note(fits(route, kind));
        let own_name = mistakes.note(route.read("name", name)).flatten();
        let own_name = own_name.unwrap_or_else(|| self.name.clone());
        let action = mistakes.note(self.action(route, kind, own_name.clone()));
        mistakes.done(|| Some((own_name, action?)))
    }

    fn action(self, route: &Section<'_>, kind: &str, name: String) -> Result<Action, Fault> {
        match kind {
            "root" => self.folder(route).map(Action::Folder),
            "proxy" => self.proxy(route, name).map(Box::new).map(Action::Proxy),
            _ => {
                let mut mistakes = Mistakes::default();
                let to = route.require(kind, "\"/new/\"", values::redirect_target);
                let to = mistakes.note(to);
                let status = mistakes.note(route.read("status", values::redirect_status));
                mistakes.done(|| {
                    let status = status?.unwrap_or(http::StatusCode::FOUND);
                    Some(Action::Redirect(Redirect { to: to?, status }))
                })
            }
        }
    }

    /// The folder of a route, or of the host itself.
    pub(super) fn folder(&self, route: &Section<'_>) -> Result<FolderOptions, Fault> {
        let mut mistakes = Mistakes::default();
        let root = route.require("root", "\"public\"", |value| self.place.root(value));
        let root = mistakes.note(root);
        let inherited = |key| route.value(key).or_else(|| self.host.value(key));
        let index = inherited("index").map(|value| list(value, values::file_name));
        let index = mistakes.note(index.transpose());
        let listing = mistakes.note(inherited("listing").map(values::listing).transpose());
        let hidden = mistakes.note(inherited("hidden").map(values::hidden).transpose());
        let cache_control = inherited("cache_control").map(settings::header_value);
        let cache_control = mistakes.note(cache_control.transpose());
        let target = mistakes.note(target::of(route).and_then(|own| match own {
            Some(target) => Ok(Some(target)),
            None => target::of(self.host),
        }));
        mistakes.done(|| {
            let mut folder = FolderOptions::new(root?);
            folder.index = index?.unwrap_or(folder.index);
            folder.listing = listing?.unwrap_or(folder.listing);
            folder.hidden = hidden?.unwrap_or(folder.hidden);
            folder.cache_control = cache_control?;
            folder.target = target?;
            Some(folder)
        })
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
    let mut mistakes = Mistakes::default();
    for (key, _) in route.entries() {
        let key_name: &str = key.get_ref();
        let of = |keys: &[Key]| keys.iter().any(|key| key.name == key_name);
        let (fits, only) = match kind {
            "root" => (of(&FOLDER) || is_percentile(key_name), "with `proxy` or `redirect`"),
            "proxy" => (
                PROXIED_KEYS.into_iter().any(of) || is_percentile(key_name),
                "with `root` or `redirect`",
            ),
            _ => (of(REDIRECT), "with `root` or `proxy`"),
        };
        // An unknown key fits no route.
        let is_known = ROUTE.key(key_name).is_some();
        if is_known && !fits && !["path", "name", kind].contains(&key_name) {
            let message = format!("{key_name:?} does not apply to a route with {kind:?}");
            let expected = format!("remove it; it is allowed {only}");
            mistakes.add(Fault::new(key.span(), message, expected));
        }
    }
    mistakes.done(|| Some(()))
}
