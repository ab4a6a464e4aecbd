//! What loading a page leads to: a page, a folder, or why there is none.

use std::sync::Arc;

use http::StatusCode;

use crate::page::Page;

/// What a path has led to.
#[derive(Clone, Debug)]
pub(crate) enum Loaded {
    Page(Arc<Page>),
    Folder,
}

/// Why there is no page.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NoPage {
    /// It is not to be had now.
    NotNow(NotNow),
    /// What this status says.
    Status(StatusCode),
}

/// A page is not to be had now, and perhaps after so many seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotNow {
    pub(crate) retry_after: u64,
    /// What the accounts of the stage say, and why.
    pub(crate) outcome: &'static str,
    pub(crate) reason: &'static str,
}
