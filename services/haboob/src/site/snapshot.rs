//! What a site serves as one reading of its options says: hosts, their routes, and the stages
//! behind them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use http::header::CACHE_CONTROL;
use tamarisk_control::{Class, ClassId, Classes, Priority};
use tamarisk_http_gate::ErrorPages;
use tamarisk_observe::access_log::{Log, Names};
use tamarisk_proxy::classify::{PathPrefix, Routes};
use tamarisk_proxy::{Bounds, Budget, Scheme};
use tamarisk_server::Capacity;
use tamarisk_service::UpstreamOptions;
use tamarisk_stage::Gate;

use crate::cache::page_cache::{CacheLimits, PageCache};
use crate::cache::pages::{PageSource, Pages};
use crate::disk::files::FILES_STAGE;
use crate::disk::folder::Folder;
use crate::disk::root::Root;
use crate::page::head::push_field;
use crate::site::change;
use crate::site::error::SiteError;
use crate::site::host::{Host, Hosts, RouteTarget, ServedFolder};
use crate::site::options::{Action, FolderOptions, HostOptions, SiteOptions};

/// The class of files without a target of their own.
const DEFAULT_CLASS: &str = "default";

/// A site as one reading of its options says.
pub(crate) struct SiteSnapshot {
    pub(crate) options: SiteOptions,
    pub(crate) pages: Arc<Pages>,
    pub(crate) hosts: Hosts<Arc<Host>>,
    /// Where proxied requests go, whose routes are counted as here.
    pub(crate) proxy: tamarisk_proxy::Site,
    pub(crate) log: Option<Log>,
    folders: Vec<Arc<Folder>>,
    /// The number of the next new folder.
    next_folder: u32,
}

impl SiteSnapshot {
    /// Opens what `options` say, and starts what `before` does not have already. Nothing is
    /// changed by that: see [`take_over`](Self::take_over).
    pub(crate) fn open(options: SiteOptions, before: Option<&Self>) -> Result<Self, SiteError> {
        let mut parts = Parts::of(&options, before);
        let hosts = options.hosts.iter().map(|host| parts.host(host));
        let hosts = hosts.collect::<Result<Vec<_>, _>>()?;
        let Parts { folders, next_folder, classes, routes, upstreams, .. } = parts;
        let classes = Classes::new(classes)?;
        let pages = match before {
            Some(before) => before.pages.with(classes)?,
            None => {
                let cache = PageCache::new(CacheLimits {
                    bytes: options.cache_bytes,
                    held_bytes: options.held_bytes_max,
                    open_files: options.open_files_max,
                });
                Pages::start(classes, cache, options.file_workers, options.open_files_max)?
            }
        };
        let log = match before {
            Some(before) if before.options.log == options.log => before.log.clone(),
            _ => options.log.as_ref().map(Log::start).transpose()?,
        };
        let names = options.hosts.iter().map(|host| host.names.as_slice());
        Ok(Self {
            pages: Arc::new(pages),
            hosts: Hosts::new(names.zip(hosts)),
            proxy: tamarisk_proxy::Site {
                routes: Routes::new(routes),
                upstreams,
                trusted: options.trusted.clone(),
                scheme: options.scheme,
                instance: before.map_or_else(Default::default, |it| it.proxy.instance.clone()),
                budget: match before {
                    Some(before) => before.proxy.budget.clone(),
                    None => Budget::new(Bounds::of(&options.limits, Capacity::of_process())),
                },
                // Hosts have their own, and log all of their requests.
                error_pages: ErrorPages::default(),
                rejections: before.map_or_else(Default::default, |it| it.proxy.rejections.clone()),
                log: None,
            },
            log,
            folders,
            next_folder,
            options,
        })
    }

    /// What is another than `before`, in words.
    pub(crate) fn changes(&self, before: &Self) -> Vec<String> {
        let mut changes = change::of_site(&before.options, &self.options);
        if changes.is_empty() && self.next_folder > before.next_folder {
            changes.push("a folder, in whose place there is another one".to_owned());
        }
        changes
    }

    /// Changes what this has in common with the one `before`: overflows, targets, and room for pages.
    ///
    /// # Errors
    /// [`SiteError::Stage`] if there is no runtime for an overflow's gate; then nothing has changed.
    pub(crate) fn take_over(&self, before: &Self) -> Result<(), SiteError> {
        for (upstream, options) in self.proxy.upstreams.iter().zip(services(&self.options)) {
            let mut known = services(&before.options).zip(&before.proxy.upstreams);
            let is_same = known.any(|(known, of_known)| {
                Arc::ptr_eq(of_known, upstream) && known.overflow() == options.overflow()
            });
            if !is_same {
                options.set_overflow(upstream)?;
            }
            let targets = options.classes.iter().map(|(id, class)| (id, class.target));
            let targets: Vec<_> = targets.collect();
            upstream.gates().for_each(|gate| gate.set_targets(&targets));
        }
        let folders: Vec<u32> = self.folders.iter().map(|folder| folder.id).collect();
        self.pages.take_over(&folders, self.options.cache_bytes);
        Ok(())
    }

    /// The gates before the services, in the order of the options, each before that of its overflow.
    pub(crate) fn gates(&self) -> impl Iterator<Item = Gate> {
        self.proxy.upstreams.iter().flat_map(|upstream| upstream.gates())
    }
}

/// The services behind a site.
fn services(options: &SiteOptions) -> impl Iterator<Item = &UpstreamOptions> {
    let routes = options.hosts.iter().flat_map(|host| &host.routes);
    routes.filter_map(|route| match &route.action {
        Action::Proxy(proxy) => Some(&proxy.upstream),
        Action::Folder(_) | Action::Redirect(_) => None,
    })
}

/// What hosts are made of, as far as it is known.
struct Parts<'a> {
    options: &'a SiteOptions,
    /// Whose folders and services are taken where they are the same.
    before: Option<&'a SiteSnapshot>,
    folders: Vec<Arc<Folder>>,
    next_folder: u32,
    classes: Vec<Class>,
    routes: Vec<tamarisk_proxy::classify::Route>,
    upstreams: Vec<Arc<tamarisk_proxy::Upstream>>,
}

impl<'a> Parts<'a> {
    fn of(options: &'a SiteOptions, before: Option<&'a SiteSnapshot>) -> Self {
        let (name, target) = (DEFAULT_CLASS.to_owned(), options.target);
        let default = Class { name, target, priority: Priority::default() };
        let (folders, routes, upstreams) = (Vec::new(), Vec::new(), Vec::new());
        let next_folder = before.map_or(0, |before| before.next_folder);
        let classes = vec![default];
        Self { options, before, folders, next_folder, classes, routes, upstreams }
    }

    fn host(&mut self, options: &HostOptions) -> Result<Arc<Host>, SiteError> {
        let mut routes = Vec::new();
        let mut errors = Vec::new();
        for route in &options.routes {
            let prefix = PathPrefix::new(&route.path);
            let target = match &route.action {
                Action::Redirect(redirect) => RouteTarget::Redirect(redirect.clone()),
                Action::Proxy(proxy) => {
                    let upstream = self.upstreams.len();
                    self.upstreams.push(self.upstream(&proxy.upstream)?);
                    self.routes
                        .push(tamarisk_proxy::classify::Route { upstream, ..proxy.route.clone() });
                    RouteTarget::Proxy(upstream)
                }
                Action::Folder(folder) => {
                    let served = self.served_folder(&route.name, &route.path, folder)?;
                    if prefix.depth() == 0 {
                        let pages = options.errors.iter();
                        errors.extend(
                            pages.map(|(status, path)| {
                                (*status, served.source.clone(), path.clone())
                            }),
                        );
                    }
                    RouteTarget::Folder(served)
                }
            };
            routes.push((prefix, target));
        }
        Ok(Arc::new(Host::new(routes, errors)))
    }

    /// The service behind a gate: the one that there is already, if nothing but its targets has
    /// changed.
    fn upstream(
        &self,
        options: &UpstreamOptions,
    ) -> Result<Arc<tamarisk_proxy::Upstream>, SiteError> {
        let known = self.before.and_then(|before| {
            let mut known = services(&before.options).zip(&before.proxy.upstreams);
            known.find(|(known, _)| known.is_like(options)).map(|(_, upstream)| upstream)
        });
        Ok(match known {
            Some(upstream) => Arc::clone(upstream),
            None => options.start()?,
        })
    }

    fn served_folder(
        &mut self,
        name: &str,
        path: &str,
        options: &FolderOptions,
    ) -> Result<ServedFolder, SiteError> {
        let (id, class) = match options.target {
            Some(target) => {
                let class = Class { name: name.to_owned(), target, priority: Priority::default() };
                // More than a stage can have are rejected when all are known.
                let id = self.classes.len().min(tamarisk_control::CLASSES_MAX - 1);
                self.classes.push(class);
                (ClassId::new(id), name)
            }
            None => (ClassId::DEFAULT, DEFAULT_CLASS),
        };
        let names = Names { route: name.into(), class: class.into(), stage: FILES_STAGE.into() };
        let source = PageSource { folder: self.folder(path, options)?, class: id };
        let (hidden, cache_control) = (options.hidden, options.cache_control.clone());
        let mut line = Vec::new();
        cache_control.iter().for_each(|field| push_field(&mut line, &CACHE_CONTROL, field));
        Ok(ServedFolder { source, hidden, cache_control, cache_control_line: line, names })
    }

    /// The folder: one that is open already, if its pages are the same.
    fn folder(&mut self, path: &str, options: &FolderOptions) -> Result<Arc<Folder>, SiteError> {
        let failed = |source| SiteError::Root { root: options.root.clone(), source };
        let folder = Folder {
            id: self.next_folder,
            root: Root::open(&options.root).map_err(failed)?,
            index: options.index.clone(),
            listing: options.listing,
            hidden: options.hidden,
            // What the cache cannot hold needs no trying.
            held_max: self.options.held_bytes_max.min(self.options.cache_bytes),
            by_file: self.options.scheme == Scheme::Http,
            place: path.to_owned(),
            tells: AtomicBool::new(true),
        };
        let before = self.before.map_or(&[][..], |before| &before.folders);
        let mut known = before.iter().chain(&self.folders);
        let folder = match known.find(|known| known.has_pages_of(&folder)) {
            Some(known) => Arc::clone(known),
            None => {
                self.next_folder += 1;
                Arc::new(folder)
            }
        };
        self.folders.push(Arc::clone(&folder));
        Ok(folder)
    }
}
