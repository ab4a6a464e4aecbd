//! Ctrl-C, and what service managers send in its stead; SIGHUP.

/// Completes when the user asks the process to end. Where that cannot be
/// watched for, Ctrl-C ends the process by itself, and this never completes.
pub(crate) async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}

/// Completes when a user or a service manager asks the process to end.
pub(crate) async fn asked_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signals) => signals.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = interrupted() => {}
        _ = terminated => {}
    }
}

/// Completes each time that the configuration is to be read again.
pub(crate) struct ReadAgain(Option<tokio::signal::unix::Signal>);

impl ReadAgain {
    /// From now on SIGHUP does not end the process, if `wanted`.
    pub(crate) fn new(wanted: bool) -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        Self(wanted.then(|| signal(SignalKind::hangup()).ok()).flatten())
    }

    pub(crate) async fn asked(&mut self) {
        let again = match &mut self.0 {
            Some(signals) => signals.recv().await,
            None => None,
        };
        if again.is_none() {
            std::future::pending().await
        }
    }
}
