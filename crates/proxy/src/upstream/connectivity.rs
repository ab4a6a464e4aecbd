//! Whether an upstream can be connected to, and since when it cannot.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::time::Instant;

/// What is known of the connections to an upstream; all cores share it.
#[derive(Debug, Default)]
pub(crate) struct Connectivity {
    is_lost: AtomicBool,
    loss: Mutex<Option<Loss>>,
}

#[derive(Debug)]
struct Loss {
    since: Instant,
    attempts: u64,
}

impl Connectivity {
    /// A connection was made to the upstream that lines speak of so.
    pub(crate) fn connected(&self, name: &str, shown: &str) {
        if !self.is_lost.load(Ordering::Relaxed) {
            return;
        }
        let Some(Loss { since, attempts }) = self.loss.lock().take() else { return };
        self.is_lost.store(false, Ordering::Relaxed);
        tracing::info!(
            upstream = name,
            "{shown} can be reached again after {:.1} s; {attempts} attempts to connect failed.",
            since.elapsed().as_secs_f64()
        );
    }

    /// No connection could be made. The first time it is logged, then counted.
    pub(crate) fn failed(&self, name: &str, shown: &str, error: &io::Error) {
        let why = in_words(error);
        let mut loss = self.loss.lock();
        if let Some(loss) = &mut *loss {
            loss.attempts += 1;
            tracing::debug!(upstream = name, "{shown} cannot be reached ({why}).");
            return;
        }
        *loss = Some(Loss { since: Instant::now(), attempts: 1 });
        self.is_lost.store(true, Ordering::Relaxed);
        let status = if error.kind() == io::ErrorKind::TimedOut { 504 } else { 502 };
        tracing::warn!(
            upstream = name,
            "{shown} cannot be reached ({why}); requests get {status}."
        );
    }
}

/// As in `connection refused`, without the system's number.
fn in_words(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error ").next().unwrap_or_default();
    let mut characters = text.chars();
    characters
        .next()
        .map_or_else(String::new, |first| first.to_lowercase().chain(characters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_reason_is_told_in_words() {
        let refused = io::Error::from_raw_os_error(111);
        assert_eq!(in_words(&refused), "connection refused");
        assert_eq!(in_words(&io::Error::other("No such host")), "no such host");
    }
}
