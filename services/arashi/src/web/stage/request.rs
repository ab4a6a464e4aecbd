//! What a stage is asked, and what all stages share.

use std::net::IpAddr;

use crate::store::SessionKey;
use crate::web::action::Action;
use crate::web::class_cache::ClassCache;
use crate::web::cookies::Cookies;
use crate::web::digest::DigestPage;
use crate::web::log_in_limit::LogInLimit;

/// What a stage is asked.
pub(crate) struct MailRequest {
    pub(crate) action: Action,
    /// The session that its cookie names.
    pub(crate) key: Option<SessionKey>,
    /// What its form has in it to show that it is one of ours.
    pub(crate) csrf: String,
    /// Where the client is.
    pub(crate) address: IpAddr,
    /// Path and query.
    pub(crate) path: String,
}

/// What routes and all workers share.
pub(crate) struct Shared {
    pub(crate) page_size: u32,
    pub(crate) cookies: Cookies,
    pub(crate) classes: ClassCache,
    pub(crate) log_ins: LogInLimit,
    pub(crate) digest: DigestPage,
}
