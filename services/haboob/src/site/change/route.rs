//! What changes of a route.

use http::{HeaderValue, StatusCode};
use tamarisk_control::Target;

use super::{Changes, none, service};
use crate::disk::folder::Listing;
use crate::disk::path::HiddenFiles;
use crate::site::options::{Action, FolderOptions, RouteOptions};

pub(super) fn of_route(now: &RouteOptions, new: &RouteOptions) -> Changes {
    let mut changes = Changes::default();
    let status = |status: &StatusCode| status.as_str().to_owned();
    changes.compare("name", [&now.name, &new.name], |name| format!("{name:?}"));
    match [&now.action, &new.action] {
        [Action::Folder(now), Action::Folder(new)] => of_folder(now, new, &mut changes),
        [Action::Proxy(now), Action::Proxy(new)] => service::of_service(now, new, &mut changes),
        [Action::Redirect(now), Action::Redirect(new)] => {
            changes.compare("redirect", [&now.to, &new.to], String::clone);
            changes.compare("status", [&now.status, &new.status], status);
        }
        actions => changes.compare("destination", actions, destination),
    }
    changes
}

fn of_folder(now: &FolderOptions, new: &FolderOptions, changes: &mut Changes) {
    let target = |target: &Option<Target>| target.as_ref().map_or_else(none, ToString::to_string);
    let listing = |listing: &Listing| (*listing == Listing::On).to_string();
    let hidden = |hidden: &HiddenFiles| (*hidden == HiddenFiles::Served).to_string();
    let field = |field: &Option<HeaderValue>| {
        field.as_ref().map_or_else(none, |field| format!("{field:?}"))
    };
    changes.compare("root", [&now.root, &new.root], |root| root.display().to_string());
    changes.compare("index", [&now.index, &new.index], |names| format!("{names:?}"));
    changes.compare("listing", [&now.listing, &new.listing], listing);
    changes.compare("hidden", [&now.hidden, &new.hidden], hidden);
    changes.compare("cache_control", [&now.cache_control, &new.cache_control], field);
    changes.compare("the target", [&now.target, &new.target], target);
}

/// What becomes of requests, as a file says it.
fn destination(action: &Action) -> String {
    match action {
        Action::Folder(folder) => format!("root {}", folder.root.display()),
        Action::Proxy(proxy) => format!("proxy {}", proxy.upstream.origin),
        Action::Redirect(redirect) => format!("redirect {}", redirect.to),
    }
}
