//! Why a service cannot be served.

use std::net::SocketAddr;

use tamarisk_observe::profile::ProfileError;
use tamarisk_observe::status::InvalidToken;
use tamarisk_server::ListenError;
use tamarisk_stage::BuildError;

/// Why a service cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrontError {
    /// The status would be shown where clients are served.
    #[error(transparent)]
    SameAddress(#[from] SameAddress),
    /// The system gives no sockets or threads to serve with.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The token that allows changes cannot be read.
    #[error(transparent)]
    Token(#[from] InvalidToken),
    /// The profile cannot be written.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The stage for TLS handshakes cannot be made.
    #[error(transparent)]
    Handshakes(#[from] BuildError),
}

/// Two ports of a service are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the status port ({status}) is where clients are served ({listen}): choose another port")]
pub struct SameAddress {
    /// Where clients are served.
    pub listen: SocketAddr,
    /// Where the status is to be shown.
    pub status: SocketAddr,
}
