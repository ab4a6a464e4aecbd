//! A page: its program, and the stage that runs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tamarisk::control::Concurrency;
use tamarisk::laws::{Coordination, ElasticPool};
use tamarisk::{
    BoxError, BuildError, CallError, Context, Entry, Request, Stage, StageObservation, Terminated,
};
use tokio::time::{Instant, timeout};

use crate::compile::{Compiled, PageError, compile};
use crate::options::PageOptions;
use crate::process::{Backoff, Pool, RunError, StartError, Work};
use crate::request::{PageAnswer, PageRequest};
use crate::root::Root;
use crate::site_path::SitePath;

/// How many times as many events of a page may run at once before answers tell whether they take longer
/// then: each more is a process, with its memory.
const PROCESSES_TRUST: f64 = 2.0;

/// Counts what was compiled, over all pages: no two programs have one version.
static VERSIONS: AtomicU64 = AtomicU64::new(1);

/// A page of a [`Site`](crate::Site); clones share it.
#[derive(Clone)]
pub struct Page {
    core: Arc<PageCore>,
    stage: Stage<Request<PageRequest, PageAnswer>>,
}

/// What the stage's handler runs.
struct PageCore {
    file: SitePath,
    path: String,
    program: RwLock<Arc<VersionedProgram>>,
    pool: Arc<Pool>,
    /// The names of the classes, by their index.
    classes: Vec<String>,
    time_max: Duration,
    /// How often in a row the page has ended its process.
    crashes: Mutex<Backoff>,
}

struct VersionedProgram {
    compiled: Compiled,
    version: u64,
}

impl VersionedProgram {
    fn of(root: &Root, file: &SitePath) -> Arc<Self> {
        let version = VERSIONS.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { compiled: compile(root, file), version })
    }
}

/// Why an event of a page failed.
#[derive(Debug, thiserror::Error)]
enum PageFailure {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Page(#[from] PageError),
    #[error("{file}: {message}")]
    Process { file: String, message: String },
}

impl Page {
    /// Compiles the page and starts its stage.
    pub(crate) fn start(
        root: &Root,
        file: SitePath,
        pool: &Arc<Pool>,
        options: &PageOptions,
    ) -> Result<Self, BuildError> {
        let path = file.page().unwrap_or_else(|| format!("/{file}"));
        let core = Arc::new(PageCore {
            program: RwLock::new(VersionedProgram::of(root, &file)),
            file,
            path: path.clone(),
            pool: Arc::clone(pool),
            classes: options.class_names(),
            time_max: options.time_max,
            crashes: Mutex::default(),
        });
        let workers = Concurrency::new(1)..=Concurrency::new(options.processes);
        let mut builder = Stage::builder(path)
            .p90(options.p90)
            // One that waits for a process is not to hold others.
            .batch(1)
            .workers_between(1..=options.processes)
            .workers_law(ElasticPool::new(workers, PROCESSES_TRUST, options.p90))
            .coordination(Coordination::Composition);
        if !options.classes.is_empty() {
            builder = builder.classes(options.classes.clone());
        }
        if let Some(least) = options.least_quality {
            builder = builder.degrade_to(least);
        }
        let handler = Arc::clone(&core);
        let stage = builder.handler(async move |request: PageRequest, cx: Context| {
            handler.run(request, &cx).await
        })?;
        Ok(Self { core, stage })
    }

    /// The path that the page answers, which is the name of its stage.
    pub fn path(&self) -> &str {
        &self.core.path
    }

    /// The page's answer to a request that enters its stage as `entry` says.
    ///
    /// # Errors
    /// [`CallError`]: rejected by the stage; terminated at the deadline or after the longest time
    /// of a page; or failed, with file, line and Python's message as text.
    pub async fn render(
        &self,
        entry: Entry,
        request: PageRequest,
    ) -> Result<PageAnswer, CallError> {
        self.stage.call_as(request, entry).await
    }

    /// The stage at this instant.
    pub fn observe(&self) -> StageObservation {
        self.stage.observe()
    }

    pub(crate) fn file(&self) -> &SitePath {
        &self.core.file
    }

    pub(crate) fn stage(&self) -> &Stage<Request<PageRequest, PageAnswer>> {
        &self.stage
    }

    /// The error in its tags, if there is one: known before Python has seen the page.
    pub(crate) fn tag_error(&self) -> Option<PageError> {
        self.core.program.read().compiled.program.clone().err()
    }

    /// Has Python compile the page, and run nothing of it.
    ///
    /// # Errors
    /// Why it cannot be run: an error in the page, or that there is no process.
    pub(crate) async fn check(&self) -> Result<(), PageError> {
        self.core.check().await.map_err(|failure| match failure {
            PageFailure::Page(error) => error,
            other => {
                let (file, message) = (self.core.file.to_string(), other.to_string());
                PageError { file, line: 0, message, trace: Vec::new() }
            }
        })
    }

    /// Compiles the page anew if one of its files has changed; whether it has. As long as one cannot
    /// be looked at, the page stays as it is.
    pub(crate) fn refresh(&self, root: &Root) -> bool {
        let current = Arc::clone(&self.core.program.read());
        let mut is_current = true;
        for (path, known) in &current.compiled.sources {
            match root.fingerprint(path) {
                Ok(fingerprint) => is_current &= fingerprint == *known,
                // It could not be read before either.
                Err(_) if known.is_none() => {}
                Err(error) => {
                    tracing::error!("Page {} is left as it is: {path}: {error}", self.path());
                    return false;
                }
            }
        }
        if is_current {
            return false;
        }
        *self.core.program.write() = VersionedProgram::of(root, &self.core.file);
        // What crashed may have been mended.
        self.core.crashes.lock().succeeded();
        true
    }
}

impl PageCore {
    async fn run(&self, request: PageRequest, cx: &Context) -> Result<PageAnswer, BoxError> {
        match self.answer(&request, cx).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => {
                let (path, id, time) = (&self.path, &request.id, self.time_max);
                tracing::error!(
                    "Page {path} ran for longer than {time:?} and was ended (request {id})."
                );
                Err(Terminated.into())
            }
            Err(failure) => {
                tracing::error!("Page {} failed (request {}): {failure}", self.path, request.id);
                Err(failure.into())
            }
        }
    }

    /// None if it ran for too long.
    async fn answer(
        &self,
        request: &PageRequest,
        cx: &Context,
    ) -> Result<Option<PageAnswer>, PageFailure> {
        let current = Arc::clone(&self.program.read());
        let program = current.compiled.program.as_ref().map_err(PageError::clone)?;
        self.check_crashes()?;
        let mut lease = self.pool.lease().await?;
        let class = self.classes.get(cx.class().index()).map_or("default", String::as_str);
        let work = Work {
            page: &self.path,
            version: current.version,
            program: Some(program),
            request: Some(request.head(class, cx.quality().get())),
        };
        let Ok(ended) = timeout(self.time_max, lease.run(work, &request.body)).await else {
            return Ok(None);
        };
        match ended {
            Ok(answer) => {
                self.crashes.lock().succeeded();
                Ok(Some(answer))
            }
            Err(RunError::Page(error)) => {
                self.crashes.lock().succeeded();
                Err(error.into())
            }
            Err(died) => {
                self.crashes.lock().failed(Instant::now());
                Err(self.failed(died))
            }
        }
    }

    async fn check(&self) -> Result<(), PageFailure> {
        let current = Arc::clone(&self.program.read());
        let program = current.compiled.program.as_ref().map_err(PageError::clone)?;
        let version = current.version;
        let work = Work { page: &self.path, version, program: Some(program), request: None };
        match self.pool.lease().await?.run(work, &[]).await {
            Ok(_) => Ok(()),
            Err(RunError::Page(error)) => Err(error.into()),
            Err(died) => Err(self.failed(died)),
        }
    }

    fn check_crashes(&self) -> Result<(), PageFailure> {
        let crashes = self.crashes.lock();
        let Some(pause) = crashes.pause(Instant::now()) else { return Ok(()) };
        Err(self.failed(format_args!(
            "the page has ended its process {} times in a row; next attempt in {pause:.1?}",
            crashes.failures()
        )))
    }

    fn failed(&self, message: impl std::fmt::Display) -> PageFailure {
        PageFailure::Process { file: self.file.to_string(), message: message.to_string() }
    }
}
