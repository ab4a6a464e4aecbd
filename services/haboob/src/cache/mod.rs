//! Pages in memory, and bringing in those that are not.

pub(crate) mod loading;
pub(crate) mod page_cache;
pub(crate) mod pages;
