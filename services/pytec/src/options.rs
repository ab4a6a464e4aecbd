//! What a site is opened with.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::http::request::Parts;
use tamarisk::Ratio;

use crate::process::Setup;

/// Processes for each core, at most: pages that wait for others leave a core idle.
const PROCESSES_PER_CORE: usize = 4;
/// The folder of a site's modules.
const LIBRARY: &str = "lib";

/// Names the class of a request by its head.
pub type ClassOf = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;

/// Where the pages of a [`Site`](crate::Site) are.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SiteSource {
    /// In a folder, with the files beside them.
    Folder(PathBuf),
    /// In the program: pages and includes, their texts by their file names.
    Embedded(BTreeMap<String, String>),
}

/// What a [`Site`](crate::Site) is opened with.
#[derive(Clone)]
#[non_exhaustive]
pub struct SiteOptions {
    /// Where the pages are.
    pub source: SiteSource,
    /// The target of the pages that have none in the site's file: nine of ten requests are
    /// answered within this time. Default one second.
    pub p90: Duration,
    /// The longest that a page may run, where the site's file does not say otherwise; then its
    /// process is replaced. Default ten seconds.
    pub time_max: Duration,
    /// The most Python processes. Default four for each core.
    pub processes: u32,
    /// The most memory of a process (address space, `RLIMIT_AS`). Default 256 MiB.
    pub memory_bytes_max: u64,
    /// The largest answer of a page. Default 4 MiB.
    pub answer_bytes_max: usize,
    /// The largest body of a request. Default 1 MiB.
    pub request_bytes_max: usize,
    /// The longest that a process is kept without work. Default one minute.
    pub idle_time_max: Duration,
    /// The most pages. Default 256: each is a stage, with its estimates and its place in metrics.
    pub pages_max: usize,
    /// The interpreter. Default `python3`, as the system finds it.
    pub python: PathBuf,
    /// Modules that pages can import, by name, as source text.
    pub modules: HashMap<String, String>,
    /// Folders of modules besides `lib` of the site.
    pub module_folders: Vec<PathBuf>,
    /// The names of the classes, the most important first. Default none: one class.
    pub classes: Vec<String>,
    /// The class of a request of the router, by name. Of none, and of a name that is no class,
    /// it is the last class.
    pub class_of: Option<ClassOf>,
    /// Whether visitors are shown what is wrong with a page. Default no.
    pub shows_errors: bool,
}

impl SiteOptions {
    /// The pages of this folder, and defaults.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self::of(SiteSource::Folder(folder.into()))
    }

    /// Pages and includes whose texts the program has, by their file names, and defaults:
    /// `("digest.pytec", include_str!("digest.pytec"))` is the page `/digest`. Their targets are
    /// those of these options, and nothing but pages is sent.
    pub fn embedded<N: Into<String>, T: Into<String>>(
        files: impl IntoIterator<Item = (N, T)>,
    ) -> Self {
        let files = files.into_iter().map(|(name, text)| (name.into(), text.into()));
        Self::of(SiteSource::Embedded(files.collect()))
    }

    fn of(source: SiteSource) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            source,
            p90: Duration::from_secs(1),
            time_max: Duration::from_secs(10),
            processes: u32::try_from(cores * PROCESSES_PER_CORE).unwrap_or(u32::MAX),
            memory_bytes_max: 256 << 20,
            answer_bytes_max: 4 << 20,
            request_bytes_max: 1 << 20,
            idle_time_max: Duration::from_secs(60),
            pages_max: 256,
            python: PathBuf::from("python3"),
            modules: HashMap::new(),
            module_folders: Vec::new(),
            classes: Vec::new(),
            class_of: None,
            shows_errors: false,
        }
    }

    /// With a module of this name that pages can import.
    #[must_use]
    pub fn module(mut self, name: impl Into<String>, source: impl Into<String>) -> Self {
        self.modules.insert(name.into(), source.into());
        self
    }

    /// The folders that modules are in, of a site in this folder.
    pub(super) fn module_folders_in(&self, folder: &Path) -> Vec<PathBuf> {
        let library = match self.source {
            SiteSource::Folder(_) => Some(folder.join(LIBRARY)),
            SiteSource::Embedded(_) => None,
        };
        let others = self.module_folders.iter().map(|other| folder.join(other));
        library.into_iter().chain(others).collect()
    }

    /// What the processes of a site in this folder are started with.
    pub(super) fn setup(&self, folder: PathBuf) -> Setup {
        Setup {
            module_folders: self.module_folders_in(&folder),
            folder,
            modules: self.modules.clone(),
            memory_bytes_max: self.memory_bytes_max,
            answer_bytes_max: self.answer_bytes_max,
        }
    }
}

/// What one page is started with.
#[derive(Clone, Debug)]
pub(crate) struct PageOptions {
    pub(crate) p90: Duration,
    pub(crate) time_max: Duration,
    pub(crate) least_quality: Option<Ratio>,
    pub(crate) processes: u32,
    pub(crate) classes: Vec<String>,
}

impl PageOptions {
    /// The names of the classes by their index: the least important is the first, as stages have
    /// it.
    pub(crate) fn class_names(&self) -> Vec<String> {
        self.classes.iter().rev().cloned().collect()
    }
}

/// The address of the client whose connection this is, if the server says it.
pub(crate) fn client(head: &Parts) -> Option<IpAddr> {
    let connection = head.extensions.get::<axum::extract::ConnectInfo<std::net::SocketAddr>>();
    connection.map(|connection| connection.0.ip())
}
