//! Why a service cannot be served.

use tamarisk_observe::profile::ProfileError;
use tamarisk_observe::status::InvalidToken;
use tamarisk_server::ListenError;
use tamarisk_stage::BuildError;

/// Why a service cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrontError {
    /// The system gives no sockets or threads to serve with.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Changes cannot be allowed to whoever has the token.
    #[error(transparent)]
    Token(#[from] InvalidToken),
    /// The profile cannot be written.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The stage for TLS handshakes cannot be made.
    #[error(transparent)]
    Handshakes(#[from] BuildError),
}
