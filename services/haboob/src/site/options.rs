//! Options of a site: hosts, routes, page cache.

use std::collections::BTreeMap;
use std::path::PathBuf;

use http::{HeaderValue, StatusCode};
use ipnet::IpNet;
use tamarisk_control::Target;
use tamarisk_observe::access_log::LogOptions;
use tamarisk_proxy::{Scheme, classify};
use tamarisk_server::guard::Limits;
use tamarisk_service::UpstreamOptions;

use crate::disk::folder::Listing;
use crate::disk::path::{HiddenFiles, SitePath};
use crate::site::host::HostName;
use crate::site::route::Redirect;

/// Options of a site: hosts, routes, page cache.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteOptions {
    /// What is served under which names.
    pub hosts: Vec<HostOptions>,
    /// Bytes of memory for pages.
    pub cache_bytes: u64,
    /// Longer files are not kept in memory, but read as they are sent. (What the kernel can send itself
    /// is not kept either, from 64 KiB on.)
    pub held_bytes_max: u64,
    /// Threads that find and read files, and as many that read on in long ones.
    pub file_workers: u32,
    /// Files that are not kept in memory and may be open at once, those that are being sent
    /// included. [`Options::new`](crate::Options::new) sets it by how many the process may open.
    pub open_files_max: usize,
    /// Who asks for a file that is not in memory is promised it by then, where the folder has
    /// no target of its own.
    pub target: Target,
    /// Proxies in front, whose `X-Forwarded-For` is believed.
    pub trusted: Vec<IpNet>,
    /// How clients come here, which services behind are told.
    pub scheme: Scheme,
    /// What clients may send: how long the bodies are that services behind get.
    pub limits: Limits,
    /// Where requests are written down, if anywhere.
    pub log: Option<LogOptions>,
}

/// What is served under some names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostOptions {
    /// The names; without any, it is for all that no other host has.
    pub names: Vec<HostName>,
    /// The most specific path that fits takes a request, wherever it stands.
    pub routes: Vec<RouteOptions>,
    /// Pages to answer with instead of a line of text, in the folder of the route `/`.
    pub errors: BTreeMap<StatusCode, SitePath>,
}

/// What is served at a path and below it.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteOptions {
    /// Unlike that of all others: stages and classes are called so.
    pub name: String,
    /// It begins with a slash.
    pub path: String,
    /// What is there.
    pub action: Action,
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Action {
    /// It is answered with a file.
    Folder(FolderOptions),
    /// It goes to another service.
    Proxy(Box<ProxyOptions>),
    /// It is sent elsewhere.
    Redirect(Redirect),
}

/// A folder of files.
#[derive(Clone, Debug, PartialEq)]
pub struct FolderOptions {
    /// Where it is. What a request's path has below the route's is a path in it.
    pub root: PathBuf,
    /// Which file stands for a folder: the first of these that it has.
    pub index: Vec<String>,
    /// What becomes of a folder that has none of them.
    pub listing: Listing,
    /// What becomes of names with a dot in front.
    pub hidden: HiddenFiles,
    /// How long others may keep what they got, as `Cache-Control`.
    pub cache_control: Option<HeaderValue>,
    /// When its files are promised, if not when all are.
    pub target: Option<Target>,
}

/// A service, behind a stage of its own.
#[derive(Clone, Debug)]
pub struct ProxyOptions {
    /// The service, and the classes of its stage.
    pub upstream: UpstreamOptions,
    /// Which request is of which class; its path and its host are not looked at.
    pub route: classify::Route,
}

impl PartialEq for ProxyOptions {
    fn eq(&self, other: &Self) -> bool {
        let [one, two] = [self, other].map(|proxy| &proxy.upstream);
        one.is_like(two)
            && one.classes == two.classes
            && one.overflow() == two.overflow()
            && self.route == other.route
    }
}

impl SiteOptions {
    /// These hosts: 64 MiB of memory, files up to 1 MiB held, 1024 others open, four threads, no log.
    pub fn of(hosts: Vec<HostOptions>, target: Target) -> Self {
        Self {
            hosts,
            cache_bytes: 64 << 20,
            held_bytes_max: 1 << 20,
            file_workers: 4,
            open_files_max: 1024,
            target,
            trusted: Vec::new(),
            scheme: Scheme::default(),
            limits: Limits::default(),
            log: None,
        }
    }

    /// The folder `root`, whatever host is asked for.
    pub fn new(root: impl Into<PathBuf>, target: Target) -> Self {
        Self::single(FolderOptions::new(root), target)
    }

    /// One folder, whatever host is asked for.
    pub fn single(folder: FolderOptions, target: Target) -> Self {
        let action = Action::Folder(folder);
        let route = RouteOptions { name: "default/".to_owned(), path: "/".to_owned(), action };
        Self::of(vec![HostOptions { routes: vec![route], ..HostOptions::default() }], target)
    }

    /// Whether some requests go to other services.
    pub fn has_proxies(&self) -> bool {
        self.services().next().is_some()
    }

    /// The services that requests go to.
    pub(crate) fn services(&self) -> impl Iterator<Item = &UpstreamOptions> {
        let routes = self.hosts.iter().flat_map(|host| &host.routes);
        routes.filter_map(|route| match &route.action {
            Action::Proxy(proxied) => Some(&proxied.upstream),
            _ => None,
        })
    }
}

impl FolderOptions {
    /// The folder `root`, with `index.html` as its index, and no lists.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            index: vec!["index.html".to_owned()],
            listing: Listing::default(),
            hidden: HiddenFiles::default(),
            cache_control: None,
            target: None,
        }
    }
}
