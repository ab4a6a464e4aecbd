//! Whether an upstream can be connected to, and since when it cannot.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use std::time::Duration;

use parking_lot::Mutex;
use tamarisk_observe::incident::{Change, Incident};
use tokio::time::Instant;

/// What is known of the connections to an upstream; all cores share it.
#[derive(Debug)]
pub(crate) struct Connectivity {
    is_lost: AtomicBool,
    loss: Mutex<Incident>,
}

impl Default for Connectivity {
    fn default() -> Self {
        // The first connection shows that it can be reached.
        let loss = Mutex::new(Incident::ending_after(Duration::ZERO));
        Self { is_lost: AtomicBool::new(false), loss }
    }
}

impl Connectivity {
    /// A connection was made to the upstream that lines speak of so.
    pub(crate) fn connected(&self, name: &str, shown: &str) {
        if !self.is_lost.load(Ordering::Relaxed) {
            return;
        }
        let Some(Change::Ends { count, after, .. }) = self.look(0) else { return };
        tracing::info!(
            upstream = name,
            "{shown} can be reached again after {:.1} s; {count} attempts to connect failed.",
            after.as_secs_f64()
        );
    }

    /// No connection could be made.
    pub(crate) fn failed(&self, name: &str, shown: &str, error: &io::Error) {
        let why = in_words(error);
        match self.look(1) {
            Some(Change::Begins { .. }) => {
                let status = if error.kind() == io::ErrorKind::TimedOut { 504 } else { 502 };
                tracing::warn!(
                    upstream = name,
                    "{shown} cannot be reached ({why}); requests get {status}."
                );
            }
            Some(Change::Holds { count, after }) => tracing::warn!(
                upstream = name,
                "{shown} still cannot be reached at times ({why}); {count} attempts to connect \
                 failed in {:.0} s.",
                after.as_secs_f64()
            ),
            _ => tracing::debug!(upstream = name, "{shown} cannot be reached ({why})."),
        }
    }

    fn look(&self, failed: u64) -> Option<Change> {
        let mut loss = self.loss.lock();
        let change = loss.look(Instant::now(), failed);
        self.is_lost.store(loss.holds(), Ordering::Relaxed);
        change
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
