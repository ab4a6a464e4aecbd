//! A site: pages of a folder or of the program, each a stage, and the files beside them.

mod files;
mod modules;
mod removals;
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
use tamarisk::{AnyStage, BuildError, ClassId, Graph, GraphError};
use tokio::time::MissedTickBehavior;

use crate::compile::PageError;
use crate::options::{SiteOptions, SiteSource};
use crate::page::Page;
use crate::process::{Pool, WorkerOptions};
use crate::root::{Listing, Root};
use crate::site_path::SitePath;
use files::FilesStage;
use modules::ModuleFiles;
use removals::Removals;
use site_file::SiteFile;

/// How often the folder is looked at.
const REFRESH_EVERY: Duration = Duration::from_secs(1);
/// The most processes that a site may ask for: each is some ten megabytes at least.
const PROCESSES_MAX: u32 = 1024;

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
    removals: Removals,
    modules: Mutex<ModuleFiles>,
    /// Held while files are looked at and pages are added or removed.
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
        let (root, file) = opened(&options.source)?;
        let folder = root.path();
        let unlisted = |source| SiteError::Folder { folder: folder.clone(), source };
        let found = root.files().map_err(unlisted)?;
        let module_folders = options.module_folders_in(&folder);
        let modules = ModuleFiles::look(&module_folders, &ModuleFiles::default());
        let setup = options.setup(folder);
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
            removals: Removals::of(&graph),
            graph,
            files,
            pages: RwLock::default(),
            modules: Mutex::new(modules),
            changes: tokio::sync::Mutex::default(),
        }));
        for file in found.files.into_iter().filter(|file| file.page().is_some()) {
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
    /// gone, and replaces the processes if the site's modules have changed, or its folder by another
    /// one. Is done every second; this does it now, and waits until what is inside of removed pages
    /// has ended, ten seconds at most.
    pub async fn refresh(&self) {
        self.update().await;
        self.0.removals.end().await;
    }

    /// The same, without waiting for removals.
    async fn update(&self) {
        let changes = self.0.changes.lock().await;
        let core = Arc::clone(&self.0);
        let looked = tokio::task::spawn_blocking(move || core.look()).await;
        match looked {
            Ok(Ok(found)) => self.follow(&found),
            Ok(Err(error)) => {
                tracing::error!("The folder of the site cannot be looked at: {error}");
            }
            // The runtime ends.
            Err(_) => {}
        }
        drop(changes);
        self.0.pool.end_idle().await;
    }

    /// Has the pages that there are files of.
    fn follow(&self, found: &Listing) {
        for page in self.pages() {
            let path = page.path();
            match found.has(page.file()) {
                Ok(true) => {}
                Ok(false) => {
                    tracing::info!("Page {path} is gone.");
                    self.0.pages.write().remove(path);
                    self.0.removals.start(path.to_owned());
                }
                Err((folder, error)) => {
                    tracing::error!("Page {path} is left as it is: folder {folder}: {error}");
                }
            }
        }
        for file in &found.files {
            // One whose name is not free yet is added when it is looked for next.
            let is_new = file
                .page()
                .is_some_and(|path| self.page(&path).is_none() && !self.0.removals.has(&path));
            if is_new && let Err(error) = self.insert(file.clone()) {
                tracing::error!("Page {file} cannot be added: {error}");
            }
        }
    }

    /// Adds the page of this file, unless there is one now.
    async fn add(&self, file: SitePath) -> Result<Page, SiteError> {
        let path = file.page().unwrap_or_default();
        loop {
            // Without the lock: other changes do not wait for it.
            self.0.removals.end_of(&path).await;
            let _changes = self.0.changes.lock().await;
            if let Some(page) = self.page(&path) {
                return Ok(page);
            }
            if !self.0.removals.has(&path) {
                return self.insert(file);
            }
        }
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

/// Where the files of a site are, and what `pytec.toml` says.
fn opened(source: &SiteSource) -> Result<(Arc<Root>, SiteFile), SiteError> {
    match source {
        SiteSource::Folder(folder) => {
            let unopened = |source| SiteError::Folder { folder: folder.clone(), source };
            let root = Root::open(folder).map_err(unopened)?;
            let path = root.path();
            let file = SiteFile::read(&path)
                .map_err(|reason| SiteError::File { file: path.join("pytec.toml"), reason })?;
            Ok((Arc::new(root), file))
        }
        SiteSource::Embedded(files) => {
            let files = files.iter().map(|(name, text)| {
                let path = SitePath::new(name).ok_or_else(|| {
                    SiteError::Options(format!("{name:?} cannot be a file's name in a site"))
                })?;
                Ok((path, text.clone()))
            });
            let root = Root::Embedded(files.collect::<Result<_, SiteError>>()?);
            Ok((Arc::new(root), SiteFile::default()))
        }
    }
}

impl SiteCore {
    /// Compiles what has changed; the files that there are.
    fn look(&self) -> io::Result<Listing> {
        let is_moved = self.root.reopen()?;
        if is_moved {
            tracing::info!("The site is in another folder: {}", self.root.path().display());
        }
        self.look_at_modules(is_moved);
        let pages: Vec<Page> = self.pages.read().values().cloned().collect();
        for page in pages {
            let has_changed = page.refresh(&self.root);
            if has_changed && matches!(self.root.fingerprint(page.file()), Ok(Some(_))) {
                match page.tag_error() {
                    Some(error) => tracing::error!("Page {} has an error: {error}", page.path()),
                    None => tracing::info!("Page {} has changed.", page.path()),
                }
            }
        }
        self.root.files()
    }

    /// Replaces the processes if their modules have changed, or the folder that they run in.
    fn look_at_modules(&self, is_moved: bool) {
        let folder = self.root.path();
        let mut known = self.modules.lock();
        let modules = ModuleFiles::look(&self.options.module_folders_in(&folder), &known);
        if is_moved || *known != modules {
            *known = modules;
            self.pool.renew(self.options.setup(folder));
        }
    }
}

async fn keep_current(site: Weak<SiteCore>) {
    let mut every = tokio::time::interval(REFRESH_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    every.tick().await;
    loop {
        every.tick().await;
        let Some(core) = site.upgrade() else { return };
        Site(core).update().await;
    }
}

impl Part for Site {
    fn stages(&self) -> Vec<AnyStage> {
        self.0.graph.stages()
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
