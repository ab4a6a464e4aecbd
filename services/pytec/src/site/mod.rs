//! A site: pages of a folder or of the program, each a stage, and the files beside them.

mod files;
mod options;
mod router;
mod site_file;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::Router;
use axum::http::request::Parts;
use parking_lot::{Mutex, RwLock};
use tamarisk::axum::{Drained, Part};
use tamarisk::{BuildError, ClassId, Graph, GraphError, StageObservation};
use tokio::time::MissedTickBehavior;

use crate::compile::PageError;
use crate::page::Page;
use crate::process::{Pool, Setup, WorkerOptions};
use crate::root::{Fingerprint, Root};
use crate::site_path::SitePath;
use files::FilesStage;
pub(crate) use options::PageOptions;
pub use options::{ClassOf, SiteOptions, SiteSource};
use site_file::SiteFile;

/// How often the folder is looked at.
const REFRESH_EVERY: Duration = Duration::from_secs(1);
/// How long the events of a page that has been removed have to end.
const REMOVAL_TIME: Duration = Duration::from_secs(10);
/// The most processes that a site may ask for: each is some ten megabytes at least.
const PROCESSES_MAX: u32 = 1024;
/// The folder of a site's modules.
const LIBRARY: &str = "lib";

/// A site that is open: clones share it. It ends with the last clone.
#[derive(Clone)]
pub struct Site(Arc<SiteCore>);

struct SiteCore {
    options: SiteOptions,
    file: SiteFile,
    root: Arc<Root>,
    graph: Arc<Graph>,
    pool: Arc<Pool>,
    /// None where the files are in the program: it has nothing but pages and includes.
    files: Option<FilesStage>,
    pages: RwLock<BTreeMap<String, Page>>,
    library: Mutex<Vec<(SitePath, Option<Fingerprint>)>>,
    /// Held while pages are added or removed.
    changes: tokio::sync::Mutex<()>,
}

/// Why a site cannot be opened, or a page not be added to it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SiteError {
    /// The folder cannot be opened or listed.
    #[error("cannot open the folder {folder}")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// `pytec.toml` is not understood.
    #[error("{file}: {reason}")]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong, with its line.
        reason: String,
    },
    /// An option has no meaning.
    #[error("{0}")]
    Options(String),
    /// There are more pages than the bound.
    #[error("more than {most} pages: raise `pages_max`, or divide the site")]
    TooManyPages {
        /// The bound.
        most: usize,
    },
    /// A stage cannot start.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A stage cannot be added.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

impl Site {
    /// Opens the folder, if there is one, compiles the pages, starts their stages, and looks for
    /// changes every second. A page with an error has a stage too, which answers with the error.
    /// Needs a runtime of tokio.
    ///
    /// # Errors
    /// [`SiteError`].
    pub fn open(options: SiteOptions) -> Result<Self, SiteError> {
        if !(1..=PROCESSES_MAX).contains(&options.processes) {
            let message =
                format!("`processes` is {}: it must be 1 to {PROCESSES_MAX}", options.processes);
            return Err(SiteError::Options(message));
        }
        let Opened { folder, root, file } = Opened::of(&options.source)?;
        let unlisted = |source| SiteError::Folder { folder: folder.clone(), source };
        let found = root.files().map_err(unlisted)?;
        let library = library(&root).map_err(unlisted)?;
        let mut module_folders = options.module_folders.clone();
        if let SiteSource::Folder(_) = options.source {
            module_folders.insert(0, folder.join(LIBRARY));
        }
        let setup = Setup {
            folder,
            module_folders,
            modules: options.modules.clone(),
            memory_bytes_max: options.memory_bytes_max,
            answer_bytes_max: options.answer_bytes_max,
        };
        let worker = WorkerOptions { python: options.python.clone(), setup };
        let graph = Arc::new(Graph::new());
        let files = match options.source {
            SiteSource::Folder(_) => {
                let files = files::stage(&root, options.p90, &options.classes)?;
                graph.add(&files)?;
                Some(files)
            }
            SiteSource::Embedded(_) => None,
        };
        let site = Self(Arc::new(SiteCore {
            pool: Pool::new(worker, options.processes, options.idle_time_max),
            options,
            file,
            root,
            graph,
            files,
            pages: RwLock::default(),
            library: Mutex::new(library),
            changes: tokio::sync::Mutex::default(),
        }));
        for file in found.into_iter().filter(|file| file.page().is_some()) {
            site.insert(file)?;
        }
        for path in site.0.file.pages().filter(|path| site.page(path).is_none()) {
            tracing::warn!("pytec.toml speaks of the page {path}, which there is not yet.");
        }
        tokio::spawn(keep_current(Arc::downgrade(&site.0)));
        Ok(site)
    }

    /// The page that answers this path, if there is one: `/guestbook` for the file
    /// `guestbook.pytec`.
    pub fn page(&self, path: &str) -> Option<Page> {
        self.0.pages.read().get(path).cloned()
    }

    /// The pages, by their paths.
    pub fn pages(&self) -> Vec<Page> {
        self.0.pages.read().values().cloned().collect()
    }

    /// Has every page compiled, its Python too, and runs none; the errors of those that have one.
    pub async fn check(&self) -> Vec<PageError> {
        let mut errors = Vec::new();
        for page in self.pages() {
            errors.extend(page.check().await.err());
        }
        errors
    }

    /// Answers every path: pages, and the files beside them.
    pub fn router(&self) -> Router {
        router::router(self.clone())
    }

    /// Compiles the pages anew whose files have changed, adds new ones, removes those that are
    /// gone, and replaces the processes if the site's modules have changed. Is done every second;
    /// this does it now.
    pub async fn refresh(&self) {
        let core = Arc::clone(&self.0);
        let looked = tokio::task::spawn_blocking(move || core.look()).await;
        match looked {
            Ok(Ok(found)) => self.follow(found).await,
            Ok(Err(error)) => tracing::error!("The folder of the site cannot be listed: {error}"),
            // The runtime ends.
            Err(_) => {}
        }
        self.0.pool.end_idle().await;
    }

    /// Has the pages that there are files of.
    async fn follow(&self, found: Vec<SitePath>) {
        let _changes = self.0.changes.lock().await;
        let paths: Vec<String> = found.iter().filter_map(SitePath::page).collect();
        let gone: Vec<Page> = self
            .pages()
            .into_iter()
            .filter(|page| !paths.iter().any(|path| path == page.path()))
            .collect();
        for page in gone {
            tracing::info!("Page {} is gone.", page.path());
            self.0.pages.write().remove(page.path());
            // An error means that another one has removed it.
            let _ = self.0.graph.remove(page.path(), REMOVAL_TIME).await;
        }
        for file in found {
            let is_new = file.page().is_some_and(|path| self.page(&path).is_none());
            if is_new && let Err(error) = self.insert(file.clone()) {
                tracing::error!("Page {file} cannot be added: {error}");
            }
        }
    }

    /// Adds the page of this file, unless there is one now.
    async fn add(&self, file: SitePath) -> Result<Page, SiteError> {
        let _changes = self.0.changes.lock().await;
        let known = file.page().and_then(|path| self.page(&path));
        known.map_or_else(|| self.insert(file), Ok)
    }

    fn insert(&self, file: SitePath) -> Result<Page, SiteError> {
        let SiteCore { options, root, graph, pool, pages, .. } = &*self.0;
        let most = options.pages_max;
        if pages.read().len() >= most {
            return Err(SiteError::TooManyPages { most });
        }
        let path = file.page().unwrap_or_default();
        let page = Page::start(root, file, pool, &self.0.file.page(&path, options))?;
        graph.add(page.stage())?;
        if let Some(error) = page.tag_error() {
            tracing::error!("Page {path} has an error: {error}");
        }
        pages.write().insert(path, page.clone());
        Ok(page)
    }

    fn options(&self) -> &SiteOptions {
        &self.0.options
    }

    fn files(&self) -> Option<&FilesStage> {
        self.0.files.as_ref()
    }

    fn class_of(&self, page: &Page, head: &Parts) -> Option<ClassId> {
        let name = self.0.options.class_of.as_ref()?(head)?;
        page.stage().class(&name)
    }
}

/// Where the files of a site are, once that has been opened.
struct Opened {
    /// The folder that the processes run in.
    folder: PathBuf,
    root: Arc<Root>,
    file: SiteFile,
}

impl Opened {
    fn of(source: &SiteSource) -> Result<Self, SiteError> {
        match source {
            SiteSource::Folder(folder) => {
                let unopened = |source| SiteError::Folder { folder: folder.clone(), source };
                let folder = folder.canonicalize().map_err(unopened)?;
                let root = Arc::new(Root::open(&folder).map_err(unopened)?);
                let file = SiteFile::read(&folder).map_err(|reason| SiteError::File {
                    file: folder.join("pytec.toml"),
                    reason,
                })?;
                Ok(Self { folder, root, file })
            }
            SiteSource::Embedded(files) => {
                let files = files.iter().map(|(name, text)| {
                    let path = SitePath::new(name).ok_or_else(|| {
                        SiteError::Options(format!("{name:?} cannot be a file's name in a site"))
                    })?;
                    Ok((path, text.clone()))
                });
                let root = Arc::new(Root::Embedded(files.collect::<Result<_, SiteError>>()?));
                Ok(Self { folder: PathBuf::from("/"), root, file: SiteFile::default() })
            }
        }
    }
}

impl SiteCore {
    /// Compiles what has changed; the files of the pages that there are.
    fn look(&self) -> io::Result<Vec<SitePath>> {
        let pages: Vec<Page> = self.pages.read().values().cloned().collect();
        for page in pages {
            if page.refresh(&self.root) && self.root.fingerprint(page.file()).is_some() {
                match page.tag_error() {
                    Some(error) => tracing::error!("Page {} has an error: {error}", page.path()),
                    None => tracing::info!("Page {} has changed.", page.path()),
                }
            }
        }
        let library = library(&self.root)?;
        let mut known = self.library.lock();
        if *known != library {
            *known = library;
            self.pool.renew();
        }
        drop(known);
        let files = self.root.files()?;
        Ok(files.into_iter().filter(|file| file.page().is_some()).collect())
    }
}

/// The files of the site's modules.
fn library(root: &Root) -> io::Result<Vec<(SitePath, Option<Fingerprint>)>> {
    let files = root.files_below(LIBRARY)?;
    Ok(files.into_iter().map(|file| (file.clone(), root.fingerprint(&file))).collect())
}

async fn keep_current(site: Weak<SiteCore>) {
    let mut every = tokio::time::interval(REFRESH_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    every.tick().await;
    loop {
        every.tick().await;
        let Some(core) = site.upgrade() else { return };
        Site(core).refresh().await;
    }
}

impl Part for Site {
    fn observe(&self) -> Vec<StageObservation> {
        Graph::observe(&self.0.graph).stages
    }

    fn drain(&self, time: Duration) -> Drained<'_> {
        Box::pin(async move {
            let reports = self.0.graph.drain(time).await;
            self.0.pool.close().await;
            reports
        })
    }

    fn share(&self) -> Box<dyn Part> {
        Box::new(self.clone())
    }
}
