//! A site: hosts, their routes, and the stages behind them.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, StatusCode};
use tamarisk_control::{Class, ClassId, Classes, InvalidClasses, Priority};
use tamarisk_http::classify::Routes;
use tamarisk_http::proxy;
use tamarisk_stage::{BuildError, Gate, StageObservation};

use crate::cache::PageKey;
use crate::folder::Folder;
use crate::host::Hosts;
use crate::log::Log;
use crate::options::{Action, FolderOptions, HostOptions, SiteOptions};
use crate::pages::Pages;
use crate::path::HiddenFiles;
use crate::root::Root;
use crate::route::{Prefix, Redirect};

/// A disk that hangs keeps nobody from ending: the last lines of the log may then be lost.
const LOG_PATIENCE: Duration = Duration::from_secs(1);

/// Why a site cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SiteError {
    /// Its folder is none, or not ours to enter.
    #[error("cannot serve the folder {}", root.display())]
    Root {
        /// The folder.
        root: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The log cannot be written to.
    #[error("cannot write the access log")]
    Log(#[source] io::Error),
    /// More folders with targets of their own than a stage can have classes.
    #[error(transparent)]
    Classes(#[from] InvalidClasses),
    /// A stage cannot be had.
    #[error(transparent)]
    Stage(#[from] BuildError),
}

/// A site that serves; clones share it.
#[derive(Clone)]
pub struct Site(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) pages: Arc<Pages>,
    pub(crate) hosts: Hosts<Arc<Host>>,
    /// Where proxied requests go, whose routes are counted as here.
    pub(crate) proxy: proxy::Site,
    pub(crate) log: Option<Log>,
}

/// What is served under some names.
pub(crate) struct Host {
    /// The most specific first.
    routes: Vec<(Prefix, Way)>,
    errors: Vec<(StatusCode, PageKey)>,
}

/// What becomes of requests.
pub(crate) enum Way {
    Folder(Place),
    /// The route of this number leads to a service.
    Proxy(usize),
    Redirect(Redirect),
}

/// A folder, as its requests see it.
pub(crate) struct Place {
    pub(crate) folder: u32,
    pub(crate) hidden: HiddenFiles,
    pub(crate) cache_control: Option<HeaderValue>,
}

impl Host {
    /// What becomes of a request for `path`, and what of the path is below the route's.
    pub(crate) fn way<'p>(&self, path: &'p str) -> Option<(&Way, &'p str)> {
        self.routes.iter().find_map(|(prefix, way)| Some((way, prefix.rest(path)?)))
    }

    /// The page that stands for answers with this status.
    pub(crate) fn error_page(&self, status: StatusCode) -> Option<&PageKey> {
        self.errors.iter().find(|(of, _)| *of == status).map(|(_, key)| key)
    }
}

impl Site {
    /// Opens the folders and the log, and starts the stages, which are governed on the
    /// runtime that this is called on.
    ///
    /// # Errors
    /// [`SiteError`].
    pub fn open(options: SiteOptions) -> Result<Self, SiteError> {
        let mut parts = Parts::of(&options);
        let hosts = options.hosts.iter().map(|host| parts.host(host));
        let hosts = hosts.collect::<Result<Vec<_>, _>>()?;
        let Parts { folders, classes, routes, upstreams, .. } = parts;
        let (cache, workers) = (options.cache_bytes, options.file_workers);
        let pages = Pages::start(folders, Classes::new(classes)?, cache, workers)?;
        let names = options.hosts.iter().map(|host| host.names.as_slice());
        let log = options.log.as_ref().map(Log::start).transpose().map_err(SiteError::Log)?;
        Ok(Self(Arc::new(Shared {
            pages: Arc::new(pages),
            hosts: Hosts::new(names.zip(hosts)),
            proxy: proxy::Site {
                routes: Routes::new(routes),
                upstreams,
                trusted: options.trusted,
                scheme: options.scheme,
            },
            log,
        })))
    }

    /// The stages that read files, at this instant.
    pub fn observe(&self) -> [StageObservation; 2] {
        self.0.pages.files.observe()
    }

    /// The gates before the services, in the order of the options.
    pub fn gates(&self) -> impl Iterator<Item = &Gate> {
        self.0.proxy.upstreams.iter().map(|upstream| upstream.gate())
    }

    /// The log, if there is one.
    pub fn log(&self) -> Option<&Log> {
        self.0.log.as_ref()
    }

    /// Reads nothing more, sends nothing on, and writes the last lines of the log.
    pub fn close(&self) {
        self.0.pages.files.close();
        self.gates().for_each(Gate::close);
        if let Some(log) = self.log() {
            log.close(LOG_PATIENCE);
        }
    }
}

/// What hosts are made of, as far as it is known.
struct Parts<'a> {
    options: &'a SiteOptions,
    folders: Vec<(Folder, ClassId)>,
    classes: Vec<Class>,
    routes: Vec<tamarisk_http::classify::Route>,
    upstreams: Vec<Arc<proxy::Upstream>>,
}

impl<'a> Parts<'a> {
    fn of(options: &'a SiteOptions) -> Self {
        let (name, target) = ("default".to_owned(), options.target);
        let default = Class { name, target, priority: Priority::default() };
        let (folders, routes, upstreams) = (Vec::new(), Vec::new(), Vec::new());
        Self { options, folders, classes: vec![default], routes, upstreams }
    }

    fn host(&mut self, options: &HostOptions) -> Result<Arc<Host>, SiteError> {
        let mut routes = Vec::new();
        let mut errors = Vec::new();
        for route in &options.routes {
            let prefix = Prefix::of(&route.path);
            let way = match &route.action {
                Action::Redirect(redirect) => Way::Redirect(redirect.clone()),
                Action::Proxy(proxy) => {
                    let upstream = self.upstreams.len();
                    self.upstreams.push(proxy.upstream.start()?);
                    self.routes
                        .push(tamarisk_http::classify::Route { upstream, ..proxy.route.clone() });
                    Way::Proxy(upstream)
                }
                Action::Folder(folder) => {
                    let place = self.folder(&route.name, &route.path, folder)?;
                    if prefix.depth() == 0 {
                        let key = |path| PageKey { folder: place.folder, path };
                        let pages = options.errors.iter();
                        errors.extend(pages.map(|(status, path)| (*status, key(path.clone()))));
                    }
                    Way::Folder(place)
                }
            };
            routes.push((prefix, way));
        }
        routes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.depth()));
        Ok(Arc::new(Host { routes, errors }))
    }

    fn folder(
        &mut self,
        name: &str,
        path: &str,
        options: &FolderOptions,
    ) -> Result<Place, SiteError> {
        let failed = |source| SiteError::Root { root: options.root.clone(), source };
        let folder = Folder {
            root: Root::open(&options.root).map_err(failed)?,
            index: options.index.clone(),
            listing: options.listing,
            hidden: options.hidden,
            // What the cache cannot hold needs no trying.
            held_max: self.options.held_bytes_max.min(self.options.cache_bytes),
            place: path.to_owned(),
        };
        let class = match options.target {
            Some(target) => {
                let class = Class { name: name.to_owned(), target, priority: Priority::default() };
                // More than a stage can have are refused when all are known.
                let id = self.classes.len().min(tamarisk_control::CLASSES_MAX - 1);
                self.classes.push(class);
                ClassId::new(id)
            }
            None => ClassId::DEFAULT,
        };
        let place = Place {
            folder: u32::try_from(self.folders.len()).expect("a file has fewer"),
            hidden: options.hidden,
            cache_control: options.cache_control.clone(),
        };
        self.folders.push((folder, class));
        Ok(place)
    }
}
