//! Pages, from memory or from the disk.

use std::sync::Arc;

use http::StatusCode;
use tamarisk_control::{ClassId, Classes, Timestamp};
use tamarisk_stage::{BuildError, CallError, Clock, Entry};

use crate::cache::outcome::{LoadOutcome, Loaded, NoPage, NotNow, Waited};
use crate::cache::page_cache::{PageCache, PageKey};
use crate::disk::files::{Files, Found, Load, Told};
use crate::disk::folder::{AtOnce, Folder};
use crate::disk::path::SitePath;
use crate::disk::root::FileError;
use crate::page::{Page, Stamp};

/// A page that was not compared with the disk for so long after it was due is compared before it
/// is sent: what it says may be long past. It is asked for so seldom that requests do not wait for each other.
const OVERDUE_NANOS: u64 = 2_000_000_000;

/// What a path has led to, or the status that says why to nothing.
type Known = Result<Loaded, StatusCode>;

/// All pages of all folders.
pub(crate) struct Pages {
    cache: Arc<PageCache>,
    pub(crate) files: Files,
    clock: Clock,
}

/// Where pages come from.
#[derive(Clone, Debug)]
pub(crate) struct PageSource {
    pub(crate) folder: Arc<Folder>,
    /// As what its files are asked for.
    pub(crate) class: ClassId,
}

impl PageSource {
    /// The page at `path`.
    pub(crate) fn key(&self, path: SitePath) -> PageKey {
        PageKey { folder: self.folder.id, path }
    }
}

impl Pages {
    /// `workers` threads read files, which are asked for as one of `classes`; so many may be open
    /// that are not held.
    pub(crate) fn start(
        classes: Classes,
        cache: PageCache,
        workers: u32,
        open_max: usize,
    ) -> Result<Self, BuildError> {
        let files = Files::start(workers, classes, open_max)?;
        let cache = Arc::new(cache);
        Ok(Self { cache, files, clock: Clock::default() })
    }

    /// The same memory, and the same threads if they know these classes.
    pub(crate) fn with(&self, classes: Classes) -> Result<Self, BuildError> {
        let (cache, clock) = (Arc::clone(&self.cache), self.clock.clone());
        Ok(Self { cache, files: self.files.with(classes)?, clock })
    }

    /// From now on these targets hold, and pages of other folders make room.
    pub(crate) fn take_over(&self, folders: &[u32], cache_bytes: u64) {
        self.files.take_over();
        self.cache.retain(folders, cache_bytes);
    }

    /// What is at `key`, as far as that is in our memory, in open files or in the kernel's caches; now
    /// and then somebody compares a page with the disk. None if that should have been long ago, and
    /// the kernel does not know it to be the same: [`load`](Self::load) compares it.
    pub(crate) fn at_once(self: &Arc<Self>, source: &PageSource, key: &PageKey) -> Option<Known> {
        let now = self.clock.now();
        let page = match self.cache.held(key).or_else(|| self.open(key)) {
            Some(page) => page,
            None => match self.find(source, key, now)? {
                Ok(Loaded::Page(page)) => page,
                other => return Some(other),
            },
        };
        let Some(overdue) = page.check_overdue(now) else { return Some(Ok(Loaded::Page(page))) };
        let is_still = |searched| source.folder.is_at_once_still(&key.path, &page.stamp, searched);
        if overdue >= OVERDUE_NANOS && !is_still(true) {
            return None;
        }
        if page.is_check_due(now) {
            self.cache.sweep(now);
            if overdue < OVERDUE_NANOS && !is_still(page.is_search_due(now)) {
                self.check(source, key, &page);
            }
        }
        Some(Ok(Loaded::Page(page)))
    }

    /// The same, but for a page of which a form would have to come from a disk when it is begun to be
    /// sent.
    pub(crate) fn in_memory(self: &Arc<Self>, source: &PageSource, key: &PageKey) -> Option<Known> {
        let is_there = |known: &Known| match known {
            Ok(Loaded::Page(page)) => page.begins_in_memory(),
            Ok(Loaded::Folder) | Err(_) => true,
        };
        self.at_once(source, key).filter(is_there)
    }

    /// The page that is in open files, if they are what they were.
    fn open(&self, key: &PageKey) -> Option<Arc<Page>> {
        let page = self.cache.open(key)?;
        if !page.is_current() {
            self.cache.close(key, &page);
            return None;
        }
        Some(page)
    }

    /// What takes no disk; a page is kept from now on.
    fn find(&self, source: &PageSource, key: &PageKey, now: Timestamp) -> Option<Known> {
        let found = source.folder.at_once(&key.path, &self.files.open, now)?;
        Some(match found {
            Ok(AtOnce::Page(page)) => {
                self.cache.put(key.clone(), Arc::clone(&page));
                Ok(Loaded::Page(page))
            }
            Ok(AtOnce::Folder) => Ok(Loaded::Folder),
            Err(error) => Err(status_of(error)),
        })
    }

    /// Compares a page with the disk; no request waits for that.
    fn check(self: &Arc<Self>, source: &PageSource, key: &PageKey, page: &Arc<Page>) {
        let (pages, page) = (Arc::clone(self), Arc::clone(page));
        let (source, key) = (source.clone(), key.clone());
        tokio::spawn(async move { pages.exchange(&source, &key, &page).await });
    }

    /// The page, from the disk if need be, and how long that has taken.
    pub(crate) async fn load(&self, source: &PageSource, key: &PageKey) -> LoadOutcome {
        let now = self.clock.now();
        self.cache.sweep(now);
        let known = self.cache.held(key).or_else(|| self.cache.open(key));
        let is_known = known.is_some();
        let mut waited = None;
        if let Some(page) = known.filter(|page| page.is_check_due(now)) {
            waited = self.exchange(source, key, &page).await;
        }
        let loaded = self.cache.get_or_load(key, self.ask(source, key, &mut waited)).await;
        let for_others = || (!is_known).then(|| Waited::ForOthers(self.clock.now().since(now)));
        LoadOutcome { loaded, waited: waited.or_else(for_others) }
    }

    /// What the stage finds at `key`, and how long that has taken.
    async fn call(
        &self,
        source: &PageSource,
        key: &PageKey,
        known: Option<Stamp>,
    ) -> Result<(Result<Found, FileError>, Waited), CallError> {
        let at = self.clock.now();
        let (folder, path) = (Arc::clone(&source.folder), key.path.clone());
        let entry = Entry::new().class(source.class);
        let load = Load { folder, path, known, at };
        let Told { found, queued } = self.files.load().call_as(load, entry).await?;
        let read = self.clock.now().since(at).saturating_sub(queued);
        Ok((found, Waited::ForStage { queued, read }))
    }

    /// What the stage has at `key`. How long that has taken is put into `waited`.
    async fn ask(
        &self,
        source: &PageSource,
        key: &PageKey,
        waited: &mut Option<Waited>,
    ) -> Result<Loaded, NoPage> {
        let called = self.call(source, key, None).await;
        let (found, took) = called.map_err(|error| NoPage::NotNow(error.into()))?;
        *waited = Some(took);
        match found {
            Ok(Found::Page(page)) => Ok(Loaded::Page(page)),
            Ok(Found::Folder) => Ok(Loaded::Folder),
            Ok(Found::Same) => unreachable!("none was known"),
            Err(FileError::Busy) => Err(NoPage::NotNow(NotNow::CROWDED)),
            Err(error) => Err(NoPage::Status(status_of(error))),
        }
    }

    /// Puts in the place of a page what is on the disk now, and says how long that has taken. If
    /// the stage has no time for it the page stays.
    async fn exchange(&self, source: &PageSource, key: &PageKey, page: &Page) -> Option<Waited> {
        let (found, waited) = self.call(source, key, Some(page.stamp.clone())).await.ok()?;
        match found {
            Ok(Found::Page(page)) => self.cache.put(key.clone(), page),
            Ok(Found::Folder) | Err(FileError::NotFound | FileError::Forbidden) => {
                self.cache.remove(key);
            }
            Ok(Found::Same) | Err(FileError::Busy | FileError::Broken) => {}
        }
        Some(waited)
    }
}

/// The status of an answer that there is no page.
const fn status_of(error: FileError) -> StatusCode {
    match error {
        FileError::NotFound => StatusCode::NOT_FOUND,
        FileError::Forbidden => StatusCode::FORBIDDEN,
        FileError::Busy => StatusCode::SERVICE_UNAVAILABLE,
        FileError::Broken => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
