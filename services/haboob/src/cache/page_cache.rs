//! The page cache: pages in memory up to a number of bytes, and open files up to a count.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::available_parallelism;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use tamarisk_control::Timestamp;

use crate::cache::outcome::{Loaded, NoPage};
use crate::disk::path::SitePath;
use crate::page::Page;
use crate::page::due::Due;
use crate::page::page_file::PageFile;

/// What a page takes besides its content: its forms, its key, its place in the cache.
const OVERHEAD_BYTES: u64 = 1024;

/// More would hardly be asked for again. Each takes a descriptor.
const FILES_MAX: usize = 512;

const SWEEP_NANOS: u64 = 60_000_000_000;

/// Which page: a path in one of the folders that are served.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PageKey {
    /// By its number.
    pub(crate) folder: u32,
    pub(crate) path: SitePath,
}

/// What there is room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheLimits {
    /// Bytes of pages in memory.
    pub(crate) bytes: u64,
    /// Bytes of the longest file that is held.
    pub(crate) held_bytes: u64,
    /// Files that may be open, those of answers under way included.
    pub(crate) open_files: usize,
}

/// Bounded; what is not asked for again leaves first.
pub(crate) struct PageCache {
    held: Cache<PageKey, Held, ByBytes>,
    /// In open files.
    files: Cache<PageKey, Arc<Page>, ByFiles>,
    sweep: Due,
}

/// What there is of a path.
#[derive(Clone)]
enum Held {
    Page(Arc<Page>),
    /// What a reading has come to of which nothing is held. It is removed as soon as those who wait
    /// for the reading have it.
    Passing(Result<Loaded, NoPage>),
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<PageKey, Held> for ByBytes {
    fn weight(&self, key: &PageKey, held: &Held) -> u64 {
        match held {
            Held::Page(page) => key.path.len() as u64 + page.held() + OVERHEAD_BYTES,
            // For it no page has to leave.
            Held::Passing(_) => 0,
        }
    }
}

#[derive(Clone)]
struct ByFiles;

impl Weighter<PageKey, Arc<Page>> for ByFiles {
    fn weight(&self, _: &PageKey, page: &Arc<Page>) -> u64 {
        page.files().count() as u64
    }
}

impl PageCache {
    /// With room for so much.
    pub(crate) fn new(limits: CacheLimits) -> Self {
        let cores = available_parallelism().map_or(1, NonZeroUsize::get);
        Self::on_cores(cores, limits)
    }

    fn on_cores(cores: usize, limits: CacheLimits) -> Self {
        /// Of a site of web pages; a guess only sizes the first tables.
        const PAGE_BYTES: u64 = 16 * 1024;
        let pages = usize::try_from(limits.bytes / PAGE_BYTES).unwrap_or(usize::MAX);
        let options = OptionsBuilder::new()
            .estimated_items_capacity(pages)
            .weight_capacity(limits.bytes)
            .shards(shards(cores, limits.bytes, limits.held_bytes))
            .build()
            .expect("both capacities are set");
        let (hash, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        let held = Cache::with_options(options, ByBytes, hash, lifecycle);
        // The others are for pages that have left and are still being sent.
        let files_max = FILES_MAX.min(limits.open_files / 2);
        let files = Cache::with_weighter(files_max, files_max as u64, ByFiles);
        Self { held, files, sweep: Due::after(SWEEP_NANOS, Timestamp::ZERO) }
    }

    /// A page in our memory.
    pub(crate) fn held(&self, key: &PageKey) -> Option<Arc<Page>> {
        match self.held.get(key)? {
            Held::Page(page) => Some(page),
            Held::Passing(_) => None,
        }
    }

    /// A page in files that are open.
    pub(crate) fn open(&self, key: &PageKey) -> Option<Arc<Page>> {
        self.files.get(key)
    }

    /// The page, if it has come meanwhile; else what comes of `load`, which one asker runs. The
    /// others wait for it, and have what it says, whatever that is.
    pub(crate) async fn get_or_load(
        &self,
        key: &PageKey,
        load: impl Future<Output = Result<Loaded, NoPage>>,
    ) -> Result<Loaded, NoPage> {
        let guard = match self.held.get_value_or_guard_async(key).await {
            Ok(Held::Page(page)) => return Ok(Loaded::Page(page)),
            Ok(Held::Passing(loaded)) => return loaded,
            Err(guard) => guard,
        };
        let is_there = |page: &Arc<Page>| page.is_current() && page.begins_in_memory();
        let loaded = match self.files.get(key).filter(is_there) {
            Some(page) => Ok(Loaded::Page(page)),
            None => load.await,
        };
        match &loaded {
            Ok(Loaded::Page(page)) if is_held(page) => {
                self.files.remove(key);
                // The cache may have no room for it; the clients have it all the same.
                let _ = guard.insert(Held::Page(Arc::clone(page)));
                return loaded;
            }
            Ok(Loaded::Page(page)) => self.keep_open(key.clone(), Arc::clone(page)),
            Ok(Loaded::Folder) => drop(self.files.remove(key)),
            Err(_) => {}
        }
        // An empty guard would go to one of those who wait, and they to the disk one by one.
        let _ = guard.insert(Held::Passing(loaded.clone()));
        self.held.remove_if(key, |held| matches!(held, Held::Passing(_)));
        loaded
    }

    /// In place of what it was before.
    pub(crate) fn put(&self, key: PageKey, page: Arc<Page>) {
        if is_held(&page) {
            self.files.remove(&key);
            self.held.insert(key, Held::Page(page));
        } else {
            self.held.remove(&key);
            self.keep_open(key, page);
        }
    }

    /// Closes the files of `page`, unless others have come in their place.
    pub(crate) fn close(&self, key: &PageKey, page: &Arc<Page>) {
        self.files.remove_if(key, |now| Arc::ptr_eq(now, page));
    }

    fn keep_open(&self, key: PageKey, page: Arc<Page>) {
        if page.files().all(PageFile::is_told_of) {
            self.files.insert(key, page);
        } else {
            self.files.remove(&key);
        }
    }

    /// Now and then closes files that are not what they were: the disk has the room of those that
    /// are deleted only then.
    pub(crate) fn sweep(&self, now: Timestamp) {
        if self.sweep.is_now(SWEEP_NANOS, now) {
            self.files.retain(|_, page| page.is_current());
        }
    }

    pub(crate) fn remove(&self, key: &PageKey) {
        self.held.remove(key);
        self.files.remove(key);
    }

    /// Forgets the pages of other folders than these, and has another bound from now on.
    pub(crate) fn retain(&self, folders: &[u32], bytes_max: u64) {
        self.held.retain(|key, _| folders.contains(&key.folder));
        self.files.retain(|key, _| folders.contains(&key.folder));
        self.held.set_capacity(bytes_max);
    }
}

/// How many shards the cache has, each with a lock and an equal share of the room: four a core, but
/// only as many as have room for a page of the longest file, which with its compressed form takes up
/// to twice its length. A page that is larger than a shard is not held.
fn shards(cores: usize, bytes_max: u64, held_max: u64) -> usize {
    let fitting = bytes_max / held_max.saturating_add(OVERHEAD_BYTES).saturating_mul(2);
    let fitting = usize::try_from(fitting).unwrap_or(usize::MAX);
    // The cache rounds up to a power of two.
    1 << (4 * cores).min(fitting).max(1).ilog2()
}

fn is_held(page: &Page) -> bool {
    page.files().next().is_none()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use bytes::Bytes;
    use futures_util::future::join_all;
    use http::{HeaderValue, StatusCode};
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::disk::files::Files;
    use crate::disk::path::HiddenFiles;
    use crate::page::condition::Validators;
    use crate::page::{Content, FileStamp, Form, Stamp};

    const LIMITS: CacheLimits =
        CacheLimits { bytes: 1 << 20, held_bytes: 1 << 16, open_files: 1024 };

    const NAMES: [&str; 2] = ["/stays", "/goes"];

    /// What comes of the disk when a page is not in the cache.
    async fn folder() -> Result<Loaded, NoPage> {
        Ok(Loaded::Folder)
    }

    fn key(name: &str) -> PageKey {
        PageKey { folder: 0, path: SitePath::of(name, HiddenFiles::Hidden).unwrap() }
    }

    fn page(files: &Files, path: &Path) -> Arc<Page> {
        let metadata = fs::metadata(path).unwrap();
        let stamp = Stamp { plain: FileStamp::of(&metadata), encoded: [None; 3] };
        let validators = Validators::new(metadata.modified().unwrap(), metadata.len(), "");
        let content = Content::File(Arc::new(files.open(path)));
        let kind = HeaderValue::from_static("a/b");
        let form = Form::new(None, kind, validators, metadata.len(), content);
        Arc::new(Page::new(form, [None, None, None], stamp, Timestamp::ZERO))
    }

    /// A cache with both pages, and where their files are.
    fn filled(files: &Files, test: &str) -> (PageCache, [PathBuf; 2]) {
        let cache = PageCache::new(LIMITS);
        let paths = NAMES.map(|name| {
            let file = format!("tamarisk-{test}-{}-{}", &name[1..], std::process::id());
            let path = std::env::temp_dir().join(file);
            fs::write(&path, name).unwrap();
            cache.put(key(name), page(files, &path));
            path
        });
        (cache, paths)
    }

    #[tokio::test]
    async fn the_longest_files_are_held_however_many_cores_there_are() {
        const LONGEST: usize = 1 << 20;
        let files = Files::for_tests();
        let path = std::env::temp_dir().join(format!("tamarisk-longest-{}", std::process::id()));
        fs::write(&path, "").unwrap();
        let mut page = Arc::into_inner(page(&files, &path)).unwrap();
        let content = Bytes::from(vec![0; LONGEST + LONGEST * 4 / 5]);
        page.plain.length = content.len() as u64;
        page.plain.content = Content::Held(content);
        let page = Arc::new(page);
        for cores in [1, 6, 64, 1024] {
            let limits = CacheLimits { bytes: 64 << 20, held_bytes: LONGEST as u64, ..LIMITS };
            let cache = PageCache::on_cores(cores, limits);
            cache.put(key("/longest"), Arc::clone(&page));
            assert!(cache.held(&key("/longest")).is_some(), "{cores} cores");
        }
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn there_are_four_shards_a_core_where_there_is_room() {
        assert_eq!(shards(2, 64 << 20, 1 << 20), 8);
        assert_eq!(shards(3, 64 << 20, 1 << 20), 8);
        assert_eq!(shards(64, 64 << 20, 1 << 20), 16);
        assert_eq!(shards(64, 0, 0), 1);
        assert_eq!(shards(64, 1 << 20, u64::MAX), 1);
    }

    #[tokio::test]
    async fn files_that_are_deleted_are_closed() {
        let (cache, paths) = filled(&Files::for_tests(), "sweep");
        fs::remove_file(&paths[1]).unwrap();
        let are_open = || NAMES.map(|name| cache.open(&key(name)).is_some());
        cache.sweep(Timestamp::from_nanos(SWEEP_NANOS - 1));
        assert_eq!(are_open(), [true, true]);
        cache.sweep(Timestamp::from_nanos(SWEEP_NANOS));
        assert_eq!(are_open(), [true, false]);
        fs::remove_file(&paths[0]).unwrap();
    }

    /// How long a disk takes to tell that there is no such file.
    const READING: Duration = Duration::from_millis(10);

    async fn missing() -> Result<Loaded, NoPage> {
        sleep(READING).await;
        Err(NoPage::Status(StatusCode::NOT_FOUND))
    }

    #[tokio::test(start_paused = true)]
    async fn one_reading_serves_all_who_wait_though_there_is_no_page() {
        let (cache, none) = (PageCache::new(LIMITS), key("/none"));
        for _ in 0..2 {
            let start = Instant::now();
            let asking = (0..50).map(|_| cache.get_or_load(&none, missing()));
            for loaded in join_all(asking).await {
                assert!(matches!(loaded, Err(NoPage::Status(StatusCode::NOT_FOUND))));
            }
            assert_eq!(start.elapsed(), READING);
            assert!(cache.held(&none).is_none(), "nothing of it stays");
        }
        assert!(matches!(cache.get_or_load(&none, folder()).await, Ok(Loaded::Folder)));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_is_not_overtaken_by_those_who_come_later() {
        let cache = Arc::new(PageCache::new(LIMITS));
        let ask = || {
            let cache = Arc::clone(&cache);
            tokio::spawn(async move { cache.get_or_load(&key("/none"), missing()).await.is_err() })
        };
        let start = Instant::now();
        let (_first, second) = (ask(), ask());
        while !second.is_finished() {
            assert!(start.elapsed() < 2 * READING, "it waits still");
            sleep(READING / 2).await;
            drop(ask());
        }
        assert!(second.await.unwrap());
    }

    #[tokio::test]
    async fn whoever_has_waited_is_given_no_file_that_is_gone() {
        let (cache, paths) = filled(&Files::for_tests(), "wait");
        let file = fs::File::open(&paths[0]).unwrap();
        let is_told_of = crate::page::page_file::is_told_of(&file);
        fs::remove_file(&paths[1]).unwrap();
        let keys = NAMES.map(key);
        let stays = cache.get_or_load(&keys[0], folder()).await.unwrap();
        let goes = cache.get_or_load(&keys[1], folder()).await.unwrap();
        assert_eq!(matches!(stays, Loaded::Page(_)), is_told_of);
        assert!(matches!(goes, Loaded::Folder) && cache.open(&key("/goes")).is_none());
        fs::remove_file(&paths[0]).unwrap();
    }
}
