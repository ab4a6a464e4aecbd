//! Ctrl-C.

/// Completes when the user asks the process to end. Where that cannot be
/// watched for, Ctrl-C ends the process by itself, and this never completes.
pub(crate) async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}
