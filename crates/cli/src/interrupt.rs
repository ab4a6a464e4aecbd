//! Ctrl-C, and what service managers send in its stead.

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
