//! A site: requests in, answers out.

use std::future::{Ready, ready};
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, Method, Request, StatusCode, Uri};
use hyper::service::Service;
use tamarisk_control::Target;
use tamarisk_stage::{BuildError, CallError, Clock, StageObservation};

use crate::answer::{self, Answer};
use crate::cache::{Loaded, PageCache};
use crate::files::{Files, Found, Load};
use crate::folder::Folder;
use crate::page::Page;
use crate::path::{InvalidPath, SitePath};
use crate::root::{FileError, Root};

/// What a site is made of.
#[derive(Clone, Debug)]
pub struct SiteOptions {
    /// The folder of its files.
    pub root: PathBuf,
    /// Which file stands for a folder: the first of these that it has.
    pub index: Vec<String>,
    /// Bytes of memory for pages.
    pub cache_bytes: u64,
    /// Longer files are read from disk as they are sent.
    pub held_bytes_max: u64,
    /// Threads that find and read files, and as many that read on in long ones.
    pub file_workers: u32,
    /// Who asks for a file that is not in memory is promised it by then.
    pub target: Target,
}

impl SiteOptions {
    /// Of the folder `root`: 64 MiB of memory, files up to 1 MiB held, four threads.
    pub fn new(root: impl Into<PathBuf>, target: Target) -> Self {
        Self {
            root: root.into(),
            index: vec!["index.html".to_owned()],
            cache_bytes: 64 << 20,
            held_bytes_max: 1 << 20,
            file_workers: 4,
            target,
        }
    }
}

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
    /// A stage for its files cannot be had.
    #[error(transparent)]
    Stage(#[from] BuildError),
}

/// A site that serves; clones share it.
#[derive(Clone)]
pub struct Site(Arc<Shared>);

struct Shared {
    cache: PageCache,
    files: Files,
    clock: Clock,
}

impl Site {
    /// Opens the folder and starts the stages that read from it.
    ///
    /// # Errors
    /// [`SiteError`].
    pub fn open(options: SiteOptions) -> Result<Self, SiteError> {
        let SiteOptions { root, index, cache_bytes, held_bytes_max, file_workers, target } =
            options;
        let opened = Root::open(&root).map_err(|source| SiteError::Root { root, source })?;
        // What the cache cannot hold needs no trying.
        let held_max = held_bytes_max.min(cache_bytes);
        let folder = Arc::new(Folder { root: opened, index, held_max });
        let files = Files::start(folder, file_workers, target)?;
        let (cache, clock) = (PageCache::new(cache_bytes), Clock::default());
        Ok(Self(Arc::new(Shared { cache, files, clock })))
    }

    /// The stages that read files, at this instant.
    pub fn observe(&self) -> [StageObservation; 2] {
        self.0.files.observe()
    }

    /// Reads nothing more.
    pub fn close(&self) {
        self.0.files.close();
    }

    fn answer(&self, method: Method, uri: Uri, headers: HeaderMap) -> Answering {
        match method {
            Method::GET | Method::HEAD => {}
            Method::OPTIONS => return Answering::at_once(answer::options()),
            _ => return Answering::at_once(answer::not_allowed()),
        }
        let path = match SitePath::of(uri.path()) {
            Ok(path) => path,
            Err(InvalidPath::Hidden) => {
                return Answering::at_once(answer::message(StatusCode::NOT_FOUND));
            }
            Err(InvalidPath::TooLong) => {
                return Answering::at_once(answer::message(StatusCode::URI_TOO_LONG));
            }
            Err(_) => return Answering::at_once(answer::message(StatusCode::BAD_REQUEST)),
        };
        if let Some(page) = self.0.cache.get(&path) {
            if page.is_check_due(self.0.clock.now()) {
                tokio::spawn(self.clone().check(path, Arc::clone(&page)));
            }
            return Answering::at_once(answer::page(&page, &method, &headers, &self.0.files));
        }
        let site = self.clone();
        Answering::Later(Box::pin(async move {
            match site.load(&path).await {
                Ok(Loaded::Page(page)) => answer::page(&page, &method, &headers, &site.0.files),
                Ok(Loaded::Folder) => answer::folder(uri.path(), uri.query()),
                Err(answer) => answer,
            }
        }))
    }

    async fn load(&self, path: &SitePath) -> Result<Loaded, Answer> {
        self.0.cache.get_or_load(path, self.ask(path)).await
    }

    async fn ask(&self, path: &SitePath) -> Result<Loaded, Answer> {
        let load = Load { path: path.clone(), known: None };
        match self.0.files.load().call(load).await {
            Ok(Ok(Found::Page(page))) => Ok(Loaded::Page(page)),
            Ok(Ok(Found::Folder)) => Ok(Loaded::Folder),
            Ok(Ok(Found::Same)) => unreachable!("none was known"),
            Ok(Err(FileError::NotFound)) => Err(answer::message(StatusCode::NOT_FOUND)),
            Ok(Err(FileError::Forbidden)) => Err(answer::message(StatusCode::FORBIDDEN)),
            Ok(Err(FileError::Busy)) => Err(answer::busy(1)),
            Ok(Err(FileError::Broken)) => Err(answer::message(StatusCode::INTERNAL_SERVER_ERROR)),
            Err(CallError::Rejected(rejection)) => {
                let after = rejection.retry_after.unwrap_or(Duration::from_secs(1));
                Err(answer::busy(after.as_secs_f64().ceil() as u64))
            }
            Err(_) => Err(answer::busy(1)),
        }
    }

    /// Compares a page with the disk, and puts in its place what is there now. If the
    /// disk has no time for it the page stays.
    async fn check(self, path: SitePath, page: Arc<Page>) {
        let load = Load { path: path.clone(), known: Some(page.stamp.clone()) };
        match self.0.files.load().call(load).await {
            Ok(Ok(Found::Page(page))) if page.held().is_some() => self.0.cache.put(path, page),
            Ok(
                Ok(Found::Page(_) | Found::Folder)
                | Err(FileError::NotFound | FileError::Forbidden),
            ) => {
                self.0.cache.remove(&path);
            }
            Ok(Ok(Found::Same) | Err(FileError::Busy | FileError::Broken)) | Err(_) => {}
        }
    }
}

impl<B> Service<Request<B>> for Site {
    type Response = Answer;
    type Error = std::convert::Infallible;
    type Future = Answering;

    fn call(&self, request: Request<B>) -> Answering {
        let (head, _) = request.into_parts();
        self.answer(head.method, head.uri, head.headers)
    }
}

/// An answer that is there, or comes once the disk has spoken.
pub enum Answering {
    /// From memory: nothing is allocated for the wait.
    AtOnce(Ready<Answer>),
    /// From the disk.
    Later(Pin<Box<dyn Future<Output = Answer> + Send>>),
}

impl Answering {
    fn at_once(answer: Answer) -> Self {
        Self::AtOnce(ready(answer))
    }
}

impl Future for Answering {
    type Output = Result<Answer, std::convert::Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = match self.get_mut() {
            Self::AtOnce(answer) => Pin::new(answer).poll(cx),
            Self::Later(answer) => answer.as_mut().poll(cx),
        };
        answer.map(Ok)
    }
}
