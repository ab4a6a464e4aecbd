//! Pages, from memory or from the disk.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tamarisk_control::{ClassId, Classes};
use tamarisk_stage::{BuildError, CallError, Clock, Entry};

use crate::answer::{self, Answer};
use crate::cache::{Loaded, PageCache, PageKey};
use crate::files::{Files, Found, Load};
use crate::folder::Folder;
use crate::page::Page;
use crate::root::FileError;

/// All pages of all folders.
pub(crate) struct Pages {
    cache: PageCache,
    pub(crate) files: Files,
    /// As what the files of each folder are asked for.
    classes: Vec<ClassId>,
    clock: Clock,
}

impl Pages {
    /// `workers` threads read the files of `folders`, whose classes are among `classes`.
    pub(crate) fn start(
        folders: Vec<(Folder, ClassId)>,
        classes: Classes,
        cache_bytes: u64,
        workers: u32,
    ) -> Result<Self, BuildError> {
        let (folders, of): (Vec<_>, Vec<_>) = folders.into_iter().unzip();
        let files = Files::start(folders.into(), workers, classes)?;
        let (cache, clock) = (PageCache::new(cache_bytes), Clock::default());
        Ok(Self { cache, files, classes: of, clock })
    }

    /// The page that is in memory; now and then somebody compares it with the disk.
    pub(crate) fn at_hand(self: &Arc<Self>, key: &PageKey) -> Option<Arc<Page>> {
        let page = self.cache.get(key)?;
        if page.is_check_due(self.clock.now()) {
            tokio::spawn(Arc::clone(self).check(key.clone(), Arc::clone(&page)));
        }
        Some(page)
    }

    /// The page, from the disk if need be; an answer that says why there is none.
    pub(crate) async fn load(&self, key: &PageKey) -> Result<Loaded, Answer> {
        self.cache.get_or_load(key, self.ask(key)).await
    }

    async fn call(&self, load: Load) -> Result<Result<Found, FileError>, CallError> {
        let entry = Entry::new().class(self.classes[load.key.folder as usize]);
        self.files.load().call_as(load, entry).await
    }

    async fn ask(&self, key: &PageKey) -> Result<Loaded, Answer> {
        match self.call(Load { key: key.clone(), known: None }).await {
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
    async fn check(self: Arc<Self>, key: PageKey, page: Arc<Page>) {
        match self.call(Load { key: key.clone(), known: Some(page.stamp.clone()) }).await {
            Ok(Ok(Found::Page(page))) if page.held().is_some() => self.cache.put(key, page),
            Ok(
                Ok(Found::Page(_) | Found::Folder)
                | Err(FileError::NotFound | FileError::Forbidden),
            ) => {
                self.cache.remove(&key);
            }
            Ok(Ok(Found::Same) | Err(FileError::Busy | FileError::Broken)) | Err(_) => {}
        }
    }
}
