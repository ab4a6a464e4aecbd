//! The `Host` field that an upstream is sent.

use http::HeaderValue;

/// Which `Host` an upstream is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostHeader {
    /// The one that the client asked for.
    #[default]
    Client,
    /// The upstream's own, from its URL.
    Upstream,
    /// Always this one.
    Fixed(HeaderValue),
}
