//! Signals: SIGINT, SIGTERM, SIGHUP and SIGUSR2.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Completes when the user asks the process to end. Where that cannot be
/// watched for, Ctrl-C ends the process by itself, and this never completes.
pub(crate) async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}

/// Completes on SIGINT or SIGTERM; installs the handlers at once. Before, these signals end the process.
pub(crate) fn asked_to_end() -> impl Future<Output = ()> {
    let mut interrupted = SignalWatch::interrupt();
    let mut terminated = SignalWatch(signal(SignalKind::terminate()).ok());
    async move {
        tokio::select! {
            () = interrupted.asked() => {}
            () = terminated.asked() => {}
        }
    }
}

/// A signal that is watched for from the moment that this is made; until then it ends the
/// process.
pub(crate) struct SignalWatch(Option<Signal>);

impl SignalWatch {
    /// SIGHUP: the configuration is to be read again.
    pub(crate) fn read_again() -> Self {
        Self(signal(SignalKind::hangup()).ok())
    }

    /// SIGUSR2: another process is to take over.
    pub(crate) fn restart() -> Self {
        Self(signal(SignalKind::user_defined2()).ok())
    }

    /// Ctrl-C.
    pub(crate) fn interrupt() -> Self {
        Self(signal(SignalKind::interrupt()).ok())
    }

    /// Completes each time that it is sent; never where it cannot be watched for.
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

/// Says that a service has no successor when SIGUSR2 asks for one: left alone, the signal would end
/// the process at once, with its open requests.
#[cfg(feature = "services")]
pub(crate) async fn ignore_restarts(mut restart: SignalWatch) -> std::convert::Infallible {
    loop {
        restart.asked().await;
        tracing::warn!("SIGUSR2 is ignored: restart the service instead.");
    }
}
