//! The page cache, and loading pages into it.

pub(crate) mod loading;
pub(crate) mod outcome;
pub(crate) mod page_cache;
pub(crate) mod pages;
