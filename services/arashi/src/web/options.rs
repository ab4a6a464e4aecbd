//! How Arashi serves.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use tamarisk::Ratio;
use tamarisk::laws::Laws;

use super::kind::RequestKind;
use crate::store::Database;

/// Messages on a page, unless stated: a screen of them.
const PAGE_SIZE: u32 = 20;

/// How Arashi serves.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Where mail is kept.
    pub database: Database,
    /// How fast each kind of request is to be answered.
    pub targets: Targets,
    /// How many messages a page of a list has: 10 to 100, default 20.
    pub page_size: u32,
    /// Whether clients come over TLS, by a proxy in front that ends it. Cookies are then sent
    /// over TLS only. Unless `trusted_proxies` are stated, each peer is taken for this proxy: a
    /// client's address is the last one in `X-Forwarded-For`.
    pub behind_tls: bool,
    /// Proxies in front, whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// A header whose value `gold` or `bronze` is the class of a request, whatever its account
    /// is. Only for a proxy in front that sets it for each request, and for measurements:
    /// whoever can send it can choose a class.
    pub class_header: Option<String>,
    /// How far each class is degraded under overload, before requests are rejected; none if
    /// nothing is degraded.
    pub least_quality: Option<LeastQuality>,
    /// The laws of all stages, by name; by default those of every stage.
    pub laws: Laws,
    /// One stage for all kinds, which has the target of lists: to measure what a stage for each
    /// is good for [Welsh03 §4.4].
    pub single_stage: bool,
    /// Python 3, which writes digests. Default `python3`, as the system finds it.
    pub python: PathBuf,
    /// A page in PyTeC that writes digests instead of our own.
    pub digest_page: Option<PathBuf>,
}

/// How far lists, searches and digests are degraded under overload, at most, by class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeastQuality {
    /// Of the class gold.
    pub gold: Ratio,
    /// Of the class bronze.
    pub bronze: Ratio,
}

/// The targets of all kinds of requests, at the 90th percentile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Targets([Duration; RequestKind::ALL.len()]);

/// Why Arashi cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Pages would be too short to be of use, or too long to be quick.
    #[error("page size must be 10 to 100, not {0}")]
    PageSize(u32),
    /// The name of the header for classes is none that a header can have.
    #[error("invalid name of a header for classes: {0:?}")]
    ClassHeader(String),
    /// The page that is to write digests cannot be read.
    #[error("cannot read the page of the digest {path}")]
    DigestPage {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The stage of the page that writes digests cannot start.
    #[error(transparent)]
    Site(#[from] tamarisk_pytec::SiteError),
    /// Stages wait on a runtime.
    #[error("Arashi is opened outside of a tokio runtime: open it within one")]
    NoRuntime,
    /// A stage cannot be built.
    #[error(transparent)]
    Stage(#[from] tamarisk::BuildError),
}

impl Options {
    /// Mail of this database, with default targets.
    pub fn new(database: Database) -> Self {
        Self {
            database,
            targets: Targets::default(),
            page_size: PAGE_SIZE,
            behind_tls: false,
            trusted_proxies: Vec::new(),
            class_header: None,
            least_quality: Some(LeastQuality::default()),
            laws: Laws::new(),
            single_stage: false,
            python: PathBuf::from("python3"),
            digest_page: None,
        }
    }
}

impl Default for LeastQuality {
    /// Gold loses little: 16 of 20 messages a page. Bronze loses most: 6 of 20.
    fn default() -> Self {
        Self { gold: Ratio::saturating(0.8), bronze: Ratio::saturating(0.3) }
    }
}

impl Targets {
    /// The same target for all kinds.
    pub fn all(target: Duration) -> Self {
        Self([target; RequestKind::ALL.len()])
    }

    /// The target of a kind.
    pub fn of(&self, kind: RequestKind) -> Duration {
        self.0[kind as usize]
    }

    /// The same with another target for a kind.
    #[must_use]
    pub fn with(mut self, kind: RequestKind, target: Duration) -> Self {
        self.0[kind as usize] = target;
        self
    }
}

impl Default for Targets {
    /// A quarter of a second; a second to log in, search, digest, send and delete folders.
    fn default() -> Self {
        Self(RequestKind::ALL.map(RequestKind::default_target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_found_by_kind() {
        for (position, kind) in RequestKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, position, "{}", kind.name());
            assert_eq!(RequestKind::named(kind.name()), Some(kind));
        }
        let targets =
            Targets::all(Duration::from_secs(2)).with(RequestKind::Search, Duration::from_secs(5));
        assert_eq!(targets.of(RequestKind::Search), Duration::from_secs(5));
        assert_eq!(targets.of(RequestKind::List), Duration::from_secs(2));
    }
}
