//! Pages in memory, up to so many bytes.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::page::Page;
use crate::path::SitePath;

/// What a page takes besides its content: its forms, its key, its place in the cache.
const OVERHEAD_BYTES: u64 = 1024;

/// Which page: a path in one of the folders that are served.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PageKey {
    /// By its number.
    pub(crate) folder: u32,
    pub(crate) path: SitePath,
}

/// Bounded in bytes; what is not asked for again leaves first.
pub(crate) struct PageCache(Cache<PageKey, Arc<Page>, Bytes>);

#[derive(Clone)]
struct Bytes;

impl Weighter<PageKey, Arc<Page>> for Bytes {
    fn weight(&self, key: &PageKey, page: &Arc<Page>) -> u64 {
        key.path.len() as u64 + page.held().unwrap_or_default() + OVERHEAD_BYTES
    }
}

impl PageCache {
    pub(crate) fn new(bytes_max: u64) -> Self {
        /// Of a site of web pages; a guess only sizes the first tables.
        const PAGE_BYTES: u64 = 16 * 1024;
        let pages = usize::try_from(bytes_max / PAGE_BYTES).unwrap_or(usize::MAX);
        Self(Cache::with_weighter(pages, bytes_max, Bytes))
    }

    pub(crate) fn get(&self, key: &PageKey) -> Option<Arc<Page>> {
        self.0.get(key)
    }

    /// The page, if it has come meanwhile; else the right to bring it, which one asker
    /// has and the others wait for.
    pub(crate) async fn get_or_load<E>(
        &self,
        key: &PageKey,
        load: impl Future<Output = Result<Loaded, E>>,
    ) -> Result<Loaded, E> {
        let guard = match self.0.get_value_or_guard_async(key).await {
            Ok(page) => return Ok(Loaded::Page(page)),
            Err(guard) => guard,
        };
        let loaded = load.await?;
        if let Loaded::Page(page) = &loaded
            && page.held().is_some()
        {
            // The cache may have no room for it; the client has it all the same.
            let _ = guard.insert(Arc::clone(page));
        }
        Ok(loaded)
    }

    pub(crate) fn put(&self, key: PageKey, page: Arc<Page>) {
        self.0.insert(key, page);
    }

    pub(crate) fn remove(&self, key: &PageKey) {
        self.0.remove(key);
    }

    /// Forgets the pages of other folders than these, and has another bound from now on.
    pub(crate) fn retain(&self, folders: &[u32], bytes_max: u64) {
        self.0.retain(|key, _| folders.contains(&key.folder));
        self.0.set_capacity(bytes_max);
    }
}

/// What a path has led to.
#[derive(Clone, Debug)]
pub(crate) enum Loaded {
    Page(Arc<Page>),
    Folder,
}
