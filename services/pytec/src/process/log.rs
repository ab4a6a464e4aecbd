//! What a process writes to its standard error, in the log of the server.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::ChildStderr;
use tokio::time::Instant;

/// A longer line is cut into several.
const LINE_BYTES_MAX: u64 = 1024;
/// Lines of one process in a second; the rest is counted.
const LINES_MAX: u32 = 20;

/// Logs the lines until the process has ended. What is too much is read and left out, so that no
/// process waits for its log.
pub(super) async fn follow(stderr: ChildStderr, process: u32) {
    let mut lines = BufReader::new(stderr);
    let mut line = Vec::new();
    let (mut second, mut logged, mut left_out) = (Instant::now(), 0, 0_u64);
    loop {
        line.clear();
        let read = (&mut lines).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await;
        let has_ended = !matches!(read, Ok(1..));
        if has_ended || second.elapsed() >= Duration::from_secs(1) {
            if left_out > 0 {
                tracing::warn!("Python process {process}: {left_out} more lines in one second.");
            }
            (second, logged, left_out) = (Instant::now(), 0, 0);
        }
        if has_ended {
            return;
        }
        if logged < LINES_MAX {
            logged += 1;
            tracing::warn!(
                "Python process {process}: {}",
                String::from_utf8_lossy(&line).trim_end()
            );
        } else {
            left_out += 1;
        }
    }
}
